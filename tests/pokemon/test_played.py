"""Tests that the facts read from memory match the events of a played game of the cartridge."""

from dataclasses import dataclass, field
from functools import lru_cache

import pytest

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_milestones
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.game_progress import Progress, not_started_reason, read_progress
from Daddy.pokemon.map_names import map_name
from Daddy.pokemon.memory_decoding import bits, byte
from scripts.benches._state_report import doubts, play_time_s
from scripts.cartridge.player import Player
from scripts.cartridge.symbols import MAPS
from tests.cartridge.game import ROM, Game

MOST_STEPS = 6_000


@dataclass
class Diary:
    """Holds a whole game of the scripted player: each step's facts, and each key's first step."""

    steps: list[Progress] = field(default_factory=list)
    firsts: dict[str, int] = field(default_factory=dict)
    """Step at which each key of the archive first held."""
    doubts: dict[str, int] = field(default_factory=dict)

    def at(self, key: str) -> tuple[Progress, Progress]:
        """Return the facts of the step before a new key, and of the step with it."""
        step = self.firsts[key]
        return self.steps[step - 1], self.steps[step]


@lru_cache(maxsize=1)
def diary() -> Diary:
    game, player, kept = Game(), Player(ROM), Diary()
    for step in range(MOST_STEPS):
        memory = game.memory()
        now = read_progress(memory)
        kept.steps.append(now)
        for key in story_milestones.archive_key(now, real=False) - kept.firsts.keys():
            kept.firsts[key] = step
        for doubt in doubts(memory, real=False):
            kept.doubts.setdefault(doubt, step)
        facts = game.facts()
        if facts.finished:
            break
        game.press(player.next_button(facts))
    game.close()
    return kept


@pytest.fixture(name="game")
def _game() -> Diary:
    return diary()


def test_every_milestone_of_the_cartridge_is_reached_once_and_kept(game: Diary) -> None:
    assert set(story_milestones.milestone_names(real=False)) <= set(game.firsts)
    last: frozenset[str] = frozenset()
    for now in game.steps:
        held = story_milestones.reached_milestones(now, real=False)
        assert last <= held
        last = held


def test_every_map_on_the_way_is_entered_and_gets_a_key_of_its_own(game: Diary) -> None:
    entered = {key for key in game.firsts if key.startswith("at_")}
    keys = {story_milestones.place_key(plan.number, real=False): plan.name for plan in MAPS}
    assert {name for key, name in keys.items() if key not in entered} <= {
        name for name in keys.values() if "REST HOUSE" in name
    }
    assert entered <= keys.keys()


def test_a_running_game_never_contradicts_itself(game: Diary) -> None:
    assert game.doubts == {}


def test_the_first_creature_is_a_party_of_one_with_a_move(game: Diary) -> None:
    before, now = game.at("got_starter")
    assert before.party == ()
    (member,) = now.party
    assert member.hp == member.max_hp > 0
    assert now.moves
    assert now.owned == before.owned + 1


def test_a_badge_a_battle_and_money_come_together(game: Diary) -> None:
    before, now = game.at("beat_leader1")
    assert (before.badge_count, now.badge_count) == (0, 1)
    fought = [step for step in game.steps if step.battle == 2]
    assert fought
    assert all(step.enemy_level > 0 and step.opponent > 0 for step in fought)
    assert any(0.0 < step.enemy_hp < 1.0 for step in fought)
    assert game.steps[-1].money > game.steps[0].money


@pytest.mark.parametrize(
    ("key", "item"),
    [
        *(("got_almanac", 0x09), ("got_pass", 0x3F), ("got_cut", 0xC4)),
        *(("got_stone", 0x40), ("got_key", 0x4A), ("got_lamp", 0x48)),
    ],
)
def test_what_was_given_lies_in_the_bag(game: Diary, key: str, item: int) -> None:
    step = game.firsts[key]
    assert item not in dict(game.steps[step - 1].bag)
    assert dict(game.steps[step + 3].bag)[item] == 1
    assert game.steps[step + 3].items == len(game.steps[step + 3].bag)


def test_towns_are_remembered_and_doors_know_where_they_lead_back(game: Diary) -> None:
    last = game.steps[-1]
    names = {
        map_name(town, real=False)
        for town in range(16)
        if bits(last.image, ram.TOWNS, ram.TOWN_BYTES) >> town & 1
    }
    assert names == {"Hearth", "Millbrook", "Stonewick", "Lakemere", "Port Lantern", "Gull Isle"}
    _, inside = game.at("at_hall_of_stone")
    assert map_name(byte(inside.image, ram.LAST_MAP), real=False) == "Stonewick"


def test_the_clock_never_goes_back(game: Diary) -> None:
    times = [play_time_s(now.image) for now in game.steps]
    assert times == sorted(times)
    assert times[-1] > 60


def test_the_end_is_a_team_in_the_hall_of_fame(game: Diary) -> None:
    assert game.steps[-1].wins == 1
    assert {now.wins for now in game.steps[:-1]} == {0}


def test_before_the_title_is_passed_no_game_has_started_and_then_its_clock_moves() -> None:
    emulator = Emulator(ROM)
    assert "clock does not run" in (not_started_reason(emulator.ram()) or "")
    while not_started_reason(emulator.ram()):
        emulator.press("start")
    earlier = bytes(emulator.ram())
    emulator.wait(61)
    assert not_started_reason(emulator.ram(), earlier) is None
    assert "stands still" in (not_started_reason(earlier, earlier) or "")
    emulator.close()
