"""Adapter for bubblewrap: makes sandboxes of Linux namespaces, without root and without Docker.

bubblewrap gives the runner its own users, files, processes, network and host name. The runner has
three capabilities, which count inside only: it makes the namespaces of commands with them and reads
their memory, and no command has any. As root each sandbox runs as a user id of its own.
"""

import asyncio
import contextlib
import os
import platform
import py_compile
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

from Daddy.core.errors import FileError, SandboxError
from Daddy.core.humanize import printable_line
from Daddy.core.run_subprocess import run_command
from Daddy.sandbox.image import Image, load_image
from Daddy.sandbox.runner_client import (
    FILES,
    RUNNER,
    Mode,
    RunnerSandbox,
    runner_argv,
    start_runner,
)
from Daddy.sandbox.sandbox_interfaces import MIB, Command, Isolation, SandboxSpec
from Daddy.sandbox.unprivileged_user import release_user, reserve_user

_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_SYS_PTRACE")
_TO_OVERLAY = ("CAP_DAC_OVERRIDE",)
"""Capability of the runner that overlayfs works with in its own folders."""
_INSIDE = "/run/sandbox"
"""Folder of the runner inside."""
_USER_INSIDE = "1000"
_DISABLES_NAMESPACES = (0, 8)
"""First version of bubblewrap that can forbid user namespaces; the filter of commands does too."""
_COUNTS_IN_NAMESPACE = (5, 14)
"""First Linux that counts a user's processes in a user namespace apart from all others."""
_INSTALL = "install bubblewrap (sudo apt install bubblewrap), or see python -m Daddy.sandbox probe"
_CHILD_S = 60.0
_SBIN = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_MKFS = shlex.split("mkfs.ext4 -q -F -m 0 -O ^has_journal -E nodiscard")
_INODES, _INODES_PER_MB = 100_000, 128
_MOUNTED = "/sys"
"""Folder that each Linux has, that its user may enter, and that bubblewrap does not need."""


