"""A relay connects to the jobs' ports at once, authenticated, and goes on reading the spool."""

import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from Daddy.core.host_and_processes import host_name
from Daddy.streaming import relay as relays
from Daddy.streaming.learner.direct_port import (
    LOOKUP_AGAIN_S,
    MAX_UNAUTHENTICATED,
    REPUBLISH_S,
    AddressLookup,
    DirectPort,
)
from Daddy.streaming.login import relay_connections as direct
from Daddy.streaming.login.fleet_state import FleetState
from Daddy.streaming.login.relay_connections import Deduplicator, JobConnections
from Daddy.streaming.login.stream_folder import (
    ensure_jobs_token,
    own_address,
    read_addresses,
    write_address,
)
from Daddy.streaming.protocol.framing import Message, MessageKind
from Daddy.streaming.protocol.handshake import RELAY, StreamSession, Token
from Daddy.streaming.protocol.messages import row_from_report
from Daddy.streaming.protocol.spool_segment import (
    CapturedPicture,
    Segment,
    WriterIdentity,
    pack_head,
    pack_reports,
)
from Daddy.streaming.tunnel_client import FrameSender
from Daddy.streaming.viewer.receiver import Receiver
from tests.patience import PATIENCE_S, until
from tests.streaming.helpers import OTHER, report
from tests.streaming.test_relay_to_viewer import relay
from tests.streaming.test_stream_faults import play

WHO = WriterIdentity("slot-0", "node3", "17", "0" * 8)


def frames(viewer: Receiver) -> int:
    return sum(viewer.current_scene(16).frames.values())


@contextmanager
def playing(stream: Path) -> Iterator[FrameSender]:
    """Run a job on this host with two agents."""
    stop = threading.Event()
    with FrameSender(stream, "slot-0", job="17") as sender:
        thread = threading.Thread(target=play, args=(sender, stop), daemon=True)
        thread.start()
        try:
            yield sender
        finally:
            stop.set()
            thread.join(5)


def more(viewer: Receiver, count: int = 10) -> bool:
    before = frames(viewer)
    return until(lambda: frames(viewer) >= before + count, 25)


def test_pictures_come_straight_from_the_jobs_and_by_the_spool_when_that_fails(
    run: Path, token: Path, viewer: Receiver, monkeypatch
) -> None:
    monkeypatch.setattr(direct, "DIAL_S", 0.5)
    with playing(run / "stream"), relay(run, viewer.port, token):
        assert until(lambda: frames(viewer) and viewer.current_scene(2).delivery == "direct", 20)
        addresses = read_addresses(run / "stream")
        assert {address.address for address in addresses.values()} == {"127.0.0.1"}, (
            "the relay is here, too"
        )
        assert until(lambda: max(p.age_s for p in viewer.current_scene(2).panels) < 0.4, 10)
        with socket.create_server(("127.0.0.1", 0)) as deaf:  # as behind a firewall: never answers
            for peer, address in addresses.items():
                write_address(run / "stream", peer, replace(address, port=deaf.getsockname()[1]))
            assert until(lambda: "spool" in viewer.current_scene(2).delivery, 15)
            assert more(viewer)
            assert viewer.current_scene(2).connected


def test_the_port_is_closed_when_nobody_watches_and_never_open_when_that_is_off(
    run: Path, token: Path, viewer: Receiver, monkeypatch
) -> None:
    monkeypatch.setattr(relays, "LINGER_S", 0.5)
    stream = run / "stream"
    with (
        FrameSender(stream, "slot-0") as first,
        FrameSender(stream, "slot-1", direct=False) as other,
    ):
        first.send_reports([report(0)])
        other.send_reports([report(0)])
        with relay(run, viewer.port, token):
            assert until(lambda: read_addresses(stream).keys() == {"slot-0"}, 15)
            viewer.close()
            assert until(lambda: not read_addresses(stream), 15)


# -- each end by itself


def served(listener: DirectPort, dial: JobConnections, reached, seconds: float = 5.0) -> bool:
    def step() -> bool:
        now = time.monotonic()
        dial.dial_jobs(now)
        found = dial.receive_segments(now)
        listener.step(now)
        return bool(reached(found, now))

    return until(step, seconds)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[DirectPort]:
    head = pack_head(pack_reports(WHO, [report(3, step=9)]), 5)
    made = DirectPort(tmp_path, WHO, lambda: head)
    made.listen_for(frozenset({WHO.host}), 0.0)
    yield made
    made.close()


