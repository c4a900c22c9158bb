"""Maps and returns match the telemetry, for any duration."""

from dataclasses import replace

from Daddy.streaming.protocol.messages import row_from_report
from Daddy.streaming.viewer import agent_trails as histories
from Daddy.streaming.viewer.agent_trails import Named, ViewHistory
from tests.streaming.helpers import report


def named(agent: int, x: int, y: int, map_id: int = 1, place: int = 0, gain: float = 0.0) -> Named:
    row = row_from_report(report(agent, map_id=map_id, x=x, y=y, episode_return=gain))
    return f"slot-0/{agent}", f"Map {map_id}", replace(row, place=place)


def test_maps_of_shown_agents_come_first_with_their_trails() -> None:
    history = ViewHistory()
    history.add_telemetry([named(0, 5, 5), named(1, 0, 0, map_id=2, place=1)])
    history.add_telemetry([named(0, 5, 6), named(1, 1, 0, map_id=2, place=1)])
    first, second = history.snapshot.maps
    assert (first.name, second.name) == ("Map 2", "Map 1")
    assert first.trails == (((0, 0), (1, 0)),)
    assert second.trails == (), "only of those that are shown"
    assert [(dot.x, dot.y) for dot in second.dots] == [(5, 6)]


def test_heat_is_how_often_a_cell_was_seen_with_somebody() -> None:
    history = ViewHistory()
    for x in (3, 3, 3, 4):
        history.add_telemetry([named(0, x, 7)])
    assert history.snapshot.maps[0].heat == ((3, 7, 1.0), (4, 7, 0.33))


def test_who_does_not_say_where_it_is_stands_on_no_map_and_counts_in_the_course() -> None:
    history = ViewHistory()
    history.add_telemetry([named(0, -1, -1, gain=4.0), named(1, -1, -1, gain=2.0)])
    assert history.snapshot.maps == ()
    assert history.snapshot.returns == ((4.0, 3.0),)


def test_a_day_of_watching_stays_small_and_keeps_its_beginning_and_end(monkeypatch) -> None:
    for bound, some in ("_MOST_RETURNS", 24), ("_MAPS_KNOWN", 8), ("_CELLS", 100):
        monkeypatch.setattr(histories, bound, some)
    history = ViewHistory()
    for second in range(500):
        cell = divmod(second, 70)
        history.add_telemetry([named(0, *cell, map_id=second % 30, gain=float(second))])
    course = history.snapshot.returns
    assert 10 < len(course) <= 24
    assert course[0] == (0.0, 0.0)
    assert course[-1][0] > 450
    assert len(history._heat) <= 8
    for second in range(300):
        history.add_telemetry([named(0, second % 100, second // 100, map_id=1)])
    assert len(history._heat[1]) <= 100


def test_nothing_heard_is_nothing_to_see() -> None:
    history = ViewHistory()
    history.add_telemetry([])
    assert history.snapshot.returns == ()
