"""Adapter for images, the root file systems of sandboxes: ``host``, ``dir:PATH`` and ``debian:13``.

An image of Debian is made of its packages without Docker or root: apt resolves them with a
configuration, lists and an empty package database of its own, so the host's stay as they are, and
``dpkg-deb -x`` unpacks them. The scripts of packages do not run; its Python compiles its modules in
a sandbox of bubblewrap. It is kept in the cache folder under its name, beside a list of its
packages.
"""

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.atomic_files import write_new
from Daddy.core.errors import ConfigError, DaddyError, FileError, NetworkError
from Daddy.core.file_lock import try_lock
from Daddy.core.humanize import printable_line
from Daddy.core.name_validation import new_token
from Daddy.core.run_subprocess import (
    ProcessTimeoutError,
    ProgramMissingError,
    run_command,
    spawn_child,
)
from Daddy.sandbox.sandbox_interfaces import MIB

RELEASES = {"12": "bookworm", "13": "trixie"}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "DADDY_DEBIAN_MIRROR"
"""Variable with the address of a Debian mirror, and after a space that of its security updates."""
OLDEST_PYTHON = 8
"""Minor version of Python 3 that runs the runner."""

_BASE = (
    "base-files", "base-passwd", "bash", "coreutils", "dash", "diffutils", "findutils", "grep",
    "gzip", "hostname", "libc-bin", "mawk", "ncurses-base", "python3", "sed", "tar",
)  # fmt: skip
_MADE_BY_BACKENDS = {"dev", "files", "lost+found", "proc", "run", "sys", "tmp"}
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]*[a-z0-9+]")
_NAME_LENGTH = 200
_CHILD_S, _TICK_S = 600, 2
_START_MIB, _COMPILED_MIB, _LEAST_MIB = 300, 100, 4
"""Space that an image needs at its start, for compiled modules, and at any time: on a full disk apt
waits for ever."""
_NO_SPACE = re.compile(r"No space left|enough free space|quota exceeded", re.IGNORECASE)
_COMPILE = shlex.split(
    "/ --proc /proc --dev /dev --clearenv /usr/bin/python3 -I -m compileall -q /usr/lib"
)
"""The rest of bubblewrap's command line, after ``--bind ROOT``."""
_LINKS_OF_MERGED_USR = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")

_APT = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Architectures;
#clear Acquire::Languages;
Acquire::Languages "none";
Acquire::Retries "3";
APT::Default-Release "";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Debug::NoLocking "true";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
"""
"""Takes back what the host's configuration says, but for its proxies."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Image:
    """A root file system, as a backend makes it.

    ``binds`` are folders and files of the host with their paths inside, all read-only; ``links``
    are symbolic links: path inside, and content. ``python`` is the path inside of a Python 3.8 or
    newer. ``root`` is the unpacked root of the host, None for the image ``host``.
    """

    binds: tuple[tuple[Path, str], ...]
    links: tuple[tuple[str, str], ...]
    python: str
    root: Path | None = None


def load_image(name: str, cache: Path | None = None, say: Say | None = None) -> Image:
    """Return the image ``name``, made first if it is of Debian and not in the folder ``cache``.

    That takes a minute; ``say`` gets lines of progress (default: printed to stderr). ConfigError
    for an image that is unknown or not possible here, FileError without space, NetworkError.
    """
    shown = printable_line(name, 80)
    kind, _, rest = name.partition(":")
    try:
        if name == "host":
            return read_host(Path("/"))
        if kind == "dir" and rest:
            return read_root(Path(rest).expanduser().resolve())
        if kind == "debian":
            folder = cache or images_folder(os.environ, Path.home(), os.geteuid())
            return read_root(_find_or_make(name, rest, folder, say or _print_progress) / "root")
    except (OSError, RuntimeError, ValueError) as error:  # the latter two of a path
        fix = "check the path, its permissions and space; XDG_CACHE_HOME names another cache folder"
        raise FileError(f"the image {shown} cannot be used: {error}", fix) from error
    raise ConfigError(
        f"there is no image {shown!r}", "use host, dir:PATH or debian:13+PACKAGE+PACKAGE"
    )


