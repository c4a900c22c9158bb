"""Measures the wall time of ``status``, and of starting Python alone for comparison."""

import os
import subprocess
import sys
import time

from Daddy.core.load_config import CHECKOUT
from Daddy.core.run_paths import RunPaths

_TRIES = 5
_STATUS_CODES = (20, 21, 22)
_STATUS = ("-m", "Daddy.cluster.orchestrator.run_controller", "status")


def figures(run: RunPaths) -> dict[str, float]:
    """Return the best of five wall times of each, in seconds, and their ratio."""
    status, bare = _seconds(run, *_STATUS), _seconds(run, "-c", "pass")
    return {
        "status_s": round(status, 3),
        "bare_python_s": round(bare, 3),
        "status_to_bare_python": round(status / bare, 1),
    }


def _seconds(run: RunPaths, *arguments: str) -> float:
    environment = {**os.environ, "DADDY_RUN_DIR": str(run.root), "PYTHONPATH": str(CHECKOUT)}
    durations = []
    for _ in range(_TRIES):
        begun = time.monotonic()
        result = subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, check=False
        )
        durations.append(time.monotonic() - begun)
        assert result.returncode in (0, *_STATUS_CODES), result.stderr.decode()
    return min(durations)
