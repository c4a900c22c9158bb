"""Tests the rules of loading, keeping and removing states on tables of situations."""

import random
from dataclasses import replace
from itertools import count

import pytest

from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.archive_decisions import (
    ArchiveRules,
    choose_episode_start,
    choose_state_to_load,
    choose_substitute,
    decide_to_keep,
    decide_to_keep_stronger,
    is_demoted,
    is_new_key,
    surplus_states,
)
from Daddy.pokemon.archive.env_archive_progress import EnvHistory
from Daddy.pokemon.archive.file_names import Catalogue, StateEntry

RULES = ArchiveRules(per_key=3, patience=100, tries=2, stray=0.5)
_AGES = count(1)


def held(rank: int, *more: str) -> frozenset[str]:
    return frozenset([*(f"step_{number}" for number in range(rank)), *more])


def entry(rank: int, *more: str, hp: int = 20) -> StateEntry:
    age = next(_AGES)
    now = held(rank, *more)
    return StateEntry(rank, keys.key_hash(now), keys.place_hash(now), hp, age, f"{age:064x}")


def standing(rank: int, followed: int, tried: str = "", since: int = 0) -> EnvHistory:
    return EnvHistory(held=held(rank), followed=followed, tried=tried, since=since)


def never() -> float:
    raise AssertionError("nothing was to be drawn")


def test_a_larger_set_of_the_fleet_calls_an_environment_and_says_so() -> None:
    seen = Catalogue((entry(2), entry(5)))
    choice = choose_state_to_load(
        standing(rank=2, followed=2), seen, RULES, random.Random(0).random
    )
    assert choice.entry == seen.entries[1]
    assert choice.reason == "the fleet first holds 5 milestones, here 2"


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        (standing(rank=1, followed=5), "holds 5 milestones, here 1, followed to 5"),
        (standing(rank=5, followed=0), "holds 5 milestones, here 5, followed to 0"),
        (standing(rank=5, followed=5, tried="x", since=99), "followed to 5"),
    ],
)
def test_who_followed_or_is_as_far_goes_on(history: EnvHistory, reason: str) -> None:
    choice = choose_state_to_load(history, Catalogue((entry(5),)), RULES, never)
    assert choice.entry is None
    assert reason in choice.reason


def test_a_first_entry_to_a_map_calls_nobody() -> None:
    seen = Catalogue((entry(2), entry(2, "at_cave")))
    assert choose_state_to_load(standing(2, 2), seen, RULES, never).entry is None


def test_every_state_of_the_largest_set_has_its_turn() -> None:
    seen = Catalogue((entry(1), entry(4), entry(4), entry(4)))
    dice = random.Random(1).random
    loaded = {choose_state_to_load(standing(0, 0), seen, RULES, dice).entry for _ in range(60)}
    assert loaded == set(seen.entries[1:])


def test_of_the_largest_set_the_strongest_party_calls() -> None:
    seen = Catalogue((entry(4, hp=9), entry(4, "at_cave", hp=12), entry(4, hp=8)))
    dice = random.Random(1).random
    loaded = {choose_state_to_load(standing(0, 0), seen, RULES, dice).entry for _ in range(20)}
    assert loaded == {seen.entries[1]}


def test_a_stronger_party_is_worth_a_place_in_a_full_set_and_the_weakest_goes() -> None:
    full = [entry(4, hp=hp) for hp in (27, 16, 30)]
    seen = Catalogue(tuple(full))
    assert decide_to_keep_stronger(held(4), 33, seen, RULES).keep
    verdict = decide_to_keep_stronger(held(4), 32, seen, RULES)
    assert (verdict.keep, verdict.reason) == (
        False,
        "a state of these 4 milestones has 30 HP, this 32",
    )
    tired = Catalogue(tuple(full), dry={full[2].sha256: 9})
    assert decide_to_keep_stronger(held(4), 31, tired, RULES).keep, "the strongest leads nowhere"
    assert not decide_to_keep_stronger(held(5), 99, seen, RULES).keep, (
        "nobody has been there yet: it comes by itself"
    )
    more = Catalogue(tuple(sorted([*full, entry(4, hp=33)])))
    assert surplus_states(more, RULES) == (full[1],)


def test_a_state_that_leads_nowhere_twice_calls_nobody_any_more() -> None:
    good, dead = entry(3), entry(6)
    seen = Catalogue((good, dead), dry={dead.sha256: 2})
    assert [is_demoted(state, seen, RULES) for state in (good, dead)] == [False, True]
    assert choose_state_to_load(standing(0, 0), seen, RULES, random.Random(0).random).entry == good