def images_folder(environ: Mapping[str, str], home: Path, user: int) -> Path:
    """Return the folder of made images in the person's cache.

    Root's own is elsewhere, since root's sandboxes run as users that may not enter its home.
    """
    cache = Path("/var/cache") if user == 0 else home / ".cache"
    return Path(environ.get("XDG_CACHE_HOME") or cache) / "daddy" / "images"


def _print_progress(line: str) -> None:
    print(f"image: {line}", file=sys.stderr, flush=True)


def read_host(root: Path) -> Image:
    """Return this machine's /usr as an image. ConfigError if programs lie outside of it."""
    links = []
    for name in _LINKS_OF_MERGED_USR:
        if (root / name).is_symlink():
            links.append((f"/{name}", str((root / name).readlink())))
        elif (root / name).exists():
            raise ConfigError(
                f"{root / name} is no link into /usr, and the image host shows /usr only",
                "use the image debian:13, or dir:PATH with an unpacked root file system",
            )
    files = [root / "usr", root / "etc/alternatives", root / "etc/ld.so.cache"]
    binds = [(path, f"/{path.relative_to(root)}") for path in files if path.exists()]
    return Image(tuple(binds), tuple(links), find_python(root, "/usr/"))


def read_root(root: Path) -> Image:
    """Return the image of an unpacked root file system. ConfigError if sandboxes cannot use it."""
    if not root.is_dir():
        raise ConfigError(f"{root} is no folder", "name the folder of a root file system")
    closed = [part for part in (root, *root.parents) if not part.stat().st_mode & stat.S_IXOTH]
    if closed and os.geteuid() == 0:
        raise ConfigError(
            f"root's sandboxes run as other users, and they may not enter {closed[-1]}",
            f"type: chmod o+x {' '.join(map(str, closed))}; or move the image",
        )
    entries = [path for path in sorted(root.iterdir()) if path.name not in _MADE_BY_BACKENDS]
    links = [(f"/{path.name}", str(path.readlink())) for path in entries if path.is_symlink()]
    folders = [path for path in entries if path.is_dir() and not path.is_symlink()]
    binds = [(path, f"/{path.name}") for path in folders]
    return Image(tuple(binds), tuple(links), find_python(root), root)


def find_python(root: Path, below: str = "/") -> str:
    """Return the path in ``root`` of its default Python 3, or of another if that is too old.

    ConfigError if none below the folder ``below`` is at least 3.8, as the programs' names tell.
    """
    found = []
    for folder in ("usr/bin", "usr/local/bin", "bin"):
        names = [path.name for path in (root / folder).glob("python3*")]
        programs = [follow_links(root, f"{folder}/{name}") for name in sorted(names)]
        minors = [re.fullmatch(r".*/python3\.(\d+)", program) for program in programs]
        found += [(int(m[1]), m[0]) for m in minors if m and (root / m[0][1:]).is_file()]
    for minor, program in found:
        if minor >= OLDEST_PYTHON and program.startswith(below):
            return program
    versions = ", ".join(f"3.{minor}" for minor, _ in found) or "none"
    raise ConfigError(
        f"the image {root} has no Python of 3.{OLDEST_PYTHON} or newer (found: {versions})",
        "install python3 into it, or use the image debian:13",
    )


def follow_links(root: Path, name: str) -> str:
    """Return the path that ``/name`` leads to if ``root`` is the root folder."""
    done, rest = "/", name.split("/")
    for _ in range(200):  # links may lead in a circle
        if not rest:
            break
        path = os.path.normpath(os.path.join(done, rest.pop(0)))  # noqa: PTH118
        if (root / path[1:]).is_symlink():
            content = str((root / path[1:]).readlink())
            done = "/" if content.startswith("/") else done
            rest = content.split("/") + rest
        else:
            done = path
    return done


def _find_or_make(name: str, rest: str, folder: Path, say: Say) -> Path:
    """Return the folder of a Debian image, which is moved there once it is complete."""
    release, *packages = re.split(r"\+(?=[a-z0-9])", rest)
    if release not in RELEASES:
        known = " or ".join(f"debian:{number}" for number in RELEASES)
        raise ConfigError(f"release {printable_line(release, 40)!r} is not known", f"use {known}")
    for package in packages:
        if not _PACKAGE.fullmatch(package) or len(name) > _NAME_LENGTH:
            shown = printable_line(package, 40)
            raise ConfigError(f"{shown!r} cannot name a package", "separate the names by +")
    image = folder / name.replace(":", "-")
    if not image.exists():
        with _locked(folder, say):
            if not image.exists():
                _make(image, release, sorted({*_BASE, *packages}), say)
    return image


