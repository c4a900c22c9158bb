"""``connect`` where no ``ssh`` is installed: paramiko takes the same ways, against a real sshd."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.ssh import lines
from Daddy.core.ssh.troubles import PersonNeededError
from Daddy.core.vocabulary import TUNNEL_PORT
from Daddy.streaming.home import spare_ssh
from Daddy.streaming.home.orders import Order
from Daddy.streaming.home.spare_ssh import host_of
from Daddy.streaming.home.ways import Way
from Daddy.streaming.wire.tokens import ensure_token
from Daddy.weights.laptop.keys import TUNNEL, with_key
from tests.patience import until
from tests.streaming.helpers import finish, free_port
from tests.streaming.test_connect import LoginNode, login_node, relay, taken_port, viewer
from tests.streaming.test_ssh_tunnel import playing

NO_SSH = str(Path(sys.executable).parent)


@pytest.fixture
def node(tmp_path: Path, monkeypatch) -> Iterator[LoginNode]:
    with login_node(tmp_path) as made:
        monkeypatch.setenv("PATH", NO_SSH)
        yield made


@pytest.fixture
def no_forwarding(tmp_path: Path) -> Iterator[LoginNode]:
    with login_node(tmp_path, "AllowTcpForwarding no") as made:
        yield made


def descriptors() -> int:
    return psutil.Process().num_fds()


def ours() -> list[str]:
    names = ("ssh-", "spare-ssh")
    found = [one.name for one in threading.enumerate() if one.name.startswith(names)]
    return [
        *found,
        *(one.name for one in threading.enumerate() if "paramiko" in type(one).__module__),
    ]


def serving(node: LoginNode) -> list[psutil.Process]:
    """The sshd processes that serve a login, the outermost first."""
    return children(node, "sshd")


def relays(node: LoginNode) -> list[psutil.Process]:
    """The relays that a login has started."""
    return children(node, "python")


def children(node: LoginNode, name: str) -> list[psutil.Process]:
    sshd = psutil.Process(int((node.login.folder / "sshd.pid").read_text()))
    found = []
    for one in sshd.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if one.name().startswith(name):
                found.append(one)
    return found


def test_the_stream_travels_through_a_commands_pipes(node: LoginNode, capsys) -> None:
    node.begin_run()
    before = descriptors()
    with playing(node.run / "stream"):
        with viewer(node.target()) as watching:
            assert watching.plays()
        assert until(lambda: not ours(), 10), "every thread has ended"
    assert until(lambda: descriptors() <= before, 10)
    said = capsys.readouterr().err
    assert said.count("connect: no ssh on this computer; paramiko carries the stream") == 1
    assert "connect: connected by stdio" in said


def test_a_port_there_leads_to_the_viewer(node: LoginNode, tmp_path: Path) -> None:
    token, port = tmp_path / "token", free_port()
    ensure_token(token, "test")
    with (
        playing(node.run / "stream"),
        relay(node.run, port, token),
        viewer(node.target(port=port), token=token) as watching,
    ):
        assert watching.plays()
        assert f"connected by ssh -R {port}" in watching.notes()
        assert "not by stdio (ssh's own pipes): no relay of yours has left" in watching.notes()
    assert until(lambda: not ours(), 10)


def test_a_port_of_sshds_choice_is_told_to_the_relay(node: LoginNode) -> None:
    node.begin_run()
    with playing(node.run / "stream"), viewer(node.target(), Way.DYNAMIC) as watching:
        assert watching.plays()
        assert "connected by ssh -R 0" in watching.notes()


def test_the_tunnels_key_opens_the_port_where_ones_own_login_takes_more(
    node: LoginNode, tmp_path: Path, monkeypatch
) -> None:
    """``permitlisten`` compares the very word that is asked for."""
    token, port, folder = tmp_path / "token", free_port(), node.login.folder
    ensure_token(token, "test")
    key, config = folder / "tunnel", folder / "bare_config"
    words = ["/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(words, check=True)
    public = key.with_suffix(".pub").read_text()
    line = with_key(TUNNEL.replace(f":{TUNNEL_PORT}", f":{port}"), public, "tunnel", "anna")
    (folder / "authorized_keys").write_text(f"{line}\n")
    own = f"  IdentityFile {node.login.key}\n"
    config.write_text(node.login.config.read_text().replace(own, ""))
    monkeypatch.setenv("HOME", str(tmp_path))
    target = node.target(whom=("-F", str(config)), port=port, tunnel_key=str(key))
    with (
        playing(node.run / "stream"),
        relay(node.run, port, token),
        viewer(target, token=token) as watching,
    ):
        assert watching.plays()
        assert "your own login there takes more than a key" in watching.notes()


def test_a_killed_login_is_made_anew_and_nothing_is_left_of_the_old_one(node: LoginNode) -> None:
    node.begin_run()
    counts = []
    with playing(node.run / "stream"), viewer(node.target()) as watching:
        for _ in range(4):
            assert watching.plays()
            counts.append((descriptors(), len(ours())))
            for one in serving(node):
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            assert until(lambda: not watching.receiver.connected, 20)
        assert watching.plays()
        assert "was lost" in "\n".join(watching.carrier._course.why.splitlines())
    assert counts[-1][0] <= counts[0][0], counts
    assert counts[-1][1] <= counts[0][1], counts


def test_a_frozen_login_is_noticed_and_made_anew(node: LoginNode, monkeypatch) -> None:
    assert lines.ASK_S + lines.SILENT_S <= 15, "as ssh is told, see calls"
    monkeypatch.setattr(lines, "ASK_S", 0.5)
    monkeypatch.setattr(lines, "SILENT_S", 1.5)
    node.begin_run()
    with playing(node.run / "stream"), viewer(node.target()) as watching:
        assert watching.plays()
        frozen = serving(node)
        for one in frozen:
            one.suspend()
        try:
            assert until(lambda: "has stopped answering" in watching.carrier._course.why, 15)
            assert watching.plays()
        finally:
            for one in frozen:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.resume()


def test_the_whole_command_comes_back_and_says_once_who_carries(
    no_forwarding: LoginNode, tmp_path: Path
) -> None:
    node = no_forwarding
    node.begin_run()
    with playing(node.run / "stream"):
        child = node.start(tmp_path, PATH=NO_SSH)
        try:
            assert until(lambda: serving(node), 30)
            pids = {one.pid for one in serving(node)}
            assert until(lambda: relays(node), 30)
            for one in serving(node):
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            assert until(lambda: {one.pid for one in serving(node)} - pids, 30)
            assert until(lambda: relays(node), 30)
        finally:
            child.send_signal(signal.SIGINT)
            said = finish(child)
    assert child.returncode == 0, said
    assert said.count("no ssh on this computer; paramiko carries") == 1
    assert "Traceback" not in said


def test_where_no_way_leads_there_all_reasons_are_told_with_exit_8(
    no_forwarding: LoginNode, tmp_path: Path
) -> None:
    port = free_port()
    code, said = no_forwarding.connect(tmp_path, "--remote-port", port, PATH=NO_SSH)
    assert code == 8
    assert f"not by ssh -R {port}: port {port} is taken there, or forwarding" in said
    assert "forwarding is disabled there (AllowTcpForwarding)" in said
    assert "no relay of yours has left" in said
    assert "Traceback" not in said


def test_a_port_that_is_taken_is_told(node: LoginNode, tmp_path: Path) -> None:
    with taken_port() as port:
        code, said = node.connect(tmp_path, "--by", "port", "--remote-port", port, PATH=NO_SSH)
    assert code == 8
    assert f"port {port} is taken there" in said


def spoil(node: LoginNode, how: str) -> None:
    folder = node.login.folder
    key, config, known = folder / "client", node.login.config, folder / "known_hosts"
    if how == "stranger":
        (folder / "authorized_keys").write_text("")
    elif how == "unknown":
        known.write_text("")
    elif how == "changed":
        address = known.read_text().split()[0]
        known.write_text(f"{address} {' '.join((folder / 'client.pub').read_text().split()[:2])}\n")
    elif how == "locked":
        words = ["/usr/bin/ssh-keygen", "-q", "-p", "-N", "secret phrase", "-f", str(key)]
        subprocess.run(words, check=True)
    elif how == "jump":
        config.write_text(config.read_text() + "  ProxyJump gate.site.edu\n")
    elif how == "include":
        (config.parent / "more").write_text("ProxyJump gate.site.edu\n")
        config.write_text(f"Include more\n{config.read_text()}")
    elif how == "folder":
        config.unlink()
        config.mkdir()
    elif how == "port":
        config.write_text(config.read_text().replace(f"Port {node.login.port}", "Port ²"))
    elif how == "name":
        config.write_text(config.read_text().replace("127.0.0.1", "login..site.edu"))
    elif how == "missing":
        key.unlink()


@pytest.mark.parametrize(
    ("how", "why", "fix"),
    [
        ("stranger", "cluster refuses our key", "install OpenSSH's client"),
        ("missing", "/client does not exist", "name a key that exists"),
        ("unknown", "its host key is not known here yet", "/known_hosts: [127.0.0.1]:"),
        ("changed", "cluster shows another host key than before", "ask the cluster's people"),
        ("locked", "client has a passphrase, and no agent has it", "an agent that runs here"),
        ("include", "(proxyjump gate.site.edu), which only OpenSSH can do", "install OpenSSH"),
        ("folder", "ssh_config cannot be used: Is a directory", "mend it"),
        ("port", "'²' is no port", "look for Port"),
        ("name", "cluster cannot be used: ", "host's name"),
        ("jump", "(proxyjump gate.site.edu), which only OpenSSH can do", "install OpenSSH"),
    ],
)
def test_what_only_a_person_can_mend_is_told_and_not_tried_again(
    node: LoginNode, tmp_path: Path, how: str, why: str, fix: str
) -> None:
    spoil(node, how)
    code, said = node.connect(tmp_path, PATH=NO_SSH)
    assert code == 8
    assert why in said
    assert fix in said
    assert said.count("connect: calling") == 1
    assert "Traceback" not in said
    assert not [word for word in ("ssh-keygen", "ssh-copy-id", "ssh-add") if word in said]


def test_what_nobody_expected_is_an_outcome_too(node: LoginNode, monkeypatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr(spare_ssh, "Line", fails)
    ours, theirs = socket.socketpair()
    with ours:
        call = spare_ssh.SpareSsh(node.target(), Order("true"), 1, theirs, SystemClock())
        with pytest.raises(PersonNeededError, match="RuntimeError: odd"):
            until(lambda: call.wait(0))
        call.end(1)


def test_the_line_that_is_told_for_an_unknown_host_is_the_one_to_append(
    node: LoginNode, tmp_path: Path
) -> None:
    known = node.login.folder / "known_hosts"
    right = known.read_text().strip()
    known.write_text("")
    assert f"known_hosts: {right}" in node.connect(tmp_path, PATH=NO_SSH)[1]


def test_a_site_that_wants_more_than_a_key_never_leads_to_a_question(tmp_path: Path) -> None:
    settings = "AuthenticationMethods publickey,password\nPasswordAuthentication yes"
    with login_node(tmp_path, settings) as node:
        code, said = node.connect(tmp_path, PATH=NO_SSH)
    assert code == 8
    assert "refuses our key alone: more than a key is wanted there" in said
    assert "assword:" not in said


def test_a_login_node_that_is_away_is_called_again(node: LoginNode) -> None:
    text = node.login.config.read_text()
    node.login.config.write_text(text.replace(str(node.login.port), str(free_port())))
    node.begin_run()
    with playing(node.run / "stream"), viewer(node.target()) as watching:
        assert until(lambda: "Connection refused" in watching.carrier._course.why, 20)
        node.login.config.write_text(text)
        assert watching.plays()


def test_what_ssh_is_told_besides_the_login_counts(node: LoginNode) -> None:
    whom = ("-F", "/c", "-p", "22", "-i", "/k", "-o", "IdentitiesOnly=yes")
    host = host_of(node.target(login="anna@login1", whom=whom), "")
    assert (host.name, host.user, host.port, host.key, host.config, host.agent) == (
        "login1", "anna", "22", "/k", "/c", True)  # fmt: skip
    assert host.named_only
    assert not host_of(node.target(whom=whom[:-2]), "").named_only
    confined = host_of(node.target(whom=whom), "/keys/tunnel")
    assert (confined.key, confined.agent) == ("/keys/tunnel", False)