def test_what_led_on_may_lead_nowhere_more_often() -> None:
    state = entry(3)
    marks = {state.sha256: 3}
    assert is_demoted(state, Catalogue((state,), dry=marks), RULES)
    gains = {state.sha256: 1}
    assert not is_demoted(state, Catalogue((state,), dry=marks, gains=gains), RULES)


def test_without_a_state_worth_following_the_game_goes_on() -> None:
    dead = entry(6)
    choice = choose_state_to_load(
        standing(0, 0), Catalogue((dead,), dry={dead.sha256: 9}), RULES, never
    )
    assert (choice.entry, choice.reason) == (None, "no state is worth following")


def moves_from(
    tried: StateEntry, seen: Catalogue, rules: ArchiveRules = RULES
) -> list[StateEntry | None]:
    """List the states that 400 environments load after a dry try."""
    history = standing(tried.rank, tried.rank, tried.sha256, since=100)
    dice = random.Random(2).random
    return [choose_state_to_load(history, seen, rules, dice).entry for _ in range(400)]


def test_a_dry_try_goes_on_from_as_many_milestones_or_fewer_the_same_state_perhaps() -> None:
    lower, tried, other = entry(2), entry(6), entry(6)
    moves = moves_from(tried, Catalogue((lower, tried, other)))
    for state in (lower, tried, other):
        assert moves.count(state) == pytest.approx(400 / 3, abs=40)


def test_many_states_of_an_easy_set_draw_no_more_than_one_would() -> None:
    easy, frontier = [entry(2) for _ in range(8)], entry(6)
    moves = moves_from(frontier, Catalogue((*easy, frontier)))
    assert moves.count(frontier) == pytest.approx(400 * 2 / 3, abs=40)


def test_a_frontiers_fresh_state_is_tried_before_its_old_ones() -> None:
    lower, old, new = entry(5), entry(6), entry(6)
    moves = moves_from(old, Catalogue((lower, old, new), dry={old.sha256: 6}))
    assert moves.count(lower) == pytest.approx(400 * 0.6, abs=40), "0.5 to 1 / (1 + 6 / 3)"
    assert moves.count(new) == pytest.approx(160 * 7 / 8, abs=40)


def test_who_comes_to_a_dead_end_again_does_not_call_everybody_back_to_it() -> None:
    lower, dead, again = entry(5), [entry(6) for _ in range(7)], entry(6)
    seen = Catalogue((lower, *dead, again), dry={state.sha256: 64 for state in dead})
    moves = moves_from(again, seen)
    assert moves.count(lower) > 400 * 0.95
    assert {state.rank for state in moves} == {5, 6}


def test_many_states_of_a_place_draw_no_more_than_one_would() -> None:
    crowded, lonely = [entry(6, "at_a") for _ in range(3)], entry(6, "at_b")
    seen = Catalogue(tuple(sorted([*crowded, lonely])))
    assert moves_from(lonely, seen).count(lonely) == pytest.approx(200, abs=40)


def test_what_the_last_milestone_opened_draws_more_than_what_was_known_before_it() -> None:
    home, cave = entry(6, "at_home"), entry(6, "at_cave")
    seen = Catalogue(tuple(sorted([home, cave])), first={home.place: 4, cave.place: 6})
    moves = moves_from(cave, seen)
    assert moves.count(cave) == pytest.approx(3 * moves.count(home), rel=0.3), "1 / (1 + 6 - 4)"


def test_where_hardly_anybody_comes_draws_more_than_what_all_pass() -> None:
    square, corner = entry(6, "at_square"), entry(6, "at_corner")
    visits = {square.key: 7, corner.key: 1}
    seen = Catalogue(tuple(sorted([square, corner])), visits=visits)
    moves = moves_from(square, seen)
    assert moves.count(corner) == pytest.approx(4 * moves.count(square), rel=0.3), "1/2 to 1/8"


@pytest.mark.parametrize(("counts", "least", "most"), [(True, 0.0, 0.1), (False, 0.5, 1.0)])
def test_a_pocket_that_nobody_walks_to_draws_hardly_more_than_any_other_place(
    counts: bool, least: float, most: float
) -> None:
    """With `counts` a load counts as a visit. Tries from elsewhere visit five more places."""
    pocket, *others = [entry(6, f"at_{number}") for number in range(41)]
    visits = dict.fromkeys((state.key for state in others), 1_000)
    dry = dict.fromkeys((state.sha256 for state in (pocket, *others)), 64)
    seen = Catalogue(tuple(sorted([pocket, *others])), dry=dry, visits=visits)
    history, dice = standing(6, 6, pocket.sha256, since=100), random.Random(2)
    sent = []
    for _ in range(4_000):
        sent.append(choose_state_to_load(history, seen, RULES, dice.random).entry)
        passed = [] if sent[-1] == pocket else dice.sample(others, 5)
        for state in [*passed, sent[-1]] if counts else passed:
            visits[state.key] = visits.get(state.key, 0) + 1
    assert least <= sent[2_000:].count(pocket) / 2_000 <= most


