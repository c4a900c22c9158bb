import copy
import json
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, InvalidAction, UnsupportedMode
from gymnasium.utils.env_checker import check_env

from Daddy.core.errors import ConfigError, RomError
from Daddy.core.settings import RewardSettings
from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.pokemon import story_milestones
from Daddy.pokemon.emulator import BUTTONS
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.observation import empty_observation
from scripts.cartridge import symbols

Make = Callable[..., PokemonRedEnv]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.delenv("DADDY_ROM", raising=False)
    made: list[PokemonRedEnv] = []

    def make(**options: Any) -> PokemonRedEnv:
        made.append(PokemonRedEnv(**options))
        return made[-1]

    yield make
    for env in made:
        env.close()


def actions(seed: int, count: int) -> list[int]:
    return np.random.default_rng(seed).integers(7, size=count).tolist()


def play(env: PokemonRedEnv, chosen: list[int]) -> list[Any]:
    """Play over episode ends; return all outputs of the environment."""
    said: list[Any] = []
    for action in chosen:
        observation, reward, terminated, truncated, info = env.step(action)
        said.append((frozen(observation), reward, terminated, truncated, info, env.telemetry()))
        if terminated or truncated:
            said.append(frozen(env.reset()[0]))
    return said


def frozen(observation: dict[str, Any]) -> dict[str, bytes]:
    return {key: value.tobytes() for key, value in observation.items()}


def test_gymnasiums_checker_has_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DADDY_ROM", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make("Daddy.pokemon.registration:Daddy/PokemonRed-v0")
        check_env(env.unwrapped)
        env.close()


def test_the_same_seed_and_actions_give_the_same_episodes(make: Make) -> None:
    first, second = make(episode_steps=40), make(episode_steps=40)
    assert frozen(first.reset(seed=5)[0]) == frozen(second.reset(seed=5)[0])
    chosen = actions(0, 100)
    assert play(first, chosen) == play(second, chosen)


def test_another_seed_and_the_next_episode_roll_other_dice(make: Make) -> None:
    env = make()
    dice = set()
    for seed in (1, 2, None, 1):
        env.reset(seed=seed)
        dice.add(env._emulator.dump_state())
    assert len(dice) == 3


def test_an_episode_is_truncated_after_its_steps_and_tells_its_summary(make: Make) -> None:
    env = make(episode_steps=30)
    env.reset(seed=0)
    said = [env.step(action) for action in actions(0, 30)]
    assert [step[3] for step in said] == [False] * 29 + [True]
    info = said[-1][4]
    assert info["summary"]["step"] == 30
    assert info["summary"]["episode_return"] == pytest.approx(sum(float(step[1]) for step in said))
    assert sum(info["return_parts"].values()) == pytest.approx(info["summary"]["episode_return"])


def test_the_reward_is_the_sum_of_its_named_parts(make: Make) -> None:
    env = make(weights=RewardSettings(cell=0.25, open_goal=2.0))
    env.reset(seed=0)
    said = [env.step(action) for action in actions(3, 60)]
    for _, reward, _, _, info in said:
        assert reward == pytest.approx(sum(info["reward_parts"].values()))
    assert {info["reward_parts"].get("cell", 0) for *_, info in said} == {0, 0.25, 0.5}


def test_a_saved_environment_goes_on_exactly_over_episode_ends(make: Make) -> None:
    env = make(episode_steps=50)
    env.reset(seed=9)
    play(env, actions(0, 70))
    state = env.save_state()
    expected = play(env, actions(1, 120))
    fresh = make(episode_steps=50)
    fresh.load_state(state)
    assert play(fresh, actions(1, 120)) == expected
    assert fresh.save_state() == env.save_state()


def test_a_saved_environment_goes_on_exactly_over_a_forgetting(make: Make) -> None:
    weights = RewardSettings(memory_steps=40)
    env, fresh = make(weights=weights), make(weights=weights)
    env.reset(seed=9)
    play(env, actions(0, 30))
    fresh.load_state(env.save_state())
    assert play(fresh, actions(1, 100)) == play(env, actions(1, 100))


def test_environments_forget_at_different_times_and_short_episodes_never(make: Make) -> None:
    env, left = make(), []
    for seed in range(40):
        env.reset(seed=seed)
        left.append(env._tracker.to_facts()["left"])
    assert len(set(left)) == 40
    assert 10_000 <= min(left) < 13_000
    assert 27_000 < max(left) < 30_000


