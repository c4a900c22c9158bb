"""Makes bubblewrap's sandboxes with one protection off, from a copy of the runner or its argv."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from Daddy.sandbox import bubblewrap, runner_client

RUNNER_CHANGES = {
    "descriptors": ("launch.py", "os.closerange(", "(lambda *_: None)("),
    "pid namespace": ("command_run.py", "_NEW = kernel.NEW_PIDS | ", "_NEW = "),
    "own /proc": (
        "namespaces.py",
        "def mount_processes(*, hide: bool = False) -> None:\n",
        "    return\n",
    ),
    "seccomp": ("serve.py", "syscall_filter.build_filter(platform.machine())", "None"),
    "capabilities": ("kernel.py", "def drop_capabilities() -> None:\n", "    return\n"),
    "memory watch": ("memory_use.py", "        return total, len(pids)", "        return 0, 1"),
}
"""Protection → module of the runner, its text, and what replaces it (or, after `def`, follows)."""
ARGV_CHANGES = {
    "network namespace": {"--unshare-all": ("--unshare-ipc", "--unshare-pid", "--unshare-uts")},
    "outer pid namespace": {"--unshare-all": ("--unshare-ipc", "--unshare-net", "--unshare-uts")},
}
"""Protection → argument of bubblewrap, and what stands in its place."""


@contextlib.contextmanager
def without(*protections: str) -> Iterator[None]:
    """Let bubblewrap make sandboxes that lack the protections."""
    argv, runner = bubblewrap.bubblewrap_argv, runner_client.RUNNER
    with tempfile.TemporaryDirectory(prefix="weakened-") as folder:
        Path(folder).chmod(0o755)
        copy = Path(shutil.copytree(runner, Path(folder) / "runner"))
        changes: dict[str, tuple[str, ...]] = {}
        for name in protections:
            if name in RUNNER_CHANGES:
                _change(copy, *RUNNER_CHANGES[name])
            changes |= ARGV_CHANGES.get(name, {})

        def weakened_argv(*args: object, **named: object) -> list[str]:
            made = argv(*args, **named)  # type: ignore[arg-type]
            return [word for old in made for word in changes.get(old, (old,))]

        bubblewrap.bubblewrap_argv = weakened_argv
        bubblewrap.RUNNER = runner_client.RUNNER = copy
        try:
            yield
        finally:
            bubblewrap.bubblewrap_argv = argv
            bubblewrap.RUNNER = runner_client.RUNNER = runner


def _change(folder: Path, module: str, old: str, new: str) -> None:
    path = folder / module
    text = path.read_text()
    assert old in text, f"{module} no longer holds {old!r}"
    path.write_text(text.replace(old, old + new if old.startswith("def ") else new))
