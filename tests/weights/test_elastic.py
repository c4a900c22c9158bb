"""The rule "elastic": whatever the order and the delay, one side gets what the other gives."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from Daddy.core.names import new_incarnation
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights import offers
from Daddy.weights.elastic import Elastic, drawn
from Daddy.weights.exchange import SharedExchange
from Daddy.weights.fate import Fate
from Daddy.weights.history import read_history
from Daddy.weights.polyak import difference, move, norm
from Daddy.weights.progress import Base
from Daddy.weights.replay import replay
from Daddy.weights.store import Store
from Daddy.weights.weighting import Offer
from Daddy.weights.wire.codec import decode, encode
from tests.weights.helpers import (
    Peer,
    Told,
    ToldClock,
    begin,
    close,
    make_state,
    nudged,
    settings,
    shifted,
)

seeds = st.integers(0, 10_000)
SMALL = given_settings(max_examples=40)


@pytest.fixture
def clock():
    return ToldClock()


def crew(root, clock, many=4, **changes):
    return [begin(root, f"slot-{k}", clock, rule="elastic", **changes) for k in range(many)]


def shared(root):
    store = Store(SharedPaths(root))
    return decode(store.get_blob(store.version(store.newest()).state))


def total(root, peers):
    """The sum of the shared weights and everybody's own, of one number of each tensor."""
    every = [shared(root), *(peer.weights for peer in peers)]
    return sum(float(one["core.weight"].double().sum()) for one in every)


def settled(root, clock, peers):
    """Everything that was offered is merged and everybody has seen it."""
    for _ in range(2):
        for peer in peers:
            clock.pass_by(100)
            peer.adopt()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), min_size=1, max_size=6), st.randoms()
)
@SMALL
def test_how_far_each_draws_does_not_depend_on_the_order(drawing, random):
    pairs = [(Offer(f"slot-{peer}", 100, 0, laptop=False), share) for peer, share in drawing]
    mixed = random.sample(pairs, len(pairs))

    def pulls(given):
        found = drawn([one for one, _ in given], [share for _, share in given], 0.9)
        return sorted((one.peer, pull) for (one, _), pull in zip(given, found, strict=True))

    assert pulls(pairs) == pulls(mixed)


@given(seeds, st.lists(seeds, min_size=1, max_size=5), st.randoms())
@SMALL
def test_a_merge_does_not_depend_on_the_order_and_gives_what_jobs_give_back(seed, writers, random):
    base = make_state(seed)
    owns = [nudged(base, writer) for writer in writers]
    offered = [Offer(f"slot-{n}", 100, 0, laptop=False) for n in range(len(owns))]
    pulls = drawn(offered, [1 / len(owns)] * len(owns), 0.9)
    rows = list(zip([difference(own, base) for own in owns], pulls, strict=True))
    merged = move(base, [delta for delta, _ in rows], [pull for _, pull in rows])
    mixed = random.sample(rows, len(rows))
    again = move(base, [delta for delta, _ in mixed], [pull for _, pull in mixed])
    assert close(merged, again, 1e-6)
    given_back = []
    for own, (delta, pull) in zip(owns, rows, strict=True):
        book = Elastic(base=Base(0, "", base), anchor=base, incarnation="a")
        book.offered(own, delta, "")
        there = Base(1, "", merged)
        given_back.append(book.rebase(there, own, Fate(1, {}, {("a", 1): pull}, "a")).weights)
        assert book.lent == {}
        assert close(book.rebase(there, given_back[-1], Fate(1, {}, {("a", 1): pull})).weights,
                     given_back[-1], 0.0)  # fmt: skip
    for name in ("core.weight", "core.bias"):
        before = base[name].double() + sum(own[name].double() for own in owns)
        after = merged[name].double() + sum(own[name].double() for own in given_back)
        assert torch.allclose(before, after, atol=1e-5)


events_of_three = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["learn", "publish", "adopt", "wait"])),
    max_size=30,
)


@given(events_of_three, seeds)
@given_settings(max_examples=25)
def test_in_any_order_of_events_nothing_is_won_or_lost(tmp_path_factory, events, seed):
    """What is learnt is all that the sum of shared and own weights ever grows by."""
    root, clock = tmp_path_factory.mktemp("elastic"), ToldClock()
    peers, learnt = crew(root, clock, 3), 0.0
    began = total(root, peers)
    for number, (who, what) in enumerate(events):
        peer = peers[who]
        if what == "learn":
            before = float(peer.weights["core.weight"].double().sum())
            peer.learn(seed + number)
            learnt += float(peer.weights["core.weight"].double().sum()) - before
        elif what == "wait":
            clock.pass_by(3.0)
        else:
            getattr(peer, what)()
    settled(root, clock, peers)
    assert total(root, peers) == pytest.approx(began + learnt, abs=1e-4)


def test_both_sides_move_by_alpha_of_a_job_s_share(tmp_path, clock):
    peers = crew(tmp_path, clock, 2, elastic_alpha=0.5)
    start = peers[0].weights
    for peer, by in zip(peers, (4.0, -2.0), strict=True):
        peer.shift(by)
    peers[0].publish()  # of two live jobs one is enough
    assert peers[0].adopt() == 1
    assert close(shared(tmp_path), shifted(start, 0.5 * 0.5 * 4.0))
    assert close(peers[0].weights, shifted(start, 4.0 - 1.0))
    peers[1].publish()
    settled(tmp_path, clock, peers)
    assert close(shared(tmp_path), shifted(start, 1.0 - 0.5))
    assert close(peers[1].weights, shifted(start, -2.0 + 0.5))


