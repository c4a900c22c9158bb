"""Tests that environments on the cartridge keep states and load each other's."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from Daddy.core.settings import RewardSettings
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_milestones
from Daddy.pokemon.archive import archive_store
from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.archive_decisions import ArchiveRules, StateChoice
from Daddy.pokemon.archive.archive_env import ArchivedEnv
from Daddy.pokemon.env import PokemonRedEnv
from tests.pokemon.archive.players import advance, archived, meet_somebody, milestones_of, win

RULES = ArchiveRules(per_key=2, patience=60, tries=2, look_every=4)
Make = Callable[..., ArchivedEnv]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.delenv("DADDY_ROM", raising=False)
    made: list[ArchivedEnv] = []

    def make(rules: ArchiveRules = RULES, seed: int = 1, **options: Any) -> ArchivedEnv:
        made.append(archived(tmp_path, rules, **options))
        made[-1].reset(seed=seed)
        return made[-1]

    yield make
    for env in made:
        env.close()
    archive_store.open_archive.cache_clear()


def idle(env: ArchivedEnv, steps: int) -> list[tuple[Any, ...]]:
    """Press up, which has no effect."""
    return [env.step(3) for _ in range(steps)]


def close_boxes(env: ArchivedEnv) -> None:
    """Press B until the player is free to walk."""
    while env.progress.text_box:
        env.step(5)


def facts(env: ArchivedEnv) -> dict[str, float]:
    return dict(zip(env.telemetry_names, env.telemetry(), strict=True))


def test_every_new_milestone_is_kept_with_where_it_came_from(make: Make) -> None:
    env = make(slot=3)
    advance(env, 4)
    entries = env._archive.list_states().entries
    assert {entry.rank for entry in entries} == {1, 2, 3, 4}
    chain = [env._archive.read_state(entry)[0] for entry in sorted(entries, key=lambda e: e.age)]
    assert [entry.parent for entry in chain[1:]] == [
        entry.sha256 for entry in sorted(entries, key=lambda e: e.age)[:-1]
    ]
    last = chain[-1]
    assert (last.slot, last.seed, last.release, last.origin) == (3, 1, "test", "played")
    assert (last.rom_sha1, last.step) == (env.rom.sha1, env._history.lived)


def test_a_larger_set_of_the_fleet_is_followed_at_the_next_look_and_pays_nothing(
    make: Make,
) -> None:
    behind, ahead = make(seed=2), make()
    advance(ahead, 5)
    before = facts(behind)["episode_return"]
    said = idle(behind, RULES.look_every)
    assert milestones_of(behind) == 5
    reasons = [step[4]["archive"] for step in said if "archive" in step[4]]
    assert reasons == ["the fleet first holds 5 milestones, here 0"]
    assert sum(step[4].get("jumped", False) for step in said) == 1
    assert sum(step[1] for step in said) < RewardSettings().event
    assert not any(step[2] or step[3] for step in said)
    assert facts(behind)["episode_return"] == pytest.approx(before + sum(s[1] for s in said))
    assert facts(behind)["map_id"] == facts(ahead)["map_id"]


def test_an_episode_is_as_long_with_a_jump_as_without(make: Make) -> None:
    behind, ahead = make(seed=2, episode_steps=20), make()
    advance(ahead, 3)
    said = idle(behind, 20)
    assert facts(behind)["loads"] == 1
    assert [step[3] for step in said] == [False] * 19 + [True]


def test_what_a_loaded_state_had_already_is_not_paid_again_and_what_is_new_is(make: Make) -> None:
    behind, ahead = make(seed=2), make()
    advance(ahead, 5)
    idle(behind, RULES.look_every)
    paid = advance(behind, 6)
    milestones = [info["reward_parts"].get("required", 0.0) for info in paid]
    assert sum(milestones) == pytest.approx(RewardSettings().required)
    assert sum(info["reward_parts"].get("event", 0.0) for info in paid) == RewardSettings().event


def test_who_is_as_far_goes_its_own_way(make: Make) -> None:
    first, second = make(), make(seed=2)
    advance(first, 3)
    second._history = replace(second._history, followed=3)
    idle(second, 3 * RULES.look_every)
    assert facts(second)["loads"] == 0


def test_after_an_episode_the_swarm_is_not_left(make: Make) -> None:
    """An environment that has loaded a fleet's state does so again in its next episode."""
    ahead, other = make(), make(replace(RULES, fresh=0.0, stray=0.0), seed=2)
    advance(ahead, 3)
    idle(other, RULES.look_every)
    assert (milestones_of(other), facts(other)["loads"]) == (3, 1)
    other.reset()
    assert (milestones_of(other), facts(other)["loads"]) == (3, 2)


