"""From a learner's sender through a real relay and real sockets to a viewer."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from Daddy.core.atomic_files import write_json
from Daddy.core.clock import SystemClock
from Daddy.core.event_log import read_events
from Daddy.core.host_and_processes import identify_process, is_alive
from Daddy.core.run_paths import RunPaths
from Daddy.streaming import relay as relays
from Daddy.streaming.best_selector import FeaturingRules
from Daddy.streaming.login.stream_folder import SpoolReader
from Daddy.streaming.protocol import handshake
from Daddy.streaming.protocol.handshake import VIEWER, StreamSession, ensure_token, load_tokens
from Daddy.streaming.protocol.messages import Subscription
from Daddy.streaming.relay import ATTACH, HOME_ATTACH, describe_run, make_relay
from Daddy.streaming.tunnel_client import FrameSender
from Daddy.streaming.viewer.receiver import MAX_STRANGERS, Receiver
from tests.patience import PATIENCE_S, until
from tests.streaming.helpers import CHECKOUT, finish, free_port, picture, report, start


class Learner:
    """Plays pictures of two agents at 30 a second until closed."""

    def __init__(self, stream: Path, peer: str, badges: int) -> None:
        self.sender = FrameSender(stream, peer, job="17", host="node1")
        self.badges = badges
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._play, daemon=True)
        self.thread.start()

    def _play(self) -> None:
        step = 0
        while not self.stop.wait(1 / 30):
            step += 1
            self.sender.send_reports(
                [report(a, badges=self.badges - a, step=step, x=a, y=7) for a in (0, 1)]
            )
            for agent in self.sender.wanted_agents():
                self.sender.send_picture(agent, picture(step % 40))

    def close(self) -> None:
        self.stop.set()
        self.thread.join(5)
        self.sender.close()


@contextmanager
def learners(stream: Path) -> Iterator[list[Learner]]:
    some = [Learner(stream, "slot-0", 3), Learner(stream, "slot-1", 6)]
    try:
        peers = lambda: {segment.peer for segment in SpoolReader(stream).read_new_segments()}  # noqa: E731
        assert until(lambda: len(peers()) == len(some), 10)
        yield some
    finally:
        for learner in some:
            learner.close()


@contextmanager
def relay(run: Path, port: int, token: Path) -> Iterator[None]:
    stop = threading.Event()
    served = make_relay(run, port, [token], Subscription(2, 15.0), "spool", SystemClock())
    thread = threading.Thread(target=served.serve_until, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "token"
    ensure_token(path, "test")
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "slim_run"
    (folder / "stream").mkdir(parents=True)
    return folder


@pytest.fixture
def receiver(token: Path) -> Iterator[Receiver]:
    made = Receiver(0, lambda: load_tokens([token]), Subscription(2, 60.0), SystemClock())
    yield made
    made.close()


def test_a_relay_names_the_workload_of_its_run(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"training": {"workload": "cartpole"}})
    assert describe_run(RunPaths(tmp_path), "spool").workload == "cartpole"


def test_the_best_two_of_four_agents_arrive_picture_by_picture(run, token, receiver) -> None:
    with learners(run / "stream"), relay(run, receiver.port, token):
        assert until(lambda: sum(receiver.current_scene(2).frames.values()) > 60, 15)
        scene = receiver.current_scene(2)
    assert [panel.name for panel in scene.panels] == ["slot-1/0", "slot-1/1"]
    first = scene.panels[0]
    assert first.pixels in {picture(seed) for seed in range(40)}
    assert (first.row.badges, first.map_name, first.peer.host) == (6, "Fern Hollow", "node1")
    assert first.peer.job == "17"
    assert scene.statuses[0].agents == 4
    (fern_hollow,) = scene.history.maps
    assert sorted((dot.x, dot.y) for dot in fern_hollow.dots) == [(0, 7), (0, 7), (1, 7), (1, 7)]
    assert scene.transport == "spool", "no ssh stands between"
    assert 0.0 < first.age_s < PATIENCE_S


def test_the_viewer_may_ask_for_more(run, token, receiver) -> None:
    with learners(run / "stream"), relay(run, receiver.port, token):
        assert until(lambda: len(receiver.current_scene(9).panels) == 2, 10)
        receiver.subscribe(Subscription(4, 60.0))
        assert until(lambda: all(p.pixels for p in receiver.current_scene(9).panels[:4])
                          and len(receiver.current_scene(9).panels) == 4, 10)  # fmt: skip


def test_a_pinned_agent_is_shown_whatever_its_rank_and_through_a_change_of_jobs(
    run, token, receiver, monkeypatch
) -> None:
    monkeypatch.setattr(relays, "FeaturingRules", lambda: FeaturingRules(stale_s=3.0))
    shown = lambda: {p.name for p in receiver.current_scene(2).panels if p.pixels and not p.stale}  # noqa: E731
    with learners(run / "stream") as playing, relay(run, receiver.port, token):
        assert until(lambda: shown() == {"slot-1/0", "slot-1/1"}, 15)
        receiver.subscribe(Subscription(2, 60.0, (("slot-0", 1),)))
        assert until(lambda: shown() == {"slot-0/1", "slot-1/0"}, 15)
        playing[0].close()
        assert until(lambda: shown() == {"slot-1/0", "slot-1/1"}, 30), "its place is not left empty"
        successor = Learner(run / "stream", "slot-0", 3)
        try:
            assert until(lambda: shown() == {"slot-0/1", "slot-1/0"}, 15)
        finally:
            successor.close()


def test_a_new_viewer_gets_pictures_after_the_first_was_closed(run, token, receiver) -> None:
    port = receiver.port
    with learners(run / "stream"), relay(run, port, token):
        assert until(lambda: receiver.current_scene(2).frames, 10)
        receiver.close()
        again = Receiver(port, lambda: load_tokens([token]), Subscription(2, 60.0), SystemClock())
        try:
            assert until(lambda: sum(again.current_scene(2).frames.values()) > 20, 15)
        finally:
            again.close()


def test_nothing_is_wanted_any_more_once_the_relay_has_ended(run, token, receiver) -> None:
    with learners(run / "stream") as playing:
        with relay(run, receiver.port, token):
            assert until(playing[1].sender.wanted_agents, 10)
        assert until(lambda: not playing[1].sender.wanted_agents(), 5)


def test_a_relay_with_another_token_is_refused_and_both_key_ids_are_told(
    run, receiver, tmp_path
) -> None:
    other = tmp_path / "other"
    ensure_token(other, "stranger")
    with relay(run, receiver.port, other):
        assert until(lambda: "no token in common" in receiver.current_scene(2).trouble, 10)
        assert load_tokens([other])[0].key_id in receiver.current_scene(2).trouble
        assert not receiver.current_scene(2).connected
        texts = lambda: [e["data"].get("text", "") for e in read_events(run / "events")]  # noqa: E731
        assert until(lambda: any("no token in common" in text for text in texts()), 5)


def test_a_token_copied_later_is_taken_up_without_a_restart(run, token, receiver, tmp_path) -> None:
    other = tmp_path / "other"
    ensure_token(other, "cluster")
    with learners(run / "stream"), relay(run, receiver.port, other):
        assert until(lambda: receiver.current_scene(2).trouble, 10)
        with token.open("a") as file:
            file.write(other.read_text())
        assert until(lambda: receiver.current_scene(2).connected, 15)


@pytest.mark.parametrize(
    "knock",
    [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 200, bytes(8), b"\x05\x00\x01\x00\xff\xff\xff\xff"],
    ids=["a browser", "noise", "an empty header", "four gigabytes"],
)
def test_strangers_get_no_byte_and_no_time(receiver, knock) -> None:
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=PATIENCE_S) as stranger:
        stranger.sendall(knock)
        answer = b""
        while chunk := _read(stranger):
            answer += chunk
    assert b"token" not in answer
    assert len(answer) < 150, "at most a farewell"


def _read(stranger: socket.socket) -> bytes:
    try:
        return stranger.recv(4096)
    except ConnectionError:
        return b""


def test_who_says_nothing_is_closed_after_three_seconds(receiver) -> None:
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=PATIENCE_S) as silent:
        began = time.monotonic()
        assert silent.recv(1) == b""
        assert time.monotonic() - began > 2.5


def test_a_crowd_of_strangers_does_not_exhaust_the_viewer(receiver) -> None:
    crowd: list[socket.socket] = []
    counts: list[int] = []

    def someone_is_in() -> bool:
        counts.append(len(receiver._connections))
        return any(counts)

    try:
        for _ in range(40):  # a full backlog makes some wait until the first are closed
            crowd.append(socket.create_connection(("127.0.0.1", receiver.port), timeout=PATIENCE_S))
            assert until(someone_is_in)
        assert until(lambda: someone_is_in() and all(map(is_closed, crowd)))
        assert max(counts) <= MAX_STRANGERS
    finally:
        for sock in crowd:
            sock.close()


def test_strangers_who_come_again_and_again_lock_no_relay_out(run, token, receiver) -> None:
    served = threading.Event()
    crowd: list[socket.socket] = []

    def come_again() -> None:
        while not served.wait(0.001):
            crowd[:] = [sock for sock in crowd if not is_closed(sock)]
            while len(crowd) < 16:
                with suppress(OSError):
                    crowd.append(socket.create_connection(("127.0.0.1", receiver.port)))

    strangers = threading.Thread(target=come_again)
    strangers.start()
    try:
        assert until(lambda: receiver._connections)
        with learners(run / "stream"), relay(run, receiver.port, token):
            assert until(lambda: receiver.current_scene(2).connected)
    finally:
        served.set()
        strangers.join()
        for sock in crowd:
            sock.close()


def is_closed(sock: socket.socket) -> bool:
    """Return True once the other side has closed the connection; read its bytes before."""
    sock.setblocking(False)
    try:
        return not sock.recv(65_536)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_both_loopback_addresses_listen_and_no_other(receiver) -> None:
    for host in ("127.0.0.1", "::1"):
        with socket.create_connection((host, receiver.port), timeout=PATIENCE_S):
            pass
    assert {sock.getsockname()[0] for sock in receiver._listeners} == {"127.0.0.1", "::1"}


def test_headless_prints_a_line_per_agent_and_second_and_records_frames(
    run, token, tmp_path
) -> None:
    port = free_port()
    events = tmp_path / "events"
    viewer = start(
        "Daddy.streaming.tunnel_server", "--port", port, "--headless", "--token", token,
        "--record-events", events, home=tmp_path,
    )  # fmt: skip
    with learners(run / "stream"):  # both first, because a featured agent stays for a while
        server = start(
            "Daddy.streaming.relay", "--run-dir", run, "--port", port, "--token", token,
            home=tmp_path,
        )  # fmt: skip
        try:
            counted = lambda: sum(  # noqa: E731
                sum(e["data"]["frames"].values()) for e in read_events(events, "viewer-*.jsonl")
            )
            assert until(lambda: events.exists() and counted() > 40, 25)
        finally:
            viewer.send_signal(signal.SIGINT)
            printed, served = finish(viewer), finish(server)
    assert viewer.returncode == 0
    assert server.returncode == 0, served
    assert "ssh -R 9999:localhost:" in printed
    lines = [line for line in printed.splitlines() if line.startswith("slot-1/0")]
    words = ("frames", "badges 6", "Fern Hollow")
    assert any(all(word in line for word in words) for line in lines), printed
    last = list(read_events(events))[-1]
    assert last["source"]["kind"] == "viewer"
    assert last["run"] == "slim_run"
    assert last["data"]["transport"] == "spool"
    assert set(last["data"]["frames"]) == {"slot-1/0", "slot-1/1"}
    assert "a viewer has proved the token" in served
    script = tmp_path / HOME_ATTACH
    assert f"--run-dir {run} " in script.read_text(), "how a further viewer's ssh starts a relay"
    assert script.read_bytes() == (run / "stream" / ATTACH).read_bytes()
    assert script.stat().st_mode & 0o777 == 0o700
    wanted = json.loads((run / "stream" / "wanted.json").read_text())
    assert wanted["wanted"] == {}, "a relay that ends asks for nothing"


def test_a_relay_ends_with_its_parent_when_asked(run, token, tmp_path) -> None:
    """The parent is killed, so it cannot tell its child."""
    program = (
        "import subprocess, sys, time; "
        "child = subprocess.Popen([sys.executable, '-m', 'Daddy.streaming.relay', *sys.argv[1:]]); "
        "print(child.pid, flush=True); time.sleep(60)"
    )
    flags = ["--run-dir", run, "--port", free_port(), "--token", token, "--die-with-parent"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT)}
    parent = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, flags)],
        stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        assert parent.stdout
        child = identify_process(int(parent.stdout.readline()))
        assert child is not None
        assert until(lambda: any(read_events(run / "events")), 20)
    finally:
        parent.kill()
        parent.communicate()
    assert until(lambda: not is_alive(child), 5)


def test_an_attached_relay_prints_to_ssh_as_the_release_before(run, token, capsys) -> None:
    """A viewer of that release skips lines that begin so: they are no reason for ssh's end."""
    relay = make_relay(run, free_port(), [token], Subscription(2, 30), "spool", SystemClock())
    relay._events = None  # as serve_attached makes it
    stop, printed = threading.Event(), []
    thread = threading.Thread(target=relay.serve_until, args=(stop,), daemon=True)
    thread.start()
    try:
        assert until(lambda: printed.append(capsys.readouterr().out) or any(printed), 5)
    finally:
        stop.set()
        thread.join(5)
    assert "".join(printed).startswith("relay: nobody listens")


