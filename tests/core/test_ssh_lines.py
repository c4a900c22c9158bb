"""Commands and ports over paramiko against a real sshd: how they end, and what never gathers."""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import psutil
import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.errors import NetworkError
from Daddy.core.ssh import lines
from Daddy.core.ssh.lines import WINDOW_BYTES, Line
from Daddy.core.ssh.login import Host
from Daddy.core.ssh.troubles import ForwardRefusedError, LoginRefusedError
from tests.components import program
from tests.patience import until
from tests.weights.login import Login, running_sshd


@pytest.fixture(scope="module")
def login(tmp_path_factory) -> Iterator[Login]:
    program("ssh-keygen", "openssh-client")
    sshd = program("sshd", "openssh-server")
    with running_sshd(tmp_path_factory.mktemp("sshd"), sshd) as found:
        yield found


@pytest.fixture
def line(login: Login) -> Iterator[Line]:
    made = Line(Host("cluster", config=str(login.config)), SystemClock())
    yield made
    made.close()


class Run:
    """A command there, our end of its pipes, and what it says on standard error."""

    def __init__(self, line: Line, command: str) -> None:
        self.wire, theirs = socket.socketpair()
        self.said: list[str] = []
        self.code = line.run(command, theirs, self.said.append)

    def read(self) -> bytes:
        self.wire.settimeout(60)
        return b"".join(iter(lambda: self.wire.recv(65536), b""))


def test_a_commands_outputs_and_status_are_told_apart(line: Line) -> None:
    run = Run(line, "echo out; printf 'one\\ntwo' >&2; exit 7")
    assert run.read() == b"out\n"
    assert until(lambda: run.code() == 7)
    assert run.said == ["one", "two"]


def test_the_end_of_our_input_is_the_end_of_the_commands(line: Line) -> None:
    run = Run(line, "cat; exit 3")
    run.wire.sendall(b"x" * 1_000_000)
    run.wire.shutdown(socket.SHUT_WR)
    assert run.read() == b"x" * 1_000_000
    assert until(lambda: run.code() == 3)


def test_a_command_that_ends_after_its_output_has_its_own_status(line: Line) -> None:
    run = Run(line, "exec >&- 2>&-; sleep 1; exit 3")
    run.wire.shutdown(socket.SHUT_WR)
    assert run.read() == b""
    assert until(lambda: run.code() is not None)
    assert run.code() == 3


def test_a_command_that_a_signal_ended_has_ended_as_ssh_has_it(line: Line) -> None:
    run = Run(line, "kill -KILL $$")
    assert until(lambda: run.code() == 255)
    line.check()


def test_a_status_is_told_when_all_output_is_delivered(login: Login) -> None:
    line = Line(Host("cluster", config=str(login.config)), SystemClock())
    wire, theirs = socket.socketpair()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    code = line.run("head -c 200000 /dev/zero; exit 7", theirs, print)
    count = 0
    try:
        wire.settimeout(20)
        assert not until(lambda: code() is not None, 0.5), "nobody has read it yet"
        while code() is None and (data := wire.recv(16384)):
            count += len(data)
        assert until(lambda: code() == 7)
    finally:
        line.close()
    while data := wire.recv(65536):
        count += len(data)
    assert count == 200_000


def test_a_lost_connection_is_no_status(login: Login, monkeypatch) -> None:
    ended = paramiko.Channel._unlink

    def slowly(channel: paramiko.Channel) -> None:
        ended(channel)
        time.sleep(0.5)  # before paramiko knows that the connection is lost

    monkeypatch.setattr(paramiko.Channel, "_unlink", slowly)
    line = Line(Host("cluster", config=str(login.config)), SystemClock())
    run = Run(line, "echo up; sleep 20")
    assert run.wire.recv(10) == b"up\n"
    line._transport.sock.shutdown(socket.SHUT_RDWR)
    assert run.read() == b""
    assert until(lambda: run.code() is not None or not line._transport.is_active())
    line.close()
    assert run.code() is None


def test_what_nobody_reads_stays_at_the_other_side(line: Line) -> None:
    run = Run(line, "head -c 30000000 /dev/zero; echo end >&2")
    pump = line._pumps[-1]
    sizes: list[int] = []
    assert not until(lambda: sizes.append(len(pump._channel.in_buffer)) or run.said, 1)
    assert 0 < max(sizes) <= WINDOW_BYTES
    assert len(run.read()) == 30_000_000
    assert until(lambda: run.code() == 0)


def test_what_the_other_side_does_not_read_stays_with_the_sender(line: Line) -> None:
    run = Run(line, "sleep 20")
    run.wire.setblocking(False)
    sent = 0

    def full() -> bool:
        nonlocal sent
        try:
            sent += run.wire.send(b"x" * 65536)
        except BlockingIOError:
            return True
        return False

    while until(lambda: not full(), 0.3, 0.001):
        assert sent < 20_000_000
    assert sent >= 65536


def echo(sock: socket.socket) -> None:
    with sock:
        while data := sock.recv(65536):
            sock.sendall(data)


