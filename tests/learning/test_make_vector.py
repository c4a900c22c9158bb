"""Tests of all backends with the real environment: equal seeds and actions, equal trajectories."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, is_dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from gymnasium.error import Error

from Daddy.core.errors import ConfigError, FileError, UsageError
from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.learning.cartpole import CartPole
from Daddy.learning.make_vector import groups_for, make_vector
from Daddy.learning.vector_rows import VectorEnv, split_into_groups
from Daddy.pokemon.env import PokemonRedEnv
from tests.learning.toys import Dozing, Failing, Jumping, Misconfigured, Slow

BACKENDS = ("processes",)
WITH_PUFFERLIB = (*BACKENDS, *["pufferlib"] * bool(find_spec("pufferlib")))
"""pufferlib polls, which is slow on a busy machine: it takes the tests that say most."""
GAME = partial(PokemonRedEnv, episode_steps=45)
NUM_ENVS = 5
"""Odd, so that the env processes hold different numbers of environments."""

Make = Callable[..., VectorEnv]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[VectorEnv] = []

    def make(backend: Any, env_fn: Any = GAME, num_envs: int = NUM_ENVS, **how: Any) -> Any:
        made.append(make_vector(env_fn, num_envs, backend, **{"cores": 2, **how}))
        return made[-1]

    yield make
    for vector in made:
        vector.close()


def plain(value: Any) -> Any:
    """Convert arrays, data classes and containers to values that == compares exactly."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def play(vector: VectorEnv, steps: int, seed: int) -> list[Any]:
    """Return all results of a vector in `steps` random steps."""
    rng = np.random.default_rng(seed)
    said = []
    for _ in range(steps):
        transition = vector.step(rng.integers(7, size=vector.num_envs))
        said.append(plain([transition, vector.telemetry(), vector.pictures()]))
    return said


def whole_story(vector: VectorEnv) -> list[Any]:
    """Return the results of resets, episode ends, pictures, and of saved and restored states."""
    said = [plain(vector.reset(range(10, 10 + vector.num_envs)))]
    vector.request_pictures(frozenset({0, 4}))
    said += play(vector, 100, seed=1)
    states = vector.save_states()
    said.append(states)
    vector.request_pictures(frozenset({3}))
    said += play(vector, 50, seed=2)
    said.append(plain(vector.load_states(states)))
    return said + play(vector, 60, seed=2)


@cache
def serial_story(num_envs: int) -> list[Any]:
    vector = make_vector(GAME, num_envs, "serial", cores=2)
    try:
        return whole_story(vector)
    finally:
        vector.close()


def differences(vector: VectorEnv) -> list[int]:
    expected, told = serial_story(vector.num_envs), whole_story(vector)
    return [i for i, (a, b) in enumerate(zip(expected, told, strict=True)) if a != b]


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_tells_the_story_that_serial_tells(make: Make, backend: str) -> None:
    assert differences(make(backend)) == []


@pytest.mark.parametrize("backend", WITH_PUFFERLIB)
def test_groups_change_nothing_of_what_is_told(make: Make, backend: str) -> None:
    """Six environments in two groups with three processes each."""
    assert differences(make(backend, num_envs=6, groups=2, cores=3)) == []


def test_groups_of_one_process_change_nothing_of_what_is_told(make: Make) -> None:
    vector = make("processes", num_envs=6, groups=2, cores=2)
    assert differences(vector) == []
    assert len(vector.pids) == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_group_waits_for_a_slower_one(make: Make, backend: str) -> None:
    """Action 1 sleeps: the other group finishes its steps first, then the slow group."""
    vector = make(backend, Dozing, num_envs=4, groups=2)
    assert vector.groups == (slice(0, 2), slice(2, 4))
    vector.reset(range(4))
    vector.send(0, np.array([0, 1]))
    for _ in range(5):
        vector.send(1, np.zeros(2, np.int64))
        group, transition = vector.recv()
        assert (group, transition.observations["x"].shape) == (1, (2, 3))
    group, transition = vector.recv()
    assert (group, transition.observations["x"][:, 0].tolist()) == (0, [0.0, 1.0])
    assert vector.telemetry()[:, 0].tolist() == [1, 1, 5, 5]


