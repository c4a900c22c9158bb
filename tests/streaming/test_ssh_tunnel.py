"""Frames through a real ``ssh -R`` into a real sshd, as the guide describes it."""

import getpass
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from Daddy.core.clock import SystemClock
from Daddy.streaming.protocol import handshake
from Daddy.streaming.protocol.handshake import ensure_token, load_tokens
from Daddy.streaming.protocol.messages import Subscription
from Daddy.streaming.relay import make_relay
from Daddy.streaming.tunnel_client import FrameSender
from Daddy.streaming.viewer.receiver import Receiver
from tests.components import program
from tests.patience import PATIENCE_S, until
from tests.streaming.helpers import free_port, picture, report

SSHD_CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/client.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
AllowTcpForwarding yes
"""


@dataclass(frozen=True)
class Login:
    folder: Path
    port: int

    def ssh(self, *options: str) -> list[str]:
        facts = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "ExitOnForwardFailure": "yes",
            "IdentitiesOnly": "yes",
            "LogLevel": "ERROR",
        }
        flags = [part for key, value in facts.items() for part in ("-o", f"{key}={value}")]
        who = f"{getpass.getuser()}@127.0.0.1"
        key = str(self.folder / "client")
        return ["ssh", "-F", "none", *flags, "-i", key, "-p", str(self.port), *options, who]


def open_port(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def login(tmp_path: Path) -> Iterator[Login]:
    sshd_program = program("sshd", "openssh-server")
    program("ssh", "openssh-client")
    folder = tmp_path / "login"
    folder.mkdir()
    for name in ("host", "client"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(key, check=True, timeout=PATIENCE_S)
    port = free_port()
    (folder / "sshd_config").write_text(SSHD_CONFIG.format(port=port, folder=folder))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    sshd = subprocess.Popen([sshd_program, "-D", "-e", "-f", str(folder / "sshd_config")],
                            stderr=(folder / "log").open("wb"))  # fmt: skip
    try:
        assert until(lambda: open_port(port), 10), (folder / "log").read_text()
        yield Login(folder, port)
    finally:
        sshd.terminate()
        sshd.wait(PATIENCE_S)


@contextmanager
def tunnel(login: Login, remote: int, local: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``ssh -R remote:localhost:local`` until it forwards."""
    child = subprocess.Popen(login.ssh("-N", "-R", f"{remote}:localhost:{local}"))
    try:
        assert until(lambda: open_port(remote), 10)
        yield child
    finally:
        child.terminate()
        child.wait(PATIENCE_S)


@contextmanager
def playing(stream: Path) -> Iterator[None]:
    """Run a learner that plays 30 pictures a second."""
    stop = threading.Event()

    def play(sender: FrameSender) -> None:
        step = 0
        while not stop.wait(1 / 30):
            step += 1
            sender.send_reports([report(0, step=step), report(1, step=step)])
            for agent in sender.wanted_agents():
                sender.send_picture(agent, picture(step % 40))

    with FrameSender(stream, "slot-0") as sender:
        thread = threading.Thread(target=play, args=(sender,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(5)


def test_pictures_come_through_ssh_and_come_back_after_the_tunnel_was_cut(
    login: Login, tmp_path: Path
) -> None:
    run, token = tmp_path / "slim_run", tmp_path / "token"
    (run / "stream").mkdir(parents=True)
    ensure_token(token, "test")
    remote = free_port()
    receiver = Receiver(0, lambda: load_tokens([token]), Subscription(2, 60), SystemClock())
    served = make_relay(run, remote, [token], Subscription(2, 15), "ssh-R", SystemClock())
    stop = threading.Event()
    thread = threading.Thread(target=served.serve_until, args=(stop,), daemon=True)
    thread.start()
    try:
        with playing(run / "stream"):
            assert until(lambda: "nobody listens" in served._viewer.trouble, 5)
            with tunnel(login, remote, receiver.port):
                assert until(lambda: len(receiver.current_scene(2).frames) == 2, 20)
                before = frames(receiver)
                assert until(lambda: frames(receiver) > before + 40, 20)
                assert receiver.current_scene(2).transport == "ssh-R"
            assert until(lambda: not receiver.current_scene(2).connected, 10)
            before = frames(receiver)
            with tunnel(login, remote, receiver.port):
                assert until(lambda: frames(receiver) > before + 20, 20)
    finally:
        stop.set()
        thread.join(5)
        receiver.close()


def frames(receiver: Receiver) -> int:
    return sum(receiver.current_scene(2).frames.values())


def test_a_tunnel_without_a_viewer_never_counts_as_connected(login: Login, tmp_path: Path) -> None:
    """Through ``ssh -R`` every connect succeeds; only the handshake proves a viewer."""
    run, token = tmp_path / "slim_run", tmp_path / "token"
    (run / "stream").mkdir(parents=True)
    ensure_token(token, "test")
    remote = free_port()
    served = make_relay(run, remote, [token], Subscription(2, 15), "ssh-R", SystemClock())
    stop = threading.Event()
    thread = threading.Thread(target=served.serve_until, args=(stop,), daemon=True)
    with tunnel(login, remote, free_port()):
        thread.start()
        try:
            assert until(lambda: "viewer" in served._viewer.trouble, 10)
            assert not served._viewer.established
            assert served._viewer.connections == 0
        finally:
            stop.set()
            thread.join(5)


def test_a_frozen_ssh_is_noticed_by_the_viewer_and_pictures_come_back(
    login: Login, tmp_path: Path, monkeypatch
) -> None:
    """A half-open tunnel or a sleeping laptop: no error occurs and nothing arrives."""
    monkeypatch.setattr(handshake, "SILENT_S", 4.0)
    run, token, remote = tmp_path / "slim_run", tmp_path / "token", free_port()
    (run / "stream").mkdir(parents=True)
    ensure_token(token, "test")
    receiver = Receiver(0, lambda: load_tokens([token]), Subscription(2, 60), SystemClock())
    served = make_relay(run, remote, [token], Subscription(2, 15), "ssh-R", SystemClock())
    stop = threading.Event()
    thread = threading.Thread(target=served.serve_until, args=(stop,), daemon=True)
    thread.start()
    try:
        with playing(run / "stream"), tunnel(login, remote, receiver.port) as ssh:
            assert until(lambda: frames(receiver) > 10, 20)
            ssh.send_signal(signal.SIGSTOP)
            try:
                assert until(lambda: not receiver.current_scene(2).connected, 15)
                assert until(lambda: "silent" in served._viewer.trouble, 15)
            finally:
                ssh.send_signal(signal.SIGCONT)
            before = frames(receiver)
            assert until(lambda: frames(receiver) > before + 10, 20)
    finally:
        stop.set()
        thread.join(5)
        receiver.close()
