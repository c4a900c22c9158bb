from Daddy.pokemon import story_milestones
from Daddy.pokemon.archive import state_keys as keys


def test_the_same_milestones_have_the_same_name_in_whatever_order_they_came() -> None:
    assert keys.key_hash(["got_map", "met_elder"]) == keys.key_hash({"met_elder", "got_map"})
    assert keys.key_hash(["got_map"]) != keys.key_hash(["got_map", "met_elder"])


def test_the_place_tells_moments_apart_but_does_not_count() -> None:
    held = frozenset({"met_elder", story_milestones.place_key(12, real=False)})
    assert keys.key_hash(held) != keys.key_hash(frozenset({"met_elder"}))
    assert keys.rank(held) == 1


def test_a_place_has_one_name_whatever_milestones_are_held() -> None:
    assert keys.place_hash(frozenset({"a", "at_cave"})) == keys.place_hash(
        frozenset({"b", "at_cave"})
    )
    assert keys.place_hash(frozenset({"at_cave"})) != keys.place_hash(frozenset({"at_town"}))
    assert len(keys.place_hash(frozenset())) == 6


def test_no_milestone_of_either_game_looks_like_a_place() -> None:
    for real in (True, False):
        assert keys.rank(story_milestones.milestone_names(real)) == len(
            story_milestones.milestone_names(real)
        )


def test_of_milestones_all_stay_and_of_places_the_last() -> None:
    town, cave = frozenset({"parcel", "at_town"}), frozenset({"at_cave"})
    assert keys.next_key(town, cave) == {"parcel", "at_cave"}
    assert keys.next_key(town, frozenset({"map"})) == {"parcel", "map", "at_town"}, "in a warp"
    assert keys.next_key(frozenset(), town) == town