def test_a_milestone_more_is_new_and_so_is_a_place_where_nobody_was_with_as_many() -> None:
    here = entry(4, "at_a")
    seen = Catalogue((here,))
    before = held(4, "at_b")
    assert is_new_key(held(5, "at_a"), before, seen, RULES)
    assert is_new_key(held(4, "at_c"), before, seen, RULES)
    assert not is_new_key(held(4, "at_a"), before, seen, RULES)
    full = replace(RULES, places=1)
    assert not is_new_key(held(4, "at_c"), before, seen, full), (
        "places with as many are kept enough"
    )
    dead = Catalogue((here,), dry={here.sha256: 2})
    assert is_new_key(held(4, "at_c"), before, dead, full), "one of them leads nowhere"


def test_beyond_the_bound_of_places_those_that_lead_nowhere_go_and_then_the_oldest() -> None:
    rules = replace(RULES, places=2)
    old, dead, late, other = (entry(4, f"at_{name}") for name in "abcd")
    seen = Catalogue(tuple(sorted([old, dead, late, other])), dry={dead.sha256: 2})
    assert set(surplus_states(seen, rules)) == {old, dead}
    assert surplus_states(Catalogue((old, entry(5), entry(6))), rules) == (), (
        "each number has its own"
    )


@pytest.mark.parametrize("many", [1, 17, 127, 128, 129, 140])
def test_as_many_places_stay_as_there_is_room_for(many: int) -> None:
    entries = [entry(4, f"at_{number}") for number in range(many)]
    assert len(surplus_states(Catalogue(tuple(sorted(entries))), RULES)) == max(
        0, many - RULES.places
    )


def test_what_is_new_is_kept_and_stays_and_is_new_to_nobody_after_it() -> None:
    """Otherwise every crossing of a border would be kept, and no try would ever be dry."""
    rules = replace(RULES, places=3, most_keys=7)
    dice, seen = random.Random(1), Catalogue()
    for _ in range(600):
        now = held(dice.randrange(4), f"at_{dice.randrange(9)}")
        if not is_new_key(now, now, seen, rules):
            continue
        assert decide_to_keep(now, seen, rules).keep
        age = next(_AGES)
        named = (keys.rank(now), keys.key_hash(now), keys.place_hash(now))
        fresh = StateEntry(*named, 20, age, f"{age:064x}")
        seen = Catalogue(tuple(sorted([*seen.entries, fresh])))
        seen = seen.without(lost.sha256 for lost in surplus_states(seen, rules))
        assert fresh in seen.entries
        assert not is_new_key(now, now, seen, rules)
    assert [len(seen.by_rank.get(rank, ())) for rank in range(4)] == [0, 1, 3, 3]


def test_a_place_whose_states_lead_nowhere_takes_another_of_any_strength() -> None:
    dead = entry(4, "at_a", hp=90)
    seen = Catalogue((dead,), dry={dead.sha256: 2})
    assert decide_to_keep_stronger(held(4, "at_a"), 5, seen, RULES).keep


def test_a_dry_try_moves_on_to_a_stronger_party_more_often() -> None:
    tried, weak, strong = (entry(6, hp=hp) for hp in (15, 17, 19))
    moves = moves_from(tried, Catalogue((tried, weak, strong)))
    assert moves.count(strong) == pytest.approx(400 * 6 / 11, abs=40)
    assert moves.count(weak) == pytest.approx(400 * 3 / 11, abs=40)


def test_who_goes_its_own_way_and_finds_nothing_moves_on_too() -> None:
    """The key has enough states, so that the environment's own state is not kept."""
    only = entry(6)
    seen = Catalogue((only,))
    assert choose_state_to_load(standing(6, 6, "", since=99), seen, RULES, never).entry is None
    choice = choose_state_to_load(
        standing(6, 6, "", since=100), seen, RULES, random.Random(0).random
    )
    assert choice.entry == only
    assert "its last brought nothing new" in choice.reason


def test_a_dry_try_without_a_state_goes_on() -> None:
    choice = choose_state_to_load(standing(6, 6, "a", since=100), Catalogue(()), RULES, never)
    assert choice.entry is None
    assert "there is no state" in choice.reason


