from __future__ import annotations

from Daddy.pokemon.map_names import map_name


def test_maps_of_the_real_game_have_their_names_and_unused_numbers_say_so() -> None:
    assert map_name(0, real=True) == "Pallet Town"
    assert map_name(40, real=True) == "Oaks Lab"
    assert map_name(247, real=True) == "Agathas Room"
    assert map_name(11, real=True) == "map 11"
