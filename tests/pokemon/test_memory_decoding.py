from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.memory_decoding import bits, byte, packed_decimal, span, word
from tests.pokemon.images import image, put


def test_words_begin_with_their_high_byte() -> None:
    assert word(put(image(), ram.ENEMY_HP, 0x01, 0x2C), ram.ENEMY_HP) == 300


def test_the_first_and_the_last_byte_of_the_memory_can_be_read() -> None:
    data = put(put(image(), 0xC000, 7), 0xDFFF, 9)
    assert (byte(data, 0xC000), byte(data, 0xDFFF)) == (7, 9)
    assert span(data, 0xDFFE, 2) == bytes((0, 9))


def test_flag_n_is_bit_n_of_the_block() -> None:
    data = put(image(), ram.TOWNS, 0b1, 0b100)
    assert bits(data, ram.TOWNS, 2) == 1 | 1 << 10


def test_packed_decimals_have_two_digits_a_byte() -> None:
    assert packed_decimal(b"\x99\x99\x99") == 999_999
    assert packed_decimal(b"\x00\x30\x00") == 3_000
