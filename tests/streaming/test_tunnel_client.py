"""Training never waits for the stream: not for a full spool, a read-only folder or a dead disk."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest

from Daddy.core.vocabulary import SCREEN_BYTES
from Daddy.streaming import seats, tunnel_client
from Daddy.streaming.spool import SpoolReader, SpoolWriter, Wishes, read_wishes, write_wishes
from Daddy.streaming.tunnel_client import FrameSender
from tests.patience import until
from tests.streaming.helpers import picture, report


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(tunnel_client, "WRITE_EVERY_S", 0.05)
    monkeypatch.setattr(tunnel_client, "RETRY_S", 0.1)


def ask(stream: Path, counter: int = 1, agents: frozenset[int] = frozenset({3})) -> None:
    write_wishes(stream, Wishes(counter, 60.0, {"slot-1": agents}))


def test_reports_and_wanted_pictures_reach_the_spool(tmp_path: Path) -> None:
    reader, got = SpoolReader(tmp_path), []
    ask(tmp_path)
    with FrameSender(tmp_path, "slot-1", job="17", host="node3") as sender:
        sender.report([report(3, step=42), report(4)])
        assert until(lambda: sender.wanted() == {3}, 5)
        sender.offer(3, picture(1))
        sender.offer(4, picture(2))
        assert until(lambda: got.extend(reader.poll()) or any(s.pictures for s in got), 5)
    shown = [one for segment in got for one in segment.pictures]
    assert [(one.agent, one.step, one.pixels) for one in shown] == [(3, 42, picture(1))]
    assert (got[0].peer, got[0].job, got[0].host) == ("slot-1", "17", "node3")
    assert {row.agent for row in got[-1].rows} == {3, 4}


def test_nobody_watching_means_nothing_is_wanted(tmp_path: Path) -> None:
    with FrameSender(tmp_path, "slot-1") as sender:
        time.sleep(0.2)
        assert sender.wanted() == frozenset()
        sender.offer(3, picture(1))
        assert sender._pictures == []


def test_a_wish_list_whose_counter_stands_still_wears_off(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(seats, "WATCHED_FOR_S", 0.5)
    ask(tmp_path)
    with FrameSender(tmp_path, "slot-1") as sender:
        assert until(sender.wanted, 5)
        assert until(lambda: not sender.wanted(), 5)
        ask(tmp_path, counter=2)
        assert until(sender.wanted, 5)


def test_pictures_are_taken_at_the_pace_asked_for(tmp_path: Path) -> None:
    write_wishes(tmp_path, Wishes(1, 5.0, {"slot-1": frozenset({0})}))
    with FrameSender(tmp_path, "slot-1") as sender:
        assert until(sender.wanted, 5)
        end = time.monotonic() + 1.0
        taken = 0
        before = len(sender._pictures)
        while time.monotonic() < end:
            sender.offer(0, picture(0))
            taken += 1
            time.sleep(0.002)
        kept = len(sender._pictures) - before
    assert taken > 100
    assert 3 <= kept <= 6


class _Stuck:
    """A disk that takes nothing for a while: every write hangs until released."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def next_sequence(self) -> int:
        return 1

    def write(self, sequence: int, data: bytes) -> None:
        self.release.wait(20)


def test_a_hanging_disk_never_holds_up_training_and_memory_stays_bounded(tmp_path: Path) -> None:
    ask(tmp_path)
    with FrameSender(tmp_path, "slot-1") as sender:
        stuck = _Stuck()
        sender._spool = stuck  # type: ignore[assignment]
        sender.report([report(3)])
        assert until(sender.wanted, 5)
        sender._interval_s = 0.0
        pixels, slowest = picture(1), 0.0
        for _ in range(2000):
            began = time.perf_counter()
            sender.offer(3, pixels)
            sender.report([report(3)])
            slowest = max(slowest, time.perf_counter() - began)
        assert len(sender._pictures) <= tunnel_client.MAX_PENDING
        assert sender.dropped > 1000
        assert slowest < 0.2
        stuck.release.set()


@pytest.mark.parametrize("obstacle", ["a file", "no folder may be made", "full disk"])
def test_a_folder_that_refuses_is_counted_and_tried_again(
    tmp_path: Path, obstacle: str, monkeypatch
) -> None:
    stream = tmp_path / "stream"
    stream.mkdir()
    if obstacle == "full disk":

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "pwrite", full)
    else:
        (stream / "spool").write_text("in the way")
    with FrameSender(stream, "slot-1") as sender:
        sender.report([report(3)])
        assert until(lambda: sender.failures >= 2, 5)
        assert sender.wanted() == frozenset()
        monkeypatch.undo()
        (stream / "spool").unlink() if (stream / "spool").is_file() else None
        assert until(lambda: sender.written > 0, 15)


