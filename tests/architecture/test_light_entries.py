"""Commands that run on a login node or in a viewer start light and fast."""

import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

LIGHT = [
    "Daddy.cluster.orchestrator.run_controller",
    "Daddy.weights.sync",
    "Daddy.weights.status",
    "Daddy.weights.log",
    "Daddy.streaming.tunnel_server",
    "Daddy.search.coordinator",
]
HEAVY = {"torch", "numpy", "pyboy", "pufferlib", "gymnasium", "submitit", "matplotlib", "pygame"}
HELP_SECONDS = 0.3
BARE_SECONDS = 0.045
"""CPU time of `python -c pass` on an ordinary machine; slower ones are given more time."""

TELL_LOADED = """
import json, runpy, sys
module = sys.argv[1]
sys.argv = [module, "--help"]
code = 0
try:
    runpy.run_module(module, run_name="__main__")
except SystemExit as stop:
    code = stop.code or 0
names = sorted({name.split(".")[0] for name in sys.modules})
print(json.dumps({"code": code, "loaded": names}), file=sys.stderr)
"""


def run_python(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def cpu_seconds(root: Path, *arguments: str) -> float:
    """CPU time of a child: unlike wall time it does not grow when others use the cores."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run_python(root, *arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.mark.parametrize("module", LIGHT)
def test_help_of_a_light_entry_loads_no_heavy_library(root: Path, module: str) -> None:
    done = run_python(root, "-c", TELL_LOADED, module)
    told = json.loads(done.stderr.strip().splitlines()[-1])
    assert told["code"] == 0, done.stderr
    assert "usage" in done.stdout.lower()
    assert HEAVY & set(told["loaded"]) == set()


def test_run_controller_help_answers_within_three_tenths_of_a_second(root: Path) -> None:
    bare = statistics.median(cpu_seconds(root, "-c", "pass") for _ in range(5))
    told = statistics.median(cpu_seconds(root, "-m", LIGHT[0], "--help") for _ in range(5))
    assert told < HELP_SECONDS * max(1.0, bare / BARE_SECONDS), f"{told:.3f} s, bare {bare:.3f} s"
