"""Archives of a sandbox are refused for every trick; each trick has its control without it."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import stat
import tarfile
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.core.errors import FileError, SandboxError
from Daddy.sandbox import transfer
from Daddy.sandbox.transfer import MAX_FILES, PIECE, TarUnpacker, pack_tar, refuse_name

MIB = 1 << 20
GIB = 1 << 30
END = bytes(1024)


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, **fields: object) -> bytes:
    """A header and its contents; ``size`` may claim something else than there is."""
    header = tarfile.TarInfo(name)
    header.type, header.size, header.mode = kind, len(data), 0o644
    for field, value in fields.items():
        setattr(header, field, value)
    block = header.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    return block + data + bytes(-len(data) % 512)


def folder(name: str, **fields: object) -> bytes:
    return member(name, kind=tarfile.DIRTYPE, **fields)


def raw(name: bytes, **fields: object) -> bytes:
    """A header of the name as it stands, which TarInfo would correct."""
    block = bytearray(member("x", **fields))
    block[:100] = name.ljust(100, b"\0")
    return sign(block)


def sign(block: bytearray) -> bytes:
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block[:512])
    return bytes(block)


def long_name(claim: int, data: bytes) -> bytes:
    return member("././@LongLink", data, tarfile.GNUTYPE_LONGNAME, size=claim)


ROOT, A = folder("."), member("./a", b"abc")


class Attempt(NamedTuple):
    """A stream with a trick, the same without it, and a word of the refusal."""

    trick: bytes
    control: bytes
    reason: str


def sparse(size: int) -> bytes:
    """An old GNU sparse file: no bytes in the archive, ``size`` on the disk."""
    block = bytearray(member("./s", kind=tarfile.GNUTYPE_SPARSE))
    block[386:410] = b"%011o\0%011o\0" % (size, 0)
    block[483:495] = b"%011o\0" % size
    return sign(block)


PAX = b"22 GNU.sparse.major=1\n21 GNU.sparse.minor=0\n32 GNU.sparse.realsize=1073741824\n"
DEEP = [folder("./" + "/".join(["d"] * n)) for n in range(1, 66)]

ATTEMPTS = {
    "absolute name": Attempt(ROOT + raw(b"/tmp/x") + END, ROOT + member("x") + END, "absolute"),
    "parent": Attempt(ROOT + member("../x") + END, ROOT + member("./x") + END, r"\.\."),
    "parent inside": Attempt(
        ROOT + folder("./d") + member("./d/../x") + END,
        ROOT + folder("./d") + member("./d/x") + END,
        r"\.\.",
    ),
    **{
        f"{name}, {target or 'no target'}": Attempt(
            ROOT + A + member("./b", kind=kind, linkname=target, devmajor=1, devminor=3) + END,
            ROOT + A + member("./b", linkname=target, devmajor=1, devminor=3) + END,
            reason,
        )
        for name, kind, target, reason in (
            ("symbolic link", tarfile.SYMTYPE, "/tmp", "a link"),
            ("hard link", tarfile.LNKTYPE, "./a", "a link"),
            ("hard link", tarfile.LNKTYPE, "/etc/passwd", "a link"),
            ("character device", tarfile.CHRTYPE, "", "no folder or regular file"),
            ("block device", tarfile.BLKTYPE, "", "no folder or regular file"),
            ("FIFO", tarfile.FIFOTYPE, "", "no folder or regular file"),
            ("contiguous file", tarfile.CONTTYPE, "", "no folder or regular file"),
            ("unknown kind", b"Z", "", "no folder or regular file"),
        )
    },
    "link to a folder, and a file in it": Attempt(
        ROOT + member("./d", kind=tarfile.SYMTYPE, linkname="/tmp") + member("./d/x") + END,
        ROOT + folder("./d") + member("./d/x") + END,
        "a link",
    ),
    "sparse file of 10 GiB": Attempt(
        ROOT + sparse(10 * GIB - 1) + END, ROOT + member("./s") + END, "no folder"
    ),
    "pax sparse file": Attempt(
        ROOT + member("./PaxHeaders/s", PAX, tarfile.XHDTYPE) + member("./s") + END,
        ROOT + member("./s", PAX) + END,
        "no folder or regular file",
    ),
    "global pax header": Attempt(
        ROOT + member("./g", PAX, tarfile.XGLTYPE) + A + END,
        ROOT + member("./g", PAX) + A + END,
        "no folder or regular file",
    ),
    "pax header of a gigabyte": Attempt(
        ROOT + member("./h", kind=tarfile.XHDTYPE, size=GIB) + END,
        ROOT + member("./h") + END,
        "no folder or regular file",
    ),
    "long name of a gigabyte": Attempt(
        ROOT + long_name(GIB, b"a" * 200) + A + END,
        ROOT + long_name(200, b"a" * 200) + A + END,
        "a name of 1,073,741,824 bytes",
    ),
    "long name with NUL": Attempt(
        ROOT + long_name(200, b"a" * 99 + b"\0" + b"a" * 100) + A + END,
        ROOT + long_name(200, b"a" * 200) + A + END,
        "control character",
    ),
    "two long names": Attempt(
        ROOT + long_name(200, b"a" * 200) + long_name(200, b"b" * 200) + A + END,
        ROOT + long_name(200, b"a" * 200) + A + long_name(200, b"b" * 200) + A + END,
        "no folder or regular file",
    ),
    "long name of nothing": Attempt(
        ROOT + long_name(200, b"a" * 200) + END,
        ROOT + long_name(200, b"a" * 200) + A + END,
        "ends too early",
    ),
    "long link": Attempt(
        ROOT + member("././@LongLink", b"x" * 200, tarfile.GNUTYPE_LONGLINK) + A + END,
        ROOT + long_name(200, b"x" * 200) + A + END,
        "no folder or regular file",
    ),
    "claim of 10 GiB": Attempt(
        ROOT + member("./big", b"abc", size=10 * GIB) + END,
        ROOT + member("./big", b"abc") + END,
        "claims 10,737,418,240 bytes",
    ),
    "negative size": Attempt(
        ROOT + member("./a", size=-512) + END, ROOT + member("./a", size=0) + END, "claims -512"
    ),
    "one byte over the bound": Attempt(
        ROOT + member("./a", bytes(MIB)) + member("./b", b"x") + END,
        ROOT + member("./a", bytes(MIB)) + member("./b") + END,
        "claims 1 bytes, and 0",
    ),
    "one file too many": Attempt(
        ROOT + b"".join(member(f"./{n}") for n in range(100)) + END,
        ROOT + b"".join(member(f"./{n}") for n in range(99)) + END,
        "too many files",
    ),
    "folder with bytes": Attempt(
        ROOT + folder("./d", size=512) + bytes(512) + END, ROOT + folder("./d") + END, "claims"
    ),
    "escape sequence": Attempt(
        ROOT + member("./a\x1b[2J") + END, ROOT + member("./a[2J") + END, "control character"
    ),
    "newline": Attempt(ROOT + member("./a\nb") + END, ROOT + member("./a b") + END, "control"),
    "line separator": Attempt(
        ROOT + member("./a\u2028b") + END, ROOT + member("./aéb") + END, "control"
    ),
    "not UTF-8": Attempt(
        ROOT + raw(b"./\xff") + END, ROOT + raw("./é".encode()) + END, "not UTF-8"
    ),
    "part of 256 bytes": Attempt(
        ROOT + member("./" + "a" * 256) + END, ROOT + member("./" + "a" * 255) + END, "255"
    ),
    "name of 1,025 bytes": Attempt(
        ROOT + member("./" + "a/" * 500 + "b") + END, ROOT + member("./b") + END, "1024"
    ),
    "65 folders deep": Attempt(
        ROOT + b"".join(DEEP) + END, ROOT + b"".join(DEEP[:64]) + END, "64 folders deep"
    ),
    "empty part": Attempt(
        ROOT + folder("./d") + member("./d//x") + END,
        ROOT + folder("./d") + member("./d/x") + END,
        "empty part",
    ),
    "same name twice": Attempt(ROOT + A + A + END, ROOT + A + member("./b") + END, "twice"),
    "folder twice": Attempt(
        ROOT + folder("./d") + folder("./d") + END, ROOT + folder("./d") + END, "twice"
    ),
    "file below a file": Attempt(
        ROOT + A + member("./a/x") + END, ROOT + folder("./a") + member("./a/x") + END, "no folder"
    ),
    "file before its folder": Attempt(
        ROOT + member("./d/x") + folder("./d") + END,
        ROOT + folder("./d") + member("./d/x") + END,
        "no folder",
    ),
    "file beside the only file": Attempt(
        member(".", b"abc") + A + END, member(".", b"abc") + END, "no folder"
    ),
    "second root": Attempt(ROOT + ROOT + END, ROOT + END, r"or \.\."),
    "no root": Attempt(A + END, ROOT + A + END, "first member"),
    "empty": Attempt(END, ROOT + END, "too early"),
    "no end": Attempt(ROOT + A, ROOT + A + END, "too early"),
    "cut in a file": Attempt(
        ROOT + member("./a", b"abc", size=2000),
        ROOT + member("./a", bytes(2000)) + END,
        "too early",
    ),
    "wrong checksum": Attempt(
        ROOT + A.replace(b"./a", b"./b", 1) + END, ROOT + member("./b", b"abc") + END, "checksum"
    ),
    "gzip": Attempt(b"\x1f\x8b" + bytes(510), ROOT + END, "no tar archive"),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder for the target, with a file beside it that no transfer may touch."""
    (tmp_path / "outside").write_text("kept")
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def unpack(data: bytes, target: Path, pieces: int = 1000, max_files: int = 100) -> None:
    with TarUnpacker(target, MIB, max_files) as unpacker:
        for start in range(0, len(data), pieces):
            unpacker.feed_tar(data[start : start + pieces])
        unpacker.finish()


