"""Tests reward exploits in the game itself: repeated behaviour earns nothing.

`tests/pokemon/test_farmers.py` tests the same on memory written byte by byte.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import pytest

from Daddy.core.settings import RewardSettings
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import BUTTONS
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.game_progress import Progress
from tests.cartridge.moments import game_at, walk_to

WEIGHTS = RewardSettings()
ROUNDS = 12
BEFORE_NURSE, BEFORE_MACHINE, BEFORE_SIGN = (89, 1, 4), (89, 1, 6), (5, 5, 12)
BEFORE_BORROWER, BEFORE_LEVER, BEFORE_SAILOR = (8, 5, 6), (165, 2, 3), (5, 11, 10)


class Farmer(NamedTuple):
    """Start of an exploit, the person faced, the keys of one round, and the changes in each."""

    stop: str
    thing: tuple[int, ...]
    keys: str
    changes: Callable[[Progress], object]


FARMERS = {
    "heal": Farmer("taught", BEFORE_NURSE, "a a b b", lambda now: now.hp_fraction),
    "store away": Farmer(
        "taught", BEFORE_MACHINE, "a a down a b b a down a a b b", lambda now: len(now.party)
    ),
    "store the first": Farmer(
        "taught", BEFORE_MACHINE, "a a a b b a down a a b b", lambda now: now.party[0].species
    ),
    "hand over": Farmer(
        "tower", BEFORE_BORROWER, "a b b a b b", lambda now: now.item_bits >> 0x4A & 1
    ),
    "toggle": Farmer("lever", BEFORE_LEVER, "a b b", lambda now: now.events),
    "walk in and out": Farmer("keeper", (), "down up", lambda now: now.map_id),
    "read a sign": Farmer("taught", BEFORE_SIGN, "a b b", lambda now: now.text_box),
    "use moves": Farmer(
        "hall",
        (),
        "down right right right start a a a b b left left up",
        lambda now: (now.map_id, now.x),
    ),
    "say no": Farmer("pier", BEFORE_SAILOR, "a b b", lambda now: now.joypad_ignored),
}


@lru_cache(maxsize=len(FARMERS))
def farm(name: str) -> tuple[list[dict[str, float]], list[Progress]]:
    """Play rounds; return the reward parts and the facts of each step."""
    farmer = FARMERS[name]
    game = walk_to(game_at(farmer.stop), *farmer.thing) if farmer.thing else game_at(farmer.stop)
    env = PokemonRedEnv()
    env._start = game.emulator.dump_state()
    env.reset(seed=1)
    game.close()
    paid, seen = [], [env.progress]
    for key in farmer.keys.split() * ROUNDS:
        if name == "heal":
            env._emulator.write(ram.PARTY_MONS + ram.MON_HP + 1, 3)
        paid.append(env.step(BUTTONS.index(key))[4]["reward_parts"])
        seen.append(env.progress)
    env.close()
    return paid, seen


def earned(paid: list[dict[str, float]]) -> float:
    return sum(sum(step.values()) for step in paid)


@pytest.mark.parametrize("name", FARMERS)
def test_a_farmer_earns_what_the_first_round_brings(name: str) -> None:
    paid, _ = farm(name)
    once = len(FARMERS[name].keys.split())
    assert earned(paid[once:]) <= 1e-9
    assert earned(paid[:once]) < WEIGHTS.field + WEIGHTS.required


@pytest.mark.parametrize("name", FARMERS)
def test_and_really_does_what_it_is_called_in_every_round(name: str) -> None:
    _, seen = farm(name)
    facts = [FARMERS[name].changes(now) for now in seen]
    assert sum(before != after for before, after in pairwise(facts)) >= ROUNDS


@pytest.mark.parametrize(
    ("name", "part"),
    [("heal", "heal"), ("read a sign", "sign"), ("use moves", "field"), ("walk in and out", "way")],
)
def test_the_first_time_is_worth_something(name: str, part: str) -> None:
    """A control: the same measurement sees a reward where one is due."""
    assert part in {part for step in farm(name)[0] for part in step}