def test_a_place_is_kept_by_the_first_who_comes_there_and_is_nothing_new_to_the_second(
    make: Make,
) -> None:
    first, second = make(replace(RULES, square=2)), make(replace(RULES, square=2), seed=2)
    kept = [str(first.step(key)[4].get("archive")) for key in (2, 2, 2, 2)]
    assert sum("states have these 0 milestones" in said for said in kept) >= 1
    names = {entry.sha256 for entry in first._archive.list_states(force=True).entries}
    assert first._archive.list_states().visits == {}, "what is new is no visit"
    for key in (2, 2, 2, 2):
        second.step(key)
    assert second._archive.list_states().visits == {keys.key_hash(second._history.held): 1}
    assert second._history.held == first._history.held
    assert {entry.sha256 for entry in second._archive.list_states(force=True).entries} == names
    assert second._history.since == 4


def test_a_try_counts_once_at_a_place_it_begins_at_or_comes_to(make: Make) -> None:
    """Crossing a border often counts as one visit; loading a state counts as a visit of its key."""
    first, second = make(replace(RULES, square=2)), make(replace(RULES, square=2), seed=2)
    for key in (2, 2, 2, 2):
        first.step(key)
    for key in (2, 2, 2, 2, 3, 3, 3, 3, 2, 2, 2, 2):
        second.step(key)
    visits = second._archive.list_states().visits
    assert visits
    assert set(visits.values()) == {1}
    entry = second._archive.list_states().entries[-1]
    before = visits.get(entry.key, 0)
    assert second._load(StateChoice(entry, "sent"))[0] is not None
    assert second._archive.list_states().visits[entry.key] == before + 1


def test_steps_in_a_fight_hardly_count_against_a_try_nor_against_an_episodes_end(
    make: Make,
) -> None:
    env = make(replace(RULES, patience=6_000), episode_steps=400)
    meet_somebody(env)
    since, tried = env._history.since, env._history.tried
    env._history = replace(env._history, since=since + 200, fought=200)
    before = env._history.idle_steps
    idle(env, 8)
    assert env.progress.battle
    assert env._history.idle_steps == before + 1
    env._end_try(won=False)
    assert tried
    assert env._archive.list_states().dry == {}, "200 steps of a fight are no 200 steps"


def test_a_full_key_is_not_kept_again(make: Make) -> None:
    for seed in (1, 2, 3):
        env = make(replace(RULES, follow=False), seed=seed)
        advance(env, 1)
    assert sum(entry.rank == 1 for entry in env._archive.list_states().entries) == 2


def test_a_party_that_has_recovered_is_kept_and_calls_instead(make: Make) -> None:
    """A fight lost from a key's first state is tried again from one with a stronger party."""
    ahead = make()
    advance(ahead, 4)
    close_boxes(ahead)
    first = ahead._archive.list_states().entries[-1]
    assert first.hp == ahead.progress.hp > 9
    for more, says in ((1, "None"), (5, f"{first.hp + 5} HP, {first.hp} before"), (5, "None")):
        ahead._emulator.write(ram.PARTY_MONS + ram.MON_HP + 1, first.hp + more)
        assert str(idle(ahead, 1)[0][4].get("archive")).startswith(says)
    recovered = ahead._archive.list_states().entries[-1]
    assert (recovered.rank, recovered.hp) == (4, first.hp + 5)
    assert ahead._history.tried == first.sha256, "it is no milestone: the try goes on"
    behind = make(seed=2)
    idle(behind, RULES.look_every)
    assert behind._history.tried == recovered.sha256
    assert behind.progress.hp == first.hp + 5


def test_a_party_that_recovers_after_a_milestone_is_kept_though_it_was_healthy_before(
    make: Make,
) -> None:
    env = make()
    advance(env, 5)
    before, place = env.progress.hp, ram.PARTY_MONS + ram.MON_HP + 1
    env._emulator.write(place, 3)
    advance(env, 6)
    close_boxes(env)
    assert env._archive.list_states().entries[-1].hp == 3 < before
    env._emulator.write(place, before)
    idle(env, 1)
    last = env._archive.list_states().entries[-1]
    assert (last.rank, last.hp) == (6, before)


def test_a_dead_end_is_given_up(make: Make) -> None:
    """A state with the most milestones but only dry tries is not followed any more."""
    ahead, behind = make(), make(seed=2)
    advance(ahead, 3)
    dead = ahead._archive.list_states().entries[-1]
    idle(behind, RULES.look_every)
    assert behind._history.tried == dead.sha256
    for env in (ahead, behind):
        loads = facts(env)["loads"]
        idle(env, RULES.patience + 1)
        assert facts(env)["loads"] == loads + 1, "it was sent somewhere, that state perhaps"
    assert ahead._archive.list_states().dry[dead.sha256] == 2
    fresh = make(replace(RULES, fresh=1.0), seed=3)
    idle(fresh, RULES.look_every)
    assert milestones_of(fresh) == 2


