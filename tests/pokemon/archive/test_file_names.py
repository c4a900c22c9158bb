from Daddy.pokemon.archive.file_names import (
    Catalogue,
    StateEntry,
    first_rank_name,
    make_catalogue,
    mark_name,
    parse_state_name,
)

ENTRY = StateEntry(rank=7, key="0123456789abcdef", place="1a2b3c", hp=31, age=1200, sha256="a" * 64)


def test_a_name_says_everything_a_decision_needs() -> None:
    assert parse_state_name(ENTRY.file_name) == ENTRY
    assert len(ENTRY.file_name) < 255


def test_a_listing_is_the_whole_catalogue() -> None:
    older = StateEntry(7, ENTRY.key, "1a2b3c", 31, 3, "b" * 64)
    names = [
        ENTRY.file_name,
        older.file_name,
        mark_name("a" * 64, "dry", 1),
        mark_name("a" * 64, "dry", 2),
    ]
    seen = make_catalogue([*names, mark_name("b" * 64, "gain", 1)])
    assert seen.entries == (older, ENTRY)
    assert seen.dry == {"a" * 64: 2}
    assert seen.gains == {"b" * 64: 1}


def test_strange_names_are_passed_over() -> None:
    strange = [
        ".tmp-1-2",
        ENTRY.file_name.replace("-p1a2b3c-h0031", ""),
        "r7-x.state",
        ENTRY.file_name + ".bak",
        "notes.txt",
        "a" * 64 + ".dry-x",
        "",
    ]
    assert make_catalogue(strange) == Catalogue()


def test_a_state_that_cannot_be_loaded_can_be_left_out() -> None:
    assert make_catalogue([ENTRY.file_name]).without(["a" * 64]).entries == ()


def test_the_fewest_milestones_that_a_place_was_known_with_count() -> None:
    names = [
        first_rank_name("1a2b3c", 9),
        first_rank_name("1a2b3c", 7),
        first_rank_name("000000", 0),
    ]
    seen = make_catalogue([*names, "1a2b3c.first-x", ENTRY.file_name])
    assert seen.first == {"1a2b3c": 7, "000000": 0}
    assert seen.without([ENTRY.sha256]).first == seen.first
