"""Tests that interventions are confirmed, undone or disabled, and saved with a game."""

import json

import pytest

from Daddy.core.assist_compatibility import ASSIST_NAMES, PEER_ASSISTS
from Daddy.core.errors import ExitCode, RomError
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.assists.apply_assists import AssistResult, AssistRunner
from Daddy.pokemon.assists.assist_registry import ASSISTS
from Daddy.pokemon.assists.assist_state import (
    MAX_CHECKS,
    MAX_FAILURES,
    AssistState,
    EffectOutcome,
    PendingEffect,
    assist_state_from,
)
from tests.pokemon.assists.memory import FLUTE, HM_STRENGTH, HM_SURF, LAPRAS, SNORLAX, SOUL, Paper
from tests.pokemon.assists.test_decisions import lake, ready

UNPROVEN = {"flash", "use_surf", "flute", "boulders", "block_indigo_exit", "no_wild"}


def helper(paper: Paper, *names: str) -> AssistRunner:
    return AssistRunner(paper, names)


def step(helper: AssistRunner, paper: Paper, button: str = "a") -> AssistResult:
    return helper.act_before_key(paper.progress, button)


def test_what_depends_on_the_games_program_is_not_called_proven() -> None:
    assert {name for name in ASSIST_NAMES if ASSISTS[name].worked} == UNPROVEN


def test_without_assists_nothing_is_read_or_written() -> None:
    class Untouchable:
        def ram(self, blocks: object) -> bytearray:
            raise AssertionError

        def write(self, address: int, value: int) -> None:
            raise AssertionError

    assert AssistRunner(Untouchable(), ()).act_before_key(Paper().progress, "a") == AssistResult(
        "a"
    )
    assert AssistRunner(Untouchable(), ()).assist_facts() == {}


def test_an_unknown_assist_is_an_error_and_the_peers_are_known_by_one_word() -> None:
    with pytest.raises(ValueError, match="there is no assist 'flsh'"):
        helper(Paper(), "flsh")
    assert helper(Paper(), "peers").names == PEER_ASSISTS


@pytest.mark.parametrize("name", ASSIST_NAMES)
def test_an_act_becomes_bytes_or_a_key_and_is_told(name: str) -> None:
    paper, button = ready(name)
    act = ASSISTS[name].decide(paper.moment(button))
    assert act is not None
    runner = helper(paper, name)
    done = step(runner, paper, button)
    assert done == AssistResult(act.button or button, bool(act.writes), (f"{name}: {act.reason}",))
    assert all(paper.moment().read_byte(address) == value for address, value in act.writes)
    assert runner.state.used == {name}
    assert (name in runner.state.open) == (name in UNPROVEN)


def test_an_assist_that_is_not_in_use_does_nothing() -> None:
    paper = Paper(darkness=6, money=0)
    done = step(helper(paper, "money"), paper)
    assert done.messages[0].startswith("money")
    assert paper.progress.dark


def test_one_acts_in_a_step_and_the_next_sees_what_it_did() -> None:
    paper = Paper().bag(HM_SURF, HM_STRENGTH).member(0, LAPRAS, 1, 2, 3, 4)
    runner = helper(paper, "teach_surf", "teach_strength")
    assert [len(step(runner, paper).messages) for _ in range(3)] == [1, 1, 0]
    assert paper.progress.party[0].moves == bytes((0x39, 0x46, 3, 4))


def surf(paper: Paper) -> Paper:
    return lake(paper.set(badges=SOUL, tileset=0).member(0, LAPRAS, 0x39))


def test_who_is_on_the_water_a_cell_further_has_surfed() -> None:
    paper = surf(Paper())
    runner = helper(paper, "use_surf")
    step(runner, paper, "down")
    paper.set(player_y=6)
    assert step(runner, paper, "down").messages == ()
    assert (runner.state.open, runner.state.failures) == ({}, {})


def test_what_had_no_effect_is_taken_back_and_after_three_failures_given_up() -> None:
    paper = surf(Paper())
    runner = helper(paper, "use_surf")
    for failure in range(1, MAX_FAILURES + 1):
        assert step(runner, paper, "down").wrote
        assert paper.progress.riding == 2
        waits = [step(runner, paper, "a") for _ in range(MAX_CHECKS)]
        assert [wait.wrote for wait in waits] == [False] * (MAX_CHECKS - 1) + [True]
        assert paper.progress.riding == 0
        assert runner.state.failures == {"use_surf": failure}
    assert waits[-1].messages == ("use_surf: failed; it is disabled",)
    assert runner.state.names_off == ("use_surf",)
    assert step(runner, paper, "down") == AssistResult("down")
    assert paper.progress.riding == 0


def test_what_the_game_changed_meanwhile_is_not_taken_back() -> None:
    paper = Paper(map_id=23, map_height=54, player_y=62, player_x=9).bag(FLUTE)
    runner = helper(paper, "flute")
    step(runner, paper)
    paper.event(0x489)  # a neighbour's bit in the same byte
    for _ in range(MAX_CHECKS):
        step(runner, paper)
    assert runner.state.failures == {"flute": 1}
    assert paper.moment().read_byte(0xD7D8) == 1 << 6 | 1 << 1


def test_a_success_forgets_the_failures_before_it() -> None:
    history = AssistState(failures={"flute": 2, "flash": 1}).after_outcome(
        "flute", EffectOutcome.WORKED
    )
    assert history.failures == {"flash": 1}
    assert AssistState(failures={"flute": 2}).after_outcome(
        "flute", EffectOutcome.MOOT
    ).failures == {"flute": 2}


