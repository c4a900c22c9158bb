"""Adapter for mount namespaces: makes every mount of a sandbox read-only or bounded.

The runner leaves the mounts of its sandbox as they are and works on a copy. There, everything that
could be written is made read-only; then it mounts a tmpfs for each command (or, in a persistent
sandbox, one for all), which holds both /tmp and /dev/shm.

A persistent sandbox may have a writable root: a folder of that tmpfs, with an overlay over each
folder of the image. Then all changes lie in the tmpfs, in folders named as by `LAYERS`.
"""

from __future__ import annotations

import os
import stat

from . import kernel

FILES = "/files"
"""Folder of files that the host puts into a fresh sandbox; commands see it read-only."""

STORE = "/run/store"
"""Folder of a file system that the host may have made for the changes of a writable root."""
LAYERS = ("root", "shm", "upper", "work")
"""Folders of a writable root's tmpfs: the root folder, /dev/shm, and of each overlay a folder
by its number, below ``upper``, with the changes, and below ``work``."""
OPAQUE = "user.overlay.opaque"
"""Attribute of a folder above which hides the one below."""
MADE = "user.sandbox.made"
"""Attribute of a folder that we made above another of the same mode: no change by itself."""
_COPIED_BYTES = 64 * 1024
_COPIED_DEPTH = 2

_FILES_BYTES = 64 << 20
_FILES_COUNT = 10_000
_SCRATCH_FOLDERS = 3
_TERMINALS = 32
_SAFE = kernel.NO_SUID | kernel.NO_DEV
_KEPT = {"nosuid": kernel.NO_SUID, "nodev": kernel.NO_DEV, "noexec": kernel.NO_EXEC}
_ACCESS_TIMES = {"noatime": 1 << 10, "nodiratime": 1 << 11, "relatime": 1 << 21}


def prepare_mounts() -> int:
    """Set up the mounts that all commands share. Return a descriptor of FILES to write to."""
    kernel.new_mount_namespace()
    _close_writable_mounts()
    options = f"newinstance,ptmxmode=0666,mode=0620,max={_TERMINALS}"
    kernel.mount("devpts", "/dev/pts", "devpts", kernel.NO_SUID | kernel.NO_EXEC, options)
    return _mount_files()


def _close_writable_mounts() -> None:
    with open("/proc/self/mountinfo", encoding="latin-1") as table:  # noqa: PTH123
        mounts = [line.split(" ")[4:6] for line in table]
    for point, options in mounts:
        if "rw" in options.split(","):
            kept = {**_KEPT, **_ACCESS_TIMES}
            flags = sum(kept.get(option, 0) for option in options.split(","))
            remount_read_only(_unescape(point), flags)


def remount_read_only(point: str, flags: int = _SAFE) -> None:
    """Make a mount read-only. The kernel wants `flags` to be those that the mount has."""
    kernel.mount("none", point, flags=kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY | flags)


def _unescape(point: str) -> str:
    """Return a mount point as mountinfo(5) writes it: a space in octal, after a backslash."""
    return os.fsdecode(point.encode("latin-1").decode("unicode_escape").encode("latin-1"))


def _mount_files() -> int:
    """Mount FILES twice: the upper mount is read-only, a descriptor leads to the lower one."""
    options = f"size={_FILES_BYTES},nr_inodes={_FILES_COUNT},mode=0755"
    kernel.mount("tmpfs", FILES, "tmpfs", _SAFE, options)
    descriptor = os.open(FILES, os.O_RDONLY | os.O_DIRECTORY)
    kernel.mount(FILES, FILES, flags=kernel.BIND)
    remount_read_only(FILES)
    return descriptor


def mount_scratch(megabytes: int, files: int) -> None:
    """Mount one tmpfs with room for `megabytes` and `files` at both /tmp and /dev/shm."""
    options = _scratch_options(megabytes, files)
    kernel.mount("tmpfs", "/tmp", "tmpfs", _SAFE, f"{options},mode=0755")  # noqa: S108
    for name in ("/tmp/tmp", "/tmp/shm"):  # noqa: S108
        os.mkdir(name)  # noqa: PTH102
        os.chmod(name, 0o1777)  # noqa: PTH101, S103 - as every /tmp
    kernel.mount("/tmp/shm", "/dev/shm", flags=kernel.BIND)  # noqa: S108
    kernel.mount("/tmp/tmp", "/tmp", flags=kernel.BIND)  # noqa: S108


def resize_scratch(megabytes: int, files: int) -> None:
    """Change the room of the scratch. Raises OSError if more than that is in use."""
    options = _scratch_options(megabytes, files)
    kernel.mount("tmpfs", "/dev/shm", "tmpfs", kernel.REMOUNT | _SAFE, options)  # noqa: S108


def _scratch_options(megabytes: int, files: int) -> str:
    return f"size={megabytes}m,nr_inodes={files + _SCRATCH_FOLDERS}"


def mount_processes(*, hide: bool = False, root: str = "") -> None:
    """Mount a /proc of this pid namespace; `hide` shows a process only its own kind."""
    flags = kernel.READ_ONLY | _SAFE | kernel.NO_EXEC
    kernel.mount("proc", f"{root}/proc", "proc", flags, "hidepid=2" if hide else "")


