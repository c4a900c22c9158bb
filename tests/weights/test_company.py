"""Four jobs of which one lies, through the real exchange: what it offers, and what becomes of it.

Their steps have enough numbers for an angle to mean something: all go one way, each with a part
of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from Daddy.core.shared_paths import SharedPaths
from Daddy.weights.gate.agreement import cosine, table, to_the_rest
from Daddy.weights.gate.conduct import TERM
from Daddy.weights.history import read_history
from Daddy.weights.polyak import StateDict, add, levelled, move
from Daddy.weights.replay import replay
from Daddy.weights.store.records import Version, parse
from Daddy.weights.store.store import Store
from tests.weights.helpers import Peer, ToldClock, begin, make_state

SIZE = 1_000
"""Rows of five numbers."""


@pytest.fixture
def clock() -> ToldClock:
    return ToldClock()


def step(seed: int, length: float = 0.1) -> StateDict:
    """The common way, and as much of one's own."""
    parts = [make_state(seed, SIZE), make_state(10_000, SIZE)]
    still = {name: one * 0 for name, one in parts[0].items()}
    whole = move(still, parts, [length, length])
    return {**whole, "steps": torch.zeros(1, dtype=torch.int64)}


def turned(delta: StateDict, factor: float) -> StateDict:
    return {n: one * factor if one.is_floating_point() else one for n, one in delta.items()}


Lie = Callable[[StateDict, int], StateDict]


class Four:
    """Rounds of four peers, the last of which offers what ``lie`` makes of its step."""

    def __init__(self, root, clock: ToldClock, lie: Lie, jobs: int = 4) -> None:
        self.root, self.clock, self.lie = root, clock, lie
        own = make_state(1, SIZE)
        self.peers = [begin(root, f"slot-{n}", clock, own=own) for n in range(jobs)]
        self.boast = 1

    def play(self, rounds: int, first: int = 1) -> None:
        for number in range(first, first + rounds):
            self.clock.pass_by(10)
            for place, peer in enumerate(self.peers):
                made = step(100 * number + place)
                self._offer(peer, self.lie(made, number) if place == len(self.peers) - 1 else made)
            for peer in self.peers:
                peer.adopt()

    def _offer(self, peer: Peer, delta: StateDict) -> None:
        last = peer is self.peers[-1]
        peer.weights = add(peer.weights, delta)
        peer.env_steps += 100 * (self.boast if last else 1)
        peer.updates += 10 * (self.boast if last else 1)
        peer.publish()

    @property
    def versions(self) -> list[Version]:
        return list(read_history(SharedPaths(self.root)).versions)

    def merged(self, peer: str) -> list[int]:
        return [one.version for one in self.versions for put in one.inputs if put.peer == peer]

    def refused(self, peer: str) -> list[str]:
        return [o.reason for one in self.versions for o in one.refused if o.peer == peer]


def honest(delta: StateDict, number: int) -> StateDict:
    del number
    return delta


def test_four_honest_ones_agree_and_nobody_is_refused(tmp_path, clock):
    four = Four(tmp_path, clock, honest)
    four.play(8)
    versions = four.versions
    assert [one.refused for one in versions] == [()] * len(versions)
    assert [one.conduct for one in versions] == [()] * len(versions)
    assert all(one.cosine > 0.3 for v in versions[2:] for one in v.inputs)


def test_a_job_whose_steps_are_turned_round_is_shut_out_and_comes_back_when_it_is_well(
    tmp_path, clock
):
    four = Four(tmp_path, clock, lambda delta, number: turned(delta, -1.0 if number < 8 else 1.0))
    four.play(7)
    assert not [version for version in four.merged("slot-3") if version > 1]
    assert "works against the other jobs" in four.refused("slot-3")[0]
    assert "shut out until" in four.refused("slot-3")[-1]
    assert [one for one in four.versions if any(o.peer != "slot-3" for o in one.refused)] == []
    until = four.versions[-1].conduct[0].until
    four.play(2 * TERM, first=8)
    assert max(four.merged("slot-3")) > until
    assert min(v for v in four.merged("slot-3") if v > 1) > until


def test_while_one_is_shut_out_the_rest_go_the_full_way(tmp_path, clock):
    four = Four(tmp_path, clock, lambda delta, _: turned(delta, -1.0))
    four.play(10)
    by_round = [sum(put.share for put in one.inputs) / len(one.inputs) for one in four.versions[3:]]
    assert by_round == pytest.approx([1 / 3] * len(by_round), rel=0.2)