def untouched(place: Path) -> bool:
    names = sorted(path.name for path in place.parent.iterdir())
    return names == ["in", "outside"] and (place.parent / "outside").read_text() == "kept"


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_a_trick_is_refused_and_leaves_nothing(attempt: Attempt, place: Path) -> None:
    with pytest.raises(SandboxError, match=attempt.reason) as refused:
        unpack(attempt.trick, place / "got")
    assert refused.value.message.isprintable()
    assert list(place.iterdir()) == []
    assert untouched(place)


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_the_same_without_the_trick_is_taken(attempt: Attempt, place: Path) -> None:
    unpack(attempt.control, place / "got")
    assert [path.name for path in place.iterdir()] == ["got"]
    assert untouched(place)


def test_files_get_the_owners_rights_only(place: Path) -> None:
    modes = {"s": 0o6777, "x": 0o755, "w": 0o666, "none": 0}
    data = ROOT + b"".join(member(f"./{name}", mode=mode) for name, mode in modes.items())
    unpack(data + folder("./d", mode=0o7777) + END, place / "got")
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (place / "got").iterdir()}
    assert found == {"s": 0o700, "x": 0o700, "w": 0o600, "none": 0o600, "d": 0o700}
    assert stat.S_IMODE((place / "got").stat().st_mode) == 0o700
    assert {path.stat().st_uid for path in (place / "got").iterdir()} == {os.getuid()}


