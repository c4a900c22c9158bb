"""Four jobs of which one sends false deltas, through the real exchange.

Their steps have enough numbers for a cosine to mean something: all share one direction, and each
has a part of its own.
"""

import json
from collections.abc import Callable

import pytest
import torch

from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_arithmetic import StateDict, add_deltas, add_scaled
from Daddy.weights.store.rebuild_version import rebuild_state
from Daddy.weights.store.weight_records import Version
from Daddy.weights.store.weight_store import Store
from scripts.version_history import read_history
from tests.weights.helpers import ManualClock, Peer, begin, make_state

SIZE = 1_000
"""Rows of five numbers."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def step(seed: int, length: float = 0.1) -> StateDict:
    """Return the common direction plus one job's own part."""
    parts = [make_state(seed, SIZE), make_state(10_000, SIZE)]
    still = {name: part * 0 for name, part in parts[0].items()}
    whole = add_scaled(still, parts, [length, length])
    return {**whole, "steps": torch.zeros(1, dtype=torch.int64)}


def turned(delta: StateDict, factor: float) -> StateDict:
    return {
        n: tensor * factor if tensor.is_floating_point() else tensor for n, tensor in delta.items()
    }


Lie = Callable[[StateDict, int], StateDict]


class Four:
    """Rounds of four peers, the last of which offers ``lie`` applied to its step."""

    def __init__(self, root, clock: ManualClock, lie: Lie, jobs: int = 4) -> None:
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
        peer.weights = add_deltas(peer.weights, delta)
        peer.env_steps += 100 * (self.boast if last else 1)
        peer.updates += 10 * (self.boast if last else 1)
        peer.publish()

    @property
    def versions(self) -> list[Version]:
        return list(read_history(SharedPaths(self.root)).versions)

    def merged(self, peer: str) -> list[int]:
        return [
            version.version
            for version in self.versions
            for put in version.inputs
            if put.peer == peer
        ]

    def refused(self, peer: str) -> list[str]:
        return [o.reason for version in self.versions for o in version.refused if o.peer == peer]


def honest(delta: StateDict, number: int) -> StateDict:
    del number
    return delta


def test_four_honest_ones_agree_and_nobody_is_refused(tmp_path, clock):
    four = Four(tmp_path, clock, honest)
    four.play(8)
    versions = four.versions
    assert [version.refused for version in versions] == [()] * len(versions)


def test_while_one_is_refused_the_rest_go_the_full_way(tmp_path, clock):
    four = Four(tmp_path, clock, lambda delta, _: turned(delta, 500.0))
    four.play(10)
    by_round = [
        sum(put.share for put in version.inputs) / len(version.inputs)
        for version in four.versions[3:]
    ]
    assert by_round == pytest.approx([1 / 3] * len(by_round), rel=0.2)


def test_boasted_steps_buy_neither_the_version_nor_the_count(tmp_path, clock):
    four = Four(tmp_path, clock, honest)
    four.boast = 1_000
    four.play(5)
    shares = [
        put.share for version in four.versions for put in version.inputs if put.peer == "slot-3"
    ]
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
        assert rebuild_state(store, record) == store.read_blob(record.state)


def test_a_run_with_a_job_shut_out_by_the_release_before_counts_that_job_again(tmp_path, clock):
    four = Four(tmp_path, clock, honest)
    four.play(3)
    store = Store(SharedPaths(tmp_path))
    path = store.paths.version(store.newest())
    body = json.loads(path.read_text())
    body["conduct"] = [{"peer": "slot-3", "strikes": 1, "terms": 2, "until": 900}]
    body["inputs"] = [{**put, "cosine": 0.25} for put in body["inputs"]]
    path.chmod(0o644)
    path.write_text(json.dumps(body))
    store.paths.head.unlink()
    again = Four(tmp_path, clock, honest)
    again.play(2, first=4)
    assert max(again.merged("slot-3")) == max(version.version for version in again.versions)
