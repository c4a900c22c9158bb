import numpy as np
import pytest
import torch

from Daddy.core.clock import SystemClock
from Daddy.learning.behaviour_metrics import Milestones, MovementStats, Stopwatch, rows_to_facts

NAMES = ("badges", "map_id", "x", "y")


def rows(*places):
    """Return telemetry rows of agents at (map, x, y)."""
    return np.array([(0, map_id, x, y) for map_id, x, y in places], np.float32)


def walked(*path):
    """Return the statistics of one agent that visits each (map, x, y) in turn."""
    movement = MovementStats(NAMES, 1)
    movement.set_start(rows(path[0]))
    for place in path[1:]:
        movement.record_step(rows(place))
    return movement


def test_walking_on_is_no_loop_and_walking_back_is():
    on = walked(*[(1, x, 5) for x in range(10)])
    assert on.pop_gauges() == {"loop_share": 0.0, "coverage": 9.0}
    to_and_fro = walked(*[(1, x % 2, 5) for x in range(11)])
    assert to_and_fro.pop_gauges() == {"loop_share": 0.9, "coverage": 2.0}


def test_a_circle_is_a_loop_only_while_it_is_short():
    def share(size):
        found = walked(*[(1, x % size, 5) for x in range(200)]).pop_gauges()
        return found["loop_share"]

    assert share(20) > 0.8
    assert share(21) > 0.8
    assert share(22) == 0.0


def test_standing_still_is_no_move_and_gives_no_share():
    assert walked((1, 2, 3), (1, 2, 3), (1, 2, 3)).pop_gauges() == {"coverage": 1.0}


def test_in_the_step_in_which_a_map_changes_coordinates_count_for_nothing():
    """On a map change the coordinates are still the old map's; they are right a step later."""
    movement = walked((1, 5, 5), (1, 5, 4), (2, 5, 4), (2, 0, 7), (2, 0, 6))
    assert {(cell >> 16, cell >> 8 & 255, cell & 255) for cell in movement.cells} == {
        (1, 4, 5),
        (2, 7, 0),
        (2, 6, 0),
    }


def test_agents_do_not_mix_and_gauges_begin_anew_but_coverage_adds_up():
    movement = MovementStats(NAMES, 2)
    movement.set_start(rows((1, 0, 0), (1, 9, 9)))
    for x in (1, 0, 1, 0):
        movement.record_step(rows((1, x, 0), (1, 9 - x, 9)))
    first = movement.pop_gauges()
    assert first["loop_share"] == pytest.approx(6 / 8)
    movement.record_step(rows((1, 0, 1), (1, 9, 8)))
    assert movement.pop_gauges() == {"loop_share": 0.0, "coverage": first["coverage"] + 2}


def test_cells_survive_a_checkpoint_and_an_older_one_has_none():
    movement, again = (
        walked((1, 0, 0), (1, 1, 0), (200, 255, 255), (200, 255, 254)),
        MovementStats(NAMES, 3),
    )
    again.load_state_dict(movement.state_dict())
    assert again.cells == movement.cells
    again.load_state_dict({})
    assert again.pop_gauges() == {"coverage": 0.0}


def test_a_workload_without_places_is_not_watched():
    movement = MovementStats(("episode_return", "episode", "step"), 4)
    movement.set_start(np.zeros((4, 3), np.float32))
    assert not movement.enabled
    assert movement.pop_gauges() == {}
    assert movement.state_dict()["cells"].dtype == torch.int32


def test_a_milestone_is_new_once():
    milestones = Milestones(lambda facts: facts.get("names", ()), lambda _: ())
    assert milestones.record_new(64, [{"names": ("b", "a")}, {"names": ("a",)}, {}]) == ["a", "b"]
    assert milestones.record_new(128, [{"names": ("a", "c")}]) == ["c"]
    assert milestones.first == {"a": 64, "b": 64, "c": 128}
    assert milestones.assisted == {}


def test_a_milestone_says_what_helped_and_of_several_games_the_one_with_the_least_help_counts():
    milestones = Milestones(lambda facts: facts["names"], lambda facts: facts["helped"])
    seen = [
        {"names": ("a", "b", "c"), "helped": ("flash", "money")},
        {"names": ("a",), "helped": ()},
        {"names": ("a", "b"), "helped": ("flute",)},
    ]
    assert milestones.record_new(64, seen) == ["a", "b", "c"]
    assert milestones.assisted == {"b": ["flute"], "c": ["flash", "money"]}
    assert milestones.record_new(128, [{"names": ("c",), "helped": ()}]) == []
    assert milestones.assisted["c"] == ["flash", "money"]


class Told(SystemClock):
    at = 100.0

    def monotonic(self):
        return self.at


def test_time_is_told_by_what_it_was_spent_on_and_only_once():
    clock = Told()
    stopwatch = Stopwatch(clock)
    for seconds in (1.0, 2.0):
        with stopwatch.measure("emulation"):
            clock.at += seconds
    with stopwatch.measure("inference"):
        clock.at += 1.0
    assert stopwatch.pop_seconds() == {"emulation": 3.0, "inference": 1.0}
    assert stopwatch.pop_seconds() == {}


def test_facts_have_the_telemetrys_names():
    assert rows_to_facts(("a", "b"), np.array([[1, 2], [3, 4]], np.float32)) == [
        {"a": 1.0, "b": 2.0},
        {"a": 3.0, "b": 4.0},
    ]