def test_data_after_the_end_of_an_archive_are_dropped(place: Path) -> None:
    with TarUnpacker(place / "got", MIB) as unpacker:
        for data in (ROOT + A + END, member("./b"), bytes(10 * MIB)):
            unpacker.feed_tar(data)
        assert len(unpacker._buffer) <= len(END)
        unpacker.finish()
    assert [path.name for path in (place / "got").iterdir()] == ["a"]


def test_nothing_is_at_the_target_before_the_end(place: Path) -> None:
    with TarUnpacker(place / "got", MIB) as unpacker:
        unpacker.feed_tar(ROOT + A + END)
        assert not (place / "got").exists()
        unpacker.finish()
    assert (place / "got" / "a").read_bytes() == b"abc"


@pytest.mark.parametrize(
    "data", [ROOT + A + END, member(".", b"abc") + END], ids=["folder", "file"]
)
@pytest.mark.parametrize("early", [True, False])
def test_what_is_at_the_target_stays(data: bytes, early: bool, place: Path) -> None:
    def appear() -> None:
        (place / "got").write_text("older")

    if early:
        appear()

    def late() -> None:
        with TarUnpacker(place / "got", MIB) as unpacker:
            unpacker.feed_tar(data)
            appear()
            unpacker.finish()

    with pytest.raises(FileError, match="got"):
        late()
    assert [path.name for path in place.iterdir()] == ["got"]
    assert (place / "got").read_text() == "older"


@pytest.fixture
def small_files() -> Iterator[None]:
    """The kernel refuses files over 64 KiB, as a full disk does, for root too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("small_files")
def test_a_host_that_cannot_write_says_so_and_keeps_nothing(place: Path) -> None:
    with pytest.raises(FileError, match="got: File too large"):
        unpack(ROOT + member("./a", bytes(70_000)) + END, place / "got")
    assert list(place.iterdir()) == []
    unpack(ROOT + member("./a", bytes(60_000)) + END, place / "got")


def test_a_target_in_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"nowhere/got: No such file"):
        unpack(ROOT + END, tmp_path / "nowhere" / "got")


def peak_memory(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_claim_takes_no_memory(place: Path) -> None:
    """The control is tarfile's own reader: it reads the header that is claimed into memory."""
    claim = ROOT + member("./h", kind=tarfile.XHDTYPE, size=64 * MIB)

    def ours() -> None:
        with pytest.raises(SandboxError):
            unpack(claim, place / "got")

    source = io.BytesIO(claim + bytes(64 * MIB))

    def tarfiles() -> None:
        with contextlib.suppress(tarfile.TarError), tarfile.open(fileobj=source) as archive:
            archive.getmembers()

    assert peak_memory(ours) < 4 * MIB
    assert peak_memory(tarfiles) > 64 * MIB