@contextlib.contextmanager
def _locked(folder: Path, say: Say) -> Iterator[None]:
    """Hold the lock of the image folder, and remove what a killed process left there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        if not try_lock(file):
            say(f"waiting for another process that makes an image in {folder}")
            fcntl.flock(file, fcntl.LOCK_EX)
        for left in folder.glob(".making-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _make(image: Path, release: str, packages: Sequence[str], say: Say) -> None:
    work = image.parent / f".making-{new_token()}"
    work.mkdir()
    try:
        _check_space(work, _START_MIB)
        apt = _write_configuration(work, release)
        say(f"{image.name} is not in {image.parent} yet; downloading package lists")
        _run_watched([*apt, "update"], work, "package lists", say)
        files = _resolve(apt, work, packages, release, say)
        _download_and_unpack(apt, work, packages, files, say)
        (work / "image").rename(image)
        say(f"{image.name} is made; to make it anew with newer packages remove {image}")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write_configuration(work: Path, release: str) -> list[str]:
    """Return an apt-get command that reads and writes below ``work`` only, but for the host's
    proxies. It needs no rights, runs no hook and knows no installed package.
    """
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise ConfigError(
            "this machine has no apt-get or dpkg-deb, which make images of Debian",
            "use the image host, or dir:PATH with an unpacked root file system",
        )
    if not KEYRING.exists():
        fix = "type: apt-get install debian-archive-keyring"
        raise ConfigError(f"the keys of Debian's archive are not in {KEYRING}", fix)
    for name in ("lists/partial", "archives/partial", "image"):
        (work / name).mkdir(parents=True)
    write_new(work / "status", b"")
    write_new(work / "sources.list", _sources(release).encode())
    paths = {"State": "", "State::status": "status", "Cache": "", "Etc::sourcelist": "sources.list"}
    lines = [f'Dir::{key} "{work / name}";' for key, name in paths.items()]
    write_new(work / "apt.conf", "\n".join([_APT, *lines, ""]).encode())
    dies_with_us = ["setpriv", "--pdeathsig", "KILL"]  # of util-linux, which dpkg's systems have
    return [*dies_with_us, "apt-get", "-q", "-y", "-c", str(work / "apt.conf")]


def _sources(release: str) -> str:
    """Return the lines of Debian's mirror: the one in `MIRROR`, or the host's own."""
    mirrors = os.environ.get(MIRROR, "").split()
    if not mirrors:
        command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
        listed = run_command(command, 60, env=_quiet()).stdout
        for name in ("debian", "debian-security"):
            mirrors += re.findall(rf"^\S+/{name}(?:\.list)?/?$", listed, re.MULTILINE)[:1]
    if not mirrors or "security" in mirrors[0]:
        fix = f"set {MIRROR} to the address of a Debian mirror"
        raise ConfigError("this machine's apt has no mirror of Debian", fix)
    suites = (RELEASES[release], f"{RELEASES[release]}-security")
    pairs = zip(mirrors, suites, strict=False)
    return "".join(f"deb [signed-by={KEYRING}] {mirror} {suite} main\n" for mirror, suite in pairs)


def _resolve(
    apt: list[str], work: Path, packages: Sequence[str], release: str, say: Say
) -> list[str]:
    """Return the files of the packages and of all that they need, as NAME_VERSION_ARCH.deb."""
    output = _run_watched([*apt, "--print-uris", "install", *packages], work, "dependencies", say)
    files = re.findall(r"^'\S+' (\S+\.deb) \d+", output, re.MULTILINE)
    absent = set(packages) - {file.split("_")[0] for file in files}
    if absent:  # apt also takes patterns and names that several packages provide
        fix = "check the spelling, and the release"
        raise ConfigError(f"Debian {release} has no package {', '.join(sorted(absent))}", fix)
    return files


def _download_and_unpack(
    apt: list[str], work: Path, packages: Sequence[str], files: Sequence[str], say: Say
) -> None:
    say(f"downloading {len(files)} packages")
    _run_watched([*apt, "--download-only", "install", *packages], work, "packages", say)
    root = work / "image" / "root"
    for number, file in enumerate(files):
        if number % 20 == 0:
            say(f"unpacking package {number + 1} of {len(files)}")
        result = run_command(["dpkg-deb", "-x", str(work / "archives" / file), str(root)], _CHILD_S)
        if result.returncode:
            raise _explain(result.stderr, work)
    _complete(root)
    _compile_python(root, say)
    write_new(work / "image" / "packages", "\n".join([*sorted(files), ""]).encode())


def _complete(root: Path) -> None:
    """Do what scripts of the packages would do; take the setuid bits, which nothing here needs."""
    for name in ("passwd", "group"):
        shutil.copy(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)
    (root / "usr/bin/awk").symlink_to("mawk")
    if certificates := sorted((root / "usr/share/ca-certificates").rglob("*.crt")):
        # pip does not start without the bundle
        bundle = b"".join(path.read_bytes() for path in certificates)
        write_new(root / "etc/ssl/certs/ca-certificates.crt", bundle)
    for folder, _, names in os.walk(root):
        for path in (Path(folder, name) for name in names):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                path.chmod(stat.S_IMODE(mode) & 0o777)


def _compile_python(root: Path, say: Say) -> None:
    """Compile the image's Python modules, else each of its processes does: a third of a second.

    Python 3.11 keeps what a full disk cut off, so there is room to spare, before and after.
    """
    say("compiling Python's modules")
    _check_space(root, _COMPILED_MIB)
    isolated = ["bwrap", "--unshare-all", "--die-with-parent", "--bind", str(root)]
    try:
        why = run_command([*isolated, *_COMPILE], _CHILD_S).stderr
    except (ProgramMissingError, ProcessTimeoutError) as error:
        why = error.message
    _check_space(root, _LEAST_MIB)
    folders = [*root.rglob("__pycache__")]
    if not folders:
        say(f"its Python will start slowly: {printable_line(why)}")
    for folder in folders:
        folder.chmod(0o755)  # for all of root's sandboxes, whatever umask there was


def _quiet() -> dict[str, str]:
    return {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}


def _run_watched(argv: Sequence[str], work: Path, name: str, say: Say) -> str:
    """Run a slow program with a line of progress every two seconds; return its output."""
    log = work / "log"
    log.unlink(missing_ok=True)
    child = spawn_child(argv, stdout=log, stderr=log, env=_quiet(), cwd=work)
    try:
        for waited in range(0, _CHILD_S, _TICK_S):
            if waited:
                say(f"waiting for {name} ({waited} s)")
            if child.wait(_TICK_S):
                break
            _check_space(work, _LEAST_MIB)
    finally:
        child.signal_group(signal.SIGKILL)
        child.wait(_TICK_S)
    output = log.read_text(errors="replace")
    if child.exit_code or re.search(r"^[EW]: Failed to fetch", output, re.MULTILINE):
        raise _explain(output, work)
    return output


def _check_space(work: Path, mib: int) -> None:
    if shutil.disk_usage(work).free < mib * MIB:
        raise _full_disk(work, f"{mib} MiB are needed")


def _full_disk(work: Path, detail: str) -> FileError:
    fix = "make room there, or set XDG_CACHE_HOME to a folder of another disk"
    return FileError(f"no space for an image in {work.parent}: {detail}", fix)


def _explain(output: str, work: Path) -> DaddyError:
    """Return the error that apt's or dpkg's output tells of."""
    lines = [line for line in output.splitlines() if line.startswith(("E:", "dpkg-deb:", "tar:"))]
    last = printable_line(lines[0] if lines else output.strip()[-200:])
    if _NO_SPACE.search(output):
        return _full_disk(work, last)
    if found := re.search(r"Unable to locate package (\S+)|Package (\S+) is not available", output):
        name = printable_line(found[1] or found[2], 40)
        return ConfigError(f"Debian has no package {name}", "check the spelling, and the release")
    if "NO_PUBKEY" in output:
        fix = "type: apt-get install --only-upgrade debian-archive-keyring"
        return ConfigError(f"{KEYRING} has no key of this release: {last}", fix)
    return NetworkError(
        f"packages of Debian could not be fetched: {last}", f"check {MIRROR} and the network"
    )
