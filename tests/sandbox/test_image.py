"""Images: this machine's /usr, unpacked roots, and Debian's packages with the real apt and dpkg."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from Daddy.core.errors import ConfigError, DaddyError, FileError, NetworkError
from Daddy.sandbox import image as images
from Daddy.sandbox.image import Image, find_python, images_folder, load_image, read_host, read_root
from tests.components import absent, program

CACHE = Path(__file__).resolve().parents[2] / "runs" / "images"
NAME = "debian:13+tmux"
NOBODY = 65534


def as_ordinary_user(work: Callable[[], None]) -> None:
    """Run ``work`` in a child process without root's rights; its error fails the test."""
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "see the captured output"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder of an ordinary user, which every account may enter."""
    with tempfile.TemporaryDirectory(prefix="daddy-image-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        if os.getuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        yield folder


def fetched(name: str, folder: Path) -> Image:
    program("apt-get", "apt")
    program("dpkg-deb", "dpkg")
    if not images.KEYRING.exists():
        absent("debian-archive-keyring")
    try:
        return load_image(name, folder)
    except NetworkError as error:
        absent("a mirror of Debian", str(error))


@pytest.fixture(scope="module")
def debian() -> Image:
    """An image in runs/images: downloaded once for a checkout."""
    return fetched(NAME, CACHE)


def run_in(image: Image, *argv: str) -> str:
    """Run a program in an image with bubblewrap; return its output."""
    command = [program("bwrap", "bubblewrap"), "--unshare-all", "--die-with-parent", "--clearenv"]
    for source, target in image.binds:
        command += ["--ro-bind", str(source), target]
    for path, content in image.links:
        command += ["--symlink", content, path]
    command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    command += ["--setenv", "PATH", "/usr/bin:/bin", "--setenv", "LANG", "C.UTF-8", *argv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


VERSION = "import sys, json, ctypes, ssl; print(*sys.version_info[:2])"


@pytest.mark.parametrize("user", ["this", "ordinary"])
def test_the_python_of_this_machine_starts_in_its_image(user: str) -> None:
    host = load_image("host")

    def start() -> None:
        major, minor = map(int, run_in(host, host.python, "-I", "-c", VERSION).split())
        assert (major, minor) >= (3, 8)
        assert (
            run_in(host, "/bin/sh", "-c", "echo $((40 + 2)); ls -d /home /root || true") == "42\n"
        )

    program("bwrap", "bubblewrap")
    start() if user == "this" else as_ordinary_user(start)


@pytest.mark.parametrize("user", ["this", "ordinary"])
def test_an_image_of_debian_has_its_python_shell_and_tmux(debian: Image, user: str) -> None:
    def start() -> None:
        assert run_in(debian, debian.python, "-I", "-c", VERSION) == "3 13\n"
        assert run_in(debian, "tmux", "-V").startswith("tmux 3.")
        assert run_in(debian, "sh", "-c", "echo a b | awk '{print $2}' | sed s/b/c/") == "c\n"
        assert 'VERSION_ID="13"' in run_in(debian, "cat", "/etc/os-release")
        assert run_in(debian, "bash", "-c", "cd ~root || id -nu 0; echo ~daemon").endswith(
            "/usr/sbin\n"
        )

    program("bwrap", "bubblewrap")
    start() if user == "this" else as_ordinary_user(start)


def test_a_terminal_runs_in_an_image_of_debian(debian: Image) -> None:
    program("bwrap", "bubblewrap")
    typed = "tmux new-session -d -x 60 -y 5 'echo shown $TERM; tmux wait-for -S said; cat'"
    shown = run_in(debian, "sh", "-c", f"{typed}; tmux wait-for said; tmux capture-pane -p")
    assert shown.split() in (["shown", "screen"], ["shown", "tmux-256color"])


def test_an_ordinary_user_makes_an_image_without_touching_the_hosts_lists(
    open_folder: Path,
) -> None:
    """Its packages are downloaded anew. Debian's mount has a setuid bit, which is taken away."""
    fetched(NAME, CACHE)
    lists = Path("/var/lib/apt/lists")
    before = sorted(path.name for path in lists.glob("*"))
    said: list[str] = []

    def make() -> None:
        made = load_image("debian:13+mount", open_folder, said.append)
        assert any(line.startswith("downloading") for line in said)
        compiled = "import json, os; print(os.path.exists(json.__cached__))"
        assert run_in(made, made.python, "-c", compiled) == "True\n"
        assert load_image("debian:13+mount", open_folder, said.clear) == made

    as_ordinary_user(make)
    assert sorted(path.name for path in lists.glob("*")) == before
    packages = open_folder / "debian-13+mount" / "packages"
    listed = packages.read_text().split()
    assert {"mount", "python3", "bash"} <= {line.split("_")[0] for line in listed}
    modes = {path: path.lstat().st_mode for path in (packages.parent / "root").rglob("*")}
    assert packages.parent / "root/usr/bin/mount" in modes
    regular = [path for path, mode in modes.items() if stat.S_ISREG(mode) and mode & 0o6000]
    assert regular == []
    assert {path.name for path in open_folder.iterdir()} == {".lock", "debian-13+mount"}


