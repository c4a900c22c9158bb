"""The relay's first messages to a viewer, their format, and pictures dropped on a full link."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from Daddy.core.clock import SystemClock
from Daddy.core.run_paths import RunPaths
from Daddy.streaming.best_selector import FeaturingRules
from Daddy.streaming.login.flow_control import FREE_S
from Daddy.streaming.login.relay_connections import OutgoingConnection
from Daddy.streaming.login.stream_folder import SpoolWriter
from Daddy.streaming.login.stream_scheduler import StreamScheduler, note_message
from Daddy.streaming.protocol.framing import Message, MessageKind
from Daddy.streaming.protocol.handshake import VIEWER, StreamSession
from Daddy.streaming.protocol.messages import (
    Frame,
    Status,
    Subscription,
    pack_ack,
    read_frame,
    row_from_report,
)
from Daddy.streaming.protocol.spool_segment import CapturedPicture, Segment, WriterIdentity
from Daddy.streaming.relay import IDLE_POLL_S, Relay
from tests.patience import PATIENCE_S
from tests.streaming.helpers import TOKEN, pack_segment, picture, report

ABOUT = Status("slim_run", "pokemon_red", "login1", "ssh-R")


def make_scheduler(agents: int = 2) -> StreamScheduler:
    return StreamScheduler(ABOUT, Subscription(agents, 15.0), FeaturingRules())


def play(scheduler: StreamScheduler, now: float, agents: int = 2) -> list[tuple[int, Frame]]:
    """Take and send a picture of each agent at ``now``; return (stream, frame) of those sent."""
    stamp = round(now * 1000)
    taken = tuple(CapturedPicture(a, stamp, 0, stamp, picture(a)) for a in range(agents))
    rows = tuple(row_from_report(report(agent, badges=8 - agent)) for agent in range(agents))
    scheduler.add_segments([Segment(stamp, "slot-0", "", "", "0", stamp, rows, {}, ())], now)
    scheduler.choose_agents(now)
    scheduler.add_segments([Segment(stamp + 1, "slot-0", "", "", "0", stamp, rows, {}, taken)], now)
    return frames(scheduler, now)


def frames(scheduler: StreamScheduler, now: float) -> list[tuple[int, Frame]]:
    return [(frame.stream, read_frame(frame.body)) for frame in scheduler.due_frames(now)]


def test_a_new_viewer_sees_the_last_pictures_known_at_once_and_how_old_they_are() -> None:
    scheduler = make_scheduler()
    sent = {stream: frame.captured_ms for stream, frame in play(scheduler, 100.0)}
    scheduler.restart_streams()
    again = frames(scheduler, 160.0)
    assert [frame.captured_ms for _, frame in again] == list(sent.values()) == [100_000] * 2
    assert not {stream for stream, _ in again} & set(sent), "streams of their own"
    assert {frame.base for _, frame in again} == {0}


def test_an_agent_that_comes_back_is_there_at_once() -> None:
    scheduler = make_scheduler()
    play(scheduler, 100.0)
    scheduler.subscription = Subscription(1, 15.0)
    scheduler.choose_agents(101.0)
    scheduler.subscription = Subscription(2, 15.0)
    scheduler.choose_agents(102.0)
    assert [frame.step for _, frame in frames(scheduler, 102.0)] == [100_000]
    assert not scheduler.lacks_picture()


def test_on_a_line_that_stays_full_the_first_agent_is_left_and_the_person_is_told() -> None:
    scheduler, message, now = make_scheduler(), [], 100.0
    for number in range(200):
        now = 100.0 + number / 5
        lag_s = 0.05 if number < 10 else 1.5
        for stream, frame in play(scheduler, now):
            message += scheduler.handle_viewer_message(
                Message(MessageKind.ACK, pack_ack(frame.seq), stream), now + lag_s
            )
    assert message == ["this line is slow: pictures of the first agent only"]
    assert {stream for stream, _ in play(scheduler, now + 5)} == {1}


def full_line() -> StreamScheduler:
    scheduler = make_scheduler()
    scheduler._rate.first_agent_only = True
    return scheduler


def test_who_falls_silent_keeps_nobody_out_of_a_full_line() -> None:
    scheduler = full_line()
    assert [stream for stream, _ in play(scheduler, 100.0)] == [1]
    assert frames(scheduler, 100.5) == [], "between two pictures the first is still the first"
    assert [stream for stream, _ in frames(scheduler, 100.0 + FREE_S)] == [2]


def test_a_quiet_line_has_room() -> None:
    scheduler = make_scheduler(1)
    scheduler._rate.first_agent_only = True
    ((stream, frame),) = play(scheduler, 101.0, 1)
    scheduler.handle_viewer_message(Message(MessageKind.ACK, pack_ack(frame.seq), stream), 101.1)
    assert scheduler.due_frames(101.1) == []
    (message,) = scheduler.due_frames(101.1 + FREE_S)
    assert message == note_message("the line has room again: pictures of all agents")


class SetClock(SystemClock):
    """A clock that the test sets."""

    seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


@contextmanager
def served(run: Path, clock: SetClock) -> Iterator[tuple[Relay, socket.socket]]:
    """Run a relay at one end of a connection; yield it and the other end."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(PATIENCE_S)
    link = OutgoingConnection("", 0, lambda: [TOKEN], open_socket=ours)
    paths = RunPaths(run)
    paths.stream.mkdir(parents=True)
    with theirs:
        yield Relay(paths, link, make_scheduler(), None, clock), theirs
        link.close()


def test_who_connects_is_told_at_once_of_jobs_that_spoke_since_the_last_look(
    tmp_path: Path,
) -> None:
    clock = SetClock()
    with served(tmp_path, clock) as (relay, wire):
        viewer = StreamSession(VIEWER, [TOKEN], b"v" * 16)
        relay.step()
        data = pack_segment(1, WriterIdentity("slot-0", "n", "1", "0"), 5, [report(0)], [])
        (tmp_path / "stream" / "spool").mkdir()
        SpoolWriter(tmp_path / "stream", "slot-0").write(1, data)
        clock.seconds += IDLE_POLL_S / 4
        heard: list[Message] = []
        while MessageKind.TELEM not in {message.kind for message in heard}:
            relay.step()
            heard += viewer.receive(wire.recv(1 << 16))
            wire.sendall(viewer.take_output())
    telem = next(message for message in heard if message.kind == MessageKind.TELEM)
    assert telem.body[:2] != b"\0\0", "somebody is featured"
    assert (tmp_path / "stream" / "wanted.json").exists(), "and pictures of it are asked for"


def test_what_a_step_has_made_leaves_with_it(tmp_path: Path) -> None:
    with served(tmp_path, SetClock()) as (relay, wire):
        viewer = StreamSession(VIEWER, [TOKEN], b"v" * 16)
        relay.step()
        while not viewer.established:
            relay.step()
            viewer.receive(wire.recv(1 << 16))
            wire.sendall(viewer.take_output())
        relay.step()
        assert MessageKind.STATUS in {
            message.kind for message in viewer.receive(wire.recv(1 << 16))
        }
