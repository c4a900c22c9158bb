from __future__ import annotations

from Daddy.pokemon import story_milestones
from Daddy.pokemon.archive import state_keys as keys


def test_the_same_milestones_have_the_same_name_in_whatever_order_they_came() -> None:
    assert keys.ident(["got_map", "met_elder"]) == keys.ident({"met_elder", "got_map"})
    assert keys.ident(["got_map"]) != keys.ident(["got_map", "met_elder"])


def test_the_place_tells_moments_apart_but_does_not_count() -> None:
    held = frozenset({"met_elder", story_milestones.place_key(12, real=False)})
    assert keys.ident(held) != keys.ident(frozenset({"met_elder"}))
    assert keys.rank(held) == 1


def test_a_place_has_one_name_whatever_milestones_are_held() -> None:
    assert keys.place(frozenset({"a", "at_cave"})) == keys.place(frozenset({"b", "at_cave"}))
    assert keys.place(frozenset({"at_cave"})) != keys.place(frozenset({"at_town"}))
    assert len(keys.place(frozenset())) == 6


def test_no_milestone_of_either_game_looks_like_a_place() -> None:
    for real in (True, False):
        assert keys.rank(story_milestones.names(real)) == len(story_milestones.names(real))


def test_of_milestones_all_stay_and_of_places_the_last() -> None:
    town, cave = frozenset({"parcel", "at_town"}), frozenset({"at_cave"})
    assert keys.moment(town, cave) == {"parcel", "at_cave"}
    assert keys.moment(town, frozenset({"map"})) == {"parcel", "map", "at_town"}, "in a warp"
    assert keys.moment(frozenset(), town) == town
