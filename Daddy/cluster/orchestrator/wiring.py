"""From a configuration to the controller's parts: where it runs, what it plays, its rules."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

from Daddy.cluster.orchestrator.actions import Submit
from Daddy.cluster.orchestrator.local_scheduler import LocalScheduler
from Daddy.cluster.orchestrator.policy import Policy
from Daddy.cluster.orchestrator.scheduler import JobSpec, Scheduler
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.core.clock import Clock
from Daddy.core.config import load_effective
from Daddy.core.duration import parse_duration
from Daddy.core.errors import FileError, RomError, SchedulerError
from Daddy.core.files import create_exclusive, sha256_hex
from Daddy.core.job import RELEASE
from Daddy.core.names import new_incarnation
from Daddy.core.paths import RunPaths
from Daddy.core.release import Release
from Daddy.core.rom import load_rom
from Daddy.core.settings import Config
from Daddy.core.wall import drain_margin

_LOCAL_DELAYS_S = (0.0, 1.0, 5.0, 30.0, 120.0, 600.0)
_SLURM_DELAYS_S = (0.0, 60.0, 300.0, 900.0, 1800.0, 3600.0)
_LOCAL_PASS_S = 2.0
_SLURM_HOT_PASS_S = 10.0
_SLURM_QUIET_PASS_S = 150.0
_HOURLY = 20
"""Submissions in an hour that no site minds; short jobs need more to stay alive at all."""
_LOCAL_HOURLY = 3600
_OVERLAP_S = 120
"""How long a successor runs beside its predecessor where the site and the person allow that."""


def choose_executor(config: Config, environ: Mapping[str, str]) -> str:
    """``slurm`` where sbatch is found, else ``local``, unless the configuration says which."""
    wanted = config.controller.executor
    found = shutil.which("sbatch", path=environ.get("PATH", os.defpath)) is not None
    if wanted == "slurm" and not found:
        raise SchedulerError(
            "there is no sbatch on this machine",
            "run this on the cluster's login node, or use --executor local",
        )
    if wanted == "auto":
        return "slurm" if found else "local"
    return wanted


def game_name(config: Config, executor: str) -> str:
    """What is played and with which assists; RomError where it cannot be or is not meant."""
    helps = ", ".join(config.training.assists)
    return _game(config, executor) + (f", with the assists {helps}" if helps else "")


def _game(config: Config, executor: str) -> str:
    training = config.training
    if training.workload != "pokemon_red":
        return training.workload
    if training.rom is not None:
        path = Path(training.rom)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the name says that it is unknown
            return f"{load_rom(path, training.allow_unknown_rom).name} ({path.name})"
    if executor == "slurm" and not training.cartridge:
        raise RomError(
            "no ROM is configured, and GPU jobs would play the free test cartridge",
            "set training.rom or DADDY_ROM to your own PokemonRed.gb, or say --cartridge",
        )
    return "the free cartridge (no ROM is configured)"


def absolute(config: Config, executor: str) -> Config:
    """The configuration as jobs elsewhere need it: full paths, and no choice left open."""
    run_dir = str(Path(config.run_dir).expanduser().resolve())
    shared = config.collaboration.shared_dir
    shared = str(Path(shared).expanduser().resolve()) if shared else ""
    return config.model_copy(
        update={
            "run_dir": run_dir,
            "collaboration": config.collaboration.model_copy(update={"shared_dir": shared}),
            "controller": config.controller.model_copy(update={"executor": executor}),
        }
    )


def prepare_folders(run: RunPaths) -> None:
    """Make what jobs need before any is submitted; FileError when the place cannot be written.

    Slurm fails a job without a word when the folder of its log is missing.
    """
    folders = (run.logs, run.scripts, run.controller, run.events, run.slots, run.releases)
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        probe = run.controller / f".probe-{new_incarnation()}"
        create_exclusive(probe, b"")
        probe.unlink()
    except OSError as error:
        raise FileError(
            f"the run directory {run.root} cannot be written: {error.strerror}",
            "set run_dir in the config to a folder of yours that all nodes share",
        ) from error


def run_id(config: Config, run: RunPaths) -> str:
    """The run's name and place in one word: two runs never adopt each other's jobs."""
    return f"{config.run_name}-{sha256_hex(str(run.root).encode())[:6]}"


def make_policy(config: Config, executor: str) -> Policy:
    """The rules for one executor. Locally a look costs nothing and cannot be wrong."""
    local = executor == "local"
    policy = _policy(config)
    return _for_this_machine(policy) if local else policy


def _policy(config: Config) -> Policy:
    settings, slots = config.controller, config.slurm.max_running
    limit = float(parse_duration(config.slurm.time_limit))
    handovers = 3600.0 / limit * slots
    gpus = max(1, config.slurm.gpus_per_job)
    budget = settings.budget_gpu_hours * 3600.0 / gpus
    return Policy(
        pass_s=settings.poll_seconds,
        quiet_pass_s=max(settings.poll_seconds, min(_SLURM_QUIET_PASS_S, limit / 20)),
        hot_pass_s=min(settings.poll_seconds, _SLURM_HOT_PASS_S),
        drain_s=settings.drain_seconds,
        delays_s=_SLURM_DELAYS_S,
        prequeue=settings.prequeue == "auto",
        overlap=settings.overlap,
        max_running=slots,
        spares=settings.spares,
        extra=settings.extra,
        limit_s=limit,
        hourly=max(_HOURLY, int(3 * handovers)),
        budget_s=budget or inf,
    )


def _for_this_machine(policy: Policy) -> Policy:
    """Locally a look costs nothing, cannot be wrong, and the queue keeps the cap itself."""
    return replace(
        policy,
        pass_s=min(policy.pass_s, _LOCAL_PASS_S),
        quiet_pass_s=min(policy.pass_s, _LOCAL_PASS_S),
        hot_pass_s=min(policy.pass_s, 1.0),
        absence_gap_s=0.0,
        answer_s=0.0,
        recancel_s=15.0,
        delays_s=_LOCAL_DELAYS_S,
        canary_s=600.0,
        enforced=True,
        extra=0,
        hourly=_LOCAL_HOURLY,
    )


def look_seconds(config: Config, executor: str) -> float:
    """Time between two looks at the small files; network file systems are asked less often."""
    return 0.2 if executor == "local" else min(3.0, config.controller.poll_seconds / 2)


def make_scheduler(executor: str, config: Config, run: RunPaths, clock: Clock) -> Scheduler:
    """The queue of that name."""
    if executor == "slurm":
        request = slurm_request(config)
        return SlurmScheduler(run_id(config, run), clock, calls=run.calls, request=request)
    return LocalScheduler(run.queue, config.slurm.max_running, clock)


class SpecMaker:
    """Makes the jobs of a run: (token, number, what is wished) → JobSpec.

    A job's request and its launcher are those of the releases that the wish names; ``release`` and
    ``config`` stand in for a wish without one. While a release is tried, all ask for its resources:
    it could not be tried in those of its predecessor, whose partition may be gone.
    """

    def __init__(self, config: Config, run: RunPaths, release: Release) -> None:
        self._run = run
        self._known = {"": (release, config), release.ident: (release, config)}

    def __call__(self, token: str, number: int, wish: Submit) -> JobSpec:
        release, config = self._of(wish.release)
        asked = self._of(wish.request)[1] if wish.request else config
        limit_s = parse_duration(asked.slurm.time_limit)
        program = [sys.executable, "-m", "Daddy.cluster.launch", "--run", str(self._run.root)]
        return JobSpec(
            token=token,
            number=number,
            run_id=run_id(config, self._run),
            argv=(*program, "--config", str(release.config), "--attempt", token),
            environment={
                "PYTHONPATH": str(release.path),
                "PYTHONUNBUFFERED": "1",
                RELEASE: release.ident,
            },
            work_dir=self._run.root,
            logs=self._run.logs,
            script=self._run.scripts / f"attempt-{number}.sbatch",
            time_limit_s=limit_s,
            warn_s=max(1, int(drain_margin(limit_s))),
            after=wish.after,
            after_minutes=max(1, (limit_s - _OVERLAP_S) // 60) if wish.overlap else None,
            setup=tuple(config.slurm.setup),
            export=tuple(config.slurm.export),
            request=slurm_request(asked, wish.exclude),
        )

    def _of(self, ident: str) -> tuple[Release, Config]:
        """A release that is not on disk (yet) leaves its jobs to the controller's own."""
        if ident not in self._known:
            release = Release(ident, self._run.releases / ident)
            if not release.config.exists():
                return self._known[""]
            self._known[ident] = (release, load_effective(release.config))
        return self._known[ident]


def slurm_request(config: Config, exclude: Sequence[str] = ()) -> dict[str, str | int]:
    """What is asked of Slurm, by long option; settings left open are left to the site."""
    slurm = config.slurm
    wishes: dict[str, str | int | None] = {
        "partition": slurm.partition,
        "account": slurm.account,
        "qos": slurm.qos,
        "cpus-per-task": slurm.cpus_per_job,
        "gres": f"gpu:{slurm.gpus_per_job}" if slurm.gpus_per_job else None,
        "mem": slurm.memory,
        "mem-per-gpu": slurm.mem_per_gpu,
        "exclude": ",".join(dict.fromkeys((*slurm.exclude, *exclude))) or None,
    }
    return {name: value for name, value in wishes.items() if value is not None}
