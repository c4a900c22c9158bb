"""Fault 37: a zombie with an older lease term still offers; its offers do not count."""

import json

from Daddy.core.name_validation import new_incarnation
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.store import heartbeats
from Daddy.weights.store.weight_store import Store
from Daddy.weights.weight_exchange import SharedExchange
from tests.weights.helpers import EventRecorder, ManualClock, begin, make_state, perturbed, settings


class Holder:
    """The process that holds slot 0 in one lease term."""

    def __init__(self, root, term, resumed=None):
        self.recorder, self.steps = EventRecorder(), 0
        self.exchange = SharedExchange(
            *(SharedPaths(root), "slot-0", new_incarnation(), settings(max_staleness=50)),
            *(ManualClock(), self.recorder),
            term=term,
        )
        self.weights = self.exchange.join_fleet(make_state, resumed).weights

    def learns_and_publishes(self):
        self.steps += 100
        self.weights = perturbed(self.weights, self.steps)
        return self.exchange.publish(self.weights, self.steps, self.steps)


def test_what_a_zombie_of_an_older_term_publishes_is_refused(tmp_path):
    old = Holder(tmp_path, term=3)
    old.learns_and_publishes()
    new = Holder(tmp_path, term=4)
    old.learns_and_publishes()  # it woke up
    new.learns_and_publishes()
    store = Store(SharedPaths(tmp_path))
    records = [store.version(number) for number in range(store.newest() + 1)]
    refused = [refusal.reason for record in records for refusal in record.refused]
    assert refused
    assert all("term 3" in reason for reason in refused)
    counted = [
        (entry.incarnation, entry.sequence) for entry in sum((r.inputs for r in records), ())
    ]
    assert (old.exchange._incarnation, 1) in counted
    assert (old.exchange._incarnation, 2) not in counted
    assert (new.exchange._incarnation, 1) in counted


def test_the_last_contribution_of_one_that_left_in_good_order_counts(tmp_path):
    """Even if the successor does not see it yet: the checkpoint names it as offered."""
    old = Holder(tmp_path, term=3)
    for _ in range(2):
        old.learns_and_publishes()
    note = old.exchange.resume_state()
    folder = SharedPaths(tmp_path).peer("slot-0", old.exchange._incarnation)
    records = sorted(folder.glob("0*.json"))
    texts = {path: path.read_bytes() for path in records}
    for path in records:
        path.unlink()
    new = Holder(tmp_path, term=4, resumed=note)
    assert new.exchange._fence.after == {old.exchange._incarnation: 2}
    for path, text in texts.items():
        path.write_bytes(text)
    new.learns_and_publishes()
    store = Store(SharedPaths(tmp_path))
    assert not [refusal for n in range(store.newest() + 1) for refusal in store.version(n).refused]


def test_where_terms_began_anew_because_leases_were_deleted_nobody_is_fenced_off(tmp_path):
    Holder(tmp_path, term=9).learns_and_publishes()
    anew = Holder(tmp_path, term=1)
    anew.learns_and_publishes()
    store = Store(SharedPaths(tmp_path))
    inputs = [merged for n in range(store.newest() + 1) for merged in store.version(n).inputs]
    assert anew.exchange._incarnation in [entry.incarnation for entry in inputs]


def test_a_heartbeat_that_cannot_be_understood_fences_nobody_off(tmp_path):
    first = Holder(tmp_path, term=1)
    beat = SharedPaths(tmp_path).peer("slot-0", first.exchange._incarnation) / "hb.json"
    beat.write_text(json.dumps({**json.loads(beat.read_text()), "fence": "nonsense"}))
    second = Holder(tmp_path, term=2)
    assert second.learns_and_publishes().startswith("contribution 1")


def test_a_successor_that_writes_no_stamp_fences_all_the_same(tmp_path, monkeypatch):
    """A successor of the release before, read by a job that listed the folders earlier."""
    merging = begin(tmp_path, "slot-1", ManualClock())
    old = Holder(tmp_path, term=3)
    for entry in (merging, old):
        entry.exchange.adopt(entry.weights)  # both have listed every folder
    monkeypatch.setattr(heartbeats, "write_stamp", lambda _: None)
    Holder(tmp_path, term=4)
    monkeypatch.undo()
    old.learns_and_publishes()
    merging.learn(1)
    merging.publish()
    merging.adopt()
    store = Store(SharedPaths(tmp_path))
    records = [store.version(number) for number in range(store.newest() + 1)]
    assert not [merged for record in records for merged in record.inputs if merged.peer == "slot-0"]
