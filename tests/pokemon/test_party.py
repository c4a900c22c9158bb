import pytest

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.party import CUT, FLASH, read_party
from tests.pokemon.fact_sheet import SLOT_HP, SLOT_LEVEL, SLOT_MAX_HP
from tests.pokemon.images import image, put


def test_each_of_the_44_bytes_has_its_meaning() -> None:
    data = put(image(party_count=1), ram.PARTY_MONS, *range(10, 54))
    (member,) = read_party(data)
    assert (member.species, member.hp, member.status) == (10, 0x0B0C, 14)
    assert (member.types, member.moves) == (bytes((15, 16)), bytes((18, 19, 20, 21)))
    assert int.from_bytes(member.experience_bytes, "big") == 0x18191A
    assert member.pp == (39, 40, 41, 42)
    assert (member.level, member.max_hp) == (43, 0x2C2D)
    assert (member.attack, member.defense) == (0x2E2F, 0x3031)
    assert (member.speed, member.special) == (0x3233, 0x3435)


def test_the_upper_bits_of_pp_count_how_often_it_was_raised() -> None:
    data = put(image(party_count=1), ram.PARTY_MONS + 29, 0b1100_0101, 0x3F, 0, 0)
    assert read_party(data)[0].pp == (5, 63, 0, 0)


@pytest.mark.parametrize("slot", range(6))
def test_each_slot_begins_44_bytes_after_the_one_before(slot: int) -> None:
    data = image(party_count=6)
    put(data, SLOT_HP[slot], 0x01, 0x02)
    put(data, SLOT_LEVEL[slot], 55)
    put(data, SLOT_MAX_HP[slot], 0x02, 0x01)
    held = [(member.hp, member.level, member.max_hp) for member in read_party(data)]
    assert held == [(0x102, 55, 0x201) if at == slot else (0, 0, 0) for at in range(6)]


def test_slots_beyond_the_count_are_stale() -> None:
    data = put(image(party_count=2), ram.PARTY_MONS, *[7] * 6 * ram.PARTY_STRIDE)
    assert len(read_party(data)) == 2


def test_the_moves_of_the_field_have_their_numbers() -> None:
    assert (CUT, FLASH) == (0x0F, 0x94)
