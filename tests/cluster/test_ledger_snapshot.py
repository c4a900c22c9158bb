"""The snapshot beside the ledger spares reading, and is never believed against the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Daddy.cluster.orchestrator import ledger as ledger_module
from Daddy.cluster.orchestrator.history import Entry, replay
from Daddy.cluster.orchestrator.ledger import LedgerFile, read_entries, recall
from Daddy.cluster.orchestrator.ledger_snapshot import EVERY, keep, kept, place
from Daddy.cluster.orchestrator.records import Ledger
from Daddy.core.files import sha256_hex


def history(attempts: int) -> Iterator[Entry]:
    """What a run of four slots writes down, with a word of every kind about the run itself."""
    yield Entry("start", 0.5, data={"release": "r0", "asked": 0.25})
    yield Entry("learnt", 1.0, data={"site": {"enforced": True, "max_running": 4}})
    yield Entry("orphaned", 2.0, data={"slot": 3, "term": 9, "reason": "node died"})
    for number in range(1, attempts + 1):
        token, ts = f"{number:012x}", 100.1234567 * number  # clocks tell more than lines
        yield Entry("intent", ts, token, {"number": number, "release": "r1", "exclude": ["n7"]})
        yield Entry("submitted", ts + 1, token, {"job_id": 1000 + number})
        yield Entry("started", ts + 2, token, {"started_ts": ts + 1.5, "node": "n1"})
        yield Entry("claimed", ts + 3, token, {"slot": number % 4, "term": number, "slow": True})
        yield Entry("progressed", ts + 4, token, {"checkpoint_step": 512})
        yield Entry("noticed", ts + 5, data={"notice": "breaker"})
        if number < attempts - 4:
            yield Entry("left", ts + 350, token, {"reason": "wall time"})
            yield Entry("ended", ts + 351, token, {"outcome": "drained", "reason": "wall time"})


def write(path: Path, attempts: int) -> LedgerFile:
    ledger = LedgerFile(path, term=1)
    for entry in history(attempts):
        ledger.append(entry)
    return ledger


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A ledger of which old attempts were let go: its bytes."""
    path = tmp_path_factory.mktemp("months") / "ledger.jsonl"
    ledger = write(path, 300)
    assert len(ledger.view.attempts) < 300
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, months: bytes) -> Path:
    """That ledger, with the snapshot that a controller writes when it begins."""
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(months)
    LedgerFile(path, term=2)
    assert place(path).exists()
    return path


def test_a_long_ledger_is_recalled_without_parsing_its_beginning(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth, parse, parsed = replay(read_entries(path)), ledger_module._parse, list[bytes]()

    def counted(line: bytes) -> Entry | None:
        parsed.append(line)
        return parse(line)

    with path.open("ab") as stream:
        stream.write(b'{"v":1,"ts":9e9,"by":9,"kind":"start"}\n')
    monkeypatch.setattr(ledger_module, "_parse", counted)
    assert recall(path) == replace(truth, started_ts=9e9, asked_ts=9e9, noticed={})
    assert len(parsed) == 1


def test_a_controller_keeps_a_snapshot_now_and_then_and_facts_behind_it_count(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = write(path, 150)
    _, size = kept(path)
    assert EVERY <= size < path.stat().st_size
    assert recall(path) == replay(read_entries(path))
    assert len(recall(path).attempts) == len(ledger.view.attempts) == 150


def test_a_young_run_has_none(tmp_path: Path) -> None:
    write(path := tmp_path / "ledger.jsonl", 3)
    assert not place(path).exists()
    assert recall(path) == replay(read_entries(path))
    assert recall(tmp_path / "nowhere.jsonl") == Ledger()


@settings(max_examples=30)
@given(cut=st.integers(0, 40), rest=st.integers(0, 40))
def test_a_snapshot_taken_anywhere_tells_the_same(
    tmp_path_factory: pytest.TempPathFactory, months: bytes, cut: int, rest: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "ledger.jsonl"
    lines = months.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: 50 * cut]))
    size = path.stat().st_size
    keep(path, size, replay(read_entries(path)))
    path.write_bytes(b"".join(lines[: 50 * cut + rest]))
    assert kept(path)[1] == size
    assert recall(path) == replay(read_entries(path))


def _record(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(place(path).read_bytes().partition(b"\n")[2])
    return record


def _with(**changes: object) -> Callable[[Path], None]:
    """Other words in its record, written by somebody who knows how."""

    def change(path: Path) -> None:
        data = json.dumps({**_record(path), **changes}).encode()
        place(path).write_bytes(sha256_hex(data).encode() + b"\n" + data)

    return change


def _damaged(path: Path) -> None:
    """One digit of one attempt."""
    data = place(path).read_bytes()
    assert data.count(b'"job_id":1250') == 1
    place(path).write_bytes(data.replace(b'"job_id":1250', b'"job_id":1251'))


def _as_a_folder(path: Path) -> None:
    place(path).unlink()
    place(path).mkdir()


def _of_another_ledger(path: Path) -> None:
    """The same length, but other last lines: as when somebody put back what they had kept."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[2:], lines[1]]))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: place(path).write_bytes(b""),
        lambda path: place(path).write_bytes(place(path).read_bytes()[:-300]),
        lambda path: place(path).write_bytes(b"\x80" * 4000),
        lambda path: place(path).write_bytes(b" " * (1 << 20) + place(path).read_bytes()),
        _as_a_folder,
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"#" * 100 + path.read_bytes()[100:]),
        _of_another_ledger,
        _damaged,
        _with(made_by="other code"),
        _with(size=-7),
        _with(size=4711),
        _with(size=10**20),
        _with(ledger={"attempts": [{"token": 1}]}),
        _with(ledger=None),
    ],
)
def test_a_snapshot_that_does_not_fit_is_passed_over(
    path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(path)
    assert kept(path) == (Ledger(), 0)
    assert recall(path) == replay(read_entries(path))


def test_what_somebody_else_wrote_and_half_a_line_are_in_the_next_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = LedgerFile(path, term=1)
    for entry in history(60):
        ledger.append(entry)
    with path.open("ab") as stream:
        stream.write(b'{"v":1,"ts":9e9,"by":9,"kind":"start"}\n{"v":1,"ts":9e9,"by":9,"ki')
    for entry in history(150):
        ledger.append(entry)
    assert kept(path)[1] >= EVERY
    assert kept(path)[0].noticed
    assert recall(path) == replay(read_entries(path))


def test_a_file_that_ends_within_a_line_is_not_kept(path: Path) -> None:
    before = place(path).read_bytes()
    keep(path, path.stat().st_size - 5, Ledger())
    assert place(path).read_bytes() == before


def test_a_reason_that_is_no_text_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = write(path, 150)
    place(path).unlink()
    ledger.append(Entry("left", 9e9, f"{149:012x}", {"reason": "bad \udcff"}))
    again = LedgerFile(path, term=2)
    assert again.view.attempts[148].reason == "bad \udcff"
    assert not place(path).exists()
    assert recall(path) == replay(read_entries(path))


def test_a_snapshot_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    place(path).mkdir()
    write(path, 150)
    assert recall(path) == replay(read_entries(path))
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".tmp")] == []


def test_who_opens_the_ledger_again_and_again_does_not_write_it_each_time(path: Path) -> None:
    before = place(path).stat().st_ino
    LedgerFile(path, term=3)
    assert place(path).stat().st_ino == before