def test_jobs_stay_apart_and_their_distance_is_offered_again(tmp_path, clock):
    peers = crew(tmp_path, clock)
    gaps = []
    for number in range(12):
        for k, peer in enumerate(peers):
            peer.learn(4 * number + k)
            peer.publish()
        for peer in peers:
            peer.adopt()
        gaps.append(norm(difference(peers[0].weights, peers[1].weights)))
    assert min(gaps) > 0.2
    assert max(gaps) < 3.0
    centre = shared(tmp_path)["core.weight"]
    mean = torch.stack([peer.weights["core.weight"] for peer in peers]).mean(0)
    assert torch.allclose(centre, mean, atol=0.5)


def test_without_learning_all_come_together(tmp_path, clock):
    peers = crew(tmp_path, clock)
    for peer, by in zip(peers, (8.0, 4.0, -4.0, 0.0), strict=True):
        peer.shift(by)
    for _ in range(30):
        for peer in peers:
            peer.shift(0.0)
            peer.publish()
        for peer in peers:
            peer.adopt()
    for peer in peers:
        assert close(peer.weights, shared(tmp_path), 1e-2)


def test_two_offers_in_one_merge_have_one_share_together(tmp_path, clock):
    one, _ = crew(tmp_path, clock, 2)
    start = one.weights
    one.exchange._merge = lambda period_s=None: None
    for by in (1.0, 2.0):
        one.shift(by)
        one.publish()
    del one.exchange._merge
    clock.pass_by(100)
    assert one.adopt() == 1
    assert close(shared(tmp_path), shifted(start, 0.9 / 2 * (1.0 + 3.0) / 2))
    assert close(one.weights, shifted(start, 3.0 - 0.9))


@pytest.mark.parametrize("moved_on", [False, True])
def test_a_successor_gives_back_what_its_predecessor_offered(tmp_path, clock, moved_on):
    peers = crew(tmp_path, clock, 2)
    began = total(tmp_path, peers)
    one, other = peers
    one.exchange._merge = lambda period_s=None: None
    one.shift(4.0)
    one.publish()
    one.shift(1.0)
    note = one.exchange.bookkeeping()
    if moved_on:
        clock.pass_by(100)
        assert other.adopt() == 1
    again = resumed(tmp_path, clock, one, note)
    assert again.version == int(moved_on)
    everybody = [again, other]
    settled(tmp_path, clock, everybody)
    assert total(tmp_path, everybody) == pytest.approx(began + 12 * 5.0, abs=1e-4)
    again.shift(1.0)
    assert "contribution 1" in again.publish()
    settled(tmp_path, clock, everybody)
    assert total(tmp_path, everybody) == pytest.approx(began + 12 * 6.0, abs=1e-4)


def resumed(root, clock, dead, note):
    told, incarnation = Told(), new_incarnation()
    exchange = SharedExchange(
        SharedPaths(root), "slot-0", incarnation, settings(rule="elastic"), clock, told
    )
    adoption = exchange.begin(lambda: dict(dead.weights), note)
    own = dict(adoption.weights)
    return Peer(exchange, told, own, incarnation, dead.env_steps, dead.updates, adoption.version)


def refuse_values(root, peer):
    """The newest offer of `peer` gets a value that is no number, as a broken machine would."""
    store = Store(SharedPaths(root))
    (found,) = offers.pending(store, {})
    bad = {name: one * torch.nan if one.is_floating_point() else one
           for name, one in peer.weights.items()}  # fmt: skip
    data = encode(bad)
    offer = replace(found.offer, blob=store.put_blob(data, "blob"), size=len(data))
    found.record.chmod(0o644)
    found.record.write_bytes(offer.to_bytes())


@pytest.mark.parametrize("successor", [False, True])
def test_who_is_refused_for_values_goes_on_from_the_shared_weights(tmp_path, clock, successor):
    peers = crew(tmp_path, clock, 2)
    one, other = peers
    one.exchange._merge = lambda period_s=None: None
    one.shift(4.0)
    one.publish()
    refuse_values(tmp_path, one)
    note = one.exchange.bookkeeping()
    clock.pass_by(100)
    assert other.adopt() == 1
    if successor:
        one = resumed(tmp_path, clock, one, note)
    else:
        assert one.adopt() == 1
    assert close(one.weights, shared(tmp_path), 0.0)
    assert one.exchange._at.lent == {}


def test_what_was_held_back_is_given_with_the_next_version(tmp_path, clock):
    peers = crew(tmp_path, clock, 2)
    one, other = peers
    began = total(tmp_path, peers)
    one.shift(4.0)
    one.publish()

    def half(offered):
        way = difference(offered, one.weights)
        return {n: one.weights[n] + (w if n == "steps" else 0.5 * w) for n, w in way.items()}

    assert one.adopt(half) == 1
    assert total(tmp_path, peers) == pytest.approx(began + 12 * (4.0 + 0.9), abs=1e-4)
    one.shift(1.0)
    one.publish()
    settled(tmp_path, clock, [one, other])
    assert total(tmp_path, peers) == pytest.approx(began + 12 * 5.0, abs=1e-4)


def test_every_version_can_be_made_again_and_says_what_it_took(tmp_path, clock):
    peers = crew(tmp_path, clock)
    for number in range(6):
        for k, peer in enumerate(peers):
            peer.learn(4 * number + k)
            peer.publish()
        for peer in peers:
            peer.adopt()
    store, history = Store(SharedPaths(tmp_path)), read_history(SharedPaths(tmp_path))
    assert history.chained
    for record in history.versions[-5:]:
        assert replay(store, record) == store.get_blob(record.state)
        assert all(one.share <= 0.9 / 4 + 1e-9 for one in record.inputs)
    assert not [error for peer in peers for error in peer.told.events if error[0] == "error"]
