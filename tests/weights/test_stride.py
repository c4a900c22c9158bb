"""Who goes only part of the way to a version offers its own progress all the same, and no more."""

from __future__ import annotations

import pytest

from Daddy.core.shared_paths import SharedPaths
from Daddy.weights.history import read_history
from Daddy.weights.polyak import add, difference
from tests.weights.helpers import ToldClock, begin, close, shifted


@pytest.fixture
def clock():
    return ToldClock()


def stride_of(peer, share):
    """From the peer's weights of now so much of the way."""

    def stride(offered):
        own = peer.weights
        way = difference(offered, own)
        return add(
            own, {name: one if "steps" in name else share * one for name, one in way.items()}
        )

    return stride


def newest(root):
    return read_history(SharedPaths(root)).versions[-1]


def moved_by_another(root, clock, by):
    """Peer 0 with progress of its own, and a version to which peer 1 alone has moved the rest."""
    peers = [begin(root, f"slot-{k}", clock) for k in range(2)]
    peers[1].shift(by)
    peers[1].publish()
    return peers


def test_what_was_not_taken_is_not_offered(tmp_path, clock):
    one, other = moved_by_another(tmp_path, clock, 4.0)
    start = one.weights
    one.shift(0.5)
    assert one.adopt(stride_of(one, 0.25)) == 1  # 4 / 2 live jobs: v1 is start + 2
    assert close(one.weights, shifted(start, 0.5 + 0.25 * 2.0))
    one.shift(0.125)
    one.publish()
    clock.pass_by(100)
    assert other.adopt() == 2
    (mine,) = newest(tmp_path).inputs
    assert mine.norm == pytest.approx((0.5 + 0.125) * 15**0.5, rel=1e-5)


def test_the_next_adoption_goes_the_rest_of_the_way(tmp_path, clock):
    one, other = moved_by_another(tmp_path, clock, 4.0)
    start = one.weights
    one.adopt(stride_of(one, 0.5))
    assert close(one.weights, shifted(start, 1.0))
    one.shift(0.5)
    other.adopt()
    other.shift(2.0)
    other.publish()
    clock.pass_by(100)
    assert one.adopt() == 2
    assert close(one.weights, shifted(start, 2.0 + 2.0 * newest(tmp_path).inputs[0].share + 0.5))


def test_a_successor_does_not_offer_it_either(tmp_path, clock):
    one, other = moved_by_another(tmp_path, clock, 4.0)
    one.adopt(stride_of(one, 0.5))
    one.shift(0.5)
    again = begin(
        tmp_path, "slot-0", clock, resumed=one.exchange.bookkeeping(), own=dict(one.weights)
    )
    assert close(again.weights, one.weights, 0.0)
    again.env_steps, again.updates = one.env_steps, one.updates
    again.shift(0.25)
    again.publish()
    clock.pass_by(100)
    other.adopt()
    (mine,) = newest(tmp_path).inputs
    assert mine.norm == pytest.approx(0.75 * 15**0.5, rel=1e-5)


def test_a_successor_on_a_newer_version_goes_the_rest_of_the_way(tmp_path, clock):
    one, other = moved_by_another(tmp_path, clock, 4.0)
    start = one.weights
    one.adopt(stride_of(one, 0.5))
    one.shift(0.5)
    note, own = one.exchange.bookkeeping(), dict(one.weights)
    other.adopt()
    other.shift(2.0)
    other.publish()
    clock.pass_by(100)
    assert other.adopt() == 2
    again = begin(tmp_path, "slot-0", clock, resumed=note, own=own)
    share = newest(tmp_path).inputs[0].share
    assert close(again.weights, shifted(start, 2.0 + 2.0 * share + 0.5))


def test_a_successor_that_does_not_find_it_takes_the_version_as_it_is(tmp_path, clock):
    one, _ = moved_by_another(tmp_path, clock, 4.0)
    start = one.weights
    one.adopt(stride_of(one, 0.5))
    one.shift(0.5)
    before = set(SharedPaths(tmp_path).blobs.glob("*/*"))
    note = one.exchange.bookkeeping()
    (kept,) = set(SharedPaths(tmp_path).blobs.glob("*/*")) - before
    kept.unlink()
    again = begin(tmp_path, "slot-0", clock, resumed=note, own=dict(one.weights))
    assert close(again.weights, shifted(start, 2.0))


def test_after_a_refusal_for_its_values_nobody_is_asked_how_far(tmp_path, clock):
    peers = [begin(tmp_path, f"slot-{k}", clock) for k in range(2)]
    for round_ in range(5):
        for peer in peers:
            peer.learn(round_)
            peer.publish()
            peer.adopt()
        peers[0].adopt()
    peers[0].shift(1e4)
    peers[0].publish()
    clock.pass_by(100)
    peers[1].learn(9)
    peers[1].publish()
    peers[1].adopt()

    def never(offered):
        raise AssertionError("asked how far")

    assert peers[0].adopt(never) is not None
    assert len(peers[0].told.of("refused")) == 1


def test_an_adoption_counts_although_nothing_can_be_written_afterwards(tmp_path, clock):
    """Progress is counted from the new base: to go on with the old weights would undo others'."""
    full = []

    def hook(point):
        if full:
            raise OSError(28, "No space left on device")

    one = begin(tmp_path, "slot-0", clock, hook=hook)
    other = begin(tmp_path, "slot-1", clock)
    start = one.weights
    other.shift(4.0)
    other.publish()
    clock.pass_by(100)
    other.adopt()
    real = one.exchange._load_newest

    def then_full():
        found = real()
        full.append(True)
        return found

    one.exchange._load_newest = then_full
    assert one.adopt() == 1
    assert close(one.weights, shifted(start, 2.0))


def test_under_polyak_an_offer_from_before_the_last_rebase_is_no_part_of_the_anchor(
    tmp_path, clock
):
    """It waits for its verdict, on a base that was left: a successor must not subtract it."""
    one, other, third = (begin(tmp_path, f"slot-{k}", clock, rule="polyak") for k in range(3))
    one.shift(1.0)
    one.publish()
    (blob,) = one.exchange._at.blobs.values()
    SharedPaths(tmp_path).blob(blob).rename(tmp_path / "unseen")
    for peer in (other, third):
        peer.shift(0.5)
        peer.publish()
    clock.pass_by(10)
    other.adopt()
    assert one.adopt() is not None
    assert one.exchange._at.unmerged
    one.shift(0.5)
    anchor = one.exchange._at.anchor
    note = one.exchange.bookkeeping()
    again = begin(tmp_path, "slot-0", clock, rule="polyak", resumed=note, own=dict(one.weights))
    assert close(again.exchange._at.anchor, anchor)
