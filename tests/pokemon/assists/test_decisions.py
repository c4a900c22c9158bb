"""Tests of each assist when it intervenes, and which bytes it writes and leaves."""

import pytest

from Daddy.core.assist_compatibility import ASSIST_NAMES
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.assists.assist_registry import ASSISTS
from Daddy.pokemon.assists.assist_state import Intervention
from tests.pokemon.assists.memory import (
    BULBASAUR,
    CUT,
    FLUTE,
    HM_STRENGTH,
    HM_SURF,
    LAPRAS,
    PIDGEY,
    RAINBOW,
    SNORLAX,
    SOUL,
    STRENGTH,
    SURF,
    WATER,
    Paper,
)

JUNK, BALL, PARCEL, TM01, HM01 = 0x14, 0x04, 0x46, 0xC9, 0xC4


def decide(name: str, paper: Paper, button: str = "a") -> Intervention | None:
    return ASSISTS[name].decide(paper.moment(button))


def test_the_table_has_every_name_in_its_order() -> None:
    assert tuple(ASSISTS) == ASSIST_NAMES


def ready(name: str) -> tuple[Paper, str]:
    """Holds a state in which an assist intervenes, and the agent's next key."""
    paper = Paper()
    sea = paper.set(tileset=0, badges=RAINBOW | SOUL).member(0, LAPRAS, SURF, STRENGTH)
    return {
        "toss_junk": (Paper().bag(*[JUNK] * 20), "a"),
        "money": (Paper(money=0), "a"),
        "flash": (Paper(darkness=6), "a"),
        "flute": (Paper(map_id=23, player_y=62, player_x=9).set(map_height=54).bag(FLUTE), "a"),
        "teach_surf": (Paper().bag(HM_SURF).member(0, LAPRAS, 1), "a"),
        "use_surf": (lake(sea), "down"),
        "teach_strength": (Paper().bag(HM_STRENGTH).member(0, SNORLAX, 1), "a"),
        "use_strength": (Paper(badges=RAINBOW).member(0, SNORLAX, STRENGTH), "a"),
        "boulders": (Paper(badges=RAINBOW, map_id=108).member(0, SNORLAX, STRENGTH), "a"),
        "block_indigo_exit": (Paper(map_id=174, player_y=11, map_height=6), "down"),
        "no_wild": (Paper(), "a"),
    }[name]


def lake(paper: Paper, *, row: int = 11, column: int = 8) -> Paper:
    paper.write(ram.TILES + 20 * row + column, WATER)
    return paper


@pytest.mark.parametrize("name", ASSIST_NAMES)
def test_every_assist_acts_when_it_is_wanted(name: str) -> None:
    paper, button = ready(name)
    act = decide(name, paper, button)
    assert act is not None
    assert act.reason
    assert act.writes or act.button
    assert all(ram.RAM_START <= at < ram.RAM_START + ram.RAM_SIZE for at, _ in act.writes)
    assert all(0 <= value <= 255 for _, value in act.writes)


@pytest.mark.parametrize("name", [name for name in ASSIST_NAMES if name != "block_indigo_exit"])
@pytest.mark.parametrize(
    "busy",
    [
        {"in_battle": 1},
        {"in_battle": 2},
        {"font_loaded": 1},
        {"joy_ignore": 0xFF},
        {"walked_by_game": 1},
        {"walk_counter": 8},
        {"status_flags_5": 1 << 7},
        {"movement_flags": 0b10},
        {"player_y": 200},
    ],
)
def test_nothing_is_touched_in_fights_texts_scripts_and_between_two_cells(
    name: str, busy: dict[str, int]
) -> None:
    paper, button = ready(name)
    assert decide(name, paper.set(**busy), button) is None


@pytest.mark.parametrize("name", [name for name in ASSIST_NAMES if name != "block_indigo_exit"])
def test_once_done_it_is_not_done_again(name: str) -> None:
    paper, button = ready(name)
    paper.apply(decide(name, paper, button))
    again = decide(name, paper, button)
    assert again is None or not again.writes