def test_a_poisoned_frontier_is_left_behind_and_a_hard_one_is_not() -> None:
    """All states with the most milestones are dead ends; states with fewer lead on."""
    lower, *top = entry(4), entry(9), entry(9), entry(9)
    seen = Catalogue((lower, *top))
    hard = replace(seen, dry={state.sha256: 2 for state in top})
    dead = replace(seen, dry={state.sha256: 40 for state in top}, gains={lower.sha256: 3})
    assert moves_from(top[0], hard).count(lower) == pytest.approx(400 * 0.6, abs=40)
    assert moves_from(top[0], dead).count(lower) > 330
    assert {choose_state_to_load(standing(0, 0), dead, RULES, random.Random(0).random).entry} == {
        lower
    }


def test_who_follows_nobody_loads_at_the_start_of_episodes_only() -> None:
    rules = replace(RULES, follow=False, starts=True, fresh=0.0)
    seen = Catalogue((entry(5),))
    assert choose_state_to_load(standing(0, 0), seen, rules, never).entry is None
    assert choose_episode_start(seen, rules, random.Random(0).random).entry == seen.entries[0]
    assert choose_episode_start(seen, replace(rules, starts=False), never).entry is None


def test_a_swarms_episodes_begin_near_the_frontier_or_by_lot_afresh() -> None:
    """From the game's start an environment would need very long to reach the fleet's states."""
    lower, frontier = entry(3), entry(9)
    dice = random.Random(3).random
    seen, rules = Catalogue((lower, frontier)), replace(RULES, fresh=0.25)
    begun = [choose_episode_start(seen, rules, dice).entry for _ in range(2000)]
    assert begun.count(None) == pytest.approx(500, abs=80)
    assert begun.count(frontier) == pytest.approx(1000, abs=80)
    assert begun.count(lower) == pytest.approx(500, abs=80)
    assert choose_episode_start(Catalogue(()), rules, dice).entry is None


def test_episodes_begin_afresh_by_lot_and_else_from_what_was_tried_least() -> None:
    often, new = entry(3), entry(5)
    seen = Catalogue((often, new), dry={often.sha256: 10}, gains={often.sha256: 5})
    rules = replace(RULES, starts=True, fresh=0.25)
    dice = random.Random(3).random
    begun = [choose_episode_start(seen, rules, dice).entry for _ in range(2000)]
    assert begun.count(None) == pytest.approx(500, abs=80)
    assert begun.count(new) == pytest.approx(1500 * 4 / 5, abs=100)


def test_a_key_with_room_is_kept_and_a_full_one_is_not() -> None:
    full = Catalogue((entry(4), entry(4), entry(4)))
    assert not decide_to_keep(held(4), full, RULES).keep
    assert decide_to_keep(held(4, "at_cave"), full, RULES).keep
    assert decide_to_keep(held(5), full, RULES).keep


def test_a_state_that_leads_nowhere_makes_room_for_a_new_one() -> None:
    states = [entry(4), entry(4), entry(4)]
    dry = {states[1].sha256: 2}
    assert decide_to_keep(held(4), Catalogue(tuple(states), dry), RULES).keep
    more = Catalogue((*states, entry(4)), dry)
    assert surplus_states(more, RULES) == (states[1],)


def test_among_equals_the_oldest_goes() -> None:
    states = [entry(4) for _ in range(5)]
    assert surplus_states(Catalogue(tuple(sorted(states))), RULES) == tuple(states[:2])


def test_beyond_the_bound_of_keys_those_with_the_fewest_milestones_go() -> None:
    rules = replace(RULES, most_keys=2)
    low, middle, high = entry(1), entry(2), entry(3)
    assert surplus_states(Catalogue((low, middle, high)), rules) == (low,)
    verdict = decide_to_keep(held(0), Catalogue((middle, high)), rules)
    assert not verdict.keep
    assert verdict.reason == "there is room for 0 places with 0 milestones"


def test_whoever_gives_up_and_whenever_the_same_states_stay() -> None:
    """A state beyond the limits in one writer's partial listing is beyond them in the full one."""
    states = sorted(entry(4) for _ in range(12))
    final = set(states) - set(surplus_states(Catalogue(tuple(states)), RULES))
    dice = random.Random(5)
    for _ in range(200):
        left = set(states)
        while len(left) > RULES.per_key:
            part = tuple(sorted(dice.sample(sorted(left), dice.randint(1, len(left)))))
            left -= set(surplus_states(Catalogue(part), RULES))
        assert left == final


def test_instead_of_a_state_that_cannot_be_loaded_comes_one_with_as_many_milestones() -> None:
    first, second, lower = entry(4), entry(4), entry(2)
    dice = random.Random(0).random
    assert choose_substitute(first, Catalogue((lower, first, second)), dice) == second
    assert choose_substitute(first, Catalogue((lower, first)), dice) is None
