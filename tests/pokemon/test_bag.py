from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.bag import item_bits
from Daddy.pokemon.game_progress import read_progress
from tests.pokemon.images import image, put


def test_the_bag_holds_as_many_pairs_as_its_count_says() -> None:
    data = put(image(bag_count=2), ram.BAG, 0x46, 1, 0x04, 5, 0xFF, 0, 0x2B, 1)
    assert read_progress(data).bag == ((0x46, 1), (0x04, 5))
    assert read_progress(put(data, ram.BAG_COUNT, 0)).bag == ()


def test_a_count_beyond_twenty_reads_twenty() -> None:
    assert len(read_progress(image(bag_count=255)).bag) == 20


def test_an_item_that_was_handed_over_was_had_all_the_same() -> None:
    before = put(image(bag_count=2), ram.BAG, 0x46, 1, 0x04, 5, 0xFF)
    after = put(image(bag_count=1), ram.BAG, 0x04, 4, 0xFF, 0xC4)
    assert item_bits(after) == 1 << 0x04
    assert item_bits(before) | item_bits(after) == 1 << 0x46 | 1 << 0x04