def test_time_that_is_not_the_players_does_not_count_against_an_act() -> None:
    paper = Paper(map_id=23, map_height=54, player_y=62, player_x=9).bag(FLUTE)
    runner = helper(paper, "flute")
    step(runner, paper)
    paper.set(font_loaded=1)
    for _ in range(3 * MAX_CHECKS):
        step(runner, paper)
    assert runner.state.open
    paper.set(font_loaded=0, in_battle=1)
    step(runner, paper)
    assert (runner.state.open, runner.state.failures) == ({}, {})


@pytest.mark.parametrize(
    ("name", "then", "verdict"),
    [
        ("flash", {}, EffectOutcome.WORKED),
        ("flash", {"darkness": 6}, EffectOutcome.FAILED),
        ("flash", {"darkness": 6, "map_id": 5}, EffectOutcome.MOOT),
        ("flute", {}, EffectOutcome.OPEN),
        ("flute", {"in_battle": 1}, EffectOutcome.WORKED),
        ("flute", {"map_id": 5}, EffectOutcome.MOOT),
        ("use_surf", {"riding": 2}, EffectOutcome.OPEN),
        ("use_surf", {"riding": 2, "player_y": 6}, EffectOutcome.WORKED),
        ("use_surf", {"riding": 0}, EffectOutcome.FAILED),
        ("boulders", {"map_script_flags": 0}, EffectOutcome.WORKED),
        ("boulders", {}, EffectOutcome.OPEN),
        ("boulders", {"map_id": 5}, EffectOutcome.MOOT),
        ("block_indigo_exit", {}, EffectOutcome.WORKED),
        ("block_indigo_exit", {"map_id": 9}, EffectOutcome.FAILED),
        ("no_wild", {}, EffectOutcome.MOOT),
        ("no_wild", {"in_battle": 1}, EffectOutcome.FAILED),
        ("no_wild", {"in_battle": 2}, EffectOutcome.MOOT),
        ("no_wild", {"in_battle": 1, "battle_kind": 1}, EffectOutcome.MOOT),
    ],
)
def test_every_unproven_effect_has_its_sign(
    name: str, then: dict[str, int], verdict: EffectOutcome
) -> None:
    paper, button = ready(name)
    step(helper(paper, name), paper, button)
    trace = PendingEffect(paper.moment().position)
    worked = ASSISTS[name].worked
    assert worked is not None
    if name == "flash" and not then:
        paper.set(darkness=0)
    assert worked(trace, paper.set(**then).moment()) is verdict


def test_where_creatures_wait_a_fight_says_nothing_about_wild_ones() -> None:
    paper = Paper(map_id=147)
    worked = ASSISTS["no_wild"].worked
    assert worked is not None
    trace = PendingEffect(paper.moment().position)
    assert worked(trace, paper.set(in_battle=1).moment()) is EffectOutcome.MOOT


# -- the history in a game's state


def test_a_memoir_survives_as_json() -> None:
    paper = surf(Paper())
    runner = helper(paper, "use_surf", "money")
    step(runner, paper, "down")
    runner.state = AssistState(runner.state.used, {"use_surf": 2}, runner.state.open)
    facts = json.loads(json.dumps(runner.assist_facts()))
    assert facts["names"] == ["money", "use_surf"]
    assert runner.restore_assists(facts) == runner.state
    assert assist_state_from({}) == AssistState()


@pytest.mark.parametrize(
    "facts",
    [
        {"names": "flash"},
        {"names": [5]},
        {"failures": 3},
        {"failures": {"flute": "x"}},
        {"open": {"flute": [1]}},
        {"open": {"flute": [[1, 2], [], 0]}},
        {"open": {"flute": [[1, 2, 3], [[1, 2]], 0]}},
        {"used": 5},
    ],
)
def test_a_damaged_memoir_is_refused(facts: dict[str, object]) -> None:
    with pytest.raises(RomError, match="damaged"):
        assist_state_from(facts)


def test_a_state_with_more_assists_than_we_use_is_refused_by_name() -> None:
    facts = helper(Paper(), "money", "flash").assist_facts()
    assert helper(Paper(), "money", "flash", "flute").restore_assists(facts) == AssistState()
    with pytest.raises(RomError, match="the assists flash, which are not in use") as refused:
        helper(Paper(), "money").restore_assists(facts)
    assert refused.value.exit_code is ExitCode.ROM
    assert helper(Paper(), "money").restore_assists({}) == AssistState()


def test_another_game_brings_its_helpers_and_leaves_our_experience() -> None:
    ours = AssistState(frozenset({"money"}), {"flute": 3}, {"flute": PendingEffect((1, 2, 3))})
    theirs = AssistState(frozenset({"flash"}), {"flash": 2})
    assert ours.in_adopted_game(theirs) == AssistState(frozenset({"flash"}), {"flute": 3})
    assert ours.in_new_game() == AssistState(frozenset(), {"flute": 3})


def test_nobody_is_taught_who_is_not_there() -> None:
    paper = Paper().bag(HM_STRENGTH).member(0, SNORLAX, 1).set(party_count=0)
    assert step(helper(paper, "teach_strength"), paper) == AssistResult("a")


def test_taking_back_restores_what_stood_there_before() -> None:
    paper, _ = ready("boulders")
    runner = helper(paper, "boulders")
    before = bytes(paper.image)
    step(runner, paper)
    assert paper.image[ram.MAP_SCRIPT_FLAGS - ram.RAM_START] == 1 << 5
    for _ in range(MAX_CHECKS):
        step(runner, paper)
    assert bytes(paper.image) == before