def test_a_large_file_passes_through_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "big").touch()
    os.truncate(tmp_path / "big", 64 * MIB)

    def copy() -> None:
        with TarUnpacker(tmp_path / "got", 64 * MIB) as unpacker:
            for piece in pack_tar(tmp_path / "big"):
                unpacker.feed_tar(piece)
            unpacker.finish()

    assert peak_memory(copy) < 2 * MIB
    assert (tmp_path / "got").stat().st_size == 64 * MIB


def test_a_stream_of_endless_files_ends_at_the_bound(place: Path) -> None:
    """Feeding raises nothing, so that the stream is read to its end; it drops the rest."""
    with TarUnpacker(place / "got", MIB) as unpacker:
        unpacker.feed_tar(ROOT + b"".join(member(f"./{n}") for n in range(MAX_FILES - 1)))
        unpacker.feed_tar(b"".join(member(f"./more-{n}") for n in range(1000)) + END)
        assert len([path for path in place.rglob("*") if path.is_file()]) == MAX_FILES - 1
        with pytest.raises(SandboxError, match="'more-0' is not copied: there are too many"):
            unpacker.finish()
    assert list(place.iterdir()) == []


# --- put


def packed(source: Path, **bounds: int) -> bytes:
    return b"".join(pack_tar(source, **bounds))


