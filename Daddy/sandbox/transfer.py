"""Adapter for tar streams: copies files and folders between the host and a sandbox.

A stream holds folders and regular files only. Its first member is called ``.``: the only file, or
a folder, whose contents follow as ``./NAME``, each folder before what is in it. A name of more than
100 bytes comes as GNU tar writes it (``tarfile.GNU_FORMAT``).

:func:`pack_tar` makes a stream of a path of the host. :class:`TarUnpacker` reads one that untrusted
code may have made. It takes single headers from tarfile and no more: tarfile's reader allocates as
much as a header claims, a gigabyte for a pax header, and follows links.
"""

import contextlib
import os
import stat
import tarfile
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from Daddy.core.errors import CopyFailedError, DaddyError, FileError
from Daddy.core.humanize import has_control_character, printable_line
from Daddy.core.name_validation import new_token
from Daddy.sandbox.guarded_folder import GuardedFolder
from Daddy.sandbox.sandbox_interfaces import MIB

MAX_FILES = 10_000
"""Most files and folders of a stream."""
PUT_BYTES = 256 * MIB
PIECE = 64 * 1024
"""Bytes that are read or written at once."""

_NAME_BYTES, _PART_BYTES, _DEPTH = 1024, 255, 64
_CONTENT = "content"
_REMEDY = "copy folders and regular files only, and within the bounds"


def refuse_name(name: str) -> str:
    """Return the reason why no member may be called ``name``; empty: it may."""
    parts = name.split("/")
    sizes = [len(part.encode(errors="surrogateescape")) for part in parts]
    if parts[0] == "":
        return "its name is absolute or empty"
    if not {"", ".", ".."}.isdisjoint(parts):
        return "its name has an empty part, . or .."
    if has_control_character(name):
        return "its name has a control character or is not UTF-8"
    if max(sizes) > _PART_BYTES or sum(sizes) + len(parts) > _NAME_BYTES or len(parts) > _DEPTH:
        return f"its name is over {_PART_BYTES} or {_NAME_BYTES} bytes or {_DEPTH} folders deep"
    return ""


@dataclass
class _Budget:
    """Counts members and the bytes of files against their bounds."""

    max_bytes: int
    max_files: int

    def spend(self, size: int) -> str:
        """Take one member of ``size`` bytes; return the bound that it breaks, or nothing."""
        total, count = self.max_bytes, self.max_files
        if not 0 <= size <= total:
            return f"it claims {size:,} bytes, and {total:,} are left"
        self.max_bytes, self.max_files = total - size, count - 1
        return "" if count > 0 else "there are too many files and folders"


def _fail(kind: type[DaddyError], name: str, reason: str) -> NoReturn:
    raise kind(f"{printable_line(name, 80)!r} is not copied: {reason}", _REMEDY)


def pack_tar(
    source: Path, max_bytes: int = PUT_BYTES, max_files: int = MAX_FILES
) -> Iterator[bytes]:
    """Yield the stream of a file or folder of the host, in pieces of about `PIECE` bytes.

    Raises FileError, also between two pieces, for links, devices, unreadable files, and more than
    the bounds; the stream is then void. No link is followed, not even ``source``.
    """
    held = bytearray()
    try:
        for block in _pack_member(str(source), ".", None, _Budget(max_bytes, max_files)):
            held += block
            if len(held) >= PIECE:
                yield bytes(held)
                held.clear()
    except OSError as error:
        where = printable_line(str(error.filename), 80)
        raise FileError(f"cannot copy {source}: {where!r}: {error.strerror}", _REMEDY) from error
    yield bytes(held) + bytes(2 * tarfile.BLOCKSIZE)


def _pack_member(path: str, name: str, folder: int | None, budget: _Budget) -> Iterator[bytes]:
    if name != "." and (reason := refuse_name(name.removeprefix("./"))):
        _fail(FileError, name, reason)
    mode = os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):  # opening a device may move it
        _fail(FileError, path, "it is a link, a device, a FIFO or a socket")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        size = status.st_size if stat.S_ISREG(status.st_mode) else 0
        if reason := budget.spend(size):
            _fail(FileError, path, reason)
        yield _make_header(name, status, size)
        if stat.S_ISREG(status.st_mode):
            yield from _pack_contents(path, descriptor, size)
        else:
            for child in sorted(os.listdir(descriptor)):  # noqa: PTH208 - a descriptor has no path
                yield from _pack_member(child, f"{name}/{child}", descriptor, budget)
    finally:
        os.close(descriptor)


def _make_header(name: str, status: os.stat_result, size: int) -> bytes:
    header = tarfile.TarInfo(name)
    header.type = tarfile.DIRTYPE if stat.S_ISDIR(status.st_mode) else tarfile.REGTYPE
    header.mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
    header.size = size
    return header.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def _pack_contents(path: str, descriptor: int, size: int) -> Iterator[bytes]:
    left = size
    while left:
        piece = os.read(descriptor, min(left, PIECE))
        if not piece:
            _fail(FileError, path, "it became shorter while it was read")
        left -= len(piece)
        yield piece
    yield bytes(-size % tarfile.BLOCKSIZE)