def test_a_relay_that_cannot_write_its_events_goes_on(run, token, caplog) -> None:
    caplog.set_level("INFO")
    (run / "events").write_text("no folder")
    relay = make_relay(run, free_port(), [token], Subscription(2, 30), "spool", SystemClock())
    stop = threading.Event()
    thread = threading.Thread(target=relay.serve_until, args=(stop,), daemon=True)
    thread.start()
    try:
        assert until(lambda: "nobody listens" in caplog.text, 5)
        assert not stop.wait(0.3)
        assert thread.is_alive()
    finally:
        stop.set()
        thread.join(5)
    assert not thread.is_alive()


class FrozenViewer:
    """Proves the token, requests everything, and then reads nothing any more."""

    def __init__(self, listener: socket.socket, token: Path) -> None:
        self.socket, _ = listener.accept()
        self.session = StreamSession(VIEWER, load_tokens([token]), b"v" * 16)
        while not self.session.established:
            self.session.receive(self.socket.recv(4096))
            self.socket.sendall(self.session.take_output())


def test_a_frozen_viewer_is_sent_little_and_given_up(run, token, monkeypatch) -> None:
    """TCP and ssh would take megabytes; unacknowledged pictures stay below 64 KiB."""
    monkeypatch.setattr(handshake, "SILENT_S", 7.0)
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener, learners(run / "stream"):
        listener.settimeout(PATIENCE_S)
        served = make_relay(
            run, listener.getsockname()[1], [token], Subscription(2, 30), "spool", SystemClock()
        )
        thread = threading.Thread(target=served.serve_until, args=(stop,), daemon=True)
        thread.start()
        try:
            viewer = FrozenViewer(listener, token)
            assert until(lambda: served._scheduler.streams, 10)
            time.sleep(4)
            channels = list(served._scheduler.streams.values())
            assert sum(stream.sender._seq for stream in channels) <= 2 * 16
            assert sum(stream.sender.unacked_bytes() for stream in channels) <= 64 * 1024
            assert until(lambda: "silent" in served._viewer.trouble, 15)
            viewer.socket.close()
        finally:
            stop.set()
            thread.join(5)
