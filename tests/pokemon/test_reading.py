from __future__ import annotations

import pytest

from Daddy.pokemon import ram_map as ram
from scripts.benches._state_report import doubts, table
from tests.pokemon.images import creature, image, put


def begun() -> bytearray:
    """A game of our own invention shortly after its first badge."""
    data = image(status_flags_6=1, map_id=2, player_y=7, player_x=4, facing=4, badges=1)
    put(data, ram.BEATEN_LEADERS, 1)
    put(data, ram.MAP_HEIGHT, 18, 20)
    put(data, ram.PLAYER_NAME, 0x80, 0x81, 0x50)
    put(data, ram.PLAY_TIME, 1, 0, 2, 3, 4)
    put(data, ram.MONEY, 0x00, 0x31, 0x75)
    put(data, ram.POKEDEX_OWNED, 0b1)
    put(data, ram.POKEDEX_SEEN, 0b101)
    put(data, ram.BAG_COUNT, 1, 0x46, 1, 0xFF)
    put(data, ram.PC_COUNT, 1, 0xC4, 1, 0xFF)
    put(data, ram.EVENTS, 0b1)
    put(data, 0xD755, 0x80)
    put(data, 0xD754, 0x01)
    creature(data, 0, species=0x99, hp=20, max_hp=25, level=9)
    put(data, ram.PARTY_SPECIES, 0x99, 0xFF)
    return put(data, ram.PARTY_MONS + ram.MON_MOVES, 0x21, 0x0F)


def test_the_table_tells_what_a_person_can_check_against_the_screen() -> None:
    told = table(begun(), real=True)
    assert told["game"] == "started"
    assert told["doubts"] == "none"
    assert told["map"] == "2 Pewter City, 36 x 40 cells, 0 ways out"
    assert told["place"] == "row 7, column 4, facing up"
    assert told["names"] == "AB and nobody"
    assert told["play time"] == "1:02:03"
    assert told["money"] == "3175, coins 0"
    assert told["badges"] == "boulder"
    assert told["  1"].startswith("species 153, level 9, HP 20/25")
    assert "moves 33 cut" in told["  1"]
    assert told["bag"] == "parcel x 1"
    assert told["in the PC"] == "HM01 x 1"
    assert told["pokedex"] == "2 seen, 1 owned"
    assert told["milestones"] == "3 of 68: followed_oak, beat_brock, cut_taught"
    assert told["next"] == "asked_to_choose"
    assert told["for now"] == "museum_ticket"


def test_a_title_screen_is_told_as_one() -> None:
    assert "clock does not run" in table(image(), real=True)["game"]


@pytest.mark.parametrize(
    ("address", "values", "words"),
    [
        (ram.PARTY_COUNT, [7], "a party of 7"),
        (ram.PARTY_SPECIES, [0x98], "list of species"),
        (ram.PARTY_MONS + ram.MON_HP, [0x01, 0x00], "256 of 25 HP"),
        (ram.PARTY_MONS + ram.MON_LEVEL, [0], "no level"),
        (ram.BAG_COUNT, [21], "21 kinds of items"),
        (ram.BAG_COUNT, [2], "does not end where its count says"),
        (ram.BAG, [0x46, 100], "too high a number"),
        (ram.MONEY, [0x0A], "no decimal number"),
        (ram.POKEDEX_OWNED, [0b10], "owns what it has not seen"),
        (ram.POKEDEX_SEEN + 18, [0x80], "more than there are"),
        (ram.MAP_ID, [11], "no game has a map 11"),
        (ram.IN_BATTLE, [3], "battle state 3"),
        (ram.FACING, [5], "facing 5"),
        (ram.BADGES, [3], "badges 0x03 of leaders 0x01"),
        (ram.PLAY_TIME, [1, 0, 60], "play time with 60 minutes"),
    ],
)
def test_a_contradiction_is_told_in_words(address: int, values: list[int], words: str) -> None:
    assert doubts(begun(), real=True) == ()
    (told,) = doubts(put(begun(), address, *values), real=True)
    assert words in told


def test_any_bytes_make_a_table() -> None:
    """A damaged state must not break its reader."""
    for filling in (0x00, 0x5A, 0xFF):
        assert table(bytes([filling]) * ram.RAM_SIZE, real=True)["doubts"]
