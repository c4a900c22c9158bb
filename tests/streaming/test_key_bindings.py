"""Keys do what the help says, and nothing else."""

from Daddy.streaming.protocol.messages import MAX_PINS, MAX_TOP_K
from Daddy.streaming.viewer.key_bindings import (
    TABLE,
    TOUR_S,
    Overlay,
    ViewOptions,
    WindowAction,
    advance_tour,
    apply_key,
    click_panel,
    focused_agent,
)

SHOWN = ["slot-0/3", "slot-1/5"]


def after(*keys: str, view: ViewOptions | None = None) -> ViewOptions:
    view = view or ViewOptions(2)
    for key in keys:
        view = apply_key(view, key, SHOWN).view
    return view


def test_no_key_means_two_things() -> None:
    names = [name for binding in TABLE for name in binding.names]
    assert len(names) == len(set(names))


def test_no_key_fails_where_nobody_plays() -> None:
    for binding in TABLE:
        for name in binding.names:
            assert apply_key(ViewOptions(2), name, []).view.chosen == ""
    assert apply_key(ViewOptions(2), "f9", SHOWN).view == ViewOptions(2)


def test_a_panel_is_chosen_and_fills_the_window_until_esc_or_g() -> None:
    view = after("2", "return")
    assert (view.chosen, view.full) == ("slot-1/5", True)
    assert not after("escape", view=view).full
    assert not after("g", view=view).full
    assert after("7").chosen == ""


def test_a_click_chooses_and_another_fills_the_window() -> None:
    view = click_panel(ViewOptions(2), "slot-1/5")
    assert (view.chosen, view.full) == ("slot-1/5", False)
    assert click_panel(view, "slot-1/5").full
    assert not click_panel(click_panel(view, "slot-1/5"), "slot-1/5").full


def test_keys_are_about_the_first_panel_when_the_chosen_agent_has_gone() -> None:
    assert focused_agent(ViewOptions(2, chosen="slot-9/9"), SHOWN) == "slot-0/3"


def test_esc_closes_what_lies_on_top_and_asks_before_it_closes_the_window() -> None:
    assert after("h", "escape").overlay is Overlay.NONE
    first = apply_key(ViewOptions(2), "escape", SHOWN)
    assert first.action is None
    assert "again" in first.toast
    assert apply_key(first.view, "escape", SHOWN).action is WindowAction.LEAVE
    assert apply_key(after("escape", "v"), "escape", SHOWN).action is None


def test_a_sheet_is_turned_by_its_own_key() -> None:
    assert after("s").overlay is Overlay.SCORE
    assert after("s", "f").overlay is Overlay.FIGURES
    assert after("?", "h").overlay is Overlay.NONE


def test_numbers_of_agents_stay_in_bounds() -> None:
    assert after(*"-----").top_k == 1
    assert after(*["+"] * 40).top_k == MAX_TOP_K


def test_a_pin_is_set_and_taken_away_and_there_are_so_many() -> None:
    assert after("2", "p").requested_agents == ("slot-1/5",)
    assert after("2", "p", "p").requested_agents == ()
    many = ViewOptions(2, pins=tuple(f"slot-{n}/0" for n in range(MAX_PINS)))
    assert after("p", view=many).pins == many.pins


def test_the_tour_visits_everybody_and_pins_stay_meanwhile() -> None:
    agents = ["slot-0/0", "slot-0/3", "slot-1/5"]
    view, visited = after("2", "p", "t"), []
    for number in range(4):
        view = advance_tour(view, agents, number * TOUR_S)
        visited.append(view.touring)
        assert view.requested_agents[0] == view.touring
        assert "slot-1/5" in view.requested_agents
        assert advance_tour(view, agents, number * TOUR_S + 1) == view
    assert visited == ["slot-0/0", "slot-0/3", "slot-1/5", "slot-0/0"] or len(set(visited)) == 3
    assert after("t", view=view).requested_agents == ("slot-1/5",)


def test_a_paused_tour_waits() -> None:
    view = after("t", "space")
    assert advance_tour(view, ["slot-0/0"], 1e9) == view


def test_recording_begins_and_ends_with_the_same_key() -> None:
    begun = apply_key(ViewOptions(2), "r", SHOWN)
    assert (begun.action, begun.view.recording) == (WindowAction.RECORD, True)
    assert apply_key(begun.view, "r", SHOWN).action is WindowAction.SAVE
    assert apply_key(ViewOptions(2), "r", []).action is None
