"""Tests reward exploits: behaviour repeated for a whole episode earns almost nothing."""

from collections.abc import Callable, Iterator
from itertools import cycle, islice

import pytest

from Daddy.core.settings import RewardSettings
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import BUTTONS
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.party import CUT
from tests.pokemon.images import put
from tests.pokemon.progress_builder import WEIGHTS, at, bag, earned, moment, party, tally, walk

STEPS = 4_000
LITTLE = WEIGHTS.required
"""Limit of the return of 4,000 steps: less than one milestone."""

ONE, TWO, THREE = (7, 40, 12, 1), (8, 40, 9, 2), (9, 40, 3, 3)


def idle() -> Iterator[bytearray]:
    yield party(at(), ONE)


def heal() -> Iterator[bytearray]:
    """Fight until nearly beaten, then rest in the same place."""
    for hp in (40, 30, 20, 1):
        yield party(at(), (7, hp, 12, 1))


def lose() -> Iterator[bytearray]:
    """Lose a fight, and wake up at home with all hit points."""
    for hp in (40, 0):
        yield party(at(), (7, hp, 12, 1))


def store_away() -> Iterator[bytearray]:
    """Store creatures in the PC and take them out in another order."""
    for members in ((ONE, TWO, THREE), (ONE, TWO), (ONE,), (TWO,), (TWO, THREE), (THREE, TWO, ONE)):
        yield party(at(), *members)


def hand_over() -> Iterator[bytearray]:
    """Give an item away, and take it back out of the PC."""
    yield bag(at(), 0x46)
    yield bag(at())


def toggle() -> Iterator[bytearray]:
    """Press a switch, buy a ticket, enter and leave the league."""
    yield put(at(), 0xD796, 1)
    yield put(put(at(), 0xD754, 1), 0xD863, 0b10)


def walk_in_and_out() -> Iterator[bytearray]:
    for map_id in (1, 41):
        yield at(map_id=map_id)


def read_a_sign() -> Iterator[bytearray]:
    for font in (0, 1):
        yield put(at(facing=4, font_loaded=font), ram.SIGN_COUNT, 1, 4, 5)


def use_moves() -> Iterator[bytearray]:
    """Surf and leave the water, switch Strength on and off, cut a shrub that grew again."""
    for riding, strength, tile in ((0, 0, 0x3D), (2, ram.STRENGTH_ON, 0x52)):
        data = put(at(riding=riding, status_flags_1=strength, facing=4), ram.TILES + 148, tile)
        yield party(data, (7, 40, 12, CUT))


FARMERS: dict[str, Callable[[], Iterator[bytearray]]] = {
    farmer.__name__: farmer
    for farmer in (idle, heal, lose, store_away, hand_over, toggle, walk_in_and_out)
} | {farmer.__name__: farmer for farmer in (read_a_sign, use_moves)}


@pytest.mark.parametrize("name", FARMERS)
def test_a_farmer_earns_about_nothing(name: str) -> None:
    round_ = list(FARMERS[name]())
    paid = walk(islice(cycle(round_), STEPS))
    once = sum(earned([step]) for step in paid[: 2 * len(round_)])
    assert earned(paid) <= once + 1e-9
    assert earned(paid[2 * len(round_) :]) <= 0


@pytest.mark.parametrize("name", FARMERS)
def test_nor_does_it_with_a_memory_that_is_forgotten_often(name: str) -> None:
    """Every 500 steps the memory is cleared, and its few cells and signs pay again."""
    weights = RewardSettings(memory_steps=500)
    round_ = list(FARMERS[name]())
    paid = walk(islice(cycle(round_), STEPS), weights, left=250)
    later = [step for step in paid[2 * len(round_) :] if earned([step]) > 0]
    assert {part for step in later for part in step} <= {"cell", "way", "sign", "heal"}
    assert earned(later) < LITTLE


def test_who_loads_the_same_state_again_and_again_is_paid_nothing_for_it() -> None:
    """Load a state repeatedly and go to the milestone, with the state's records or without."""
    before, after = bag(at(), 0x46), put(at(x=6), 0xD74B, 0b100)
    kept = tally(before)
    first = sum(kept.pay_step(moment(before), moment(after)).values())
    assert first > WEIGHTS.required
    again = [
        kept.pay_step(moment(data), moment(data))
        for _ in range(50)
        for data in (before, after)
        if kept.adopt(kept) is None
    ]
    assert earned(again) == 0
    assert sum(kept.pay_step(moment(before), moment(after)).values()) == 0
    assert sum(tally(after).pay_step(moment(after), moment(after)).values()) == 0


PLAYED = {"idle": "b", "mash": "a", "to and fro": ("left", "left", "right", "right")}
"""Keys of the exploits on the cartridge from its beginning; the memory is cleared six times."""


@pytest.mark.parametrize("name", PLAYED)
def test_a_farmer_on_the_cartridge_earns_what_the_first_round_brings(name: str) -> None:
    env = PokemonRedEnv(weights=RewardSettings(memory_steps=100))
    env.reset(seed=1)
    keys = [BUTTONS.index(key) for key in islice(cycle(PLAYED[name]), 600)]
    paid = [env.step(key)[4]["reward_parts"] for key in keys]
    env.close()
    assert earned(paid[:20]) <= earned(paid) < earned(paid[:20]) + 6 * 5 * WEIGHTS.cell * 9.5
    assert {part for step in paid[20:] for part in step} <= {"cell"}


def test_who_begins_again_and_again_is_paid_nothing() -> None:
    env = PokemonRedEnv()
    paid = 0.0
    for seed in range(20):
        env.reset(seed=seed)
        paid += env.step(BUTTONS.index("b"))[1]
    env.close()
    assert paid == 0