def test_to_forget_pays_nothing_ends_nothing_and_shows_in_the_mask(make: Make) -> None:
    env = make(weights=RewardSettings(memory_steps=60))
    env.reset(seed=0)
    masks = [env.step(action)[0]["visited"].sum() // (255 * 64) for action in actions(3, 29)]
    left = env._tracker.to_facts()["left"]
    assert masks[-1] > 1
    said = [env.step(6) for _ in range(left)]  # START has no effect here
    assert [step[0]["visited"].sum() // (255 * 64) for step in said[-2:]] == [masks[-1], 1]
    assert said[-1][1:4] == (0.0, False, False)


def rewritten(state: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return a saved environment with a changed header."""
    size = int.from_bytes(state[8:12], "little")
    header = json.loads(state[20 : 20 + size])
    change(header)
    told = json.dumps(header).encode()
    return state[:8] + len(told).to_bytes(4, "little") + state[12:20] + told + state[20 + size :]


def test_what_a_loaded_game_holds_is_the_baseline_whatever_was_kept_of_it(make: Make) -> None:
    rich, poor = make(), make()
    for env in (rich, poor):
        env.reset(seed=1)
    for address, value in ((0xD747, 1), (0xD74B, 0xFF), (0xD356, 7), (0xD31D, 1), (0xD31E, 0xC4)):
        rich._emulator.write(address, value)
    state = rewritten(rich.save_state(), lambda header: header.update(records={}))
    for load in (poor.adopt_game, poor.load_state):
        load(state)
        _, reward, terminated, truncated, info = poor.step(6)
        assert (reward, terminated, truncated) == (0, False, False)
        assert info["reward_parts"] == {}
        assert poor.telemetry()[poor.telemetry_names.index("badges")] == 3


def test_an_item_handed_over_stays_held_through_a_state_of_its_own(make: Make) -> None:
    env, later = make(), make()
    env.reset(seed=1)
    env._emulator.write(0xD31E, 0x46)
    env._emulator.write(0xD31D, 1)
    assert env.step(6)[4]["reward_parts"] == {"item": RewardSettings().item}
    env._emulator.write(0xD31D, 0)
    assert env.step(6)[1] == 0
    later.load_state(env.save_state())
    later._emulator.write(0xD31D, 1)
    assert later.step(6)[1] == 0


def test_loading_a_state_shows_the_observation_of_that_moment(make: Make) -> None:
    env = make()
    env.reset(seed=3)
    observation = play(env, actions(2, 25))[-1][0]
    state = env.save_state()
    play(env, actions(3, 25))
    assert frozen(env.load_state(state)) == observation


@pytest.mark.parametrize("damage", [lambda s: s[:-9], lambda s: b"x" + s[1:], lambda _: b""])
def test_a_damaged_state_is_refused(make: Make, damage: Callable[[bytes], bytes]) -> None:
    env = make()
    env.reset(seed=0)
    with pytest.raises(RomError, match="damaged"):
        env.load_state(damage(env.save_state()))


def test_a_state_of_another_game_or_pyboy_is_refused_by_name(make: Make) -> None:
    env = make()
    env.reset(seed=0)
    state = env.save_state()
    assert env.rom.sha1.encode() in state
    with pytest.raises(RomError, match="rom_sha1"):
        env.load_state(state.replace(env.rom.sha1.encode(), b"0" * 40))
    with pytest.raises(RomError, match="pyboy"):
        env.load_state(state.replace(b'"pyboy": "2', b'"pyboy": "1'))


def test_telemetry_has_a_number_for_each_name(make: Make) -> None:
    env = make()
    env.reset(seed=0)
    env.step(0)
    facts = dict(zip(env.telemetry_names, env.telemetry(), strict=True))
    assert facts["step"] == 1
    assert facts["real_game"] == 0
    assert {"badges", "story_flags", "episode_return", "episode", "map_id", "level"} <= set(facts)


def test_a_milestone_shows_in_the_telemetry_by_its_name(make: Make) -> None:
    env, (flag, *_) = make(), symbols.STORY
    env.reset(seed=0)
    facts = dict(zip(env.telemetry_names, env.telemetry(), strict=True))
    assert story_milestones.milestones_from_columns(facts) == ()
    env._emulator.write(flag.address, 1 << flag.bit)
    env.step(0)
    facts = dict(zip(env.telemetry_names, env.telemetry(), strict=True))
    assert story_milestones.milestones_from_columns(facts) == (flag.name.lower(),)


def test_episodes_are_numbered_from_the_seed(make: Make) -> None:
    env = make()
    numbers = []
    for seed in (4, None, None, 4):
        env.reset(seed=seed)
        numbers.append(dict(zip(env.telemetry_names, env.telemetry(), strict=True))["episode"])
    assert numbers == [0, 1, 2, 0]


def test_the_picture_and_the_rendered_screen_show_the_same(make: Make) -> None:
    env = make(render_mode="rgb_array")
    env.reset(seed=0)
    rendered = env.render()
    assert rendered is not None
    assert rendered.shape == (144, 160, 3)
    picture = np.frombuffer(env.picture(), np.uint8)
    assert len(picture) == SCREEN_BYTES
    assert np.array_equal(picture >> 6, 3 - (rendered[:, ::4, 0] >> 6).reshape(-1))


def test_episodes_begin_from_a_given_save_state(make: Make, tmp_path: Path) -> None:
    env = make()
    env.reset(seed=0)
    play(env, actions(5, 120))
    (tmp_path / "later.state").write_bytes(env._emulator.dump_state())
    later = make(init_state=tmp_path / "later.state")
    later.reset(seed=1)
    begun = dict(zip(later.telemetry_names, later.telemetry(), strict=True))
    left = dict(zip(env.telemetry_names, env.telemetry(), strict=True))
    assert (begun["map_id"], begun["events"], begun["cells"]) == (left["map_id"], left["events"], 1)


def test_a_missing_start_state_names_its_path(tmp_path: Path) -> None:
    with pytest.raises(RomError, match=r"gone\.state"):
        PokemonRedEnv(init_state=tmp_path / "gone.state")


@pytest.mark.parametrize("steps", [0, -3, 2.5, float("nan"), True, "x"])
def test_an_episode_has_a_whole_number_of_steps(make: Make, steps: Any) -> None:
    with pytest.raises(ConfigError, match="is not a whole number from 1 on"):
        make(episode_steps=steps)


@pytest.mark.parametrize(
    "action", [-1, 7, 10**30, True, np.True_, 1.0, np.float32(1.0), np.array([1]), None, "a"]
)
def test_an_action_that_is_no_key_is_refused_with_the_range(make: Make, action: Any) -> None:
    env = make()
    env.reset(seed=0)
    with pytest.raises(InvalidAction, match="from 0 to 6"):
        env.step(action)
    assert env.telemetry()[env.telemetry_names.index("step")] == 0


@pytest.mark.parametrize("action", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_an_integer_of_any_type_is_a_key(make: Make, action: Any) -> None:
    env, other = make(), make()
    env.reset(seed=0), other.reset(seed=0)
    assert frozen(env.step(action)[0]) == frozen(other.step(3)[0])


def test_the_parts_of_a_return_are_a_copy(make: Make) -> None:
    env = make(episode_steps=2)
    env.reset(seed=0)
    env.step(0)
    *_, info = env.step(3)
    told = dict(info["return_parts"])
    assert told
    env.step(2), env.step(1)
    assert info["return_parts"] == told
    info["return_parts"]["cell"] = info["reward_parts"]["cell"] = 1e9
    assert sum(env.step(0)[4]["return_parts"].values()) < 100


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), 1e39])
def test_a_reward_that_is_no_number_is_an_error_that_names_its_part(
    make: Make, weight: float
) -> None:
    env = make(weights=RewardSettings().model_copy(update={"cell": weight}))
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=r"reward part cell .*reward\.cell"):
        play(env, actions(3, 60))


def test_reset_has_no_options(make: Make) -> None:
    env = make()
    env.reset(options={})
    with pytest.raises(ValueError, match=r"\['speed'\].*init_state"):
        env.reset(seed=0, options={"speed": 2})


def test_a_render_mode_that_it_lacks_is_refused(make: Make) -> None:
    for mode in ("human", "ansi"):
        with pytest.raises(UnsupportedMode, match=f"'{mode}'.*rgb_array"):
            make(render_mode=mode)


def test_gymnasium_shows_it_in_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DADDY_ROM", raising=False)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gymnasium tells that its own wrapper draws
        name = "Daddy.pokemon.registration:Daddy/PokemonRed-v0"
        env = gymnasium.make(name, render_mode="human")
    env.reset(seed=0)
    env.step(0)
    env.close()


def test_a_closed_environment_says_so(make: Make) -> None:
    env = make(render_mode="rgb_array")
    env.reset(seed=0)
    state = env.save_state()
    env.close()
    env.close()
    for call in (
        lambda: env.step(0),
        env.reset,
        env.render,
        env.picture,
        env.save_state,
        lambda: env.load_state(state),
        lambda: env.adopt_game(state),
    ):
        with pytest.raises(ClosedEnvironmentError, match="closed"):
            call()


def test_a_copy_or_a_pickle_is_refused_in_words(make: Make) -> None:
    env = make()
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"neither copied nor pickled.*load_state"):
            duplicate(env)


def test_each_observation_has_arrays_of_its_own() -> None:
    env = PokemonRedEnv()
    first, _ = env.reset(seed=0)
    kept = {name: array.copy() for name, array in first.items()}
    for _ in range(5):
        second = env.step(BUTTONS.index("start"))[0]
    assert not np.array_equal(second["screen"], kept["screen"])
    assert all(np.array_equal(first[name], array) for name, array in kept.items())


def test_observe_into_writes_the_same_observations_into_the_given_arrays() -> None:
    plain, direct = PokemonRedEnv(), PokemonRedEnv()
    arrays = empty_observation()
    direct.observe_into(arrays)
    plain.reset(seed=3)
    assert direct.reset(seed=3)[0] is arrays
    for action in (0, 4, 1, 5, 3, 6, 2) * 4:
        expected = plain.step(action)[0]
        assert direct.step(action)[0] is arrays
        assert all(np.array_equal(arrays[name], array) for name, array in expected.items())
