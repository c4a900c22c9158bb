"""Pure. Lists events and maps of the free cartridge; written by ``python -m scripts.cartridge``."""

from typing import Final

STORY: Final = (
    ("greeted_dad", 0x000, 37, True), ("met_elder", 0x021, 40, True),
    ("got_starter", 0x022, 40, True), ("beat_rival", 0x023, 40, True),
    ("got_almanac", 0x025, 40, True), ("got_charm", 0x024, 40, True), ("got_map", 0x018, 0, False),
    ("beat_lena", 0x3C1, 12, True), ("got_letter", 0x039, 1, True), ("got_friend", 0x3C5, 44, True),
    ("beat_otis", 0x3C2, 13, True), ("slept_stone", 0x070, 58, True),
    ("beat_pupil1", 0x072, 54, True), ("beat_leader1", 0x077, 54, True),
    ("got_tonic", 0x076, 54, False), ("letter_brought", 0x038, 2, True),
    ("beat_mara", 0x3E2, 14, True), ("beat_toby", 0x3E3, 14, True),
    ("beat_digger", 0x579, 59, True), ("got_shell", 0x57E, 59, False),
    ("beat_rival2", 0x098, 3, True), ("slept_lake", 0x0B8, 64, True),
    ("beat_pupil2", 0x0BA, 65, True), ("beat_leader2", 0x0BF, 65, True),
    ("met_hermit", 0x550, 88, True), ("got_pass", 0x55C, 88, True), ("beat_ute", 0x413, 16, True),
    ("beat_ivy", 0x411, 16, True), ("asked_stone", 0x151, 93, True), ("got_stone", 0x0C0, 88, True),
    ("stone_brought", 0x239, 93, True), ("got_cut", 0x5E0, 93, True),
    ("gate_open", 0x160, 92, True), ("beat_pupil3", 0x162, 92, True),
    ("beat_leader3", 0x167, 92, True), ("beat_sal", 0x412, 8, True),
    ("slept_isle", 0x128, 171, True), ("got_puddlo", 0x3C6, 8, True),
    ("beat_roe", 0x57B, 165, True), ("beat_miner", 0x57A, 165, True), ("got_key", 0x6A6, 165, True),
    ("heard_way", 0x119, 167, True), ("door_open", 0x6A5, 8, True), ("got_lamp", 0x111, 144, True),
    ("lamp_shown", 0x12A, 167, True), ("blessed", 0x026, 40, True), ("slept_mill", 0x531, 41, True),
    ("beat_hale", 0x539, 33, True), ("passed_watch1", 0x530, 33, True),
    ("passed_watch2", 0x536, 33, True), ("passed_watch3", 0x533, 33, True),
    ("beat_nils", 0x911, 108, True), ("beat_greta", 0x912, 108, True),
    ("beat_rival3", 0x526, 108, True), ("beat_ola", 0x53A, 194, True),
    ("beat_jon", 0x53B, 194, True), ("beat_warden", 0x8FE, 194, True),
    ("beat_tilda", 0x661, 198, True), ("beat_sage", 0x8E1, 198, True),
    ("beat_champion", 0x901, 120, True),
)  # fmt: skip
"""Events in the order of the story: name, number of the event flag, map, whether it is required."""
MAPS: Final = {
    37: "Home", 0: "Hearth", 40: "Elder's House", 12: "North Road", 1: "Millbrook",
    41: "Millbrook Rest House", 44: "Cottage", 13: "Stone Road", 2: "Stonewick",
    58: "Stonewick Rest House", 54: "Hall Of Stone", 14: "East Road", 59: "Cave", 3: "Lakemere",
    64: "Lakemere Rest House", 88: "Hermit's House", 65: "Hall Of Water", 16: "Sea Road",
    5: "Port Lantern", 89: "Port Rest House", 92: "Hall Of Sparks", 93: "Woodcutter's House",
    94: "Boat", 8: "Gull Isle", 171: "Isle Rest House", 167: "Keeper's House", 165: "Grotto",
    142: "Lighthouse", 143: "Lighthouse Stairs", 144: "Lighthouse Lamp", 33: "Summit Road",
    108: "Lower Climb", 194: "Upper Climb", 198: "Last Climb", 120: "Summit", 118: "Hall Of Bells",
}  # fmt: skip
"""Names by map number."""
