"""Tests of stops and resumes while groups are steps apart, in processes."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from Daddy.learning.cartpole import CartPole
from Daddy.learning.checkpoint import Checkpoint, load_newest
from Daddy.learning.loop import train
from Daddy.learning.make_vector import Backend, make_vector
from tests.learning.helpers import SCHEDULE, SETTINGS, FakeLease, Never, StopAfter, cartpole_parts

MEMORY = 16
LONG = replace(SCHEDULE, total_steps=8 * 64 * 4)
IN_SEQUENCES = replace(SETTINGS, horizon=64)


@pytest.mark.parametrize("backend", ["processes"])
@pytest.mark.parametrize("looks", [3, 8])
def test_stops_between_groups_change_nothing_whatever_plays_them(
    tmp_path: Path, backend: Backend, looks: int
) -> None:
    """Compares with a run that was never stopped and stepped its groups in turn."""
    straight = _played(tmp_path / "straight", "serial", looks=0)
    parts = _played(tmp_path / "parts", backend, looks)
    assert [
        name for name, value in straight.tensors.items() if not value.equal(parts.tensors[name])
    ] == []
    assert parts.facts == straight.facts


def _played(folder: Path, backend: Backend, looks: int) -> Checkpoint:
    """Return the last checkpoint of a run that each attempt stops after `looks` checks."""
    for term in range(1, 20):
        torch.manual_seed(999 + term)  # a new process begins with other generators
        with closing(make_vector(CartPole, 8, backend, cores=2, groups=2)) as vector:
            assert len(vector.groups) == 2
            stopper = StopAfter(looks) if looks else Never()
            settings = {"settings": IN_SEQUENCES, "schedule": LONG, "memory": MEMORY}
            place = {"lease": FakeLease(term), "stopper": stopper}
            outcome = train(cartpole_parts(folder, vector=vector, **settings, **place))
        if outcome.kind != "drained":
            break
    assert (term > 1) == bool(looks)
    return load_newest(folder).checkpoint
