"""The grid world of keys and doors that the bench `sharing` plays: its rules, games and figures."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from Daddy.core.shared_paths import SharedPaths
from Daddy.weights.history import read_history
from Daddy.weights.polyak import StateDict
from scripts.benches import _sharing_arms as arms
from scripts.benches import _sharing_keydoor as keydoor
from scripts.benches._sharing_discovery import DiscoveryCrew
from scripts.benches._sharing_figures import all_succeeded, median_ratio
from scripts.benches._sharing_judge import Crowd, judge_doors
from scripts.benches._sharing_keydoor import DOOR, GOAL, KEY, LIMIT, KeyDoors
from scripts.benches._sharing_learner import first_policy
from scripts.benches._sharing_world import DOORS

UP, DOWN, LEFT, RIGHT = range(4)


def walk(game: list[int], *actions: int) -> tuple[list[int], bool]:
    games, there = np.array([game]), np.array([False])
    for action in actions:
        games, there = keydoor.advance(games, np.array([action]))
    return games[0].tolist(), bool(there[0])


def test_a_shut_door_is_a_wall_and_the_key_opens_it() -> None:
    before_door = [DOOR[0], DOOR[1] - 1]
    assert walk([*before_door, 0], RIGHT) == ([*before_door, 0], False)
    assert walk([*before_door, 1], RIGHT) == ([*DOOR, 2], False)
    assert walk([*before_door, 2], RIGHT, RIGHT) == ([DOOR[0], DOOR[1] + 1, 2], False)
    assert walk([*before_door, 1], UP, DOWN) == ([*before_door, 1], False)
    assert walk([KEY[0] - 1, KEY[1], 0], DOWN) == ([*KEY, 1], False)
    assert walk([*KEY, 1], LEFT, DOWN) == ([*KEY, 1], False)
    assert walk([GOAL[0] - 1, GOAL[1], 2], DOWN) == ([*GOAL, 2], True)


def solve(game: list[int]) -> int:
    """The next step of whoever knows the way: to the key, to the door, to the goal."""
    row, column, phase = game
    target = (KEY, DOOR, GOAL)[phase]
    if phase and column < DOOR[1] and row != DOOR[0]:
        return UP if row > DOOR[0] else DOWN
    if row != target[0] and column != DOOR[1]:
        return UP if row > target[0] else DOWN
    return LEFT if column > target[1] else RIGHT


def test_who_knows_the_way_is_paid_once_and_begins_anew() -> None:
    vector = KeyDoors(3)
    vector.reset([1, 2, 3])
    ends, rewards = [], np.zeros(3)
    for _ in range(60):
        actions = np.array([solve(game) for game in vector._games.tolist()])
        transition = vector.step(actions)
        rewards += transition.rewards
        ends += transition.episodes
        assert not transition.truncated.any()
        again = vector._games[transition.terminated]
        assert (again[:, 2] == 0).all()
        assert (again[:, 1] < DOOR[1]).all()
    assert len(ends) == rewards.sum() >= 3
    assert all(end.episode_return == 1.0 and end.length <= 26 for end in ends)


def test_who_stands_still_is_cut_and_never_paid() -> None:
    vector = KeyDoors(2)
    vector.reset([5, 6])
    vector._games = np.array([[1, 1, 0], [1, 1, 0]])
    for number in range(LIMIT):
        transition = vector.step(np.array([UP, LEFT]))
        assert transition.truncated.all() == (number == LIMIT - 1)
        assert not transition.terminated.any()
    assert [end.episode_return for end in transition.episodes] == [0.0, 0.0]


def test_every_state_that_can_be_reached_is_counted_and_no_other() -> None:
    vector, dice = KeyDoors(64), np.random.default_rng(1)
    vector.reset(list(range(64)))
    for _ in range(6_000):
        vector.step(dice.integers(4, size=64))
    assert vector.visited.sum() == keydoor.REACHABLE


def test_games_go_on_exactly_where_they_were_saved() -> None:
    one, other, dice = KeyDoors(4), KeyDoors(4), np.random.default_rng(2)
    one.reset([1, 2, 3, 4])
    actions = dice.integers(4, size=(2 * LIMIT, 4))
    for row in actions[:LIMIT]:
        one.step(row)
    other.load_states(one.save_states())
    for row in actions[LIMIT:]:
        mine, yours = one.step(row), other.step(row)
        assert np.array_equal(mine.observations["state"], yours.observations["state"])
        assert np.array_equal(mine.rewards, yours.rewards)
    assert np.array_equal(one.visited, other.visited)


def test_what_is_seen_tells_every_state_from_every_other() -> None:
    states = np.array([(r, c, p) for r in range(keydoor.HEIGHT) for c in range(keydoor.WIDTH)
                       for p in range(keydoor.PHASES)])  # fmt: skip
    seen = keydoor.observe(states)
    assert seen.shape == (len(states), keydoor.OBSERVED)
    assert len({row.tobytes() for row in seen}) == len(states)
    assert (seen.sum(-1) == 3.0).all()


def knows_the_way() -> StateDict:
    """A policy fitted to the steps of who knows the way."""
    policy = first_policy(0, DOORS)
    states = np.array([[*cell, phase] for phase in range(3) for cell in np.argwhere(~keydoor._WALL)
                       if phase == 2 or cell[1] < DOOR[1]])  # fmt: skip
    seen = torch.from_numpy(keydoor.observe(states))
    wanted = torch.tensor([solve(state) for state in states.tolist()])
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    for _ in range(400):
        logits = policy.judge(policy.encoder({"state": seen}))[0]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, wanted).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return {name: one.detach() for name, one in policy.state_dict().items()}


def test_the_judge_knows_who_knows_the_way() -> None:
    untaught = {name: one.detach() for name, one in first_policy(0, DOORS).state_dict().items()}
    known, unknown = judge_doors([knows_the_way(), untaught])
    assert known > 0.9
    assert unknown < 0.5
    seen = keydoor.observe(keydoor.begun(np.linspace(0, 0.99, 8)))
    policy = first_policy(0, DOORS)
    asked = policy.judge(policy.encoder({"state": torch.from_numpy(seen)}))[0]
    assert torch.allclose(Crowd([untaught]).logits(seen[None])[0], asked.detach(), atol=1e-6)


@pytest.mark.parametrize("arm", arms.NEEDS["E3"])
def test_each_learner_s_own_sights_are_counted(tmp_path: Path, arm: arms.Arm) -> None:
    crew = arm.make(7, tmp_path, 2)
    assert isinstance(crew, DiscoveryCrew)
    for number in range(2):
        crew.round(number)
    told = crew.told()
    assert told["errors"] == []
    assert len(told["seen"][0]) == 4
    assert len(set(told["seen"][1])) > 1
    for one, two in zip(*told["seen"], strict=True):
        assert 0.0 < one <= two <= 1.0
    if crew.shares:
        assert {v.rule for v in read_history(SharedPaths(crew.root)).versions} == {crew.rule}
    apart = {member.session.weights()["actor.bias"][0].item() for member in crew.members}
    assert (len(apart) < 4) == (arm is arms.DOORS_SHARED), "others go on from weights of their own"


def test_all_have_succeeded_when_the_last_has_and_one_who_never_does_counts_for_ever() -> None:
    assert all_succeeded([[0.0, 1.0], [0.95, 0.1], [0.2, 0.2]]) == 2.0
    assert math.isinf(all_succeeded([[0.8, 1.0], [0.8, 1.0]]))


def test_unfinished_runs_stand_last_and_leave_a_bound_where_the_median_is_among_them() -> None:
    never = math.inf
    told = median_ratio([5.0, 5.0, 5.0], [10.0, 10.0, never], 20)
    assert (told["ratio"], told["at_most"]) == (0.5, False)
    told = median_ratio([5.0, 5.0, never], [10.0, never, never], 20)
    assert (told["ratio"], told["at_most"]) == (0.25, True)
    assert told["high"] is None
    assert median_ratio([never] * 3, [10.0] * 3, 20)["ratio"] is None