def test_who_comes_late_is_told_the_segment_so_far(tmp_path: Path, job: DirectPort) -> None:
    dial = JobConnections(tmp_path, lambda: ensure_jobs_token(tmp_path))
    got: list[Segment] = []
    assert served(job, dial, lambda found, now: got.extend(found) or got)
    assert (got[0].peer, got[0].rows[0].step) == ("slot-0", 9)
    assert dial.recently_heard(time.monotonic()) == {"slot-0"}
    dial.close_all()
    assert until(lambda: job.step(time.monotonic()) or not job.relays, 5)


def unreadable() -> list[Token]:
    raise PermissionError(13, "another account's run")


@pytest.mark.parametrize("tokens", [lambda: [OTHER], unreadable])
def test_another_token_reaches_nobody_and_says_nothing(
    tmp_path: Path, job: DirectPort, tokens: Callable[[], list[Token]]
) -> None:
    dial = JobConnections(tmp_path, tokens)
    asked = []
    assert served(job, dial, lambda found, now: asked.append(found) or len(asked) > 20)
    assert not any(asked)
    assert job.authenticated_count == 0
    assert dial.recently_heard(time.monotonic()) == frozenset()
    dial.close_all()


def test_a_job_that_speaks_for_another_is_not_believed(tmp_path: Path, job: DirectPort) -> None:
    where = read_addresses(tmp_path)["slot-0"]
    write_address(tmp_path, "slot-0", replace(where, port=0))
    write_address(tmp_path, "slot-7", where)
    dial = JobConnections(tmp_path, lambda: ensure_jobs_token(tmp_path))
    asked = []
    assert served(
        job,
        dial,
        lambda found, now: asked.append(found) or (job.authenticated_count and len(asked) > 20),
    )
    assert not any(asked)
    dial.close_all()


def test_strangers_get_not_a_byte_and_the_port_back_in_three_seconds(job: DirectPort) -> None:
    began = time.monotonic()
    silent = []
    try:
        for _ in range(MAX_UNAUTHENTICATED + 2):
            silent.append(socket.create_connection(("127.0.0.1", job.port), timeout=PATIENCE_S))
            job.step(began)
        assert len(job.relays) == MAX_UNAUTHENTICATED
        garbage, unknown = silent[-2:]
        garbage.sendall(b"\x05\x00\x00\x00\xff\xff\xff\xff")  # a FRAME of 4 GiB
        unknown.sendall(StreamSession(RELAY, [OTHER], b"r" * 16).take_output())
        assert until(lambda: job.step(began) or len(job.relays) == MAX_UNAUTHENTICATED - 2, 5)
        job.step(began + 3.1)
        assert job.relays == []
        for wire in silent:
            assert wire.recv(4096) == b"", "no nonce, no reason, no name of a key"
    finally:
        for wire in silent:
            wire.close()


def test_strangers_lock_no_relay_out(tmp_path: Path, job: DirectPort) -> None:
    with ExitStack() as crowd:

        def come_again() -> None:
            """Connect as often as there is room for, and once more."""
            strangers = [relay for relay in job.relays if not relay.greeted]
            for _ in range(max(1, 4 - len(strangers))):
                wire = socket.create_connection((job.address, job.port), timeout=PATIENCE_S)
                crowd.enter_context(wire)

        come_again()
        job.step(time.monotonic())
        dial = JobConnections(tmp_path, lambda: ensure_jobs_token(tmp_path))
        assert served(job, dial, lambda found, now: come_again() or job.authenticated_count)
        dial.close_all()


