"""Training never waits for the stream: not for its process, a full spool or a broken disk."""

import os
import signal
import socket
import stat
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.host_and_processes import identify_process, is_alive
from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.streaming import streamer, tunnel_client
from Daddy.streaming.learner import direct_port as listener
from Daddy.streaming.learner.direct_port import DirectPort
from Daddy.streaming.learner.shared_ring import LearnerEnd, StreamerEnd, nameless_file
from Daddy.streaming.login import stream_folder
from Daddy.streaming.login.stream_folder import (
    SpoolReader,
    SpoolWriter,
    WatchRequest,
    read_watch_request,
    write_watch_request,
)
from Daddy.streaming.protocol import handshake
from Daddy.streaming.protocol.spool_segment import CapturedPicture, WriterIdentity
from Daddy.streaming.streamer import Streamer
from Daddy.streaming.tunnel_client import FrameSender
from tests.patience import PATIENCE_S, until
from tests.streaming.helpers import CHECKOUT, pack_segment, picture, report

WHO = WriterIdentity("slot-1", "node3", "17", "0" * 8)


def ask(stream: Path, counter: int = 1, agents: frozenset[int] = frozenset({3})) -> None:
    write_watch_request(stream, WatchRequest(counter, 60.0, {"slot-1": agents}))


def test_reports_and_wanted_pictures_reach_the_spool(tmp_path: Path) -> None:
    reader, got = SpoolReader(tmp_path), []
    ask(tmp_path)
    with FrameSender(tmp_path, "slot-1", job="17", host="node3") as sender:
        sender.send_reports([report(3, step=42), report(4)])
        assert until(lambda: sender.wanted_agents() == {3}, 10)
        sender.send_picture(3, picture(1))
        sender.send_picture(4, picture(2))
        sender.send_picture(3, bytes(SCREEN_BYTES - 1))
        assert until(
            lambda: got.extend(reader.read_new_segments()) or any(s.pictures for s in got), 10
        )
    got.extend(reader.read_new_segments())
    shown = [taken for segment in got for taken in segment.pictures]
    assert [(taken.agent, taken.step, taken.pixels) for taken in shown] == [(3, 42, picture(1))]
    assert (got[0].peer, got[0].job, got[0].host) == ("slot-1", "17", "node3")
    assert {row.agent for row in got[-1].rows} == {3, 4}
    files = sorted((tmp_path / "spool").iterdir())
    assert {path.name for path in files} <= {"slot-1.a", "slot-1.b"}, "two fixed names per peer"
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_closing_writes_what_is_left_and_a_successor_goes_on(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tunnel_client, "_EXIT_S", 60.0)  # it runs at the lowest priority
    reader = SpoolReader(tmp_path)
    for job in ("1", "2", "3"):
        sender = FrameSender(tmp_path, "slot-1", job=job)
        sender.send_reports([report(0)])
        sender.close()
        assert sender.streamer
        assert sender.streamer.exit_code == 0
        assert [segment.job for segment in reader.read_new_segments()][-1] == job
    for end in "ab":
        path = tmp_path / "spool" / f"slot-1.{end}"
        path.rename(tmp_path / "spool" / f"slot-2.{end}")
    assert SpoolReader(tmp_path).read_new_segments() == [], (
        "a file that names another peer is not believed"
    )


