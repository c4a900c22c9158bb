"""The ledger stays readable after crashes and errors during a write."""

import json
import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from Daddy.cluster.orchestrator.controller_types import Ledger, Phase
from Daddy.cluster.orchestrator.ledger_file import LedgerFile, read_entries
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry, fold, replay

FACTS = [
    LedgerEntry("start", 1.0),
    LedgerEntry("intent", 2.0, "aa", {"number": 1, "release": "r1"}),
    LedgerEntry("submitted", 3.0, "aa", {"job_id": 17}),
    LedgerEntry("started", 4.0, "aa", {"started_ts": 3.5, "node": "n1"}),
    LedgerEntry("claimed", 5.0, "aa", {"slot": 2, "term": 9}),
    LedgerEntry("progressed", 6.0, "aa", {"checkpoint_step": 512}),
    LedgerEntry("left", 7.0, "aa", {"reason": "wall time"}),
    LedgerEntry("ended", 8.0, "aa", {"outcome": "drained", "reason": "wall time"}),
    LedgerEntry("learnt", 9.0, data={"site": {"enforced": True}, "why": "job 9 waits for the cap"}),
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
    reopened.append(LedgerEntry("intent", 10.0, "bb", {"number": 2}))
    assert list(read_entries(path))[-1].token == "bb"
    assert len(list(read_entries(path))) == len(kept) + 1


def test_a_line_of_another_version_or_another_kind_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    written(path)
    with path.open("a") as stream:
        stream.write('{"v":2,"ts":1,"kind":"intent","token":"cc","number":3}\n')
        stream.write('{"v":1,"ts":1,"by":1,"kind":"unheard-of","token":"aa"}\n[1]\nnoise\n')
    assert [attempt.token for attempt in LedgerFile(path, term=3).view.attempts] == ["aa"]


def test_an_amendment_that_excludes_null_excludes_no_node() -> None:
    entries = [*FACTS[:3], LedgerEntry("amended", 4.0, "aa", {"exclude": None})]
    assert replay(entries).attempts[0].requests.excluded == ()


def test_every_line_names_the_term_that_wrote_it(tmp_path: Path) -> None:
    written(tmp_path / "ledger.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert {line["by"] for line in lines} == {1}


def test_old_ended_attempts_are_let_go_and_live_ones_never() -> None:
    entries = [LedgerEntry("intent", 0.0, "live", {"number": 1})]
    for number in range(2, 700):
        token = f"t{number}"
        entries.append(LedgerEntry("intent", number, token, {"number": number}))
        entries.append(LedgerEntry("ended", number, token, {"outcome": "drained"}))
    ledger = replay(entries)
    assert len(ledger.attempts) <= 501
    assert ledger.attempts[0].token == "live"
    assert ledger.next_number == 700


def test_many_entries_at_once_are_as_many_one_by_one() -> None:
    """A month is replayed in one call; a pass writes and folds fact by fact."""
    dice, entries = random.Random(3), list[LedgerEntry]()
    for number in range(600):
        token = f"{number:012x}"
        entries.append(LedgerEntry("intent", float(number), token, {"number": number + 1}))
        entries.append(LedgerEntry("submitted", float(number), token, {"job_id": number}))
        entries.append(LedgerEntry("started", float(number), token))
        older = f"{dice.randrange(number + 1):012x}"
        entries.append(LedgerEntry("ended", number + 0.5, older, {"outcome": "drained"}))
        kind = dice.choice(["learnt", "unheard of", "noticed"])
        entries.append(LedgerEntry(kind, 0.0, "", {"notice": "x"}))
    singly = Ledger()
    for entry in entries:
        singly = fold(singly, entry)
    assert replay(entries) == singly
    assert fold(fold(Ledger(), *entries[:999]), *entries[999:]) == singly
    assert len(singly.attempts) < 600, "old ones were let go"
    assert singly.attempts[-1].number == 600
