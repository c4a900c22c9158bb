"""Adapter for Apptainer: makes sandboxes on clusters that have it and no bubblewrap.

Apptainer's own namespaces hold a runner, which makes fresh ones for each command, as under
bubblewrap. Apptainer gives it no rights for that: it takes them in a user namespace of its own,
with one user, who is not root there. Apptainer needs an account with a passwd entry, so root's
sandboxes run as ``nobody``.
"""

import hashlib
import os
import platform
import pwd
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from Daddy.core.errors import ConfigError, FileError, SandboxError
from Daddy.sandbox.bubblewrap import parse_version
from Daddy.sandbox.image import Image, images_folder, load_image
from Daddy.sandbox.runner_client import RUNNER, Mode, runner_argv, start_runner
from Daddy.sandbox.sandbox_interfaces import Isolation, Sandbox, SandboxSpec

_PROGRAMS = ("apptainer", "singularity")
_RUNNER_FOLDER = "/run/sandbox"
_POINTS = ("dev", "etc", "files", "proc", "root", "run/sandbox/runner", "sys", "tmp", "var/tmp")
_KEPT_VARIABLES = ("PATH", "LANG", "TMPDIR", "XDG_RUNTIME_DIR")
"""Variables that Apptainer gets; those of its own name could bind further folders."""


_ENTER_USER_NAMESPACE = """\
import ctypes, os
maps = {"setgroups": "deny", "uid_map": f"1000 {os.getuid()} 1", "gid_map": f"1000 {os.getgid()} 1"}
if ctypes.CDLL(None).unshare(0x10000000):
    raise SystemExit("no user namespace can be made inside of Apptainer's")
for name, text in maps.items():
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
"""
"""Runs before the runner, in its process: a program that is started by no root has no rights."""
_ESCAPES = "escapes: tests play their table in bubblewrap; in Apptainer it was played once"
_COUNTS_IN_NAMESPACE = (5, 14)
"""Linux that counts the processes of a user for each user namespace."""


def find_program() -> str:
    """Return the path of Apptainer, or of Singularity. Raises ConfigError."""
    for name in _PROGRAMS:
        if path := shutil.which(name):
            return path
    raise ConfigError(
        "--backend apptainer: neither apptainer nor singularity is installed",
        "on a cluster try: module load apptainer; or use --backend bubblewrap",
    )


def apptainer_argv(
    program: str, root: Path, binds: Sequence[tuple[Path, str]], command: Sequence[str]
) -> list[str]:
    """Return the command line that runs `command` with `root` and `binds` (all read-only)."""
    argv = [program, "--quiet", "exec", "--userns"]
    argv += ["--containall", "--cleanenv", "--no-home", "--no-eval", "--no-umask"]
    argv += ["--no-mount", "sys,hostfs,tmp,cwd,bind-paths", "--net", "--network", "none"]
    for source, target in binds:
        argv += ["--mount", f"type=bind,source={source},destination={target},ro"]
    return [*argv, str(root), *command]


def check_binds(binds: Sequence[tuple[Path, str]]) -> None:
    """Raise SandboxError for a path that Apptainer's list of mounts cannot name."""
    for source, target in binds:
        if bad := next((char for char in f"{source}{target}" if char in ',"\n:'), ""):
            raise SandboxError(
                f"Apptainer cannot mount {str(source)!r}: it has the character {bad!r}",
                "rename the folder, or use --backend bubblewrap",
            )


def choose_account(user: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the options that start a program with another account, and what is missing then."""
    if user:
        return {}, ()
    nobody = pwd.getpwnam("nobody")
    options = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    return options, ("an account of its own: root's sandboxes run as nobody",)


def make_root(image: Image, folder: Path) -> Path:
    """Return a folder with the links of an image and an empty place for each of its mounts.

    It holds no data, and is kept below `folder` under a hash of its names for the next sandbox.
    """
    files = [target for source, target in image.binds if source.is_file()]
    folders = [target for source, target in image.binds if not source.is_file()]
    named = repr((image.links, files, folders, _POINTS)).encode()
    root = folder / f"apptainer-{hashlib.sha256(named).hexdigest()[:16]}"
    try:
        for target in (*_POINTS, *folders):
            (root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for target in files:
            (root / target.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            (root / target.lstrip("/")).touch()
        for name, content in image.links:
            if not (root / name.lstrip("/")).is_symlink():
                (root / name.lstrip("/")).symlink_to(content)
    except OSError as error:
        fix = "check its permissions and space; XDG_CACHE_HOME names another cache folder"
        raise FileError(f"cannot write {root}: {error.strerror}", fix) from error
    return root


def kept_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Apptainer itself needs."""
    kept = {name: environ[name] for name in _KEPT_VARIABLES if name in environ}
    return {**kept, "HOME": "/nonexistent", "APPTAINER_CONFIGDIR": "/nonexistent"}


def _runner_command(python: str, mode: Mode, lifetime_s: float) -> list[str]:
    """Return the runner's command line, with the way into its user namespace before it."""
    count = parse_version(platform.release()) < _COUNTS_IN_NAMESPACE
    argv = runner_argv(python, _RUNNER_FOLDER, mode, lifetime_s, count_processes=count)
    at = argv.index("-c") + 1
    return [*argv[:at], f"{_ENTER_USER_NAMESPACE}{argv[at]}", *argv[at + 1 :]]


class ApptainerBackend:
    """Makes sandboxes with Apptainer."""

    name = "apptainer"

    def __init__(self, program: str = "") -> None:
        self._program = program

    def isolation(self) -> Isolation:
        """Return what confines here. Raises ConfigError without Apptainer, SandboxError."""
        if sys.platform != "linux":
            raise SandboxError("Apptainer needs Linux", "use --backend docker")
        self._program = self._program or find_program()
        return Isolation("partly", (*choose_account(os.geteuid())[1], _ESCAPES))

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """Make a sandbox whose runner has answered. Raises ConfigError, FileError, SandboxError."""
        self.isolation()
        image = load_image(spec.image)
        empty = make_root(image, images_folder(os.environ, Path.home(), os.geteuid()))
        shown = [(folder, str(folder)) for folder in spec.read_only]
        runner = (RUNNER, f"{_RUNNER_FOLDER}/{RUNNER.name}")
        binds = [*shown, runner, (empty / "files", "/files")]
        if image.root is None:
            binds = [*image.binds, *binds]
        check_binds(binds)
        mode: Mode = "persistent" if spec.persistent else "fresh"
        command = _runner_command(image.python, mode, spec.lifetime_s)
        argv = apptainer_argv(self._program, image.root or empty, binds, command)
        options, _ = choose_account(os.geteuid())
        return await start_runner(argv, mode, env=kept_environment(os.environ), **options)
