"""Tests of the bench `sharing`: its evaluation, groups, controls and figures."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from Daddy.core.errors import UsageError
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.learning.cartpole import SCALE, CartPole
from Daddy.weights.encoding.state_arithmetic import StateDict, norm
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.store.weight_store import Store
from scripts.benches import _sharing_hostile as hostile
from scripts.benches import _sharing_race as race
from scripts.benches import _sharing_tasks as tasks
from scripts.benches import sharing
from scripts.benches._sharing_group import LearnerGroup
from scripts.benches._sharing_judge import PolicyStack, advance, judge, probe
from scripts.benches._sharing_learner import first_policy
from scripts.benches._sharing_results import ArmResults, best, iqm, middle, ratio, worth
from scripts.version_history import read_history


def state(seed: int) -> StateDict:
    return {name: value.detach() for name, value in first_policy(seed).state_dict().items()}


def test_the_judges_cart_is_gymnasiums_to_the_last_fall() -> None:
    env, dice = CartPole(), np.random.default_rng(3)
    for seed in range(5):
        seen, _ = env.reset(seed=seed)
        games = (np.asarray(env._game.state, np.float64))[None, None]
        for _ in range(500):
            right = bool(dice.random() < 0.5)
            seen, _, fell, _, _ = env.step(int(right))
            games, falls = advance(games, np.array([[right]]))
            np.testing.assert_allclose(games[0, 0].astype(np.float32) / SCALE, seen["state"])
            assert bool(falls[0, 0]) == fell
            if fell:
                break
        assert fell


def test_the_judge_asks_each_policy_as_it_would_ask_itself() -> None:
    games = np.stack([probe()[0]] * 2)
    found = PolicyStack([state(1), state(2)]).chances(games)
    for number, seed in enumerate((1, 2)):
        seen = {"state": torch.from_numpy(games[number].astype(np.float32) / SCALE)}
        policy = first_policy(seed)
        logits, _, _ = policy.step(seen, policy.initial_state(32), torch.ones(32, dtype=bool))
        np.testing.assert_allclose(found[number], logits.softmax(-1)[:, 1].detach(), atol=1e-6)
    assert judge([state(1), state(2)]) == [judge([state(1)])[0], judge([state(2)])[0]]


def test_who_holds_the_pole_earns_everything_and_who_only_pushes_right_falls() -> None:
    def handmade(*push: float) -> StateDict:
        made = {name: torch.zeros_like(value) for name, value in state(0).items()}
        made["encoder.layers.0.weight"][0] = torch.tensor(push)
        made["encoder.layers.2.weight"][0, 0] = 1.0
        made["actor.weight"][:, 0] = torch.tensor([-1e4, 1e4])
        return made

    steady, pusher = handmade(0.03, 0.06, 0.4, 0.4), handmade(0.0, 0.0, 0.0, 0.0)
    pusher["actor.bias"][:] = torch.tensor([-50.0, 50.0])
    returns = judge([steady, pusher])
    assert returns[0] > 450.0
    assert 8.0 <= returns[1] <= 11.0


def test_the_middle_half_of_the_seeds_counts_and_equal_sides_are_even() -> None:
    assert iqm(np.array([0.0, 4.0, 6.0, 1000.0])) == 5.0
    assert iqm(np.array([3.0])) == 3.0
    assert iqm(np.array([1.0, 2.0, 3.0])) == 2.0
    values = [100.0, 120.0, 90.0, 300.0]
    assert ratio(values, values) == {"ratio": 1.0, "low": 1.0, "high": 1.0}
    double = ratio([2.0 * value for value in values], values)
    assert double == {"ratio": 2.0, "low": 2.0, "high": 2.0}
    told = ratio([110.0, 90.0, 100.0, 105.0], [100.0, 100.0, 100.0, 100.0])
    assert told["low"] < told["ratio"] < told["high"]
    assert middle(values)["low"] < middle(values)["iqm"] < middle(values)["high"]


def test_worth_is_the_mean_of_all_and_best_of_the_learner_that_came_out_best() -> None:
    result = {"each": [[10.0, 30.0], [20.0, 60.0]]}
    assert (worth(result), best(result)) == (30.0, 45.0)


def test_a_crew_shares_through_a_real_folder_and_goes_the_same_way_twice(tmp_path: Path) -> None:
    def played(name: str) -> tuple[LearnerGroup, list[list[float]]]:
        group = LearnerGroup(7, tmp_path / name, 2)
        return group, [group.round() for _ in range(2)]

    group, returns = played("once")
    assert returns == played("again")[1]
    assert group.ear.errors == []
    history = read_history(SharedPaths(group.root))
    assert history.chained
    assert history.contributors == ["slot-0", "slot-1", "slot-2", "slot-3"]
    store = Store(SharedPaths(group.root))
    state = decode(store.read_blob(history.versions[-1].state))
    newest = {name: value for name, value in state.items() if "critic" not in name}
    adopted = [member.session.weights() for member in group.members]
    assert any(
        all(torch.equal(weights[name], newest[name]) for name in newest) for weights in adopted
    )


def test_learners_on_their_own_begin_alike_and_part(tmp_path: Path) -> None:
    group = LearnerGroup(7, tmp_path, 1, shares=False)
    first = state(7)
    for member in group.members:
        weights = member.session.weights()
        assert all(torch.equal(weights[name], first[name]) for name in first)
    group.round()
    biases = [member.session.weights()["actor.bias"][0].item() for member in group.members]
    assert len(set(biases)) == 4
    assert not group.root.exists()


def delta(seed: int = 0) -> StateDict:
    return {name: value * 0.01 for name, value in state(seed).items()}


def test_each_lie_is_as_it_is_called() -> None:
    honest = delta()
    assert norm(hostile.LIES["x-10"](honest, 1).delta) == pytest.approx(10.0 * norm(honest))
    assert hostile.LIES["inflated"](honest, 1).boast == hostile.BOAST
    finite = [np.isfinite(norm(hostile.LIES["nan"](honest, number).delta)) for number in (1, 2, 3)]
    assert finite == [True, True, False]


@pytest.mark.parametrize("gated", [True, False])
def test_a_value_that_is_no_number_ruins_everybody_only_where_the_gate_is_open(
    tmp_path: Path, gated: bool
) -> None:
    group = hostile.HostileGroup(7, tmp_path, 5, lie="nan", gated=gated)
    for _ in range(5):
        assert len(group.round()) == 3
    weights = [member.session.weights() for member in group.members if member.judged]
    assert all(np.isfinite(norm(delta)) == gated for delta in weights)
    assert ("not finite" in group.told()["refused_because"]) == gated
    assert judging_is_whole()


def judging_is_whole() -> bool:
    from Daddy.weights import weight_exchange
    from Daddy.weights.encoding import state_arithmetic
    from Daddy.weights.merge import admission, compute_version

    whole = (
        compute_version.judge_values is admission.judge_values
        and compute_version.norm is state_arithmetic.norm
    )
    finite = state_arithmetic.is_finite
    return whole and finite.__name__ == "is_finite" and weight_exchange.is_finite is finite


def test_every_contribution_of_the_race_is_in_the_result_and_the_control_counts_too(
    tmp_path: Path,
) -> None:
    """The processes run in turn: neither side loses anything."""
    for number in range(race.WRITERS):
        race._share_through_exchange(tmp_path, number, merges=3, size=5)
        race._share_through_one_file(tmp_path, number, merges=3, size=5)
    race._merge_only(tmp_path, 9, merges=3)
    versions = read_history(SharedPaths(tmp_path)).versions
    assert race._merged(versions) == 3 * race.WRITERS
    assert race._merged(versions[:-1]) < 3 * race.WRITERS
    assert race._off_by(tmp_path, versions) < 1e-5
    assert race._off_by(tmp_path, versions[:1] + versions[2:]) > 0.1
    assert race._counted(tmp_path) == 3 * race.WRITERS


def test_who_reads_before_another_writes_loses_the_others_merge(tmp_path: Path) -> None:
    """Show the control's lost update step by step."""
    share_once = partial(race._share_through_one_file, tmp_path, merges=1, size=0)
    share_once(0)
    before = (tmp_path / "latest.st").read_bytes()
    share_once(1)
    (tmp_path / "latest.st").write_bytes(before)
    share_once(2)
    assert race._counted(tmp_path) == 2


def test_an_unknown_experiment_is_refused_by_name() -> None:
    assert sharing.chosen(None, ["E5", "E1"]) == ["E1", "E5"]
    assert sharing.chosen("E5, E1", ["E1", "E4", "E5"]) == ["E1", "E5"]
    with pytest.raises(UsageError, match="there is no 'E9' here"):
        sharing.chosen("E1,E9", ["E1"])


def test_the_bench_runs_and_goes_on(tmp_path: Path) -> None:
    told: dict[str, Any] = sharing.run(quick=True, state=tmp_path, only="E1", seeds=1)
    assert json.loads(json.dumps(told)) == told
    assert 0.0 < told["E1"]["ratio"] < 3.0
    found = ArmResults(tmp_path / "quick", tasks.NEEDS["E1"], 1, quick=True)
    stamps = [task.path.stat().st_mtime_ns for task in found.tasks]
    assert sharing.run(quick=True, state=tmp_path, only="E1", seeds=1) == told
    assert [task.path.stat().st_mtime_ns for task in found.tasks] == stamps
    found.tasks[0].path.unlink()
    assert [task.arm.name for task in found.left()] == [tasks.SHARED.name]
    assert found.of(tasks.SHARED, tasks.ALONE) == [[], []]