def server() -> socket.socket:
    made = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                sock, _ = made.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(sock,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return made


def test_connections_to_a_port_there_arrive_here_and_end_at_both_sides(line: Line) -> None:
    with server() as here:
        port, first = reached(line, here.getsockname()[1])
        first.close()
        for _ in range(40):
            with socket.create_connection(("127.0.0.1", port), 10) as there:
                there.sendall(b"x" * 10_000)
                there.shutdown(socket.SHUT_WR)
                assert b"".join(iter(lambda: there.recv(65536), b"")) == b"x" * 10_000
        assert until(lambda: not any(pump.alive for pump in line._pumps))
        assert len(line._pumps) <= lines._CHANNELS, "the ended ones are forgotten"


def test_a_crowd_at_the_port_is_sent_away_and_nobody_before_it_suffers(line: Line) -> None:
    with server() as here:
        port, first = reached(line, here.getsockname()[1])
        rest = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(39)]
        crowd = [first, *rest]
        assert until(lambda: len(ended(crowd)) == 40 - lines._CHANNELS)
        left = [one for one in crowd if one not in ended(crowd)]
        left[-1].sendall(b"still here")
        assert left[-1].recv(100) == b"still here"
        for one in crowd:
            one.close()
        assert until(lambda: answers(port)), "there is room again"


def reached(line: Line, local: int) -> tuple[int, socket.socket]:
    """A port there and a connection to it; sshd opens one on ::1 alone where some connection of
    127.0.0.1 has its number, and calls that a success.
    """
    for _ in range(5):
        port = line.forward(0, local)
        with contextlib.suppress(ConnectionRefusedError):
            return port, socket.create_connection(("127.0.0.1", port), 10)
    raise AssertionError("five ports that 127.0.0.1 does not have")


def answers(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), 10) as one:
        one.sendall(b"x")
        try:
            return one.recv(1) == b"x"
        except ConnectionError:
            return False


def ended(crowd: list[socket.socket]) -> list[socket.socket]:
    return select.select(crowd, [], [], 0)[0]


def test_where_nobody_listens_here_the_connection_there_is_closed(line: Line) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    _, there = reached(line, nobody)
    with there:
        assert there.recv(10) == b""


def test_a_port_that_is_taken_is_refused_and_the_connection_lives_on(line: Line) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
        with (
            socket.create_server(("::1", port), family=socket.AF_INET6),
            pytest.raises(ForwardRefusedError, match=f"opens no port {port}"),
        ):
            line.forward(port, 1)
    line.check()


def test_a_port_that_is_taken_at_one_address_is_opened_at_the_other(line: Line) -> None:
    with server() as here, socket.create_server(("127.0.0.1", 0)) as one:
        port = line.forward(one.getsockname()[1], here.getsockname()[1])
        with socket.create_connection(("::1", port), 10) as there:
            there.sendall(b"x")
            assert there.recv(1) == b"x"


def test_nothing_is_left_open_after_many_logins(login: Login) -> None:
    counts = []
    with server() as here:
        for _ in range(6):
            line = Line(Host("cluster", config=str(login.config)), SystemClock())
            _, there = reached(line, here.getsockname()[1])
            run = Run(line, "cat")
            with there:
                there.sendall(b"x")
                assert there.recv(1) == b"x"
                line.close()
            run.wire.close()
            with pytest.raises(NetworkError, match="was lost"):
                line.check()
            assert until(lambda: not [one for one in threading.enumerate() if is_ours(one)])
            counts.append(psutil.Process().num_fds())
    assert max(counts[1:]) <= counts[0] + 1, counts


def is_ours(thread: threading.Thread) -> bool:
    return thread.name.startswith("ssh-") or "paramiko" in type(thread).__module__


def test_who_speaks_no_ssh_is_told_in_a_line_and_nothing_is_printed() -> None:
    code = (
        "from Daddy.core.clock import SystemClock\n"
        "from Daddy.core.ssh.lines import Line\n"
        "from Daddy.core.ssh.login import Host\n"
        "import sys\n"
        "Line(Host('127.0.0.1', port=sys.argv[1], config='/none'), SystemClock())\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as web:

        def answer() -> None:
            with web.accept()[0] as one:
                one.sendall(b"HTTP/1.0 400 no\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        words = [sys.executable, "-c", code, str(web.getsockname()[1])]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert "127.0.0.1 cannot be used: it ended the login" in done.stderr
    assert "Exception (client)" not in done.stderr


def test_a_refused_key_leaves_nothing_open(login: Login, tmp_path: Path) -> None:
    words = ["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", str(tmp_path / "stranger")]
    subprocess.run(words, check=True)
    host = Host("cluster", key=str(tmp_path / "stranger"), config=str(login.config))
    counts = []
    for _ in range(4):
        with pytest.raises(LoginRefusedError):
            Line(host, SystemClock())
        assert until(lambda: not [one for one in threading.enumerate() if is_ours(one)])
        counts.append(psutil.Process().num_fds())
    assert counts[-1] <= counts[0], counts
