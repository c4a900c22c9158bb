"""Adapter for wandb: writes each trial of a sweep that ended as a run of Weights & Biases (W&B).

A child writes a run's files; online, a second one uploads them. So the driver and its trials load
nothing of W&B, and a child that hangs is killed. A run has its trial's id and replaces an earlier
one: a trial that a killed driver finished twice is one run.
"""

import json
import math
import netrc
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from Daddy.core.arguments import ArgumentParser
from Daddy.core.errors import ConfigError, DaddyError, needs_extra
from Daddy.core.run_subprocess import run_command
from Daddy.search.study_plan import Trial
from Daddy.search.trial_rules import Training, Verdict

MOST_POINTS = 1_000
_WRITE_S, _UPLOAD_S = 35.0, 20.0
"""Limits of the children; together less than the silence of rank 0 that other ranks allow."""
_KEPT = ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_ENTITY", "WANDB_PROJECT")
"""Variables of W&B that reach the children."""
_OFF = "disable_code disable_git silent x_disable_machine_info x_disable_meta x_disable_stats"
"""Settings of wandb 0.31 that keep its output, and facts about this machine, from a run."""


def check_wandb(mode: str, environ: Mapping[str, str]) -> None:
    """Raise ExtraMissingError without the package, ConfigError without a key for ``online``."""
    with needs_extra("wandb"):
        version("wandb")  # an import would also find a folder of runs
    host = urlsplit(environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).netloc
    path = environ.get("NETRC") or Path(environ.get("HOME", "/")) / ".netrc"
    try:
        known = environ.get("WANDB_API_KEY") or netrc.netrc(path).authenticators(host)
    except (OSError, ValueError, netrc.NetrcParseError):
        known = None
    if mode == "online" and not known:
        raise ConfigError(
            f"WANDB_API_KEY is not set, and {path} has no key for {host}",
            "set it, or type --wandb offline and upload later: wandb sync DIRECTORY",
        )


class WandbRuns:
    """Records the trials of the sweep in ``root``; a failure ends uploads with a warning."""

    def __init__(
        self, root: Path, mode: str, environ: Mapping[str, str], print_line: Callable[[str], None]
    ) -> None:
        self._root, self._online = root, mode == "online"
        self._print, self._warned = print_line, False
        own = {key: value for key, value in environ.items() if key[:6] != "WANDB_" or key in _KEPT}
        places = {f"WANDB_{name}_DIR": f"{root}/wandb/own" for name in ("CACHE", "CONFIG", "DATA")}
        self._environ = {**own, **places, "WANDB_ERROR_REPORTING": "false"}

    def record(self, trial: Trial, training: Training, verdict: Verdict) -> None:
        """Write the run of a trial, and upload it. A failure is a warning."""
        run = {
            "id": trial.run_id,
            "group": self._root.name,
            "config": dict(trial.settings),
            "summary": _summarise(training, verdict),
            "history": _thin(training),
        }
        pattern = f"wandb/offline-run-*-{trial.run_id}"
        try:
            for earlier in self._root.glob(pattern):
                shutil.rmtree(earlier)
            self._call(_WRITE_S, __name__, given=json.dumps(run))
            for folder in self._root.glob(pattern) if self._online else ():
                self._call(_UPLOAD_S, "wandb", "sync", str(folder))
                if not any(folder.glob("*.synced")):  # the exit code is 0 all the same
                    raise DaddyError("W&B did not take it")
        except (DaddyError, OSError) as error:
            self._warn(f"{trial.run_id}: {getattr(error, 'message', error)}")

    def _warn(self, reason: str) -> None:
        if not self._warned:
            later = f"; later: wandb sync {self._root}/wandb" * self._online
            self._print(f"warning: --wandb: {reason}{later}")
        self._warned, self._online = True, False

    def _call(self, timeout_s: float, *argv: str, given: str = "") -> None:
        """Run a module as a child in the sweep's folder. DaddyError unless it ends well."""
        words, env = (sys.executable, "-m", *argv), self._environ
        done = run_command(words, timeout_s, env=env, stdin=given, cwd=self._root, die_with_us=True)
        if done.returncode:
            raise DaddyError(f"python -m {argv[0]} ended with {done.returncode}")


def _summarise(training: Training, verdict: Verdict) -> dict[str, object]:
    score = {"score": verdict.score} if verdict.outcome == "complete" else {}
    ended = {"state": verdict.outcome, "reason": verdict.reason}
    return {**score, **ended, "cost": training.cpu_seconds, "steps": training.steps}


def _thin(training: Training) -> list[tuple[int, float]]:
    """Return at most `MOST_POINTS` pairs: a step, and the mean of the returns up to it."""
    episodes = sorted(training.episodes)
    size = max(1, math.ceil(len(episodes) / MOST_POINTS))
    parts = [episodes[first : first + size] for first in range(0, len(episodes), size)]
    return [(part[-1][0], sum(value for _, value in part) / len(part)) for part in parts]


def main() -> None:
    """Write the run that stdin describes into ``wandb/`` here; runs in a child."""
    about = "Write the run that standard input describes (JSON) below the current folder."
    ArgumentParser(prog="wandb_runs", description=about).parse_args()
    import wandb

    given = json.load(sys.stdin)
    settings = wandb.Settings(
        root_dir=str(Path.cwd()), console="off", host="", save_code=False, symlink=False,
        x_save_requirements=False, **dict.fromkeys(_OFF.split(), True),
    )  # fmt: skip
    # Without `resume`, which would append to the history of a run of this id: W&B starts it anew.
    run = wandb.init(
        mode="offline", id=given["id"], name=given["id"], group=given["group"],
        project=os.environ.get("WANDB_PROJECT", "daddy"), config=given["config"],
        settings=settings,
    )  # fmt: skip
    run.define_metric("return", step_metric="steps", summary="none")
    for step, value in given["history"]:
        run.log({"steps": step, "return": value})
    run.summary.update(given["summary"])
    run.finish()


if __name__ == "__main__":
    main()
