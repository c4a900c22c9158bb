"""Tests the frames of steps, ledges, doors, edges, fades and texts on the cartridge.

The whole game is played once, and its memory is read after every frame, not only after each step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import groupby, pairwise

import pytest

from Daddy.pokemon import cutscene
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import FRAMES_PER_STEP, Emulator
from Daddy.pokemon.game_progress import has_valid_place
from Daddy.pokemon.memory_decoding import byte
from scripts.cartridge.game_state import read_facts
from scripts.cartridge.maps import read_atlas
from scripts.cartridge.player import BEDS, Player
from scripts.cartridge.symbols import FERRIES
from tests.cartridge.game import ROM
from tests.pokemon.lookalike import lookalike

LOOKED_AT = (
    *((at, at + 1) for at in (ram.FACING, ram.JOY_IGNORE, ram.IN_BATTLE, ram.PARTY_COUNT)),
    (ram.FONT_LOADED, ram.WALK_COUNTER + 1),
    (ram.TEXT_BOX, ram.TEXT_BOX + 1),
    (ram.PARTY_MONS, ram.PARTY_MONS + ram.PARTY_SIZE * ram.PARTY_STRIDE),
    (ram.MAP_ID, ram.MAP_WIDTH + 1),
    (ram.HALL_OF_FAME, ram.HALL_OF_FAME + 1),
    (ram.STATUS_FLAGS_1, ram.EVENTS + ram.EVENT_BYTES),
)
MOST_STEPS = 6_000
LONGEST_FADE = 24
LONGEST_SCENE = cutscene.MAX_WAIT_STEPS * FRAMES_PER_STEP
"""Runs of frames in which no direction key works: between maps, and during a script."""
ALL_KEYS = 0xFF
BOAT = 94
WOKEN = (4, 3)
"""The player's cell in a rest house after a defeat."""
MOST_KEYS = 60
"""Keys until the player is free again after a text or a fight."""


@dataclass
class Film:
    """Holds each frame of one game: (map, row, column), if it is a place, and if a script plays."""

    places: list[tuple[int, int, int]] = field(default_factory=list)
    placed: list[bool] = field(default_factory=list)
    walking: list[int] = field(default_factory=list)
    ignored: list[int] = field(default_factory=list)
    led: list[bool] = field(default_factory=list)
    """True while a script or a fade has control."""
    busy: list[bool] = field(default_factory=list)
    """True at the end of a step with an open text or a fight."""


@lru_cache(maxsize=1)
def film() -> Film:
    emulator, player, kept = Emulator(ROM), Player(ROM), Film()
    for _ in range(MOST_STEPS):
        facts = read_facts(partial(byte, bytes(emulator.ram(ram.WHOLE))))
        if facts.finished:
            break
        emulator._boy.button(player.next_button(facts), 8)
        for _ in range(FRAMES_PER_STEP):
            emulator._boy.tick(1, False, False)
            _look(kept, emulator.ram(LOOKED_AT))
        image = emulator.ram(LOOKED_AT)
        kept.busy.append(bool(byte(image, ram.FONT_LOADED) & 1 or byte(image, ram.IN_BATTLE)))
    emulator.close()
    return kept


def _look(kept: Film, image: bytearray) -> None:
    kept.places.append(tuple(byte(image, at) for at in (ram.MAP_ID, ram.PLAYER_Y, ram.PLAYER_X)))
    kept.placed.append(has_valid_place(image))
    kept.walking.append(byte(image, ram.WALK_COUNTER))
    kept.ignored.append(byte(image, ram.JOY_IGNORE))
    kept.led.append(cutscene.has_control(image))


def moves() -> Iterator[tuple[tuple[int, int, int], tuple[int, int, int]]]:
    """Yield each change of place from one frame to the next, without frames in a warp."""
    seen = (place for place, good in zip(film().places, film().placed, strict=True) if good)
    return ((was, now) for was, now in pairwise(seen) if was != now)


def test_in_no_frame_does_the_player_stand_where_nobody_can() -> None:
    maps = read_atlas(ROM).maps
    begun = film().places[film().placed.index(True) :]
    assert {number for number, _, _ in begun} > {0, 1, 2, 3, 5}
    good = film().placed[film().placed.index(True) :]
    looks = zip(begun, good, strict=True)
    assert all(y < maps[n].height and x < maps[n].width for (n, y, x), placed in looks if placed)


def test_on_one_map_a_place_is_next_to_the_one_before_or_below_a_ledge() -> None:
    hops = 0
    for (map_before, y_before, x_before), (number, y, x) in moves():
        if number == map_before:
            hop = (y - y_before, x - x_before) == (2, 0)
            hops += hop
            assert hop or abs(y - y_before) + abs(x - x_before) == 1
    assert hops >= 1


