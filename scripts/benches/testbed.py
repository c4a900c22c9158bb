"""Measures the test cluster: seconds from submission to start, and between two jobs of a node.

The same script is also started without a scheduler in the same run; Slurm's share is the
difference.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from Daddy.core.errors import SchedulerError
from Daddy.core.run_subprocess import run_command as run_child

_SUBMIT = ("sbatch", "-o", "/dev/null", "--wrap", "true")
COMMANDS = Path(__file__).resolve().parents[2] / "cluster" / "testbed"
STAMP = "date +%s.%N"
"""Command that a job runs first and last; all jobs share this machine's clock."""


@dataclass(frozen=True)
class Cluster:
    """Runs commands on a test cluster in its user's environment."""

    folder: Path
    env: dict[str, str]
    up_s: float

    def out(self, *argv: str) -> str:
        """Run a Slurm command and return its output."""
        result = run_child(argv, 60.0, env=self.env)
        if result.returncode:
            raise SchedulerError(f"{argv[0]}: {result.stderr.strip()}")
        return result.stdout.strip()

    def submit(self, script: str, *options: str) -> Path:
        """Submit a script; return the file of its output."""
        output = Path(tempfile.mkstemp(dir=self.folder, prefix="job-")[1])
        self.out("sbatch", "--parsable", "-o", str(output), *options, "--wrap", script)
        return output


def run(quick: bool) -> dict[str, object]:
    """Measure the times for which a controller waits."""
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
    """Run a test cluster in a temporary folder; fetch its programs before measuring."""
    run_child([str(COMMANDS / "install")], 600.0)
    folder = Path(tempfile.mkdtemp(prefix="daddy-bench-", dir="/tmp"))
    try:
        begun = time.monotonic()
        result = run_child([str(COMMANDS / "up"), "--dir", str(folder), "--json"], 120.0)
        if result.returncode:
            raise SchedulerError(result.stderr.strip())
        facts = json.loads(result.stdout)
        env = {**os.environ, "SLURM_CONF": facts["slurm_conf"]}
        env["PATH"] = ":".join(filter(None, (facts["path"], env["PATH"])))
        yield Cluster(folder, env, time.monotonic() - begun)
    finally:
        run_child([str(COMMANDS / "down"), "--dir", str(folder), "--purge"], 60.0)


def _direct_start_s() -> float:
    begun = time.time()
    return float(run_child(["sh", "-c", STAMP], 10.0).stdout) - begun


def _submit_to_start_s(testbed: Cluster) -> float:
    begun = time.time()
    output = testbed.submit(STAMP)
    _until(lambda: output.read_text().strip())
    return float(output.read_text()) - begun


def _handovers_s(testbed: Cluster, count: int) -> list[float]:
    """Measure from the end of each job to the start of the next; four run, ``count`` wait."""
    script = f"{STAMP}; sleep 2; {STAMP}"
    whole_node = ("--gres=gpu:1", "-c", "8")
    outputs = [testbed.submit(script, *whole_node) for _ in range(4 + count)]
    _until(lambda: all(len(path.read_text().split()) == 2 for path in outputs), 30.0 + 4 * count)
    spans = sorted(tuple(map(float, path.read_text().split())) for path in outputs)
    ends = sorted(end for _, end in spans)
    return [start - end for (start, _), end in zip(spans[4:], ends, strict=False)]


def _timed(testbed: Cluster, count: int, *argv: str) -> list[float]:
    durations = []
    for _ in range(count):
        begun = time.monotonic()
        testbed.out(*argv)
        durations.append(time.monotonic() - begun)
    return durations


def _limit(testbed: Cluster) -> dict[str, float]:
    """Measure when a job of one minute gets its signal (requested 30 s before) and its end."""
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


def _until(condition: Callable[[], object], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise SchedulerError("a job of the bench did not end in time")
        time.sleep(0.02)