def test_a_full_bag_keeps_balls_key_items_and_hms() -> None:
    paper = Paper().bag(JUNK, BALL, PARCEL, TM01, HM01, *[JUNK] * 15).set(bag_cursor=7)
    act = decide("toss_junk", paper)
    assert act is not None
    assert act.reason == "bag was full: 17 of 20 items tossed"
    paper.apply(act)
    assert paper.progress.bag == ((BALL, 1), (PARCEL, 1), (HM01, 1))
    assert paper.image[ram.BAG + 6 - ram.RAM_START] == 0xFF
    assert paper.moment().read_byte(ram.BAG_CURSOR) == 0


@pytest.mark.parametrize("items", [[JUNK] * 19, [PARCEL] * 20])
def test_a_bag_with_room_or_without_junk_stays_as_it_is(items: list[int]) -> None:
    assert decide("toss_junk", Paper().bag(*items)) is None


def test_money_is_filled_up_in_the_games_own_digits() -> None:
    paper = Paper(money=0x00)
    assert paper.apply(decide("money", paper)) == {ram.MONEY: 0x10}
    assert paper.progress.money == 100_000
    assert decide("money", Paper(money=0x01)) is None  # 10,000


def test_flash_changes_the_light_and_nothing_else() -> None:
    paper = Paper(darkness=6)
    assert paper.apply(decide("flash", paper)) == {ram.DARKNESS: 0}
    assert decide("flash", Paper()) is None


@pytest.mark.parametrize(
    ("map_id", "y", "x", "changed"),
    [
        (23, 62, 9, (0xD7D8, 6)),
        (23, 61, 10, (0xD7D8, 6)),
        (23, 63, 10, (0xD7D8, 6)),
        (23, 62, 11, (0xD7D8, 6)),
        (27, 10, 27, (0xD7E0, 0)),
        (27, 10, 25, (0xD7E0, 0)),
    ],
)
def test_the_flute_is_noted_beside_each_sleeper(
    map_id: int, y: int, x: int, changed: tuple[int, int]
) -> None:
    paper = Paper(map_id=map_id, player_y=y, player_x=x, map_height=54).bag(FLUTE)
    assert paper.apply(decide("flute", paper)) == {changed[0]: 1 << changed[1]}


@pytest.mark.parametrize(
    "change",
    [
        lambda paper: paper.bag(),
        lambda paper: paper.set(player_x=8),
        lambda paper: paper.set(map_id=24),
        lambda paper: paper.event(0x48F),
        lambda paper: paper.hide(0x1D),
    ],
)
def test_no_flute_without_it_elsewhere_or_once_the_way_is_free(change) -> None:
    paper, button = ready("flute")
    assert decide("flute", change(paper), button) is None


@pytest.mark.parametrize(
    ("name", "item", "move", "pupil", "hopeless"),
    [
        ("teach_surf", HM_SURF, SURF, LAPRAS, BULBASAUR),
        ("teach_strength", HM_STRENGTH, STRENGTH, SNORLAX, PIDGEY),
    ],
)
def test_the_first_who_can_learns_over_what_opens_no_way(
    name: str, item: int, move: int, pupil: int, hopeless: int
) -> None:
    paper = Paper().bag(item).member(0, hopeless, 1, 2, 3, 4).member(1, pupil, CUT, 33, 45, 22)
    start = ram.PARTY_MONS + ram.PARTY_STRIDE
    changed = paper.apply(decide(name, paper))
    assert changed == {start + ram.MON_MOVES + 1: move, start + 29 + 1: 15}
    assert paper.progress.party[1].moves == bytes((CUT, move, 45, 22))
    assert paper.progress.party[1].pp[1] == 15
    assert paper.progress.party[0].moves == bytes((1, 2, 3, 4))


def test_a_free_place_is_taken_first() -> None:
    paper = Paper().bag(HM_SURF).member(0, LAPRAS, 33, 45)
    paper.apply(decide("teach_surf", paper))
    assert paper.progress.party[0].moves == bytes((33, 45, SURF, 0))


@pytest.mark.parametrize(
    "paper",
    [
        Paper().member(0, LAPRAS, 1),  # no HM
        Paper().bag(HM_SURF).member(0, LAPRAS, SURF),  # known
        Paper().bag(HM_SURF).member(0, BULBASAUR, 1),  # nobody can
        Paper().bag(HM_SURF).member(0, LAPRAS, CUT, 0x13, STRENGTH, 0x94),  # no place
        Paper().bag(HM_SURF),  # no party
    ],
)
def test_nobody_is_taught_what_cannot_be(paper: Paper) -> None:
    assert decide("teach_surf", paper) is None