def test_the_same_step_time_and_again_at_a_right_angle_is_shut_out(tmp_path, clock):
    always = turned(make_state(77, SIZE), 0.14)
    always["steps"] = torch.zeros(1, dtype=torch.int64)
    four = Four(tmp_path, clock, lambda delta, _: always)
    four.play(20)
    assert len(four.merged("slot-3")) == 1
    assert any("the last step again" in one for one in four.refused("slot-3"))


def test_two_that_lie_alike_are_shut_out_by_who_merges(tmp_path, clock):
    four = Four(tmp_path, clock, lambda delta, _: turned(delta, -1.0))
    three = Four._offer

    def both(self, peer, delta):
        three(self, peer, turned(delta, -1.0) if peer is self.peers[2] else delta)

    for liar in four.peers[2:]:
        liar.exchange._merge = lambda period_s=None: None  # they offer, the honest ones merge
    four._offer = both.__get__(four)
    four.play(12)
    early = [v for name in ("slot-2", "slot-3") for v in four.merged(name)]
    assert max(early, default=0) <= 6
    assert {one.peer for one in four.versions[-1].conduct} == {"slot-2", "slot-3"}


def test_of_three_jobs_none_is_called_an_outlier(tmp_path, clock):
    three = Four(tmp_path, clock, lambda delta, _: turned(delta, -1.0), jobs=3)
    three.play(6)
    assert three.refused("slot-2") == []


def test_boasted_steps_buy_neither_the_version_nor_the_count(tmp_path, clock):
    four = Four(tmp_path, clock, honest)
    four.boast = 1_000
    four.play(5)
    shares = [put.share for one in four.versions for put in one.inputs if put.peer == "slot-3"]
    assert shares
    assert max(shares) <= 4 / 6 + 1e-9
    assert four.versions[-1].contributors["slot-3"] <= 16 * 100 * len(four.versions)


def test_a_giant_first_step_is_judged_by_those_beside_it(tmp_path, clock):
    four = Four(tmp_path, clock, lambda delta, _: turned(delta, 500.0))
    four.peers = [four.peers[3], four.peers[0], four.peers[1]]
    four.peers.append(four.peers.pop(0))
    four.play(1)
    assert four.merged("slot-3") == []
    assert "times the usual" in four.refused("slot-3")[0]


def test_versions_with_refusals_are_made_again_from_their_records(tmp_path, clock):
    four = Four(tmp_path, clock, lambda delta, _: turned(delta, -1.0))
    four.play(5)
    store = Store(SharedPaths(tmp_path))
    for record in four.versions[-4:]:
        assert replay(store, record) == store.get_blob(record.state)


def test_a_record_of_before_there_was_conduct_still_reads(tmp_path, clock):
    four = Four(tmp_path, clock, honest)
    four.play(2)
    record = four.versions[-1]
    body = record.to_bytes().replace(b' "conduct": [],\n', b"")
    assert b"conduct" not in body
    assert parse(Version, body, "it") == dataclasses.replace(record, conduct=())


def test_the_cosine_to_the_rest_is_that_to_their_sum_of_unit_steps():
    steps = {str(number): step(number) for number in range(4)}
    units = [turned(one, 1.0 / max(1e-9, _length(one))) for one in list(steps.values())[1:]]
    direct = cosine(steps["0"], add(units[0], *units[1:]))
    between = table(steps)
    row = {name: between["0", name] for name in ("1", "2", "3")}
    assert to_the_rest(row, between, ["1", "2", "3"]) == pytest.approx(direct, abs=1e-6)


def test_one_tensor_that_leaps_hides_nothing_of_the_rest():
    leaps = [{**step(n), "core.bias": torch.full((SIZE,), 1e3)} for n in (1, 2)]
    back = {**leaps[1], "core.weight": -leaps[1]["core.weight"]}
    assert cosine(leaps[0], back) > 0.99
    assert cosine(levelled(leaps[0]), levelled(back)) < 0.0


def test_a_step_without_length_or_sense_has_no_angle():
    nothing = turned(step(1), 0.0)
    assert cosine(nothing, step(2)) == 0.0
    assert cosine(turned(step(1), float("nan")), step(2)) == 0.0


def _length(one: StateDict) -> float:
    return (
        float(sum(o.double().square().sum() for o in one.values() if o.is_floating_point())) ** 0.5
    )
