"""Random schedules over lagging files, and the proof that they find injected faults.

Ten thousand of them: ``./scripts/soak weights --schedules 10000``.
"""

from dataclasses import replace

import pytest

from Daddy.weights.friend_job_exchange import JoinedExchange
from Daddy.weights.merge import admission, merger
from Daddy.weights.merge.cleanup import Sweeper
from Daddy.weights.merge.merger import Merger
from Daddy.weights.store.crash_safe_files import CrashSafeWriter
from Daddy.weights.store.weight_store import Store
from scripts.soaks.schedule import run_schedule
from scripts.soaks.weights import summary

SCHEDULES = 80


def test_in_random_schedules_every_invariant_holds():
    figures = summary(map(run_schedule, range(SCHEDULES)))
    assert figures["broken"] == []
    assert figures["versions"] > 2 * SCHEDULES
    assert figures["kills"] > SCHEDULES
    assert figures["reverts"] > SCHEDULES / 4


def test_a_seed_gives_the_same_schedule_again():
    assert run_schedule(7) == run_schedule(7)


def commit_by_replacing(patch):
    real = CrashSafeWriter.create

    def create(self, path, data, what, mode=0o644):
        if what != "record":
            return real(self, path, data, what, mode)
        self.replace(path, data, what)
        return True

    patch.setattr(CrashSafeWriter, "create", create)


def believe_the_head(patch):
    def newest(self):
        hint = self._hint()
        return hint if hint > 0 else 0 if self.paths.version(0).exists() else None

    patch.setattr(Store, "newest", newest)


def forget_what_is_pending(patch):
    real = Sweeper.needed_blobs
    patch.setattr(
        Sweeper,
        "needed_blobs",
        lambda self, record, peers: real(self, record, replace(peers, pending=())),
    )


def keep_one_version(patch):
    real = Sweeper.needed_blobs

    def needed_blobs(self, record, peers):
        self._keep = 1
        return real(self, record, peers)

    patch.setattr(Sweeper, "needed_blobs", needed_blobs)


def drop_records_before_the_commit(patch):
    real = Merger._write

    def write(self, judged, data):
        for judged_offer in judged:
            judged_offer.pending.record.unlink(missing_ok=True)
        return real(self, judged, data)

    patch.setattr(Merger, "_write", write)


def friend_clears_away_too_much(patch):
    real = JoinedExchange._repair_heads

    def heal(self, record, state):
        for path in self._store.paths.peers.glob("*/*/0*.json"):
            path.unlink(missing_ok=True)
        real(self, record, state)

    patch.setattr(JoinedExchange, "_repair_heads", heal)


def leave_a_friends_files_where_they_lie(patch):
    real = merger.judge_all

    def judge_all(inputs):
        return [replace(entry, data=b"") for entry in real(inputs)]

    patch.setattr(merger, "judge_all", judge_all)


def count_what_was_taken_back(patch):
    patch.setattr(admission, "is_reverted", lambda number, ranges: False)


@pytest.mark.parametrize(
    ("mutate", "invariants"),
    [
        (commit_by_replacing, {"I2"}),
        (believe_the_head, {"I5"}),
        (forget_what_is_pending, {"I4"}),
        (keep_one_version, {"I1"}),
        (drop_records_before_the_commit, {"I4"}),
        (friend_clears_away_too_much, {"I4"}),
        (leave_a_friends_files_where_they_lie, {"I1"}),
        (count_what_was_taken_back, {"I6"}),
    ],
)
def test_what_is_broken_on_purpose_is_found(monkeypatch, mutate, invariants):
    mutate(monkeypatch)
    found = set()
    for seed in range(SCHEDULES):
        found |= {finding[:2] for finding in run_schedule(seed).broken}
        if invariants <= found:
            return
    raise AssertionError(f"only {found or 'nothing'} was found")