def enter_writable_root(shown: list[str], overlaid: list[str], megabytes: int, files: int) -> int:
    """Change to a root that can be written to; return a descriptor of its tmpfs, or of STORE.

    It has the links of the root before, what is mounted at the paths `shown`, and the image's
    folders `overlaid`, whose changes are kept apart.
    """
    if os.path.isdir(STORE):  # noqa: PTH112
        kernel.mount(STORE, "/tmp", flags=kernel.BIND)  # noqa: S108
        kernel.mount("none", "/tmp", flags=kernel.REMOUNT | kernel.BIND | _SAFE)  # noqa: S108
    else:
        options = f"{_scratch_options(megabytes, files)},mode=0755"
        kernel.mount("tmpfs", "/tmp", "tmpfs", _SAFE, options)  # noqa: S108
    store = os.open("/tmp", os.O_RDONLY | os.O_DIRECTORY)  # noqa: S108
    for name in LAYERS:
        os.mkdir(f"/tmp/{name}", 0o755)  # noqa: PTH102, S108
    root = "/tmp/root"  # noqa: S108
    kernel.mount(root, root, flags=kernel.BIND)
    for name in os.listdir("/"):  # noqa: PTH208
        if os.path.islink(f"/{name}"):  # noqa: PTH114
            os.symlink(os.readlink(f"/{name}"), f"{root}/{name}")  # noqa: PTH115, PTH211
    for number, folder in enumerate(overlaid):
        _mount_overlay(folder, root, number)
    for path in ("/dev", *shown):
        _make_mount_point(path, root)
        kernel.mount(path, root + path, flags=kernel.BIND | kernel.RECURSIVE)
    for name in ("proc", "root", "run", "tmp"):
        os.makedirs(f"{root}/{name}", exist_ok=True)  # noqa: PTH103
    for path in (f"{root}/tmp", "/tmp/shm"):  # noqa: S108
        os.chmod(path, 0o1777)  # noqa: PTH101, S103 - as every /tmp
    kernel.mount("/tmp/shm", f"{root}/dev/shm", flags=kernel.BIND)  # noqa: S108
    mount_processes(hide=True, root=root)  # the kernel wants to see the /proc before, too
    kernel.change_root(root)
    return store


def _make_mount_point(path: str, root: str) -> None:
    if os.path.isdir(path):  # noqa: PTH112
        os.makedirs(root + path, exist_ok=True)  # noqa: PTH103
        return
    os.makedirs(os.path.dirname(root + path), exist_ok=True)  # noqa: PTH103, PTH120
    os.close(os.open(root + path, os.O_CREAT, 0o644))


def _mount_overlay(folder: str, root: str, number: int) -> None:
    upper, work = f"/tmp/upper/{number}", f"/tmp/work/{number}"  # noqa: S108
    _make_mount_point(folder, root)
    os.mkdir(work)  # noqa: PTH102
    _own(folder, upper, _COPIED_DEPTH, files=folder != "/usr")
    options = f"lowerdir={folder},upperdir={upper},workdir={work},userxattr"
    try:
        kernel.mount("overlay", root + folder, "overlay", _SAFE, options)
    except OSError as error:
        raise OSError(
            f"no overlay over the image's {folder} ({error.strerror}): a root that can be written "
            "to needs Linux 5.11, and an image that does not lie on two overlays itself"
        ) from error


def _own(lower: str, upper: str, depth: int, *, files: bool) -> None:
    """Make folders of an overlay writable that belong to a user who is unknown inside.

    The owner of an image that root made is such a user. Its folders are made anew above it, and
    small files are copied, down to `depth`; further files can be replaced, if not changed in place.
    A folder that cannot be read is empty.
    """
    status = os.stat(lower)  # noqa: PTH116
    os.mkdir(upper, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)  # noqa: PTH102
    if status.st_uid == os.getuid():
        return
    if not os.access(lower, os.R_OK | os.X_OK):
        _mark(upper, OPAQUE)
        return
    _mark(upper, MADE)
    if depth:
        _own_all_in(lower, upper, depth - 1, files=files)


def _mark(folder: str, attribute: str) -> None:
    try:
        os.setxattr(folder, attribute, b"y")
    except OSError:  # a tmpfs before Linux 6.6 has none: it hides and skips nothing
        return


def _own_all_in(lower: str, upper: str, depth: int, *, files: bool) -> None:
    for entry in os.scandir(lower):
        if entry.is_dir(follow_symlinks=False):
            _own(entry.path, f"{upper}/{entry.name}", depth, files=files)
        elif files and entry.is_file(follow_symlinks=False):
            _copy_small(entry, f"{upper}/{entry.name}")


def _copy_small(entry: os.DirEntry[str], target: str) -> None:
    status = entry.stat(follow_symlinks=False)
    if status.st_size > _COPIED_BYTES or not os.access(entry.path, os.R_OK):
        return
    with open(entry.path, "rb") as source:  # noqa: PTH123
        content = source.read(_COPIED_BYTES)
    file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IMODE(status.st_mode))
    os.write(file, content)
    os.close(file)
