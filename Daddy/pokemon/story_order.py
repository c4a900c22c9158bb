"""Pure. Lists the events of the real game's story, in the order of a usual game.

Their names are ours; those marked `*` are required to finish the game. An event is a bit of the
game's event flags; other facts (an item, a move, a hidden person) are in `story_milestones`.
"""

from typing import Final, NamedTuple


class StoryEvent(NamedTuple):
    """Holds one event: number `flag` of the event flags, set on map `place`."""

    name: str
    flag: int
    place: int
    required: bool


_STORY: Final = """
    000 * 040 followed_oak
    021 * 040 asked_to_choose
    022 * 040 got_starter
    023 * 040 fought_rival_in_lab
    039 * 042 got_parcel
    038 * 040 parcel_delivered
    025 * 040 got_pokedex
    024 - 040 got_balls_from_oak
    018 - 039 got_town_map
    525 - 033 beat_rival_on_route_22
    077 * 054 beat_brock
    076 - 054 got_tm34
    579 * 061 beat_nerd_in_mt_moon
    57E - 061 got_dome_fossil
    57F - 061 got_helix_fossil
    098 * 003 beat_rival_in_cerulean
    540 - 035 got_nugget
    541 - 035 beat_rocket_on_route_24
    550 * 088 met_bill
    55B * 088 bill_is_himself
    55C * 088 got_ticket
    55F * 088 left_bills_house
    0BF * 065 beat_misty
    0A7 * 003 beat_thief_in_cerulean
    5E1 * 101 rubbed_captains_back
    5E0 * 101 got_cut
    5E2 - 094 ship_has_left
    160 * 092 second_lock_opened
    167 * 092 beat_surge
    151 - 090 got_bike_voucher
    0C0 - 066 got_bicycle
    3D8 - 049 got_flash
    0F1 * 143 beat_rival_in_tower
    1A9 * 134 beat_erika
    1B9 * 135 found_hideout
    6A6 * 202 lift_key_dropped
    6A5 * 202 hideout_door_opened
    6A7 * 202 beat_giovanni_in_hideout
    111 * 147 beat_marowak
    4CF * 148 rescued_fuji
    119 * 148 fuji_is_home
    12A * 149 got_flute
    48F - 023 beat_snorlax_on_route_12
    4C9 - 027 beat_snorlax_on_route_16
    4CE - 188 got_fly
    880 * 222 got_surf
    239 * 155 gave_gold_teeth
    238 * 155 got_strength
    259 * 157 beat_koga
    740 * 212 beat_rival_in_silph
    78F * 235 beat_giovanni_in_silph
    78D - 235 got_master_ball
    361 * 178 beat_sabrina
    299 * 166 beat_blaine
    028 * 001 viridian_gym_open
    051 * 045 beat_giovanni
    526 * 033 beat_rival_before_the_league
    530 * 034 passed_first_guard
    536 * 034 passed_last_guard
    917 - 108 switch_on_victory_road_1
    538 - 194 switch_on_victory_road_2
    660 - 198 switch_on_victory_road_3
    8E1 * 245 beat_lorelei
    8E9 * 246 beat_bruno
    8F1 * 247 beat_agatha
    8FE * 113 beat_lance
    901 * 120 beat_champion
"""

_TRAINERS: Final = """
    441 * 020 beat_lass_on_route_9
    45C * 082 beat_nerd_in_rock_tunnel
    9B2 * 232 beat_hiker_in_rock_tunnel
    9B6 * 232 beat_third_in_rock_tunnel
    9B8 * 232 beat_second_nerd_in_rock_tunnel
    45E * 082 beat_lass_in_rock_tunnel
"""


_UNPAID: Final = """
    068 museum_ticket
    161 first_lock_opened
    55E bill_wants_to_be_separated
    520 first_rival_on_route_22
    521 second_rival_on_route_22
    527 rival_on_route_22_wants_battle
    48E fighting_snorlax_on_route_12
    4C8 fighting_snorlax_on_route_16
    549 nugget_waits
    278 mansion_switch_on
    24F in_safari_zone
    24E safari_over
    500 in_seafoam_islands
    109 in_purified_zone
    0F0 tower_rival_on_left
    157 fan_boasts_of_pikachu
    156 fan_boasts_of_seel
    003 dex_rated_in_hall_of_fame
    2E0 fossil_at_lab
    2E1 lab_still_works
    2E2 lab_hands_over
"""


def _parse(table: str) -> tuple[StoryEvent, ...]:
    rows = (line.split() for line in table.strip().splitlines())
    return tuple(StoryEvent(row[3], int(row[0], 16), int(row[2]), row[1] == "*") for row in rows)


STORY: Final = _parse(_STORY)
"""The 67 events that a run counts as its story flags."""
TRAINERS: Final = _parse(_TRAINERS)
"""Trainers on the only way from Cerulean to Lavender; pokemonred_puffer requires them too."""


def event_mask(steps: tuple[StoryEvent, ...]) -> int:
    """Return an integer whose bit n is set if one of these events has flag number n."""
    return sum(1 << step.flag for step in steps)


TRANSIENT_FLAGS: Final = {
    name: int(flag, 16) for flag, name in (line.split() for line in _UNPAID.strip().splitlines())
}
"""Flags that the game clears again, or sets more than once (the museum ticket), by name."""
NEVER_OBSERVED: Final = (
    *("first_rival_on_route_22", "second_rival_on_route_22"),
    *("rival_on_route_22_wants_battle", "nugget_waits"),
)
"""Names of the flags that reveal an event prepared on another map; observations leave them out."""
UNPAID: Final = sum(1 << flag for flag in TRANSIENT_FLAGS.values())
"""Bits of TRANSIENT_FLAGS, which never count as achievements."""
