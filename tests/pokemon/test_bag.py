from __future__ import annotations

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.bag import HM_BITS, REQUIRED_ITEMS, item_bits, item_name, read_bag
from tests.pokemon.images import image, put


def test_the_bag_holds_as_many_pairs_as_its_count_says() -> None:
    data = put(image(bag_count=2), ram.BAG, 0x46, 1, 0x04, 5, 0xFF, 0, 0x2B, 1)
    assert read_bag(data) == ((0x46, 1), (0x04, 5))
    assert read_bag(put(data, ram.BAG_COUNT, 0)) == ()


def test_a_count_beyond_twenty_reads_twenty() -> None:
    assert len(read_bag(image(bag_count=255))) == 20


def test_an_item_that_was_handed_over_was_had_all_the_same() -> None:
    before = put(image(bag_count=2), ram.BAG, 0x46, 1, 0x04, 5, 0xFF)
    after = put(image(bag_count=1), ram.BAG, 0x04, 4, 0xFF, 0xC4)
    assert item_bits(after) == 1 << 0x04
    assert item_bits(before) | item_bits(after) == 1 << 0x46 | 1 << 0x04


def test_the_machines_that_teach_field_moves_are_five() -> None:
    assert [item_name(n) for n in range(256) if HM_BITS >> n & 1] == [
        f"HM0{n}" for n in range(1, 6)
    ]


def test_the_items_that_the_story_needs_have_names() -> None:
    assert sorted(map(item_name, REQUIRED_ITEMS)) == sorted(
        (
            *("HM01", "HM03", "HM04", "card key", "flute", "gold teeth", "lift key", "parcel"),
            *("secret key", "ship's ticket", "silph scope"),
        )
    )
    assert (item_name(0x14), item_name(0xC9), item_name(0xFA)) == ("item 20", "TM01", "TM50")
