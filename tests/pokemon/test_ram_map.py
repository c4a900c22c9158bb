"""Tests that every address has one name and one meaning, and that used addresses are read."""

import ast
import re
from pathlib import Path

from Daddy.pokemon import ram_map as ram
from tests.pokemon.fact_sheet import ADDRESSES

ROOM = Path(ram.__file__).parent
NAMED = {
    name: value
    for name, value in vars(ram).items()
    if name.isupper() and isinstance(value, int) and value > ram.RAM_START
}
OCCASIONAL = {
    *("TILES", "MENU_Y", "MENU_X", "MENU_ITEM", "MENU_LAST", "LIST_SCROLL", "WALKED_BY_GAME"),
    *("WALK_COUNTER", "REPEL_STEPS", "TEXT_BOX", "PLAYER_NAME", "RIVAL_NAME", "WARP_COUNT"),
    *("WARPS", "PC_COUNT", "PC_ITEMS", "CURRENT_BOX", "SAFARI_BALLS", "BOX_COUNT", "BAG_CURSOR"),
    *("MAP_SCRIPT_FLAGS", "NO_BATTLE_STEPS"),
}
"""Read by menu drivers, assists and tables for people, not by every step."""
NOT_OURS = re.compile(r"0x[CD][0-9A-F]{3}$")


def test_every_address_is_the_one_of_the_disassembly() -> None:
    assert {name: hex(NAMED[name]) for name in ADDRESSES} == {
        name: hex(address) for name, address in ADDRESSES.items()
    }
    assert set(NAMED) - set(ADDRESSES) == {"PLAYER_SPRITE", "WALK_COUNTER"}


def test_no_two_names_own_one_address() -> None:
    owners: dict[int, list[str]] = {}
    for name, address in NAMED.items():
        owners.setdefault(address, []).append(name)
    assert {hex(at): names for at, names in owners.items() if len(names) > 1} == {}


def test_every_address_is_either_fetched_by_each_step_or_said_to_be_occasional() -> None:
    fetched = {name for name, at in NAMED.items() if any(a <= at < b for a, b in ram.BLOCKS)}
    assert set(NAMED) - fetched == OCCASIONAL


def test_the_blocks_are_in_order_and_do_not_overlap() -> None:
    ends = [ram.RAM_START, *(edge for block in ram.BLOCKS for edge in block)]
    assert ends == sorted(ends)
    assert ends[-1] <= ram.RAM_START + ram.RAM_SIZE


def test_nobody_else_writes_an_address_down() -> None:
    """Only `ram_map` has addresses as numbers, besides the cartridge's own."""
    found = [
        f"{path.name}:{node.lineno} {node.value:#x}"
        for path in ROOM.rglob("*.py")
        if path.name != "ram_map.py" and "cartridge" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and type(node.value) is int
        and NOT_OURS.match(f"0x{node.value:X}")
        and _written_as_hex(path, node)
    ]
    assert found == []


def _written_as_hex(path: Path, node: ast.Constant) -> bool:
    line = path.read_text().splitlines()[node.lineno - 1]
    return line[node.col_offset :].lower().startswith("0x")
