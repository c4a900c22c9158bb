"""How long a person waits for ``status``, beside what Python alone takes to start."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from Daddy.core.load_config import CHECKOUT
from Daddy.core.run_paths import RunPaths

_TRIES = 5
_VERDICTS = (20, 21, 22)
_STATUS = ("-m", "Daddy.cluster.orchestrator.run_controller", "status")


def figures(run: RunPaths) -> dict[str, float]:
    """Seconds of wall time, the best of five each, and their ratio; the run was started once."""
    status, bare = _seconds(run, *_STATUS), _seconds(run, "-c", "pass")
    return {
        "status_s": round(status, 3),
        "bare_python_s": round(bare, 3),
        "status_to_bare_python": round(status / bare, 1),
    }


def _seconds(run: RunPaths, *arguments: str) -> float:
    environment = {**os.environ, "DADDY_RUN_DIR": str(run.root), "PYTHONPATH": str(CHECKOUT)}
    took = []
    for _ in range(_TRIES):
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, check=False
        )
        took.append(time.monotonic() - begun)
        assert done.returncode in (0, *_VERDICTS), done.stderr.decode()
    return min(took)