def names_in(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getnames()


def refused_source(kind: str, source: Path) -> None:
    if kind == "link":
        source.symlink_to("/etc/passwd")
    elif kind == "link to a folder":
        source.symlink_to("/etc")
    elif kind == "FIFO":
        os.mkfifo(source)
    else:
        source.write_text("plain")


@pytest.mark.parametrize("kind", ["link", "link to a folder", "FIFO"])
@pytest.mark.parametrize("inside", [True, False])
def test_a_put_takes_no_link_and_no_fifo(kind: str, inside: bool, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    path = tmp_path / "d" / "x"
    source = tmp_path / "d" if inside else path
    refused_source(kind, path)
    with pytest.raises(FileError, match="it is a link, a device, a FIFO or a socket"):
        packed(source)
    path.unlink()
    refused_source("plain", path)
    assert b"plain" in packed(source)


def test_a_put_takes_no_device() -> None:
    with pytest.raises(FileError, match="'/dev/null'"):
        packed(Path("/dev/null"))


def test_a_put_does_not_follow_what_is_swapped_meanwhile(tmp_path: Path) -> None:
    """The first file fills a piece, so the rest is read after the swap."""
    source, secret = tmp_path / "d", tmp_path / "secret"
    (source / "sub").mkdir(parents=True)
    secret.mkdir()
    (secret / "key").write_text("of the host")
    (source / "a").write_bytes(bytes(PIECE))
    (source / "sub" / "key").write_text("of the folder")
    assert b"of the folder" in packed(source)
    stream = pack_tar(source)
    next(stream)
    (source / "sub").rename(tmp_path / "old")
    (source / "sub").symlink_to(secret)
    with pytest.raises(FileError, match="'sub'"):
        next(stream)


@pytest.mark.parametrize("content", ["/etc", "/dev/zero"])
def test_a_put_opens_no_link_that_appears_after_its_look(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a"
    source.write_text("plain")
    opened = os.open

    def swap_then_open(path: str, flags: int, **folder: int) -> int:
        source.unlink()
        source.symlink_to(content)
        return opened(path, flags, **folder)

    monkeypatch.setattr(transfer.os, "open", swap_then_open)
    with pytest.raises(FileError, match="symbolic links"):
        packed(source)


@pytest.mark.parametrize("size", [PIECE, 3 * PIECE])
def test_a_put_of_a_file_that_changes(size: int, tmp_path: Path) -> None:
    """A shorter one ends the stream; of a longer one the announced bytes are taken."""
    source = tmp_path / "a"
    source.write_bytes(b"x" * 2 * PIECE)
    stream = pack_tar(source)
    pieces = [next(stream)]
    os.truncate(source, size)
    if size < 2 * PIECE:
        with pytest.raises(FileError, match="became shorter"):
            list(stream)
    else:
        unpack(b"".join([*pieces, *stream]), tmp_path / "got")
        assert (tmp_path / "got").read_bytes() == b"x" * 2 * PIECE


def test_a_put_has_bounds(tmp_path: Path) -> None:
    source = tmp_path / "d"
    source.mkdir()
    (source / "a").write_bytes(bytes(10))
    (source / "b").write_bytes(bytes(10))
    with pytest.raises(FileError, match="'b' is not copied: it claims 10 bytes, and 9 are left"):
        packed(source, max_bytes=19)
    with pytest.raises(FileError, match="'b' is not copied: there are too many"):
        packed(source, max_files=2)
    assert names_in(packed(source, max_bytes=20, max_files=3)) == [".", "./a", "./b"]


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "a" * 255 + "/" + "b" * 255])
def test_a_put_names_what_is_missing_or_badly_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file") as missing:
        packed(tmp_path / name)
    assert missing.value.fix
    if "/" not in name:
        (tmp_path / name).touch()
        with pytest.raises(FileError, match="control character") as refused:
            packed(tmp_path)
        assert refused.value.message.isprintable()


def test_a_put_says_nothing_of_the_host(tmp_path: Path) -> None:
    """The same contents make the same bytes, at any time and for any owner."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "run").write_text("x")
    (tmp_path / "d" / "run").chmod(0o4754)
    before = packed(tmp_path / "d")
    os.utime(tmp_path / "d" / "run", (1, 1))
    assert packed(tmp_path / "d") == before
    with tarfile.open(fileobj=io.BytesIO(before)) as archive:
        header = archive.getmember("./run")
    assert (header.mode, header.uid, header.mtime, header.uname) == (0o755, 0, 0, "")


# --- properties

part = st.text(st.characters(codec="utf-8"), max_size=130).filter(
    lambda text: not refuse_name(text)
)
tree = st.recursive(
    st.tuples(st.binary(max_size=1500), st.booleans()),
    lambda inner: st.dictionaries(part.filter(lambda text: "/" not in text), inner, max_size=4),
    max_leaves=12,
)


def build(path: Path, contents: object) -> None:
    if isinstance(contents, dict):
        path.mkdir()
        for name, inner in contents.items():
            build(path / name, inner)
    else:
        data, runs = contents  # type: ignore[misc]
        path.write_bytes(data)
        path.chmod(0o700 if runs else 0o600)


def read(path: Path) -> object:
    if path.is_dir():
        return {inner.name: read(inner) for inner in path.iterdir()}
    return path.read_bytes(), bool(path.stat().st_mode & 0o100)


def copyable(contents: object) -> bool:
    """File systems bound a part to 255 bytes; a text of 130 characters may have more."""
    return not isinstance(contents, dict) or all(
        len(name.encode()) < 256 and copyable(inner) for name, inner in contents.items()
    )


@given(tree.filter(copyable), st.integers(1, 4000))
def test_a_tree_comes_back_as_it_was(contents: object, pieces: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        source, target = Path(temporary, "a"), Path(temporary, "b")
        build(source, contents)
        unpack(packed(source), target, pieces)
        assert read(target) == contents


GOOD = (
    ROOT + A + folder("./d") + long_name(150, b"./d/" + b"n" * 146) + member("x", b"1" * 600) + END
)


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=12))))
def test_damaged_archives_are_refused_or_harmless(damages: list[tuple[int, bytes]]) -> None:
    """Each header is signed again, so that the damage is read."""
    data = bytearray(GOOD)
    for place, new in damages:
        data[place : place + len(new)] = new
    for start in (0, 512, 1536, 2048, 3072):
        data[start : start + 512] = sign(data[start : start + 512])
    with tempfile.TemporaryDirectory() as temporary:
        top = Path(temporary)
        with contextlib.suppress(SandboxError):
            unpack(bytes(data), top / "got")
        kinds = {path.lstat().st_mode & ~0o700 for path in top.rglob("*")}
        assert kinds <= {stat.S_IFREG, stat.S_IFDIR}
        assert {path.name for path in top.iterdir()} <= {"got"}


@given(st.text(max_size=300))
def test_an_accepted_name_stays_below(name: str) -> None:
    if not refuse_name(name):
        assert name.isprintable() or not any(ord(char) < 32 for char in name)
        assert os.path.normpath(f"/root/{name}") == f"/root/{name}"