def bubblewrap_argv(
    spec: SandboxSpec,
    image: Image,
    files: Mapping[str, int],
    program: str = "bwrap",
    version: tuple[int, ...] = _DISABLES_NAMESPACES,
) -> list[str]:
    """Return the command line up to the runner's.

    `files` are the runner's files: path inside, and the descriptor that gives the content.
    """
    argv = [program, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    argv += ["--disable-userns"] if version >= _DISABLES_NAMESPACES else []
    user = "0" if spec.writable_root else _USER_INSIDE
    argv += ["--clearenv", "--hostname", "sandbox", "--uid", user, "--gid", user]
    capabilities = (*_CAPABILITIES, *(_TO_OVERLAY if spec.writable_root else ()))
    argv += [part for name in capabilities for part in ("--cap-add", name)]
    for source, target in image.binds:
        argv += ["--ro-bind", str(source), target]
    for path, content in image.links:
        argv += ["--symlink", content, path]
    for folder in spec.read_only:
        argv += ["--ro-bind", str(folder), str(folder)]
    argv += ["--bind", _MOUNTED, "/run/store"] if spec.disk else []
    argv += ["--proc", "/proc", "--dev", "/dev", "--dir", "/tmp", "--dir", FILES]  # noqa: S108
    for target, descriptor in files.items():
        argv += ["--file", str(descriptor), target]
    return [*argv, "--remount-ro", "/", "--chdir", "/", "--"]


@cache
def _runner_files() -> Mapping[str, bytes]:
    """Return the runner's modules by their path inside, also compiled.

    They are copied, so that the user of a sandbox needs no right to enter our folder. A Python
    inside of another version ignores the compiled ones.
    """
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for module in sorted(RUNNER.glob("*.py")):
            inside = f"{_INSIDE}/runner/{module.name}"
            compiled = f"{folder}/{module.name}c"
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(str(module), compiled, inside, True, invalidation_mode=mode)
            cached = f"{module.stem}.{sys.implementation.cache_tag}.pyc"
            found[inside] = module.read_bytes()
            found[f"{_INSIDE}/runner/__pycache__/{cached}"] = Path(compiled).read_bytes()
    return found


def parse_version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version as a program or a kernel prints it."""
    found = re.search(r"\d+(\.\d+)+", text)
    return tuple(map(int, found[0].split("."))) if found else (0,)


class BubblewrapBackend:
    """Makes sandboxes with bubblewrap. `program` is its name or path."""

    name = "bubblewrap"

    def __init__(self, program: str = "bwrap") -> None:
        self._program = program
        self._isolation: Isolation | None = None
        self._images: dict[str, Image] = {}
        self._version: tuple[int, ...] = ()

    def isolation(self) -> Isolation:
        """Return how far it confines, after trying a command in a sandbox of the image host."""
        if not self._isolation:
            with ThreadPoolExecutor(1) as thread:  # the caller's own loop may be running
                missing = thread.submit(asyncio.run, self._try()).result()
            self._isolation = Isolation("partly" if missing else "confined", missing)
        return self._isolation

    async def _try(self) -> tuple[str, ...]:
        sandbox = await self.create(SandboxSpec(lifetime_s=2 * _CHILD_S))
        try:
            outcome = await sandbox.run(Command(python="print(1)"))
        finally:
            await sandbox.close()
        if outcome.stdout != b"1\n":
            raise SandboxError(f"a command in a sandbox ended wrong: {outcome}", _INSTALL)
        return sandbox.missing

    async def create(self, spec: SandboxSpec) -> RunnerSandbox:
        """Make a sandbox that has answered once. Raises SandboxError."""
        version = self._find()
        _check_folders(spec)
        if spec.image not in self._images:
            self._images[spec.image] = await asyncio.to_thread(load_image, spec.image)
        image = self._images[spec.image]
        mode: Mode = "persistent" if spec.persistent else "fresh"
        count = _must_count()
        shown, overlaid = _paths_of_root(spec, image)
        inside = runner_argv(
            image.python,
            _INSIDE,
            mode,
            spec.lifetime_s,
            count_processes=count,
            shown=shown,
            overlaid=overlaid,
        )
        files = {path: _memory_file(content) for path, content in _runner_files().items()}
        try:
            argv = bubblewrap_argv(spec, image, files, self._program, version)
            with contextlib.ExitStack() as disk:
                mount = await asyncio.to_thread(disk.enter_context, _mounted_disk(spec))
                become_nobody, on_close = _become_nobody()
                start = [*mount, *become_nobody, *argv, *inside]
                return await start_runner(start, mode, on_close, pass_fds=tuple(files.values()))
        finally:
            for descriptor in files.values():
                os.close(descriptor)

    def _find(self) -> tuple[int, ...]:
        """Return the version of bubblewrap. Raises SandboxError if there is none here."""
        if not self._version:
            if sys.platform != "linux" or not shutil.which(self._program):
                raise SandboxError(f"{self._program} is not on this machine", _INSTALL)
            told = run_command([self._program, "--version"], _CHILD_S)
            self._version = parse_version(told.stdout)
        return self._version


def _paths_of_root(spec: SandboxSpec, image: Image) -> tuple[list[str], list[str]]:
    """Return what a writable root shows read-only, and the folders of the image in it."""
    if not spec.writable_root:
        return [], []
    folders = [target for source, target in image.binds if source.is_dir()]
    files = [target for source, target in image.binds if not source.is_dir()]
    return [*files, *map(str, spec.read_only)], folders


def _check_folders(spec: SandboxSpec) -> None:
    """Raise SandboxError for a folder that the scratch of each command would hide."""
    for folder in spec.read_only:
        if folder.is_relative_to("/tmp") or folder.is_relative_to("/dev/shm"):  # noqa: S108
            raise SandboxError(
                f"{folder} cannot be shown in a sandbox, which has a /tmp of its own",
                "move the checkout or the Python environment out of /tmp",
            )


def _become_nobody() -> tuple[list[str], Callable[[], None]]:
    """Return a prefix of commands that changes to a user of its own, and what gives that back.

    Popen's `user` copies this process's page tables for each child: 18 ms of CPU beside torch.
    """
    if os.geteuid():
        return [], lambda: None
    if not shutil.which("setpriv"):
        raise SandboxError("setpriv is not on this machine", "install util-linux: root needs it")
    user = reserve_user()
    argv = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
    return argv, partial(release_user, user)


def can_use_disk() -> bool:
    """Tell that `SandboxSpec.disk` works: for root, where loop devices can be made."""
    loops = os.geteuid() == 0 and any(Path("/dev").glob("loop[0-9]*"))
    return loops and shutil.which(_MKFS[0], path=_SBIN) is not None


@contextlib.contextmanager
def _mounted_disk(spec: SandboxSpec) -> Iterator[list[str]]:
    """Give the start of a command line that mounts a file system of its own at `_MOUNTED`.

    The file under it has no name, all its blocks are reserved, and no other process sees the mount:
    both end with the sandbox, also if it is killed. FileError if there is not enough room.
    """
    if spec.disk is None:
        yield []
        return
    spec.disk.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=spec.disk) as image:
        path = f"/proc/{os.getpid()}/fd/{image.fileno()}"
        try:
            os.posix_fallocate(image.fileno(), 0, spec.disk_mb * MIB)
        except OSError as error:
            message = f"{spec.disk} has no room for {spec.disk_mb} MB: {error.strerror}"
            raise FileError(message, "free disk space, or lower storage_mb of the task") from error
        program = shutil.which(_MKFS[0], path=_SBIN) or _MKFS[0]
        inodes = min(_INODES, spec.disk_mb * _INODES_PER_MB)
        done = run_command([program, *_MKFS[1:], f"-N{inodes}", path], _CHILD_S)
        if done.returncode:
            raise SandboxError(f"no sandbox was made: {printable_line(done.stderr)}", _INSTALL)
        mount = f'mount -o loop,nosuid,nodev {path} "$0" && chmod 1777 "$0" && exec "$@"'
        yield ["unshare", "--mount", "--propagation=private", "sh", "-c", mount, _MOUNTED]


def _must_count() -> bool:
    """Tell that the kernel's limit of processes would count others than a sandbox's."""
    return os.geteuid() != 0 and parse_version(platform.release()) < _COUNTS_IN_NAMESPACE


def _memory_file(content: bytes) -> int:
    file = os.memfd_create("runner")
    os.write(file, content)
    os.lseek(file, 0, os.SEEK_SET)
    return file
