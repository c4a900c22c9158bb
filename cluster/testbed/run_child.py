"""Runs short programs to their end with a timeout, with progress lines for slow ones."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .progress import ClusterError, wait_until


def run(argv: Sequence[str], timeout_s: float, env: Mapping[str, str] | None = None) -> str:
    """Return a command's output. Raises ClusterError when it fails or does not end in time."""
    try:
        result = subprocess.run(
            list(argv),
            env=None if env is None else dict(env),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"{Path(argv[0]).name}: {error}", "see the line above", 9) from error
    if result.returncode:
        last = (result.stderr.strip() or result.stdout.strip() or "no message").splitlines()[-3:]
        raise ClusterError(
            f"{Path(argv[0]).name} {argv[1] if len(argv) > 1 else ''} ended with "
            f"{result.returncode}: {' / '.join(last)}",
            "see the line above",
            9,
        )
    return result.stdout


def run_watched(
    name: str, argv: Sequence[str], timeout_s: float, cwd: Path, log: Path, env: Mapping[str, str]
) -> int:
    """Run a slow command with its output in ``log``; print a line every two seconds."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            wait_until(name, lambda: child.poll() is not None, timeout_s)
        finally:
            if child.poll() is None:
                child.kill()
            child.wait()
    return child.returncode
