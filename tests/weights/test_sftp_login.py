"""What a login over paramiko makes of slow networks, odd files and keys that nobody named."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import paramiko
import pytest

from Daddy.core.errors import ConfigError, NetworkError
from Daddy.weights.laptop import sftp as login_module
from Daddy.weights.laptop.sftp import Host, log_in
from tests.components import program
from tests.patience import until

BANNER = b"SSH-2.0-OpenSSH_9.6\r\n"


class Doorman(paramiko.ServerInterface):
    """Answers each key after ``pause`` has been set, by ``answer``; runs nothing."""

    def __init__(self, answer: int) -> None:
        self.answer = answer
        self.pause = threading.Event()
        self.offered: list[bytes] = []

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self.offered.append(key.asbytes())
        self.pause.wait(20)
        return self.answer

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED


@dataclass
class Site:
    """A server in this process, and the files by which a login finds it."""

    folder: Path
    doorman: Doorman
    port: int
    key: paramiko.PKey

    @property
    def known(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def line(self) -> str:
        return f"[127.0.0.1]:{self.port} {self.key.get_name()} {self.key.get_base64()}\n"

    @property
    def config(self) -> Path:
        return self.folder / "config"

    def write(self, *more: str) -> Host:
        self.known.write_text(self.line)
        lines = ("Host cluster", "HostName 127.0.0.1", f"Port {self.port}", "User anna",
                 f"UserKnownHostsFile {self.known}", *more)  # fmt: skip
        self.config.write_text("\n".join(lines) + "\n")
        return Host("cluster", config=str(self.config))


@contextlib.contextmanager
def listening(serve: Callable[[socket.socket], object]) -> Iterator[int]:
    """``serve`` gets each connection; whatever it returns is kept until the end."""
    kept = []
    with socket.create_server(("127.0.0.1", 0)) as made:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    kept.append(made.accept()[0])
                    kept.append(serve(kept[-1]))

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield made.getsockname()[1]
        finally:
            for one in kept:
                if one is not None:
                    one.close()


@pytest.fixture
def site(tmp_path: Path, monkeypatch) -> Iterator[Site]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    host_key, doorman = paramiko.ECDSAKey.generate(), Doorman(paramiko.AUTH_FAILED)
    doorman.pause.set()

    def serve(sock: socket.socket) -> paramiko.Transport:
        transport = paramiko.Transport(sock)
        transport.add_server_key(host_key)
        transport.start_server(threading.Event(), doorman)
        return transport

    with listening(serve) as port:
        made = Site(tmp_path, doorman, port, host_key)
        made.write()
        yield made
        doorman.pause.set()


def keygen(path: Path, kind: str, phrase: str = "") -> Path:
    words = [program("ssh-keygen", "openssh-client"), "-q", "-t", kind, "-N", phrase]
    subprocess.run([*words, "-f", str(path)], check=True)
    return path


def trouble(host: Host) -> NetworkError:
    with pytest.raises(NetworkError) as caught:
        log_in(host).close()
    return caught.value


def test_a_server_that_stalls_after_its_banner_is_a_slow_network(monkeypatch) -> None:
    monkeypatch.setattr(login_module, "CONNECT_S", 0.5)
    with listening(lambda sock: sock.sendall(BANNER)) as port:
        error = trouble(Host("127.0.0.1", "anna", str(port), config="/none"))
    assert "does not answer in time" in error.message


@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
def test_a_server_that_is_slow_to_answer_a_key_has_not_refused_it(
    site: Site, tmp_path: Path, monkeypatch, kind: str
) -> None:
    host = site.write(f"IdentityFile {keygen(tmp_path / 'mine', kind)}")
    monkeypatch.setattr(login_module, "CONNECT_S", 1.0)
    site.doorman.pause.clear()
    error = trouble(host)
    assert "does not answer in time" in error.message


def test_a_key_that_is_refused_in_time_is_refused(site: Site, tmp_path: Path) -> None:
    error = trouble(site.write(f"IdentityFile {keygen(tmp_path / 'mine', 'rsa')}"))
    assert "refuses our" in error.message
    assert "ssh-copy-id" not in error.fix


@pytest.mark.parametrize("name", ["login..site.edu", f"{'x' * 64}.site.edu"])
def test_a_name_that_cannot_be_one_needs_a_person(name: str) -> None:
    error = trouble(Host(name, config="/none"))
    assert "host's name" in error.fix


@pytest.mark.parametrize("port", ["²", "0", "65536", "-1", "x"])
def test_a_port_that_is_none_is_told(port: str) -> None:
    with pytest.raises(ConfigError, match="is no port"):
        log_in(Host("127.0.0.1", port=port, config="/none"))


@pytest.mark.parametrize(
    "line",
    [b"[127.0.0.1]:1 ssh-rsa A", b"x ssh-ed25519 AAAA", b"# J\xfcrgen", b"@revoked", b"@x y",
     b"|1|x ssh-rsa AAAA", b"* ssh-ed25519 AAAA\xfc", b"@cert-authority * ssh-rsa AAAAB3Nz"],
)  # fmt: skip
def test_a_line_that_cannot_be_read_spoils_no_other(
    site: Site, tmp_path: Path, line: bytes
) -> None:
    host = site.write(f"IdentityFile {keygen(tmp_path / 'mine', 'ed25519')}")
    site.known.write_bytes(line + b"\n" + site.known.read_bytes())
    assert "refuses our key" in trouble(host).message, "it came as far as our key"


def test_names_are_known_by_patterns_and_hashes_as_openssh_has_them(
    site: Site, tmp_path: Path
) -> None:
    host = site.write(f"IdentityFile {keygen(tmp_path / 'mine', 'ed25519')}")
    name, rest = site.line.split(" ", 1)
    for right in ("[127.0.0.?]:*", f"other,{name}", paramiko.HostKeys.hash_host(name)):
        site.known.write_text(f"{right} {rest}")
        assert "refuses our key" in trouble(host).message
    site.known.write_text(f"*,!{name} {rest}")
    assert "not known here yet" in trouble(host).message


@pytest.mark.parametrize("also", [True, False])
def test_a_revoked_key_is_refused(site: Site, also: bool) -> None:
    host = site.write()
    revoked = f"@revoked * {site.line.split(' ', 1)[1]}"
    site.known.write_text((site.line if also else "") + revoked)
    error = trouble(host)
    assert "is revoked" in error.message
    assert not site.doorman.offered


def test_a_hosts_certificate_is_for_openssh(site: Site) -> None:
    host = site.write()
    site.known.write_text(f"@cert-authority {site.line}")
    error = trouble(host)
    assert "only OpenSSH can check" in error.message
    assert "install OpenSSH" in error.fix


def test_an_unknown_and_a_changed_host_name_the_file_that_was_read(site: Site) -> None:
    host = site.write()
    other = paramiko.ECDSAKey.generate()
    site.known.write_text("")
    assert f"append this line to {site.known}: {site.line.strip()}" in trouble(host).fix
    site.known.write_text(site.line.replace(site.key.get_base64(), other.get_base64()))
    error = trouble(host)
    assert "shows another host key than before" in error.message
    assert f"remove the lines of [127.0.0.1]:{site.port} from {site.known}" in error.fix


@pytest.mark.parametrize("line", ["Include more", "  iNCLUDE=more", "Include\t{folder}/mor?"])
def test_what_a_config_includes_counts_where_it_stands(site: Site, line: str) -> None:
    host = site.write(line.format(folder=site.config.parent))
    (site.config.parent / "more").write_text("Host gated\nProxyJump gate\n")
    assert "another host (proxyjump gate)" in trouble(replace(host, name="gated")).message
    assert "another host" not in trouble(host).message, "what follows is of the block before"


def test_an_include_that_leads_nowhere_does_not_make_the_rest_unread(site: Site) -> None:
    host = site.write("Include more\nProxyJump gate")
    (site.config.parent / "more").symlink_to("nowhere")
    assert "another host (proxyjump gate)" in trouble(host).message


def test_configs_that_include_each_other_end_in_a_sentence(site: Site) -> None:
    host = site.write("Include more")
    (site.config.parent / "more").write_text("Include more\n")
    error = trouble(host)
    assert "more than 16 files include each other" in error.message


def test_a_config_with_a_byte_of_another_alphabet_is_read(site: Site, tmp_path: Path) -> None:
    host = site.write(f"IdentityFile {keygen(tmp_path / 'mine', 'ed25519')}")
    site.config.write_bytes(b"# J\xfcrgen\n" + site.config.read_bytes())
    assert "refuses our key" in trouble(host).message


def test_files_that_cannot_be_read_need_a_person(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    site.write()
    error = trouble(Host("cluster", config=str(folder)))
    assert str(folder) in error.message
    error = trouble(site.write("what"))
    assert str(site.config) in error.message
    error = trouble(site.write("IdentityFile ~nobody-of-this-name/key"))
    host = site.write()
    site.known.unlink()
    site.known.mkdir()
    error = trouble(host)
    assert f"{site.known} cannot be read" in error.message


def test_a_key_that_we_may_not_read_is_named(site: Site, tmp_path: Path, monkeypatch) -> None:
    key = keygen(tmp_path / "mine", "ed25519")
    host = site.write(f"IdentityFile {key}")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(key))  # who is root may read all

    monkeypatch.setattr(paramiko.SSHClient, "_key_from_filepath", refused)
    error = trouble(host)
    assert error.message == f"{key} cannot be read: Permission denied"


def test_a_key_that_is_named_and_missing_is_named(site: Site, tmp_path: Path) -> None:
    missing = tmp_path / "none"
    error = trouble(site.write(f"IdentityFile {missing}"))
    assert "refuses our" in error.message
    assert f"{missing} does not exist" in error.message
    alone = Host("cluster", key=str(missing), config=str(site.config), agent=False)
    error = trouble(alone)
    assert f"{missing} does not exist" in error.message
    assert "refuses" not in error.message


@pytest.fixture
def agent(tmp_path: Path, monkeypatch) -> Iterator[list[Path]]:
    """An ssh-agent that has two keys: the second is the one that is named."""
    words = [program("ssh-agent", "openssh-client"), "-D", "-a", str(tmp_path / "agent")]
    keys = [keygen(tmp_path / name, "ed25519") for name in ("other", "named")]
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        assert until((tmp_path / "agent").exists)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        for key in keys:
            subprocess.run(["ssh-add", "-q", str(key)], check=True, timeout=20)
            key.unlink()
        yield keys
    finally:
        child.terminate()
        child.wait(10)


@pytest.mark.parametrize("how", ["config", "free"])
def test_with_identities_only_the_agent_offers_what_is_named(
    site: Site, agent: list[Path], how: str
) -> None:
    only = ["IdentitiesOnly yes"] if how == "config" else []
    site.write(f"IdentityFile {agent[1]}", *only)
    assert "refuses our" in trouble(Host("cluster", config=str(site.config))).message
    offered = 2 if how == "free" else 1
    assert len(site.doorman.offered) == offered
    named = paramiko.PublicBlob.from_file(f"{agent[1]}.pub").key_blob
    assert named in site.doorman.offered