@pytest.mark.parametrize("name", ["no-such-package", "t.ux"])
def test_an_unknown_package_is_named(name: str, open_folder: Path) -> None:
    """Of t.ux apt would take each package whose name matches it as a pattern."""
    error = error_of(f"debian:13+mount+{name}", open_folder)
    if isinstance(error, NetworkError):
        absent("a mirror of Debian", str(error))
    assert isinstance(error, ConfigError)
    assert error.message.endswith(f"has no package {name}")
    assert {path.name for path in open_folder.iterdir()} == {".lock"}


def error_of(name: str, folder: Path) -> DaddyError:
    with pytest.raises(DaddyError) as raised:
        load_image(name, folder, lambda _line: None)
    return raised.value


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder of a megabyte: too small for package lists."""
    if os.getuid():
        pytest.skip("only root mounts a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("needed", [images._START_MIB, 0], ids=["at the start", "later"])
def test_a_full_disk_is_named_and_nothing_is_left_on_it(
    needed: int, full_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("apt-get", "apt")
    monkeypatch.setattr(images, "_START_MIB", needed)
    error = error_of(NAME, full_disk)
    if isinstance(error, NetworkError):
        absent("a mirror of Debian", str(error))
    assert isinstance(error, FileError)
    assert error.exit_code == 9
    assert str(full_disk) in error.message
    assert f"{needed or images._LEAST_MIB} MiB are needed" in error.message
    assert {path.name for path in full_disk.iterdir()} == {".lock"}


def test_a_mirror_that_does_not_answer_is_a_network_error(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also what a killed process left is removed."""
    program("apt-get", "apt")
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        port = unheard.getsockname()[1]
        monkeypatch.setenv(images.MIRROR, f"http://127.0.0.1:{port}/debian")
        (open_folder / ".making-0").mkdir()
        (open_folder / ".making-0" / "archive").touch()
        with pytest.raises(NetworkError) as raised:
            load_image(NAME, open_folder)
    assert images.MIRROR in raised.value.fix
    assert {path.name for path in open_folder.iterdir()} == {".lock"}
    first, *others = capsys.readouterr().err.splitlines()
    assert first == f"image: debian-13+tmux is not in {open_folder} yet; downloading package lists"
    assert all("waiting for package lists" in line for line in others)


