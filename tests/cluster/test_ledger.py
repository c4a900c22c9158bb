"""The ledger on disk survives what crashes leave; its snapshot is never believed against it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Daddy.cluster.orchestrator import ledger as ledger_module
from Daddy.cluster.orchestrator.history import Entry, fold, replay
from Daddy.cluster.orchestrator.ledger import (
    EVERY,
    LedgerFile,
    read_entries,
    read_snapshot,
    recall,
    snapshot_path,
    write_snapshot,
)
from Daddy.cluster.orchestrator.records import Ledger, Phase
from Daddy.core.files import sha256_hex

FACTS = [
    Entry("start", 1.0),
    Entry("intent", 2.0, "aa", {"number": 1, "release": "r1"}),
    Entry("submitted", 3.0, "aa", {"job_id": 17}),
    Entry("started", 4.0, "aa", {"started_ts": 3.5, "node": "n1"}),
    Entry("claimed", 5.0, "aa", {"slot": 2, "term": 9}),
    Entry("progressed", 6.0, "aa", {"checkpoint_step": 512}),
    Entry("left", 7.0, "aa", {"reason": "wall time"}),
    Entry("ended", 8.0, "aa", {"outcome": "drained", "reason": "wall time"}),
    Entry("learnt", 9.0, data={"site": {"enforced": True}, "why": "job 9 waits for the cap"}),
]


def written(path: Path) -> LedgerFile:
    ledger = LedgerFile(path, term=1)
    for entry in FACTS:
        ledger.append(entry)
    return ledger


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "controller" / "ledger.jsonl"
    before = written(path).view
    after = LedgerFile(path, term=2).view
    assert after == before
    (attempt,) = after.attempts
    assert (attempt.job_id, attempt.slot, attempt.term, attempt.phase) == (17, 2, 9, Phase.ENDED)
    assert after.site.enforced


@given(cut=st.integers(0, 700))
def test_a_file_cut_anywhere_tells_a_shorter_truth_and_takes_new_facts(
    tmp_path_factory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    written(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    kept = list(read_entries(path))
    assert kept == FACTS[: len(kept)]
    reopened = LedgerFile(path, term=2)
    reopened.append(Entry("intent", 10.0, "bb", {"number": 2}))
    assert list(read_entries(path))[-1].token == "bb"
    assert len(list(read_entries(path))) == len(kept) + 1


def test_a_line_of_another_version_or_another_kind_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    written(path)
    with path.open("a") as stream:
        stream.write('{"v":2,"ts":1,"kind":"intent","token":"cc","number":3}\n')
        stream.write('{"v":1,"ts":1,"by":1,"kind":"unheard-of","token":"aa"}\n[1]\nnoise\n')
    assert [one.token for one in LedgerFile(path, term=3).view.attempts] == ["aa"]


def test_every_line_names_the_term_that_wrote_it(tmp_path: Path) -> None:
    written(tmp_path / "ledger.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert {line["by"] for line in lines} == {1}


def test_old_ended_attempts_are_let_go_and_live_ones_never() -> None:
    entries = [Entry("intent", 0.0, "live", {"number": 1})]
    for number in range(2, 700):
        token = f"t{number}"
        entries.append(Entry("intent", number, token, {"number": number}))
        entries.append(Entry("ended", number, token, {"outcome": "drained"}))
    ledger = replay(entries)
    assert len(ledger.attempts) <= 501
    assert ledger.attempts[0].token == "live"
    assert ledger.next_number == 700


def test_many_entries_at_once_are_as_many_one_by_one() -> None:
    """A month is replayed at once; a pass writes and folds one fact after the other."""
    dice, entries = random.Random(3), list[Entry]()
    for number in range(600):
        token = f"{number:012x}"
        entries.append(Entry("intent", float(number), token, {"number": number + 1}))
        entries.append(Entry("submitted", float(number), token, {"job_id": number}))
        entries.append(Entry("started", float(number), token))
        older = f"{dice.randrange(number + 1):012x}"
        entries.append(Entry("ended", number + 0.5, older, {"outcome": "drained"}))
        kind = dice.choice(["learnt", "unheard of", "noticed"])
        entries.append(Entry(kind, 0.0, "", {"notice": "x"}))
    singly = Ledger()
    for entry in entries:
        singly = fold(singly, entry)
    assert replay(entries) == singly
    assert fold(fold(Ledger(), *entries[:999]), *entries[999:]) == singly
    assert len(singly.attempts) < 600, "old ones were let go"
    assert singly.attempts[-1].number == 600


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
    assert snapshot_path(path).exists()
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
    _, size = read_snapshot(path)
    assert EVERY <= size < path.stat().st_size
    assert recall(path) == replay(read_entries(path))
    assert len(recall(path).attempts) == len(ledger.view.attempts) == 150


def test_a_young_run_has_none(tmp_path: Path) -> None:
    write(path := tmp_path / "ledger.jsonl", 3)
    assert not snapshot_path(path).exists()
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
    write_snapshot(path, size, replay(read_entries(path)))
    path.write_bytes(b"".join(lines[: 50 * cut + rest]))
    assert read_snapshot(path)[1] == size
    assert recall(path) == replay(read_entries(path))


def _record(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(snapshot_path(path).read_bytes().partition(b"\n")[2])
    return record


def _with(**changes: object) -> Callable[[Path], None]:
    """Other words in its record, written by somebody who knows how."""

    def change(path: Path) -> None:
        data = json.dumps({**_record(path), **changes}).encode()
        snapshot_path(path).write_bytes(sha256_hex(data).encode() + b"\n" + data)

    return change


def _damaged(path: Path) -> None:
    """One digit of one attempt."""
    data = snapshot_path(path).read_bytes()
    assert data.count(b'"job_id":1250') == 1
    snapshot_path(path).write_bytes(data.replace(b'"job_id":1250', b'"job_id":1251'))


def _as_a_folder(path: Path) -> None:
    snapshot_path(path).unlink()
    snapshot_path(path).mkdir()


def _of_another_ledger(path: Path) -> None:
    """The same length, but other last lines: as when somebody put back what they had kept."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[2:], lines[1]]))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: snapshot_path(path).write_bytes(b""),
        lambda path: snapshot_path(path).write_bytes(snapshot_path(path).read_bytes()[:-300]),
        lambda path: snapshot_path(path).write_bytes(b"\x80" * 4000),
        lambda path: snapshot_path(path).write_bytes(
            b" " * (1 << 20) + snapshot_path(path).read_bytes()
        ),
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
    assert read_snapshot(path) == (Ledger(), 0)
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
    assert read_snapshot(path)[1] >= EVERY
    assert read_snapshot(path)[0].noticed
    assert recall(path) == replay(read_entries(path))


def test_a_file_that_ends_within_a_line_is_not_kept(path: Path) -> None:
    before = snapshot_path(path).read_bytes()
    write_snapshot(path, path.stat().st_size - 5, Ledger())
    assert snapshot_path(path).read_bytes() == before


def test_a_reason_that_is_no_text_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = write(path, 150)
    snapshot_path(path).unlink()
    ledger.append(Entry("left", 9e9, f"{149:012x}", {"reason": "bad \udcff"}))
    again = LedgerFile(path, term=2)
    assert again.view.attempts[148].reason == "bad \udcff"
    assert not snapshot_path(path).exists()
    assert recall(path) == replay(read_entries(path))


def test_a_snapshot_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    snapshot_path(path).mkdir()
    write(path, 150)
    assert recall(path) == replay(read_entries(path))
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".tmp")] == []


def test_who_opens_the_ledger_again_and_again_does_not_write_it_each_time(path: Path) -> None:
    before = snapshot_path(path).stat().st_ino
    LedgerFile(path, term=3)
    assert snapshot_path(path).stat().st_ino == before
