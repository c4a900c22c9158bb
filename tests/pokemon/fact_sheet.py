"""Facts of the public disassembly, typed in a second time; our tables must agree with them."""

_ADDRESSES = """
C109 facing | C3A0 tiles | CC24 menu_y | CC25 menu_x | CC26 menu_item | CC28 menu_last
CC2C bag_cursor | CC36 list_scroll | CD38 walked_by_game
CD6B joy_ignore
CFC4 font_loaded | CFE5 enemy_species | CFE6 enemy_hp | CFF3 enemy_level
CFF4 enemy_max_hp | D057 in_battle | D05A battle_kind
D0DB repel_steps | D125 text_box | D126 map_script_flags
D13C no_battle_steps | D158 player_name
D163 party_count | D164 party_species | D16B party_mons | D2F7 pokedex_owned | D30A pokedex_seen
D31D bag_count | D31E bag | D347 money | D34A rival_name | D355 options | D356 badges
D359 player_id | D35D darkness | D35E map_id | D361 player_y | D362 player_x | D365 last_map
D367 tileset | D368 map_height | D369 map_width | D3AE warp_count | D3AF warps | D4B0 sign_count
D4B1 signs | D53A pc_count
D53B pc_items | D5A0 current_box | D5A2 hall_of_fame | D5A4 coins | D5A6 toggles
D665 ship_script | D700 riding | D70B towns | D70D safari_steps | D715 rival_starter
D717 starter | D719 blackout_map | D728 status_flags_1 | D72A beaten_leaders | D72D dungeon_warp
D72E status_flags_4 | D730 status_flags_5 | D732 status_flags_6 | D733 status_flags_7

D736 movement_flags | D747 events | DA41 play_time | DA47 safari_balls | DA80 box_count
"""

STORY = """
D747.0* D74B.1* D74B.2* D74B.3* D74E.1* D74E.0* D74B.5* D74B.4 D74A.0 D7EB.5
D755.7* D755.6 D7F6.1* D7F6.6 D7F6.7 D75A.0* D7EF.0 D7EF.1 D7F1.0* D7F2.3*
D7F2.4* D7F2.7* D75E.7* D75B.7* D803.1* D803.0* D803.2 D773.0* D773.7* D771.1
D75F.0 D7C2.0 D765.1* D77C.1* D77E.1* D81B.6* D81B.5* D81B.7* D769.1* D7E0.7*
D76A.1* D76C.2* D7D8.7 D7E0.1 D7E0.6 D857.0* D78E.1* D78E.0* D792.1* D82F.0*
D838.7* D838.5 D7B3.1* D79A.1* D74C.0* D751.1* D7EB.6* D7ED.0* D7ED.6* D869.7
D7EE.0 D813.0 D863.1* D864.1* D865.1* D866.6* D867.1*
"""
"""The 67 events in the order of a usual game, address and bit; * required to finish."""

TRAINERS = "D7CF.1 D7D2.4 D87D.2 D87D.6 D87E.0 D7D2.6"
"""The trainers: one on Route 9, five in Rock Tunnel."""

COME_AND_GO = """
D754.0 D773.1 D7F2.6 D7EB.0 D7EB.1 D7EB.7 D7D8.6 D7E0.0 D7F0.1 D796.0 D790.7 D790.6 D7E7.0
D768.1 D765.0 D771.7 D771.6 D747.3 D7A3.0 D7A3.1 D7A3.2
"""
"""Flags that the game clears again, or sets more than once."""

TOGGLES = {
    "old_man_awake": "D5A6.1",
    "hideout_guard_gone": "D5AE.6",
    "snorlax_gone": "D5A9.5 D5AA.1",
    "secret_key_taken": "D5BE.2",
    "gold_teeth_taken": "D5BF.4",
}
"""Facts shown by a hidden person or thing."""

SLOT_HP = (0xD16C, 0xD198, 0xD1C4, 0xD1F0, 0xD21C, 0xD248)
SLOT_LEVEL = (0xD18C, 0xD1B8, 0xD1E4, 0xD210, 0xD23C, 0xD268)
SLOT_MAX_HP = (0xD18D, 0xD1B9, 0xD1E5, 0xD211, 0xD23D, 0xD269)


ADDRESSES = {
    name.upper(): int(address, 16)
    for address, name in (
        cell.split() for cell in _ADDRESSES.replace("\n", " | ").split(" | ") if cell
    )
}
"""Parse addresses by our names of the disassembly's symbols."""


def places(text: str) -> list[tuple[int, int]]:
    """Parse words like D755.7 or D755.7* into (address, bit)."""
    cells = (word.rstrip("*").split(".") for word in text.split())
    return [(int(address, 16), int(bit)) for address, bit in cells]
