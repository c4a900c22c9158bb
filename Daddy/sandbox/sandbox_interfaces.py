"""Pure. Defines a sandbox: a confined place that runs one command at a time.

A `Backend` (bubblewrap, Apptainer, Docker, Daytona, plain processes) makes sandboxes from a
`SandboxSpec`. A sandbox is fresh or persistent. In a fresh one nothing that a command does is there
for the next one: no file, process, or IPC object. In a persistent one, which a terminal needs, all
of it remains until `close`.

Everything that comes out of a sandbox is a claim of untrusted code: it is bounded, and what is over
a bound is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from Daddy.core.errors import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

OnLine = Callable[[str], None]
"""Takes a line of standard output, without its end, while the command runs."""

MIB = 1 << 20
LINE_BYTES = 16 * 1024
"""Largest line for `OnLine`; the rest of a longer one is dropped."""
LINES_PER_S = 1000
"""Most lines a second for `OnLine`; further ones are dropped."""


@dataclass(frozen=True)
class Limits:
    """Bounds one command with all its processes.

    `memory_mb` counts everything that takes memory of the host: anonymous and shared memory, pipes,
    sockets, page tables, file locks and the files in the scratch folders.
    """

    time_s: float = 10.0
    memory_mb: int = 256
    scratch_mb: int = 16
    scratch_files: int = 2000
    processes: int = 64
    open_files: int = 64
    output_bytes: int = 64 * 1024
    """Bytes kept of each of standard output, standard error and descriptor 3."""


@dataclass(frozen=True)
class Command:
    """Names a program or a Python source, and what it gets.

    With `python`, the source runs as `__main__` in an interpreter that is already loaded, which
    saves its start; only the standard library can be imported. A command may write its result to
    file descriptor 3, where no print of its libraries comes between.
    """

    argv: tuple[str, ...] = ()
    python: str = ""
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/tmp"  # noqa: S108 - of the sandbox


Ending = Literal["exited", "timed out", "out of memory", "too much output"]


@dataclass(frozen=True)
class Outcome:
    """Tells how a command ended and holds its output.

    `exit_code` is the negative number of a signal that ended it. `fd3_output` is what it wrote to
    descriptor 3. `lost_bytes` counts output over the limit. `peak_mb` is the largest memory that
    was seen, as `Limits.memory_mb` counts it.
    """

    ending: Ending
    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    fd3_output: bytes = b""
    lost_bytes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mb: int = 0


@dataclass(frozen=True)
class Isolation:
    """Tells how far a backend confines.

    ``confined``: as SECURITY.md promises; ``partly``: but for what `missing` lists; ``vendor``: the
    vendor promises it; ``none``: commands can do all that this account can.
    """

    level: Literal["confined", "partly", "vendor", "none"]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class SandboxSpec:
    """Names what a sandbox is made of.

    `image` is ``host`` (this machine's /usr), ``debian:13+python3+tmux`` (packages of a Debian
    release) or ``dir:PATH`` (an unpacked root file system). `read_only` are further folders of the
    host, seen under their own paths. A sandbox ends by itself after `lifetime_s`, also if its host
    process was stopped or killed.

    With `writable_root` commands of a persistent sandbox are user 0 inside, and may write to the
    image's folders, into their scratch. Only bubblewrap makes such a sandbox. As root, `disk_mb` of
    scratch can lie in the folder `disk` of the host instead of in memory.
    """

    image: str = "host"
    persistent: bool = False
    writable_root: bool = False
    read_only: tuple[Path, ...] = ()
    lifetime_s: float = 3600.0
    disk: Path | None = None
    disk_mb: int = 0


class CreationRefusedError(SandboxError):
    """A backend makes no sandbox now: a rate or a number is used up.

    `retry_after_s` are the seconds that it asks to wait; None if it names none.
    """

    def __init__(self, message: str, fix: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, fix)
        self.retry_after_s = retry_after_s


class Sandbox(Protocol):
    """A confined place; one command at a time. Every method raises SandboxError once it ended."""

    async def run(
        self, command: Command, limits: Limits = ..., on_line: OnLine | None = None
    ) -> Outcome:
        """Run a command to its end. `on_line` gets each line of its standard output at once."""
        ...

    async def put(self, source: Path, target: str) -> None:
        """Copy a file or folder of the host to the absolute path `target`.

        In a fresh sandbox `target` lies below ``/files``, which each command sees read-only.
        """
        ...

    async def get(self, source: str, target: Path, max_bytes: int = 16 * MIB) -> None:
        """Copy a file or folder of a persistent sandbox to the new path `target` of the host.

        Raises SandboxError for links, devices, more than `max_bytes`, and in a fresh sandbox.
        """
        ...

    async def close(self) -> None:
        """End all its processes and remove its files. A second call does nothing."""
        ...


class Backend(Protocol):
    """Makes sandboxes with one means of confinement."""

    name: str

    def isolation(self) -> Isolation:
        """Return how far its sandboxes confine here. Raises SandboxError where it cannot run."""
        ...

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """Make a sandbox that has answered once. Raises SandboxError.

        Raises CreationRefusedError for a rate limit or a quota: a pool then waits and asks again.
        A cancelled call leaves nothing behind.
        """
        ...