def test_episodes_begin_from_states_where_that_is_wanted(make: Make) -> None:
    advance(make(), 4)
    rules = replace(RULES, follow=False, starts=True, fresh=0.5)
    env = make(rules)
    begun = []
    for _ in range(24):
        env.reset()
        begun.append(milestones_of(env))
    assert begun.count(0) in range(4, 21)
    assert len(set(begun)) > 2
    assert facts(env)["step"] == 0


def test_an_episode_from_a_state_without_anything_new_counts_as_a_dry_try(make: Make) -> None:
    advance(make(), 2)
    rules = replace(RULES, follow=False, starts=True, fresh=0.0)
    env = make(rules, seed=5, episode_steps=20)
    tried = env._history.tried
    idle(env, 20)
    assert env._archive.list_states().dry == {tried: 1}
    assert env._history.tried == ""


def test_an_episode_that_ends_soon_after_a_state_was_reached_says_nothing_of_it(make: Make) -> None:
    steps = len(advance(make(replace(RULES, per_key=0)), 3))
    env = make(episode_steps=steps + 2)
    advance(env, 3)
    assert idle(env, 2)[-1][3]
    assert env._archive.list_states().dry == {}


def test_nobody_is_called_to_a_game_that_is_won(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No state of a won game is kept, because all environments would load it."""
    keys = story_milestones.archive_key
    monkeypatch.setattr(
        story_milestones,
        "archive_key",
        lambda now, real, square: keys(now, real, square) | ({"won"} if now.wins else set()),
    )
    env = make(replace(RULES, patience=6_000), episode_steps=6_000)
    win(env)
    seen = env._archive.list_states(force=True)
    held = [env._archive.read_state(entry)[0].held for entry in seen.entries]
    assert len(held) > 10
    assert [names for names in held if "won" in names] == []
    assert sum(seen.gains.values()) >= len(story_milestones.milestone_names(real=False))


def test_a_new_process_finds_the_archive_as_it_was(make: Make) -> None:
    advance(make(), 5)
    archive_store.open_archive.cache_clear()
    env = make(seed=9)
    idle(env, RULES.look_every)
    assert milestones_of(env) == 5


def test_a_saved_environment_goes_on_exactly_with_its_journey(make: Make) -> None:
    env, fresh = make(), make(seed=4)
    advance(env, 3)
    idle(env, 10)
    state = env.save_state()
    actions = np.random.default_rng(0).integers(7, size=40).tolist()
    expected = [env.step(action)[1] for action in actions]
    fresh.load_state(state)
    assert [fresh.step(action)[1] for action in actions] == expected
    assert fresh._history == env._history


def test_a_run_may_turn_the_archive_on_and_off_between_two_jobs(make: Make) -> None:
    plain = PokemonRedEnv()
    plain.reset(seed=3)
    env = make()
    env.load_state(plain.save_state())
    advance(env, 1)
    plain.load_state(env.save_state())
    assert plain.step(0) is not None
    plain.close()


def test_a_state_that_pyboy_cannot_read_costs_a_state_and_no_environment(make: Make) -> None:
    ahead, behind = make(), make(seed=2)
    advance(ahead, 2)
    good = ahead._archive.list_states().entries[-1]
    provenance, state = ahead._archive.read_state(good)
    forged = replace(provenance, held=(*provenance.held, "nothing_real"))
    bad = ahead._archive.keep_state(forged, state[:40])
    assert ahead._archive.list_states().entries[-1] == bad
    idle(behind, 2 * RULES.look_every)
    assert bad.sha256 in behind._archive.refused
    assert milestones_of(behind) == 2


def test_a_full_disk_costs_a_state_and_no_environment(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = make()
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(archive_store, "create_exclusive", _raising(full))
    monkeypatch.setattr(archive_store, "write_new", _raising(full))
    said = [info["archive"] for info in advance(env, 2) if "archive" in info]
    assert all("could not be kept: [Errno 28]" in entry for entry in said)
    assert milestones_of(env) == 2


def _raising(error: OSError) -> Callable[..., None]:
    def refuse(*_args: Any, **_options: Any) -> None:
        raise error

    return refuse


def test_gymnasiums_checker_has_nothing_to_say(make: Make) -> None:
    check_env(make(), skip_render_check=True)
