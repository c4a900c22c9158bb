from Daddy.pokemon.map_names import map_name
from scripts.cartridge.symbols import MAPS


def test_maps_of_the_real_game_have_their_names_and_unused_numbers_say_so() -> None:
    assert map_name(0, real=True) == "Pallet Town"
    assert map_name(40, real=True) == "Oaks Lab"
    assert map_name(247, real=True) == "Agathas Room"
    assert map_name(11, real=True) == "map 11"


def test_the_real_game_has_226_maps() -> None:
    named = [number for number in range(256) if not map_name(number, real=True).startswith("map ")]
    assert len(named) == 226
    assert named[-1] == 247


def test_the_cartridges_maps_are_called_as_its_own_table_calls_them() -> None:
    assert {place.number: map_name(place.number, real=False).upper() for place in MAPS} == {
        place.number: place.name for place in MAPS
    }
    assert map_name(40, real=False) == "Elder's House"