def test_members_beyond_the_count_are_stale_and_learn_nothing() -> None:
    paper = Paper().bag(HM_SURF).member(0, LAPRAS, 1).set(party_count=0)
    assert decide("teach_surf", paper) is None


@pytest.mark.parametrize(
    ("facing", "button", "row", "column"),
    [(0, "down", 11, 8), (4, "up", 7, 8), (8, "left", 9, 6), (12, "right", 9, 10)],
)
def test_who_walks_into_water_is_on_it(facing: int, button: str, row: int, column: int) -> None:
    paper = Paper(badges=SOUL, tileset=0, facing=facing).member(0, LAPRAS, SURF)
    assert decide("use_surf", paper, button) is None
    lake(paper, row=row, column=column)
    for other in {"down", "up", "left", "right", "a"} - {button}:
        assert decide("use_surf", paper, other) is None
    assert paper.apply(decide("use_surf", paper, button)) == {ram.RIDING: 2}


@pytest.mark.parametrize(
    "change", [{"badges": 0}, {"tileset": 1}, {"map_id": 28}, {"riding": 2}, {"party_count": 0}]
)
def test_no_surfing_without_badge_water_or_somebody_who_can(change: dict[str, int]) -> None:
    paper, button = ready("use_surf")
    assert decide("use_surf", paper.set(**change), button) is None


def test_strength_sets_its_flag_and_leaves_the_others() -> None:
    paper = Paper(badges=RAINBOW, status_flags_1=0b1000000).member(0, SNORLAX, STRENGTH)
    assert paper.apply(decide("use_strength", paper)) == {ram.STATUS_FLAGS_1: 0b1000001}
    assert paper.progress.strength_on
    assert paper.progress.drink_given
    assert decide("use_strength", Paper(badges=RAINBOW).member(0, SNORLAX)) is None
    assert decide("use_strength", Paper(badges=SOUL).member(0, SNORLAX, STRENGTH)) is None


@pytest.mark.parametrize(
    ("floor", "switches"),
    [(108, [(0xD869, 7)]), (194, [(0xD7EE, 0), (0xD7EE, 7)]), (198, [(0xD813, 0)])],
)
def test_boulders_are_on_their_switches_one_after_the_other(
    floor: int, switches: list[tuple[int, int]]
) -> None:
    paper = Paper(badges=RAINBOW, map_id=floor).member(0, SNORLAX, STRENGTH)
    for address, bit in switches:
        paper.set(map_script_flags=0)
        held = paper.moment().read_byte(address)
        changed = paper.apply(decide("boulders", paper))
        assert changed == {address: held | 1 << bit, ram.MAP_SCRIPT_FLAGS: 1 << 5}
    assert decide("boulders", paper) is None


def test_who_could_not_push_a_boulder_gets_none_pushed() -> None:
    assert decide("boulders", Paper(badges=RAINBOW, map_id=108).member(0, SNORLAX)) is None
    weak = Paper(map_id=108).member(0, SNORLAX, STRENGTH)
    assert decide("boulders", weak) is None
    elsewhere = Paper(badges=RAINBOW, map_id=82).member(0, SNORLAX, STRENGTH)
    assert decide("boulders", elsewhere) is None


def test_the_lobby_is_not_left_over_its_mat() -> None:
    paper, button = ready("block_indigo_exit")
    assert decide("block_indigo_exit", paper, button) == Intervention(
        "the way out of the lobby is closed", button="b"
    )
    for other in ("up", "left", "a", "start"):
        assert decide("block_indigo_exit", paper, other) is None
    assert decide("block_indigo_exit", paper.set(player_y=10), "down") is None
    assert decide("block_indigo_exit", paper.set(player_y=11, map_id=9), "down") is None


def test_wild_creatures_keep_off_by_the_games_own_count_of_cells() -> None:
    paper = Paper(no_battle_steps=3)
    assert paper.apply(decide("no_wild", paper)) == {ram.NO_BATTLE_STEPS: 9}
    act = decide("no_wild", paper)
    assert act is not None
    assert not act.writes