def test_another_map_begins_at_the_end_of_a_door_or_beyond_an_edge() -> None:
    maps = read_atlas(ROM).maps
    crossings = [(was, now) for was, now in moves() if was[0] != now[0]]
    assert len(crossings) > 20
    for (before, *_), (number, y, x) in crossings:
        doors = {(warp.to, warp.to_y, warp.to_x) for warp in maps[before].warps}
        plan = maps[number]
        at_the_edge = y in (0, plan.height - 1) or x in (0, plan.width - 1)
        linked = number in {to for to, _ in maps[before].links.values()}
        doors |= {(fork.to, fork.to_y, fork.to_x) for fork in maps[before].forks}
        doors |= {ferry.to for ferry in FERRIES if before == BOAT}
        led = (number, y, x) in doors or number == BOAT
        led |= number in {bed.map for bed in BEDS} and (y, x) == WOKEN
        assert (linked and at_the_edge) or led or any(to == number for to, _, _ in doors)


def test_a_step_of_the_environment_sees_the_end_of_every_walk() -> None:
    """A cell takes 16 frames, one more on entering a map: no step ends between two cells."""
    walks = [len(list(run)) for going, run in groupby(film().walking, bool) if going]
    assert set(walks) <= {16, 17}
    assert walks.count(16) > 0.98 * len(walks)
    ends = slice(FRAMES_PER_STEP - 1, None, FRAMES_PER_STEP)
    looks = zip(film().walking[ends], film().led[ends], strict=True)
    assert not any(walking for walking, led in looks if not led)


def test_a_fade_takes_the_buttons_away_for_a_moment_and_gives_them_back() -> None:
    without = [len(list(run)) for gone, run in groupby(film().led) if gone]
    fades = [frames for frames in without if frames <= LONGEST_FADE]
    assert len(fades) > 20
    assert not film().led[-1]


def test_scenes_in_which_the_player_is_led_are_up_to_twenty_steps_long() -> None:
    """Scripts (thorns, a nurse, a lamp, two boats) are all longer than a fade."""
    deaf = (keys == ALL_KEYS for keys in film().ignored)
    without = [len(list(run)) for gone, run in groupby(deaf) if gone]
    scenes = sorted(frames for frames in without if frames > LONGEST_FADE)
    assert len(scenes) >= 6
    assert scenes[0] < 4 * FRAMES_PER_STEP
    assert 0.9 * LONGEST_SCENE < scenes[-1] <= LONGEST_SCENE


def test_where_a_script_leads_the_map_changes_frames_before_the_place() -> None:
    """During a warp, as in the real game, map and coordinates are not a place."""
    begun = film().placed.index(True)
    frames = zip(film().places[begun:], film().placed[begun:], strict=True)
    torn = [list(run) for placed, run in groupby(frames, lambda frame: frame[1]) if not placed]
    assert len(torn) >= 6
    for run in torn:
        places = [place for place, _ in run]
        assert places[0][0] == places[-1][0] in {BOAT, 8, 0, 142, 143, 144}
        assert len(set(places)) == 2 or places[0][1:] == places[-1][1:]
    maps = read_atlas(ROM).maps
    nowhere = [
        (number, y, x)
        for run in torn
        for (number, y, x), _ in run
        if y >= maps[number].height or x >= maps[number].width
    ]
    assert nowhere


def test_in_the_lighthouse_only_the_menus_keys_are_ignored() -> None:
    floors = {142, 143, 144}
    ends = slice(FRAMES_PER_STEP - 1, None, FRAMES_PER_STEP)
    looks = zip(film().places[ends], film().ignored[ends], film().led[ends], strict=True)
    inside = [keys for (number, _, _), keys, led in looks if number in floors and not led]
    assert set(inside) == {0b1100}


def test_whoever_presses_a_is_free_again_within_a_counted_number_of_keys() -> None:
    """The scripted player presses only A during a text or a fight."""
    keys = [len(list(run)) for busy, run in groupby(film().busy) if busy]
    assert len(keys) > 30
    assert 10 < max(keys) <= MOST_KEYS


@pytest.mark.parametrize("old", [(3, 9), (17, 19)])
def test_a_warp_whose_map_changes_frames_before_its_place_leaves_no_trace(
    old: tuple[int, int],
) -> None:
    """A warp writes flag, map, size, row and column, flag, a few frames apart, as the real game."""
    emulator = Emulator(lookalike())
    seen = []
    script = (
        {ram.MAP_HEIGHT: 9, ram.MAP_WIDTH: 10, ram.PLAYER_Y: old[0], ram.PLAYER_X: old[1]},
        {ram.MOVEMENT_FLAGS: 0b10},
        {ram.MAP_ID: 40},
        {ram.MAP_HEIGHT: 6, ram.MAP_WIDTH: 5},
        {ram.PLAYER_Y: 11},
        {ram.PLAYER_X: 4},
        {ram.MOVEMENT_FLAGS: 0},
    )
    for writes in script:
        for address, value in writes.items():
            emulator.write(address, value)
        for _ in range(3):
            emulator.wait(1)
            image = emulator.ram()
            if has_valid_place(image):
                seen.append((byte(image, ram.MAP_ID), byte(image, ram.PLAYER_Y)))
    assert list(dict.fromkeys(seen)) == [(0, old[0]), (40, 11)]
    emulator.close()
