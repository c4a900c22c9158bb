"""Pairs of features: friends, admission, reverts and restores, two at a time."""

import dataclasses
import json
import os

import pytest

from Daddy.core.friend_accounts import Friend, add_friend, read_friends, write_friends
from Daddy.core.name_validation import new_incarnation
from Daddy.core.shared_weights_paths import JoinedPaths, SharedPaths
from Daddy.weights.encoding.state_arithmetic import add_deltas
from Daddy.weights.encoding.state_codec import decode, encode
from Daddy.weights.friend_job_exchange import join_run
from Daddy.weights.restore import plan_restore
from Daddy.weights.store.weight_records import Revert
from Daddy.weights.store.weight_store import Store
from tests.weights.helpers import EventRecorder, ManualClock, Peer, begin, make_state, settings
from tests.weights.test_dishonest_job import SIZE, step, turned
from tests.weights.test_restore import (  # noqa: F401 - fixtures among them
    home,
    learnt,
    run,
    target,
)

ROUNDS = 9


@pytest.fixture
def clock():
    return ManualClock()


def enlist(owner, folder, **how):
    folder.mkdir(exist_ok=True, mode=0o755)
    entry = Friend("anna", str(folder), os.getuid(), **how)
    write_friends(SharedPaths(owner), add_friend(read_friends(SharedPaths(owner)), entry))


def enter(owner, folder, slot, clock, own):
    told, incarnation = EventRecorder(), new_incarnation()
    paths = JoinedPaths(folder, SharedPaths(owner))
    exchange = join_run(paths, slot, incarnation, settings(), clock, told)
    base = exchange.join_fleet(lambda: own, None)
    return Peer(exchange, told, dict(base.weights), incarnation, version=base.version)


def play(round_, peers, deltas, clock):
    clock.pass_by(10)
    for peer, delta in zip(peers, deltas, strict=True):
        peer.weights = add_deltas(peer.weights, delta)
        peer.env_steps += 100
        peer.updates += 10
        peer.publish()
    for peer in peers:
        peer.adopt()


@pytest.mark.parametrize("jobs", [4, 6])
def test_a_friend_trusted_like_a_laptop_has_no_say_among_the_jobs(tmp_path, clock, jobs):
    owner, own = tmp_path / "owner", make_state(1, SIZE)
    owner.mkdir(mode=0o755)
    ours = [begin(owner, f"slot-{n}", clock, own=own) for n in range(4)]
    for round_ in (1, 2):
        play(round_, ours, [step(100 * round_ + k) for k in range(4)], clock)
    enlist(owner, tmp_path / "anna", trust="laptop", jobs=jobs)
    theirs = [enter(owner, tmp_path / "anna", f"slot-{k}", clock, own) for k in range(jobs)]
    for round_ in range(3, ROUNDS):
        honest = [step(100 * round_ + k) for k in range(4)]
        play(round_, ours + theirs, honest + [turned(step(7), -1.0)] * jobs, clock)
    store = Store(SharedPaths(owner))
    records = store.records(0, store.newest())
    assert {merged.peer for merged in records[-1].inputs} & {f"slot-{n}" for n in range(4)}
    shares = [sum(entry.share for entry in record.inputs if entry.laptop) for record in records]
    assert 0.0 < max(shares) <= 0.2 + 1e-9


@pytest.fixture
def after_a_revert(run, clock):  # noqa: F811
    """A run whose newest version reverted the three before it; its store, good and newest."""
    learnt(run, clock)
    store = Store(SharedPaths(run.shared_weights))
    last = store.newest()
    head, good = store.version(last), last - 3
    state = decode(store.read_blob(head.state))
    data = encode(
        {n: tensor + 0.001 if tensor.is_floating_point() else tensor for n, tensor in state.items()}
    )
    record = dataclasses.replace(
        head, version=last + 1, parent=store.record_hash(last), base=good, inputs=(), refused=(),
        state=store.put_blob(data, "state"), size=len(data),
        reverts=(Revert(good + 1, last, last, good, "worse"),),
        reverted=((good + 1, last),),
    )  # fmt: skip
    assert store.commit(record)
    store.write_head(last + 1)
    return store, good, last + 1


def lose(path):
    path.chmod(0o644)
    path.unlink()


def test_a_restore_goes_back_behind_what_was_taken_back(run, after_a_revert):  # noqa: F811
    store, good, newest = after_a_revert
    lose(store.paths.blob(store.version(newest).state))
    assert plan_restore(target(run), []).best.version == good


def test_a_friends_heartbeat_chooses_no_number(run, clock, tmp_path):  # noqa: F811
    learnt(run, clock)
    enlist(run.shared_weights, tmp_path / "anna")
    beats = tmp_path / "anna" / "peers" / "anna.slot-0" / "abcdef01"
    beats.mkdir(parents=True)
    (beats / "hb.json").write_text(json.dumps({"counter": 1, "version": 99_995_000, "left": False}))
    store = Store(SharedPaths(run.shared_weights))
    lose(store.paths.blob(store.version(store.newest()).state))
    assert plan_restore(target(run), []).number < 100_000


@pytest.mark.parametrize("back", [2, 6, 12])
def test_one_damaged_record_stops_nobody(tmp_path, clock, back):
    peers = [begin(tmp_path, f"slot-{k}", clock) for k in range(2)]
    for _ in range(16):
        for peer in peers:
            peer.shift(0.1)
            peer.publish()
            peer.adopt()
    store = Store(SharedPaths(tmp_path))
    newest = store.newest()
    path = store.paths.version(newest - back)
    path.chmod(0o644)
    path.write_bytes(b"not a record")
    again = [begin(tmp_path, f"slot-{k}", clock) for k in range(2)]
    for _ in range(4):
        for peer in again:
            peer.shift(0.1)
            assert "not published" not in peer.publish()
            peer.adopt()
    assert Store(SharedPaths(tmp_path)).newest() >= newest + 4