def test_a_fault_of_ours_is_tried_once_more_and_then_the_stream_is_off(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    def broken(*_: object) -> bytes:
        raise ValueError("a bug")

    ask(tmp_path)
    with FrameSender(tmp_path, "slot-1") as sender:
        assert until(sender.wanted, 5)
        monkeypatch.setattr(tunnel_client, "pack_segment", broken)
        sender._written_at = -1e9
        sender.report([report(3)])
        assert until(lambda: not sender._thread.is_alive(), 10)
        sender.report([report(3)])
        sender.offer(3, picture(1))
        assert sender.wanted() == frozenset()
        assert sender._pictures == []
    said = capsys.readouterr().err
    assert said.count("stream: off until this job ends") == 1


def test_offers_of_the_wrong_size_are_passed_over(tmp_path: Path) -> None:
    ask(tmp_path)
    with FrameSender(tmp_path, "slot-1") as sender:
        assert until(sender.wanted, 5)
        sender.offer(3, bytes(SCREEN_BYTES - 1))
        assert sender._pictures == []


def test_closing_writes_what_is_left_and_leaves_no_thread(tmp_path: Path) -> None:
    sender = FrameSender(tmp_path, "slot-1")
    sender.report([report(0)])
    sender.close()
    assert not sender._thread.is_alive()
    assert [segment.peer for segment in SpoolReader(tmp_path).poll()][-1] == "slot-1"


def test_two_fixed_files_per_peer_readable_by_their_owner_alone(tmp_path: Path) -> None:
    with FrameSender(tmp_path, "slot-1") as sender:
        for number in range(6):
            sender.report([report(0, step=number)])
            sender._written_at = -1e9
            time.sleep(0.1)
    files = sorted((tmp_path / "spool").iterdir())
    assert [one.name for one in files] == ["slot-1.a", "slot-1.b"]
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}


def test_a_successor_goes_on_where_its_predecessor_ended(tmp_path: Path) -> None:
    reader = SpoolReader(tmp_path)
    for job in ("1", "2", "3"):
        with FrameSender(tmp_path, "slot-1", job=job) as sender:
            sender.report([report(0)])
        assert [one.job for one in reader.poll()][-1] == job


def test_a_file_that_names_another_peer_is_not_believed(tmp_path: Path) -> None:
    with FrameSender(tmp_path, "slot-1") as sender:
        sender.report([report(0)])
    for end in "ab":
        path = tmp_path / "spool" / f"slot-1.{end}"
        if path.exists():
            path.rename(tmp_path / "spool" / f"slot-2.{end}")
    assert SpoolReader(tmp_path).poll() == []


def test_a_link_in_the_spool_is_never_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "spool").mkdir()
    for end in "ab":
        (tmp_path / "spool" / f"slot-1.{end}").symlink_to(victim)
    with FrameSender(tmp_path, "slot-1") as sender:
        sender.report([report(0)])
        assert until(lambda: sender.failures, 5)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"counter":1,"fps":"x","wanted":{}}', "\x00",
     '{"counter":1,"fps":1,"wanted":{"slot-1":[1e999]}}'],
)  # fmt: skip
def test_a_damaged_wish_list_is_no_wish(tmp_path: Path, text: str) -> None:
    (tmp_path / "wanted.json").write_text(text)
    assert read_wishes(tmp_path) is None


def test_a_writer_alternates_so_that_the_newest_whole_segment_survives_a_torn_one(
    tmp_path: Path,
) -> None:
    from Daddy.streaming.segment import Writer, pack_segment

    writer, reader = SpoolWriter(tmp_path, "slot-1"), SpoolReader(tmp_path)
    for _ in range(3):
        sequence = writer.next_sequence()
        who = Writer("slot-1", "node", "1", "0" * 8)
        writer.write(sequence, pack_segment(sequence, who, 0, [report()], []))
    torn = pack_segment(4, who, 0, [report(step=n) for n in range(9)], [])[:-5]
    writer.write(4, torn)
    assert [one.sequence for one in reader.poll()] == [3]