def test_a_port_that_lets_nobody_in_is_not_listened_to_until_the_next_look(job: DirectPort) -> None:
    assert job in job.read_sockets
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_connection((job.address, job.port)), Path(os.devnull).open() as next_free:
        resource.setrlimit(resource.RLIMIT_NOFILE, (next_free.fileno() + 1, hard))
        try:
            job.step(0.0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert job.read_sockets == []


def test_a_relay_that_does_not_read_is_dropped(tmp_path: Path, job: DirectPort) -> None:
    dial = JobConnections(tmp_path, lambda: ensure_jobs_token(tmp_path))
    assert served(job, dial, lambda found, now: found)
    piece = Message(MessageKind.FRAME, bytes(6000), stream=1)
    for _ in range(2000):
        job.broadcast([piece])
        job.step(time.monotonic())
    assert job.relays == []
    dial.close_all()


def test_a_picture_is_shown_once_whichever_way_came_first() -> None:
    def make_segment(*captured: int, incarnation: str = "a") -> Segment:
        pictures = tuple(CapturedPicture(0, 1, 0, captured_ms, b"") for captured_ms in captured)
        return Segment(1, "slot-0", "n", "1", incarnation, 0, (), {}, pictures)

    sieve = Deduplicator()
    ways = [make_segment(1, 2), make_segment(3), make_segment(1, 2, 3, 4)]
    kept = [
        [picture.captured_ms for picture in segment.pictures]
        for segment in map(sieve.without_repeated, ways)
    ]
    assert kept == [[1, 2], [3], [4]]
    after = sieve.without_repeated(make_segment(1, incarnation="b"))
    assert len(after.pictures) == 1, "a successor's clock has nothing to do with it"


def test_the_spool_tells_nothing_older_than_what_came_straight() -> None:
    def make_segment(sent_ms: int, step: int, incarnation: str = "a") -> Segment:
        rows = (row_from_report(report(0, step=step)),)
        return Segment(1, "slot-0", "n", "1", incarnation, sent_ms, rows, {}, ())

    fleet = FleetState()
    fleet.add_segments([make_segment(2000, 20), make_segment(1000, 10)], 1.0)
    assert fleet.status_fields((), 1.0)["steps"] == 20
    fleet.add_segments([make_segment(500, 5, "b")], 2.0)
    assert fleet.status_fields((), 2.0)["steps"] == 5, (
        "a successor's clock has nothing to do with it"
    )


def test_a_job_takes_back_its_own_address_alone_and_says_it_again(tmp_path: Path) -> None:
    here, port = frozenset({WHO.host}), DirectPort(tmp_path, WHO, list)
    port.listen_for(here, 0.0)
    ours = read_addresses(tmp_path)
    theirs = {"slot-0": replace(ours["slot-0"], incarnation="1" * 8)}
    write_address(tmp_path, "slot-0", theirs["slot-0"])
    port.listen_for(here, REPUBLISH_S)
    assert read_addresses(tmp_path) == ours, "a predecessor wrote last"
    write_address(tmp_path, "slot-0", theirs["slot-0"])
    port.close()
    assert read_addresses(tmp_path) == theirs


def test_a_port_that_nobody_can_be_told_of_is_closed_at_once(tmp_path: Path) -> None:
    here, port = frozenset({WHO.host}), DirectPort(tmp_path, WHO, list)
    port.listen_for(here, 0.0)
    port.listen_for(frozenset(), 0.1)
    (tmp_path / "direct").rename(tmp_path / "aside")
    (tmp_path / "direct").write_text("no folder: as on a full disk, nothing is written there")
    port.listen_for(here, 0.2)
    assert port.fileno() < 0
    (tmp_path / "direct").unlink()
    port.listen_for(here, 0.3)
    assert read_addresses(tmp_path)["slot-0"].port == port.port
    port.close()


def test_a_slow_name_server_holds_up_nobody_and_is_asked_again_when_it_found_nothing() -> None:
    gate, asked, found = threading.Event(), [], [None, "192.0.2.7"]

    def find(hosts: frozenset[str], host: str) -> str | None:
        asked.append(hosts)
        assert gate.wait(PATIENCE_S)
        return found[len(asked) - 1]

    lookup, login = AddressLookup("node3", find), frozenset({"login1"})
    assert [lookup.current_address(login, 1.0) for _ in range(3)] == [None] * 3
    gate.set()
    assert until(lambda: lookup.current_address(login, 1.0) or not lookup._lookup_running, 5)
    assert lookup.current_address(login, LOOKUP_AGAIN_S) is None
    assert asked == [login], "one question at a time, and not at once again"
    assert until(lambda: lookup.current_address(login, 1.0 + LOOKUP_AGAIN_S) == "192.0.2.7", 5)
    assert lookup.current_address(frozenset(), 40.0) is None


def test_where_to_listen() -> None:
    here = host_name()
    assert own_address(frozenset({here}), here) == "127.0.0.1"
    assert own_address(frozenset({"no-such-host.invalid"}), here) is None
    assert own_address(frozenset({"login..site"}), here) is None, "a name that can be none"
    assert own_address(frozenset({"127.0.0.2"}), here) is None, "never loopback for another host"


@pytest.mark.parametrize(
    "text", ["", "{}", '{"address":"login","port":1}', '{"address":"1.2.3.4","port":70000}']
)
def test_a_damaged_address_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "direct").mkdir()
    (tmp_path / "direct" / "slot-0.json").write_text(text)
    assert read_addresses(tmp_path) == {}