class TarUnpacker:
    """Writes an untrusted stream to the new path ``target`` of the host.

    Feed it the whole stream, then call `finish`: only then is anything at ``target``. As a context
    manager it removes all that it wrote unless it was finished. Files get mode 0600 or 0700,
    folders 0700. The first thing that a stream may not hold, or that the host cannot write, ends
    the writing; the rest is dropped, so that a sandbox can go on after its archive is read. All
    after the end of the archive is dropped too.
    """

    def __init__(self, target: Path, max_bytes: int, max_files: int = MAX_FILES) -> None:
        self._target = target
        self._budget = _Budget(max_bytes, max_files)
        self._buffer = bytearray()
        self._ended = False
        self._error: DaddyError | None = None
        with self._naming_target():
            if os.path.lexists(target):
                raise FileError(f"{target} is already there", "name a path that is not there yet")
            self._folder = GuardedFolder(target.with_name(f".{new_token()}.part"))
            try:
                self._root = os.open(
                    self._folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
                )
            except OSError:
                self._folder.remove()
                raise
        self._reader = self._read_stream()
        self._wanted = next(self._reader)

    def __enter__(self) -> "TarUnpacker":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        self._reader.close()
        os.close(self._root)
        self._folder.remove()

    def feed_tar(self, data: bytes) -> None:
        """Take the next bytes of the stream. It raises nothing: `finish` does."""
        if self._error or self._ended:
            return
        self._buffer += data
        try:
            while not self._ended and len(self._buffer) >= self._wanted:
                piece = bytes(self._buffer[: self._wanted])
                del self._buffer[: self._wanted]
                with self._naming_target():
                    self._wanted = self._reader.send(piece)
        except DaddyError as error:
            self._error = error
            self._buffer.clear()

    def finish(self) -> None:
        """Move what was written to the target, where nothing may be by now.

        Raises CopyFailedError for a refused stream, FileError if the host could not write.
        """
        if self._error:
            raise self._error
        if not self._ended:
            _fail(CopyFailedError, self._target.name, "its archive ends too early")
        with self._naming_target():
            if stat.S_ISDIR(os.stat(_CONTENT, dir_fd=self._root).st_mode):
                os.rename(_CONTENT, self._target, src_dir_fd=self._root)
            else:  # a rename would replace a file
                os.link(_CONTENT, self._target, src_dir_fd=self._root)

    @contextlib.contextmanager
    def _naming_target(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            fix = "check the path, the permissions and the space"
            raise FileError(f"cannot write {self._target}: {error.strerror}", fix) from error

    def _read_stream(self) -> Generator[int, bytes, None]:
        """Yield the bytes wanted next, get just as many, and write the members that they hold."""
        written, long_name = 0, ""
        while any(block := (yield tarfile.BLOCKSIZE)):
            header = _parse_header(block)
            if header.type == tarfile.GNUTYPE_LONGNAME and not long_name:
                long_name = yield from self._read_long_name(header.size)
                continue
            yield from self._write_member(long_name or header.name, header, first=not written)
            written, long_name = written + 1, ""
        if not written or long_name:
            _fail(CopyFailedError, long_name or self._target.name, "its archive ends too early")
        self._ended = True
        yield 0

    def _read_long_name(self, size: int) -> Generator[int, bytes, str]:
        if not 0 < size <= _NAME_BYTES:
            _fail(CopyFailedError, self._target.name, f"it holds a name of {size:,} bytes")
        padded = yield size + -size % tarfile.BLOCKSIZE
        return padded[:size].removesuffix(b"\0").decode(errors="surrogateescape")

    def _write_member(
        self, name: str, header: tarfile.TarInfo, *, first: bool
    ) -> Generator[int, bytes, None]:
        name = name.removeprefix("./")
        if header.type == tarfile.DIRTYPE:
            name = name.removesuffix("/")
        reason = "" if first and name == "." else refuse_name(name)
        if first and name != ".":
            reason = "the first member of an archive is called ."
        if header.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE):
            links = (tarfile.LNKTYPE, tarfile.SYMTYPE)
            reason = f"it is {'a link' if header.type in links else 'no folder or regular file'}"
        if header.type == tarfile.DIRTYPE and header.size:
            reason = "it is a folder that claims to have bytes"
        if reason := reason or self._budget.spend(header.size):
            _fail(CopyFailedError, name, reason)
        try:
            yield from self._write_new(os.path.normpath(f"{_CONTENT}/{name}"), header)
        except FileExistsError:
            _fail(CopyFailedError, name, "it occurs twice")
        except (FileNotFoundError, NotADirectoryError):
            _fail(CopyFailedError, name, "no folder for it comes before it")

    def _write_new(self, path: str, header: tarfile.TarInfo) -> Generator[int, bytes, None]:
        """Create a file or folder; only we write below the root, so no part of a path is a link."""
        if header.type == tarfile.DIRTYPE:
            os.mkdir(path, 0o700, dir_fd=self._root)
            return
        mode = 0o700 if header.mode & stat.S_IXUSR else 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        left = header.size
        with os.fdopen(os.open(path, flags, mode, dir_fd=self._root), "wb") as file:
            while left:
                left -= file.write((yield min(left, PIECE)))
        if header.size % tarfile.BLOCKSIZE:
            yield -header.size % tarfile.BLOCKSIZE


def _parse_header(block: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise CopyFailedError(f"the sandbox sent no tar archive: {error}", _REMEDY) from error