def test_apt_ends_with_a_killed_host(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mirror takes apt's connection and says nothing; that ends when apt has ended."""
    program("apt-get", "apt")
    with socket.create_server(("127.0.0.1", 0)) as mirror:
        address = f"http://127.0.0.1:{mirror.getsockname()[1]}/debian"
        monkeypatch.setenv(images.MIRROR, address)
        host = os.fork()
        if host == 0:
            try:
                load_image(NAME, open_folder)
            finally:
                os._exit(0)
        mirror.settimeout(300)
        try:
            connection, _ = mirror.accept()
        finally:
            os.kill(host, signal.SIGKILL)
            assert os.waitpid(host, 0)[1] == signal.SIGKILL
        with connection:
            connection.settimeout(300)
            while connection.recv(1 << 16):
                pass


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("", "''"),
        ("hosts", "'hosts'"),
        ("host:x", "'host:x'"),
        ("dir:", "'dir:'"),
        ("a\x1b[2Jb", r"a\?\[2Jb"),
        ("docker:debian", "docker"),
        ("debian:", "release ''"),
        ("debian:99", "release '99'"),
        ("debian:sid+tmux", "release 'sid'"),
        ("debian:13+tmux-", "'tmux-'"),
        ("debian:13+tmux=3", "'tmux=3'"),
        ("debian:13+tmux/sid", "'tmux/sid'"),
        ("debian:13+p.*", r"'p\.\*'"),
        ("debian:13+Tmux", r"13\+Tmux"),
        ("debian:13 -o x", "13 -o x"),
        ("debian:13+" + "a" * 200, "cannot name a package"),
        ("dir:/nowhere/at/all", "/nowhere/at/all is no folder"),
    ],
)
def test_bad_names_are_refused_before_anything_starts(
    name: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match=word) as raised:
        load_image(name, tmp_path / "cache")
    assert raised.value.fix
    assert raised.value.message.isprintable()
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("name", ["dir:closed/root", NAME, "dir:a\0b", "dir:~no-such-user/root"])
def test_a_folder_that_cannot_be_used_is_named(
    name: str, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For an ordinary user; the cache and the image are in a folder that it may not enter."""
    (open_folder / "closed" / "root").mkdir(parents=True)
    (open_folder / "closed").chmod(0)
    monkeypatch.chdir(open_folder)

    def load() -> None:
        with pytest.raises(FileError, match="cannot be used") as raised:
            load_image(name, open_folder / "closed" / "cache")
        assert raised.value.fix

    as_ordinary_user(load)
    (open_folder / "closed").chmod(0o700)


def test_a_machine_without_apt_is_told_of_the_other_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="no apt-get or dpkg-deb") as raised:
        load_image("debian:13+g++", tmp_path)
    assert "dir:PATH" in raised.value.fix


def test_missing_keys_of_the_archive_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("apt-get", "apt")
    monkeypatch.setattr(images, "KEYRING", tmp_path / "none.gpg")
    with pytest.raises(ConfigError, match=r"none\.gpg"):
        load_image(NAME, tmp_path)


def test_the_cache_is_the_persons_and_roots_is_open_to_its_sandboxes() -> None:
    home = Path("/home/anna")
    assert images_folder({}, home, 1000) == home / ".cache/daddy/images"
    assert images_folder({}, Path("/root"), 0) == Path("/var/cache/daddy/images")
    assert images_folder({"XDG_CACHE_HOME": "/big"}, home, 1000) == Path("/big/daddy/images")


# --- without apt: unpacked roots


def make_root(root: Path, links: dict[str, str], files: tuple[str, ...] = ()) -> Path:
    for name in ("usr/bin", "usr/lib", "usr/sbin", "etc"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    for name, content in links.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(content)
    return root


def test_a_cached_image_needs_neither_apt_nor_network(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    cache_by_hand(open_folder)
    assert load_image(NAME, open_folder).python == "/usr/bin/python3.13"


def cache_by_hand(folder: Path) -> None:
    root = folder / NAME.replace(":", "-") / "root"
    make_root(root, {"usr/bin/python3": "python3.13"}, ("usr/bin/python3.13",))


def test_the_second_of_two_waits_for_the_first(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first holds the lock; the second takes the image that the first has made."""
    monkeypatch.setenv("PATH", "")
    waits, found = threading.Event(), []

    def second() -> None:
        found.append(load_image(NAME, open_folder, lambda _line: waits.set()))

    with (open_folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(300)
        assert found == []
        cache_by_hand(open_folder)
    thread.join(300)
    assert found[0].python == "/usr/bin/python3.13"


def test_root_is_told_which_folder_its_sandboxes_may_not_enter(open_folder: Path) -> None:
    cache_by_hand(open_folder)
    root = open_folder / NAME.replace(":", "-") / "root"
    open_folder.chmod(0o700)
    if os.getuid() == 0:
        with pytest.raises(ConfigError, match=f"may not enter {open_folder}") as raised:
            read_root(root)
        assert raised.value.fix.startswith(f"type: chmod o+x {open_folder};")
        as_ordinary_user(lambda: check_root(root))
        open_folder.chmod(0o711)
    check_root(root)


def check_root(root: Path) -> None:
    assert read_root(root).root == root


def test_a_root_is_bound_folder_by_folder_and_no_link_of_it_leads_to_the_host(
    open_folder: Path,
) -> None:
    links = {"bin": "usr/bin", "etc2": "/etc", "usr/bin/python3": "python3.9"}
    files = ("usr/bin/python3.9", "tmp/x", "proc/1", "dev/x", "run/x", "opt/x", "README")
    image = read_root(make_root(open_folder, links, files))
    assert image.binds == tuple((open_folder / name, f"/{name}") for name in ("etc", "opt", "usr"))
    assert image.links == (("/bin", "usr/bin"), ("/etc2", "/etc"))


@pytest.mark.parametrize(
    ("links", "files", "expected"),
    [
        ({"usr/bin/python3": "python3.11"}, ("usr/bin/python3.11",), "/usr/bin/python3.11"),
        (
            {"usr/bin/python3": "/etc/alternatives/python3",
             "etc/alternatives/python3": "/usr/bin/python3.9"},
            ("usr/bin/python3.9", "usr/bin/python3.12"),
            "/usr/bin/python3.9",
        ),
        (
            {"usr/bin/python3": "/usr/bin/python3.6"},
            ("usr/bin/python3.6", "usr/bin/python3.11", "usr/bin/python3.11-config"),
            "/usr/bin/python3.11",
        ),
        (
            {"usr/bin/python3": "python3.7", "usr/local/bin/python3": "python3.12"},
            ("usr/bin/python3.7", "usr/local/bin/python3.12"),
            "/usr/local/bin/python3.12",
        ),
        ({"bin": "usr/bin", "usr/bin/python3": "../../../../../../usr/bin/python3.8"},
         ("usr/bin/python3.8",), "/usr/bin/python3.8"),
        ({"bin/python3": "python3.10"}, ("bin/python3.10",), "/bin/python3.10"),
    ],
    ids=["debian", "alternatives", "rhel 8", "docker", "link above the root", "only /bin"],
)  # fmt: skip
def test_the_python_of_a_root_is_found_by_its_own_links(
    links: dict[str, str], files: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    assert find_python(make_root(tmp_path, links, files)) == expected


@pytest.mark.parametrize(
    ("links", "files", "found"),
    [
        ({}, (), "none"),
        ({"usr/bin/python3": "python3.7"}, ("usr/bin/python3.7",), "3.7"),
        ({"usr/bin/python3": "/usr/bin/python3.11"}, (), "none"),
        ({"usr/bin/python3": "python3"}, (), "none"),
        ({"usr/bin/python3": "python3.11"}, ("usr/bin/python3.11/x",), "none"),
        ({}, ("usr/bin/python3.12-config", "usr/bin/python3.12t"), "none"),
    ],
    ids=["none", "too old", "the host's", "circle", "folder", "other programs"],
)
def test_a_root_without_a_python_is_refused(
    links: dict[str, str], files: tuple[str, ...], found: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=rf"no Python of 3\.8 or newer \(found: {found}"):
        find_python(make_root(tmp_path, links, files))


MERGED = {"bin": "usr/bin", "lib": "usr/lib", "sbin": "usr/sbin", "usr/bin/python3": "python3.12"}


def test_a_host_with_merged_usr_shows_only_that(tmp_path: Path) -> None:
    """As on Fedora: lib64 too, and an alternatives folder."""
    root = make_root(
        tmp_path,
        MERGED | {"lib64": "usr/lib64"},
        ("usr/bin/python3.12", "etc/shadow", "etc/alternatives/x", "home/anna/secret"),
    )
    image = read_host(root)
    assert image.binds == (
        (root / "usr", "/usr"),
        (root / "etc/alternatives", "/etc/alternatives"),
    )
    assert image.links == tuple((f"/{n}", f"usr/{n}") for n in ("bin", "sbin", "lib", "lib64"))
    assert image.root is None


def test_a_host_without_merged_usr_is_told(tmp_path: Path) -> None:
    root = make_root(tmp_path, MERGED, ("usr/bin/python3.12",))
    (root / "lib").unlink()
    (root / "lib").mkdir()
    with pytest.raises(ConfigError, match="lib is no link into /usr") as raised:
        read_host(root)
    assert "debian:13" in raised.value.fix
    shutil.rmtree(root / "lib")
    (root / "lib").symlink_to("usr/lib")
    assert read_host(root).python == "/usr/bin/python3.12"


def test_a_python_outside_usr_is_not_the_hosts(tmp_path: Path) -> None:
    links = MERGED | {"usr/bin/python3": "/nix/store/a/bin/python3.12"}
    root = make_root(tmp_path, links, ("nix/store/a/bin/python3.12",))
    assert find_python(root) == "/nix/store/a/bin/python3.12"
    with pytest.raises(ConfigError, match="no Python"):
        read_host(root)


def test_an_image_has_the_bundle_of_certificates_that_a_script_would_make(tmp_path: Path) -> None:
    for name in ("passwd.master", "group.master"):
        (tmp_path / "usr/share/base-passwd").mkdir(parents=True, exist_ok=True)
        (tmp_path / "usr/share/base-passwd" / name).write_text("root")
    for name in ("usr/bin", "etc/ssl/certs", "usr/share/ca-certificates/mozilla"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("b.crt", "a.crt"):
        (tmp_path / "usr/share/ca-certificates/mozilla" / name).write_text(f"{name}\n")
    images._complete(tmp_path)
    assert (tmp_path / "etc/ssl/certs/ca-certificates.crt").read_text() == "a.crt\nb.crt\n"
