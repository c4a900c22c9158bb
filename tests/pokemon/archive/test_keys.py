from __future__ import annotations

from Daddy.pokemon import story
from Daddy.pokemon.archive import keys


def test_the_same_milestones_have_the_same_name_in_whatever_order_they_came() -> None:
    assert keys.ident(["got_map", "met_elder"]) == keys.ident({"met_elder", "got_map"})
    assert keys.ident(["got_map"]) != keys.ident(["got_map", "met_elder"])


def test_first_entries_tell_sets_apart_but_do_not_count() -> None:
    held = {"met_elder", story.entry_key(12, real=False)}
    assert keys.ident(held) != keys.ident({"met_elder"})
    assert keys.rank(held) == 1


def test_no_milestone_of_either_game_looks_like_a_first_entry() -> None:
    for real in (True, False):
        assert keys.rank(story.names(real)) == len(story.names(real))


def test_only_something_new_makes_a_set_grow_and_nothing_held_is_lost() -> None:
    assert keys.grown({"parcel"}, {"parcel"}) is None
    assert keys.grown({"parcel", "map"}, {"map"}) is None
    assert keys.grown({"parcel"}, {"map"}) == {"parcel", "map"}
