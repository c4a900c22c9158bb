import io
import tarfile

import pytest

from Daddy.cluster.release_node_copy import find_damage, pack_bundle, unpack_bundle
from Daddy.core.atomic_files import sha256_hex
from Daddy.core.errors import FileError

FILES = {"Daddy/code.py": b"ANSWER = 42\n", "Daddy/data/a": b"\x00", "config.json": b"{}"}


@pytest.fixture
def parcel(tmp_path):
    path = tmp_path / "package.tar"
    path.write_bytes(pack_bundle(FILES))
    return path


def unpacked(parcel, folder):
    unpack_bundle(parcel, sha256_hex(parcel.read_bytes()), folder)
    return {name: (folder / name).read_bytes() for name in FILES}


def test_what_is_unpacked_is_what_was_packed(parcel, tmp_path):
    assert unpacked(parcel, tmp_path / "copy") == FILES
    assert find_damage(tmp_path / "copy") == ""
    assert pack_bundle(dict(reversed(FILES.items()))) == parcel.read_bytes()


def test_a_parcel_with_another_hash_is_not_opened(parcel, tmp_path):
    with pytest.raises(FileError, match="hash"):
        unpack_bundle(parcel, "0" * 64, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("damage", ["missing", "cut", "no listing"])
def test_a_copy_that_is_not_whole_is_noticed_and_replaced(parcel, tmp_path, damage):
    folder = tmp_path / "copy"
    unpacked(parcel, folder)
    if damage == "missing":
        (folder / "Daddy/data/a").unlink()
    elif damage == "cut":
        (folder / "Daddy/code.py").write_bytes(b"ANSWER")
    else:
        (folder / "listing.json").unlink()
    assert find_damage(folder)
    assert unpacked(parcel, folder) == FILES
    assert find_damage(folder) == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "package.tar"]


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "a/../../outside"])
def test_a_name_that_leads_outside_is_refused(tmp_path, name):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size = 1
        tar.addfile(member, io.BytesIO(b"x"))
    parcel = tmp_path / "package.tar"
    parcel.write_bytes(stream.getvalue())
    with pytest.raises(FileError, match="outside"):
        unpacked(parcel, tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["package.tar"]


def test_a_link_in_a_parcel_is_refused(tmp_path):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        member = tarfile.TarInfo("Daddy/code.py")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(member)
    parcel = tmp_path / "package.tar"
    parcel.write_bytes(stream.getvalue())
    with pytest.raises(FileError, match=r"code\.py"):
        unpack_bundle(parcel, sha256_hex(parcel.read_bytes()), tmp_path / "copy")
