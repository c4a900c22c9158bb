"""How quick the test cluster is: what a hand-over through a real Slurm costs on this machine.

The limit is the same script started without a scheduler, measured in the same run: what Slurm adds
is the difference.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from Daddy.core.child_process import run_command as run_child
from Daddy.core.errors import SchedulerError

_SUBMIT = ("sbatch", "-o", "/dev/null", "--wrap", "true")
DOORS = Path(__file__).resolve().parents[2] / "cluster" / "testbed"
STAMP = "date +%s.%N"
"""A job's first and last act; its clock is this machine's."""


@dataclass(frozen=True)
class Cluster:
    """A running testbed and the environment of its user."""

    folder: Path
    env: dict[str, str]
    up_s: float

    def out(self, *argv: str) -> str:
        """Output of a Slurm command."""
        done = run_child(argv, 60.0, env=self.env)
        if done.returncode:
            raise SchedulerError(f"{argv[0]}: {done.stderr.strip()}")
        return done.stdout.strip()

    def submit(self, script: str, *options: str) -> Path:
        """Submit; the file its output goes to."""
        output = Path(tempfile.mkstemp(dir=self.folder, prefix="job-")[1])
        self.out("sbatch", "--parsable", "-o", str(output), *options, "--wrap", script)
        return output


def run(quick: bool) -> dict[str, object]:
    """Seconds and milliseconds of everything a controller waits for."""
    repeats = 4 if quick else 12
    with cluster() as testbed:
        direct = [_direct_start_s() for _ in range(repeats)]
        starts = [_submit_to_start_s(testbed) for _ in range(repeats)]
        gaps = _handovers_s(testbed, repeats)
        figures: dict[str, object] = {
            "up_s": testbed.up_s,
            "sbatch_ms_p50": 1000 * median(_timed(testbed, repeats, *_SUBMIT)),
            "squeue_ms_p50": 1000 * median(_timed(testbed, repeats, "squeue", "--me")),
            "submit_to_start_s": {"p50": median(starts), "max": max(starts)},
            "direct_start_s_p50": median(direct),
            "slurm_adds_s_p50": median(starts) - median(direct),
            "handover_s": {"p50": median(gaps), "max": max(gaps), "count": len(gaps)},
        }
        if not quick:
            figures["one_minute_limit"] = _limit(testbed)
        begun = time.monotonic()
    return {**figures, "down_s": time.monotonic() - begun}


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A test cluster in a temporary folder. Programs are fetched before the clock runs."""
    run_child([str(DOORS / "install")], 600.0)
    folder = Path(tempfile.mkdtemp(prefix="daddy-bench-", dir="/tmp"))
    try:
        begun = time.monotonic()
        done = run_child([str(DOORS / "up"), "--dir", str(folder), "--json"], 120.0)
        if done.returncode:
            raise SchedulerError(done.stderr.strip())
        facts = json.loads(done.stdout)
        env = {**os.environ, "SLURM_CONF": facts["slurm_conf"]}
        env["PATH"] = ":".join(filter(None, (facts["path"], env["PATH"])))
        yield Cluster(folder, env, time.monotonic() - begun)
    finally:
        run_child([str(DOORS / "down"), "--dir", str(folder), "--purge"], 60.0)


def _direct_start_s() -> float:
    begun = time.time()
    return float(run_child(["sh", "-c", STAMP], 10.0).stdout) - begun


def _submit_to_start_s(testbed: Cluster) -> float:
    begun = time.time()
    output = testbed.submit(STAMP)
    _until(lambda: output.read_text().strip())
    return float(output.read_text()) - begun


def _handovers_s(testbed: Cluster, count: int) -> list[float]:
    """Four run, ``count`` wait: from the last line of each job to the first of its successor."""
    script = f"{STAMP}; sleep 2; {STAMP}"
    whole = ("--gres=gpu:1", "-c", "8")
    outputs = [testbed.submit(script, *whole) for _ in range(4 + count)]
    _until(lambda: all(len(one.read_text().split()) == 2 for one in outputs), 30.0 + 4 * count)
    lives = sorted(tuple(map(float, one.read_text().split())) for one in outputs)
    ends = sorted(end for _, end in lives)
    return [start - end for (start, _), end in zip(lives[4:], ends, strict=False)]


def _timed(testbed: Cluster, count: int, *argv: str) -> list[float]:
    taken = []
    for _ in range(count):
        begun = time.monotonic()
        testbed.out(*argv)
        taken.append(time.monotonic() - begun)
    return taken


def _limit(testbed: Cluster) -> dict[str, float]:
    """A job of one minute that wants its warning 30 s before: when both really came."""
    script = (
        f"trap 'echo warned $({STAMP})' USR1; trap 'echo term $({STAMP})' TERM; "
        f"echo begun $({STAMP}); while :; do sleep 0.1; {STAMP}; done"
    )
    output = testbed.submit(script, "--time=1", "--signal=B:USR1@30")
    _until(lambda: "CANCELLED" in output.read_text(), 150.0)
    time.sleep(6.0)
    rows = [line.split() for line in output.read_text().splitlines() if line]
    at = {row[0]: float(row[1]) for row in rows if row[0] in ("begun", "warned", "term")}
    last = max(float(row[0]) for row in rows if row[0][0].isdigit())
    begun = at["begun"]
    return {
        "warned_after_s": at["warned"] - begun,
        "term_after_s": at["term"] - begun,
        "kill_after_term_s": last - at["term"],
    }


def _until(true: Callable[[], object], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            raise SchedulerError("a job of the bench did not come to its end in time")
        time.sleep(0.02)
