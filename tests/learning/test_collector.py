"""Tests of groups that are steps apart: the rollout does not depend on the faster group."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from Daddy.learning.cartpole import CartPole
from Daddy.learning.learner_state import LearnerState, new_learner, reset_environments
from Daddy.learning.rollout_buffer import Rollout
from Daddy.learning.vector_serial import SerialVector
from tests.learning.helpers import SETTINGS, cartpole_parts

HORIZON, ENVS, GROUPS = 48, 6, 3
PLAYED = ("starts", "dones", "truncations", "actions", "log_probs", "values", "rewards")
PLAYED += ("last_values",)


class Unfair(SerialVector):
    """A vector that finishes groups in a random order, drawn from `seed`."""

    def __init__(self, seed: int) -> None:
        super().__init__(CartPole, ENVS, GROUPS)
        self._dice = np.random.default_rng(seed)
        self.furthest, self._steps = 0, [0] * GROUPS

    def recv(self) -> Any:
        self._sent.rotate(int(self._dice.integers(len(self._sent))))
        group, transition = super().recv()
        self._steps[group] += 1
        self.furthest = max(self.furthest, max(self._steps) - min(self._steps))
        return group, transition


def begun(folder: Path, seed: int) -> LearnerState:
    settings = replace(SETTINGS, num_envs=ENVS, horizon=HORIZON)
    parts = cartpole_parts(folder, memory=8, settings=settings, vector=Unfair(seed))
    learner = new_learner(parts)
    reset_environments(learner)
    return learner


def told(rollout: Rollout) -> dict[str, Any]:
    known: dict[str, Any] = {name: getattr(rollout, name).tobytes() for name in PLAYED}
    known["states"] = rollout.lstm_states.numpy().tobytes()
    known["episodes"] = [(end.env, end.length) for end in rollout.episodes]
    for key, store in rollout.observations.items():
        known[key] = store.stored_steps(HORIZON).tobytes()
    return known


def test_whoever_is_faster_the_same_is_stored(tmp_path: Path) -> None:
    sessions = [begun(tmp_path, seed) for seed in (1, 2)]
    for learner in sessions:
        assert learner.collector.collect(learner.rollout, lambda: None)
    assert all(learner.parts.vector.furthest > 4 for learner in sessions)
    assert sessions[0].rollout.episodes
    assert told(sessions[0].rollout) == told(sessions[1].rollout)
    states = [learner.collector.normaliser.state_dict() for learner in sessions]
    assert states[0] == states[1]


@pytest.mark.parametrize("looks", [1, 2])
def test_all_groups_stop_at_the_edge_that_the_first_one_asked_at(
    tmp_path: Path, looks: int
) -> None:
    """The rollout that is completed later equals one that was never interrupted."""
    whole, cut = begun(tmp_path, 1), begun(tmp_path, 2)
    whole.collector.collect(whole.rollout, lambda: None)
    answers = iter([*[None] * (looks - 1), "asked to"])
    assert not cut.collector.collect(cut.rollout, lambda: next(answers))
    assert cut.rollout.filled == 16 * looks
    assert next(answers, "nobody asked again") == "nobody asked again"
    assert cut.collector.collect(cut.rollout, lambda: None)
    assert told(cut.rollout) == told(whole.rollout)


def test_groups_play_what_all_play_together(tmp_path: Path) -> None:
    """Equal random numbers and, up to rounding, equal logits give equal actions."""
    apart = begun(tmp_path, 3)
    settings = replace(SETTINGS, num_envs=ENVS, horizon=HORIZON)
    together = new_learner(cartpole_parts(tmp_path, memory=8, settings=settings))
    reset_environments(together)
    for learner in (apart, together):
        learner.collector.collect(learner.rollout, lambda: None)
    assert np.array_equal(apart.rollout.actions, together.rollout.actions)
    assert np.allclose(apart.rollout.values, together.rollout.values, atol=1e-5)
    assert torch.allclose(apart.collector.lstm_state, together.collector.lstm_state, atol=1e-5)
