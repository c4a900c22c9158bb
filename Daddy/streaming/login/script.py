"""Door to the script by which a viewer's own ssh starts a relay: ``<run>/stream/attach``.

The relay beside the controller knows which Python, which code and which run it is; it writes that
down, and on which host it runs, so that ``tunnel_server connect`` needs to be told nothing. A copy
in the home folder leads to the run whose relay began last.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from Daddy.core.files import write_atomic
from Daddy.core.machine import host_name
from Daddy.core.paths import RunPaths

ATTACH = "attach"
HOME_ATTACH = f".config/daddy/{ATTACH}"
_CODE = Path(__file__).resolve().parents[3]


def leave_script(run_dir: Path, home: Path, environ: Mapping[str, str]) -> None:
    """Write the script for ``run_dir`` there and into ``home``; private, for it is run by name."""
    text = script_text(
        run_dir.resolve(), sys.executable, _CODE, host_name(), environ.get("LD_LIBRARY_PATH", "")
    )
    for path in (RunPaths(run_dir).stream / ATTACH, home / HOME_ATTACH):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, text.encode(), mode=0o700)


def script_text(run_dir: Path, python: str, code: Path, host: str, libraries: str) -> str:
    """A shell script that becomes a relay of ``run_dir`` for one viewer; its second line tells on
    which host the run's own relay is. ``libraries``: where this Python found its own.
    """
    words = [f"LD_LIBRARY_PATH={libraries}"] if libraries else []
    words += [f"PYTHONPATH={code}", python, "-m", "Daddy.streaming.bridge", "--run-dir"]
    return (
        f"#!/bin/sh\n# relay: {host}\n"
        f'cd {shlex.quote(str(run_dir))} && exec env {shlex.join([*words, str(run_dir)])} "$@"\n'
    )
