"""Makes bubblewrap's sandboxes with one protection off, from a copy of the runner or its argv."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    "read-only mounts": (
        "namespaces.py",
        "def _close_writable_mounts() -> None:\n",
        "    return\n",
    ),
    "memory watch": ("memory_use.py", "        return total, len(pids)", "        return 0, 1"),
}
"""Protection → module of the runner, its text, and what replaces it (or, after `def`, follows)."""
ARGV_CHANGES = {
    "network namespace": {"--unshare-all": ("--unshare-ipc", "--unshare-pid", "--unshare-uts")},
    "read-only /usr": {"--ro-bind": ("--bind",)},
    "outer pid namespace": {"--unshare-all": ("--unshare-ipc", "--unshare-net", "--unshare-uts")},
}
"""Protection → argument of bubblewrap, and what stands in its place."""


@contextlib.contextmanager
def without(*protections: str) -> Iterator[None]:
    """Let bubblewrap make sandboxes that lack the protections.

    "account": as root, a sandbox then runs as root and not as an unprivileged user.
    """
    changes: dict[str, tuple[str, ...]] = {}
    for name in protections:
        changes |= ARGV_CHANGES.get(name, {})
    argv = bubblewrap.bubblewrap_argv

    def weakened_argv(*args: object, **named: object) -> list[str]:
        made = argv(*args, **named)  # type: ignore[arg-type]
        return [word for old in made for word in changes.get(old, (old,))]

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        runner = Path(shutil.copytree(bubblewrap.RUNNER, Path(folder) / "runner"))
        for name in set(RUNNER_CHANGES) & set(protections):
            _change(runner, *RUNNER_CHANGES[name])
        patch.setattr(bubblewrap, "RUNNER", runner)
        patch.setattr(bubblewrap, "bubblewrap_argv", weakened_argv)
        patch.setattr(runner_client, "_ANSWER_S", 3.0)
        if "account" in protections:
            patch.setattr(bubblewrap, "_become_nobody", lambda: ({}, lambda: None))
        bubblewrap._runner_files.cache_clear()
        try:
            yield
        finally:
            bubblewrap._runner_files.cache_clear()


def _change(folder: Path, module: str, old: str, new: str) -> None:
    path = folder / module
    text = path.read_text()
    assert old in text, f"{module} no longer holds {old!r}"
    path.write_text(text.replace(old, old + new if old.startswith("def ") else new))
