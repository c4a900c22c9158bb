from __future__ import annotations

import re

from Daddy.pokemon.cartridge.build import HERE
from Daddy.pokemon.map_names import map_name


def test_maps_of_the_real_game_have_their_names_and_unused_numbers_say_so() -> None:
    assert map_name(0, real=True) == "Pallet Town"
    assert map_name(40, real=True) == "Oaks Lab"
    assert map_name(247, real=True) == "Agathas Room"
    assert map_name(11, real=True) == "map 11"


def test_every_map_of_the_cartridge_has_a_name_of_its_own() -> None:
    world = (HERE / "source" / "world.asm").read_text()
    numbers = [int(number) for number in re.findall(r"^    map (\d+),", world, re.MULTILINE)]
    names = {map_name(number, real=False) for number in numbers}
    assert len(names) == len(numbers) > 6
    assert not any(name.startswith("map ") for name in names)