def test_a_killed_streamer_is_started_again_and_a_frozen_one_holds_up_nobody(
    tmp_path: Path, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(tunnel_client, "START_AGAIN_S", 0.0)
    ask(tmp_path)
    with FrameSender(tmp_path, "slot-1") as sender:
        first = sender.streamer
        assert first
        assert until(sender.wanted_agents, 10)
        assert psutil.Process(first.pid).nice() == 19
        first.signal(signal.SIGKILL)
        assert first.wait(PATIENCE_S)
        sender.send_reports([report(3)])
        second = sender.streamer
        assert second
        assert second.pid != first.pid
        assert sender.wanted_agents() == frozenset(), "nothing is wanted by who is dead"
        assert until(sender.wanted_agents, 10)
        second.signal(signal.SIGTERM)  # signals are meant for the learner
        second.signal(signal.SIGSTOP)
        spent = []
        for step in range(2000):
            began = time.perf_counter()
            sender.send_picture(3, picture(1))
            sender._offered.clear()
            sender.send_reports([report(3, step=step)])
            spent.append(time.perf_counter() - began)
        assert statistics.median(spent) < 0.2, "a step waits for a frozen streamer"
        sender.close()
        assert second.exit_code == 128 + signal.SIGKILL
    assert caplog.text.count("it is started again") == 1


_LEARNER = """
import sys, time
from pathlib import Path
from Daddy.streaming.tunnel_client import FrameSender
sender = FrameSender(Path(sys.argv[1]), "slot-1")
print(sender.streamer.pid, flush=True)
time.sleep(60)
"""


def test_a_killed_learner_leaves_no_process_and_no_memory(tmp_path: Path) -> None:
    before = set(Path("/dev/shm").iterdir()) if sys.platform == "linux" else set()
    ask(tmp_path)
    child = subprocess.Popen(
        [sys.executable, "-c", _LEARNER, str(tmp_path)],
        cwd=CHECKOUT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout
    streaming = identify_process(int(child.stdout.readline()))
    child.kill()
    child.communicate()
    assert streaming is None or until(lambda: not is_alive(streaming), 10)
    after = set(Path("/dev/shm").iterdir()) if sys.platform == "linux" else set()
    files = (path for path in after - before if path.is_file())  # other tests keep folders there
    assert not [path for path in files if "daddy" in path.name]


# -- the streamer without its process


class Desk:
    """A learner's memory and a streamer on it, which works only when it is called."""

    def __init__(self, stream: Path) -> None:
        file = nameless_file()
        self.learner, self.end = LearnerEnd(file), StreamerEnd(file)
        os.close(file)
        self.streamer = Streamer(self.end, stream, WHO, SystemClock(), 60.0, direct=False)

    def until(self, reached, seconds: float = 5.0) -> bool:
        def step() -> bool:
            self.streamer.step()
            return bool(reached())

        return until(step, seconds)

    def close(self) -> None:
        self.learner.close()
        self.end.close()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch) -> Iterator[Desk]:
    monkeypatch.setattr(streamer, "READ_REQUESTS_EVERY_S", 0.02)
    monkeypatch.setattr(streamer, "WRITE_EVERY_S", 0.05)
    monkeypatch.setattr(streamer, "IDLE_WRITE_EVERY_S", 0.1)
    monkeypatch.setattr(streamer, "RETRY_S", 0.1)
    made = Desk(tmp_path)
    yield made
    made.close()


def test_a_streamer_begins_by_wanting_nothing(desk: Desk, tmp_path: Path) -> None:
    desk.end.set_wanted({3})
    Streamer(desk.end, tmp_path, WHO, SystemClock(), 60.0, direct=False)
    assert desk.learner.wanted_agents() == frozenset()


def test_nobody_watching_means_nothing_is_wanted(desk: Desk) -> None:
    assert desk.until(lambda: desk.learner.request_byte[0]), (
        "one report, for a viewer to choose from"
    )
    desk.learner.write_reports([report(3)])
    assert desk.until(lambda: desk.streamer.written)
    asked, written = desk.learner.request_byte[0], desk.streamer.written
    assert desk.until(lambda: desk.streamer.written > written + 3)
    assert desk.learner.request_byte[0] == asked
    assert desk.learner.wanted_agents() == frozenset()


def test_a_wish_list_whose_counter_stands_still_wears_off(
    desk: Desk, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(stream_folder, "WATCHED_FOR_S", 0.5)
    ask(tmp_path)
    assert desk.until(desk.learner.wanted_agents)
    assert desk.until(lambda: not desk.learner.wanted_agents())
    ask(tmp_path, counter=2)
    assert desk.until(desk.learner.wanted_agents)


def test_pictures_are_asked_for_at_the_pace_wanted(desk: Desk, tmp_path: Path) -> None:
    write_watch_request(tmp_path, WatchRequest(1, 5.0, {"slot-1": frozenset({0})}))
    assert desk.until(lambda: desk.learner.picture_request)
    before, began = desk.learner.picture_request, time.monotonic()
    assert desk.until(lambda: desk.learner.picture_request - before >= 5)
    assert time.monotonic() - began > 0.7, "five at five a second"


def wanted_and_put(desk: Desk, stream: Path) -> None:
    """Write a wanted picture into the memory; nothing else is due for a long time."""
    ask(stream)
    assert desk.until(desk.learner.wanted_agents)
    desk.streamer._due = dict.fromkeys(desk.streamer._due, float("inf"))
    desk.learner.write_picture(CapturedPicture(3, 1, 0, 1, picture(1)))


def test_a_pass_in_which_only_a_picture_is_due_asks_for_it_and_no_more(
    desk: Desk, tmp_path: Path
) -> None:
    wanted_and_put(desk, tmp_path)
    desk.streamer._due["picture"], asked = 0.0, desk.learner.picture_request
    desk.streamer.step([])
    assert (desk.learner.picture_request - asked, desk.streamer._frames) == (1, [])
    desk.streamer.step(["the bell"])
    assert len(desk.streamer._frames) == 1


@pytest.mark.parametrize("what", ["look", "report", "write"])
def test_a_pass_in_which_anything_else_is_due_attends_to_everything(
    desk: Desk, tmp_path: Path, what: str
) -> None:
    wanted_and_put(desk, tmp_path)
    desk.streamer._due[what] = 0.0
    desk.streamer.step([])
    assert desk.end.read_pictures() == [], "it has been taken"


def opened(desk: Desk) -> DirectPort:
    """Return the streamer's port, open without any viewer."""
    port = desk.streamer.port
    port.listen_for(frozenset({port._writer.host}), 0.0)
    assert port.port
    port.listen_for = lambda *_: None  # type: ignore[method-assign]
    return port


@pytest.mark.parametrize("refuses", [False, True])
def test_a_stranger_is_let_go_by_a_streamer_that_hears_nothing(
    desk: Desk, tmp_path: Path, monkeypatch, refuses: bool
) -> None:
    monkeypatch.setattr(handshake, "GREETING_S", 0.2)
    monkeypatch.setattr(streamer, "REPORT_EVERY_S", 0.05)
    monkeypatch.setattr(streamer, "RETRY_S", 60.0)
    ask(tmp_path)
    desk.learner.write_reports([report(3)])
    if refuses:
        (tmp_path / "spool").write_text("in the way")
    assert desk.until(lambda: desk.streamer.failures if refuses else desk.streamer.written)
    ours = opened(desk)
    with closing(ours), socket.create_connection((ours.address, ours.port)):
        assert desk.until(lambda: ours.relays)
        silent = lambda: desk.streamer.step([]) and not ours.relays  # noqa: E731
        assert until(silent, 5)


def test_a_relay_that_has_room_again_is_served_by_a_streamer_that_hears_nothing(
    desk: Desk, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(handshake, "GREETING_S", 600.0)
    wanted_and_put(desk, tmp_path)
    ours = opened(desk)
    with closing(ours), socket.create_connection((ours.address, ours.port)) as relay:
        assert until(lambda: ours.step(time.monotonic()) or ours.relays, 5)
        much = ours.relays[0].out = bytearray(os.urandom(listener.OUT_LIMIT - 100))
        expected, arrived = bytes(much), bytearray()
        relay.settimeout(PATIENCE_S)
        while len(arrived) < len(expected):
            desk.streamer.step([])
            piece = relay.recv(4096)
            assert piece, "it was let go"
            arrived += piece
    assert arrived == expected


@pytest.mark.parametrize("obstacle", ["a file", "full disk", "a link"])
def test_a_folder_that_refuses_is_counted_and_tried_again(
    desk: Desk, tmp_path: Path, obstacle: str, monkeypatch
) -> None:
    ask(tmp_path)
    victim, spool = tmp_path / "victim", tmp_path / "spool"
    victim.write_text("precious")
    if obstacle == "full disk":

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "pwrite", full)
    elif obstacle == "a link":
        spool.mkdir()
        for end in "ab":
            (spool / f"slot-1.{end}").symlink_to(victim)
    else:
        spool.write_text("in the way")
    desk.learner.write_reports([report(3)])
    assert desk.until(lambda: desk.streamer.failures >= 2)
    assert desk.learner.wanted_agents() == frozenset()
    assert victim.read_text() == "precious", "a link is never followed"
    monkeypatch.undo()
    if obstacle == "a file":
        spool.unlink()
    for link in spool.glob("*") if obstacle == "a link" else ():
        link.unlink()
    assert desk.until(lambda: desk.streamer.written > 0, 15)


def test_memory_stays_bounded_while_the_disk_hangs(desk: Desk, tmp_path: Path) -> None:
    ask(tmp_path)
    desk.streamer._due["write"] = float("inf")
    for step in range(2000):
        desk.learner.write_picture(CapturedPicture(3, step, 0, step, picture(step % 40)))
        desk.streamer._read_learner()
    assert sum(len(message.body) for message in desk.streamer._frames) < 64 * 1024


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"counter":1,"fps":"x","wanted":{}}', "\x00",
     '{"counter":1,"fps":1,"wanted":{"slot-1":[1e999]}}'],
)  # fmt: skip
def test_a_damaged_wish_list_is_no_wish(tmp_path: Path, text: str) -> None:
    (tmp_path / "wanted.json").write_text(text)
    assert read_watch_request(tmp_path) is None


def test_a_writer_alternates_so_that_the_newest_whole_segment_survives_a_torn_one(
    tmp_path: Path,
) -> None:
    writer, reader = SpoolWriter(tmp_path, "slot-1"), SpoolReader(tmp_path)
    for _ in range(3):
        sequence = writer.next_sequence()
        writer.write(sequence, pack_segment(sequence, WHO, 0, [report()], []))
    torn = pack_segment(4, WHO, 0, [report(step=n) for n in range(9)], [])[:-5]
    writer.write(4, torn)
    assert [segment.sequence for segment in reader.read_new_segments()] == [3]
