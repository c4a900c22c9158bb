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
    "descriptors": ("    os.closerange(len(descriptors), _MOST_DESCRIPTORS)\n", ""),
    "pid namespace": ("_NEW = kernel.NEW_PIDS | ", "_NEW = "),
    "own /proc": (
        'def mount_processes(*, hide: bool = False, root: str = "") -> None:\n',
        "    return\n",
    ),
    "seccomp": ("def enter_filter(program: bytes) -> None:\n", "    return\n"),
    "capabilities": ("def drop_capabilities() -> None:\n", "    return\n"),
    "kill before a save": (
        "time.monotonic() > deadline:  # they fork faster than they are found\n",
        "True:\n",
    ),
    "read-only mounts": (
        "def _close_writable_mounts() -> None:\n",
        "    return\n",
    ),
}
"""Protection → text of one module of the runner, and what replaces it (or follows a `def`)."""
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
            patch.setattr(bubblewrap, "_become_nobody", lambda: ([], lambda: None))
        bubblewrap._runner_files.cache_clear()
        try:
            yield
        finally:
            bubblewrap._runner_files.cache_clear()


def _change(folder: Path, old: str, new: str) -> None:
    (path,) = [path for path in folder.glob("*.py") if old in path.read_text()]
    changed = path.read_text().replace(old, old + new if old.startswith("def ") else new)
    path.write_text(changed)