@pytest.mark.parametrize("backend", BACKENDS)
def test_observations_of_a_group_change_in_its_own_step_only(make: Make, backend: str) -> None:
    vector = make(backend, num_envs=4, groups=2)
    vector.reset(range(4))
    for group in (0, 1):
        vector.send(group, np.zeros(2, np.int64))
    seen = dict(vector.recv() for _ in vector.groups)
    kept = {group: plain(transition.observations) for group, transition in seen.items()}
    for _ in range(5):
        vector.send(1, np.full(2, 3))
        vector.recv()
    assert plain(seen[0].observations) == kept[0]
    assert plain(seen[1].observations) != kept[1]


@pytest.mark.parametrize(
    ("num_envs", "cores", "groups"),
    [(8, 2, 2), (7, 2, 1), (16, 4, 4), (12, 4, 2), (21, 4, 2), (96, 16, 2), (4, 16, 1), (8, 1, 2)],
)
def test_few_cores_have_a_group_each_and_many_share_two(
    num_envs: int, cores: int, groups: int
) -> None:
    assert groups_for(num_envs, cores) == groups


@pytest.mark.parametrize(
    ("num_envs", "wanted", "groups"), [(8, 2, 2), (6, 4, 3), (7, 4, 1), (3, 9, 3), (1, 2, 1)]
)
def test_groups_are_of_equal_size_and_hold_everybody(
    num_envs: int, wanted: int, groups: int
) -> None:
    members = split_into_groups(num_envs, wanted)
    assert len(members) == groups
    assert [i for group in members for i in range(num_envs)[group]] == list(range(num_envs))
    assert len({group.stop - group.start for group in members}) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_state_goes_on_exactly_in_another_backend(make: Make, backend: str) -> None:
    first = make("serial")
    first.reset(range(NUM_ENVS))
    play(first, 70, seed=3)
    states = first.save_states()
    expected = play(first, 70, seed=4)
    second = make(backend)
    second.load_states(states)
    assert play(second, 70, seed=4) == expected


@pytest.mark.parametrize("backend", ["serial", *BACKENDS])
def test_an_episode_end_is_told_once_and_the_next_episode_begins_at_once(
    make: Make, backend: str
) -> None:
    vector = make(backend)
    vector.reset(range(NUM_ENVS))
    for _ in range(2):
        rewards = np.zeros(NUM_ENVS)
        for _ in range(45):
            transition = vector.step(np.zeros(NUM_ENVS, np.int64))
            rewards += transition.rewards
        assert transition.truncated.all()
        assert not transition.terminated.any()
        assert [episode.env for episode in transition.episodes] == list(range(NUM_ENVS))
        assert [episode.length for episode in transition.episodes] == [45] * NUM_ENVS
        assert [e.episode_return for e in transition.episodes] == pytest.approx(rewards.tolist())
        assert transition.episodes[0].info["summary"]["cells"] >= 1
    step = vector.telemetry_names.index("step")
    assert vector.telemetry()[:, step].tolist() == [0] * NUM_ENVS
    assert vector.step(np.zeros(NUM_ENVS, np.int64)).episodes == []


@pytest.mark.parametrize("backend", ["serial", *BACKENDS])
def test_who_goes_on_elsewhere_is_cut_off_in_the_learners_eyes_and_ends_no_episode(
    make: Make, backend: str
) -> None:
    vector = make(backend, Jumping, num_envs=2)
    vector.reset([1, 2])
    transition = vector.step(np.array([0, 1]))
    assert transition.truncated.tolist() == [False, True]
    assert not transition.terminated.any()
    assert transition.episodes == []
    assert vector.step(np.zeros(2, np.int64)).truncated.tolist() == [False, False]
    assert vector.telemetry().ravel().tolist() == [2.0, 2.0], "they were not begun anew"


@pytest.mark.parametrize("backend", ["serial", *BACKENDS])
def test_shapes_and_types_are_those_of_the_port(make: Make, backend: str) -> None:
    vector = make(backend)
    observations = vector.reset(range(NUM_ENVS))
    assert {k: (v.shape, v.dtype) for k, v in observations.items()} == {
        key: ((NUM_ENVS, *(box.shape or ())), box.dtype)
        for key, box in vector.observation_space.spaces.items()
    }
    transition = vector.step(np.zeros(NUM_ENVS, np.int64))
    assert (transition.rewards.shape, transition.rewards.dtype) == ((NUM_ENVS,), np.float32)
    assert transition.terminated.dtype == transition.truncated.dtype == np.bool_
    assert vector.telemetry().shape == (NUM_ENVS, len(vector.telemetry_names))


@pytest.mark.parametrize("backend", ["serial", *BACKENDS])
def test_what_a_step_gave_is_not_changed_by_the_next(make: Make, backend: str) -> None:
    vector = make(backend)
    first = vector.reset(range(NUM_ENVS))
    before = plain(first)
    transition = vector.step(np.full(NUM_ENVS, 2))
    after = plain(transition)
    play(vector, 50, seed=0)
    assert plain(first) == before
    assert plain(transition) == after


@pytest.mark.parametrize("backend", ["serial", *BACKENDS])
def test_only_watched_environments_are_drawn(make: Make, backend: str) -> None:
    vector = make(backend)
    vector.reset(range(NUM_ENVS))
    play(vector, 1, seed=0)
    assert vector.pictures() == {}
    vector.request_pictures(frozenset({1, 3, 99}))
    assert vector.pictures() == {}
    play(vector, 1, seed=0)
    assert {agent: len(picture) for agent, picture in vector.pictures().items()} == {
        1: SCREEN_BYTES,
        3: SCREEN_BYTES,
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_picture_is_offered_before_it_is_drawn(make: Make, backend: str) -> None:
    vector = make(backend, num_envs=4, groups=2)
    vector.reset(range(4))
    vector.request_pictures(frozenset({0}))
    vector.send(0, np.zeros(2, np.int64))
    assert vector.pictures() == {}
    vector.recv()
    assert list(vector.pictures()) == [0]


@pytest.mark.parametrize("backend", ["serial", *WITH_PUFFERLIB])
def test_an_environment_that_fails_fails_the_step_with_its_own_words(
    make: Make, backend: str
) -> None:
    vector = make(backend, Failing, 3)
    vector.reset(range(3))
    vector.step(np.zeros(3, np.int64))
    with pytest.raises(Exception, match="the cable is out"):
        vector.step(np.array([0, 0, 1]))


@pytest.mark.parametrize("backend", ["serial", *BACKENDS])
def test_one_environment_is_enough(make: Make, backend: str) -> None:
    vector = make(backend, Slow, 1)
    vector.reset([0])
    assert vector.step(np.array([1])).observations["x"].tolist() == [[1, 1, 1]]


def test_bytes_that_are_no_state_are_refused(make: Make) -> None:
    vector = make("serial")
    with pytest.raises(FileError, match="no environment state"):
        vector.load_states([b"nonsense"] * NUM_ENVS)


def test_no_environment_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="0 environments"):
        make_vector(Slow, 0)


def test_a_backend_that_is_not_installed_is_named_with_its_extra(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pufferlib", None)
    monkeypatch.delitem(sys.modules, "Daddy.learning.vector_pufferlib", raising=False)
    with pytest.raises(UsageError, match="pufferlib cannot be used here") as refused:
        make("pufferlib", Slow)
    assert "[pufferlib]" in refused.value.fix


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_no_start_method_changes_what_is_told(make: Make, method: str) -> None:
    assert differences(make("processes", groups=5, context=method)) == []


@pytest.mark.parametrize("backend", ["serial", *WITH_PUFFERLIB])
def test_a_setting_that_an_environment_refuses_keeps_its_error(make: Make, backend: str) -> None:
    vector = make(backend, Misconfigured, num_envs=2)
    vector.reset(range(2))
    with pytest.raises(ConfigError, match="part cell is nan") as refused:
        vector.step(np.array([0, 1]))
    assert refused.value.fix == "set reward.cell"


@pytest.mark.parametrize("env_fn", [GAME, CartPole])
@pytest.mark.parametrize("backend", ["serial", *WITH_PUFFERLIB])
def test_actions_that_are_no_integers_are_refused(make: Make, backend: str, env_fn: Any) -> None:
    vector = make(backend, env_fn, num_envs=2)
    vector.reset(range(2))
    with pytest.raises((Error, AssertionError, TypeError), match=r"1\.7|float64"):
        vector.step(np.array([1.7, 1.7]))
