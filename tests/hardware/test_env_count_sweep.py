"""A sweep measures honestly and ends when more environments no longer help."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from Daddy.hardware.env_count_sweep import measure_count, sweep_counts
from Daddy.hardware.recommend_envs import Measurement


class Machine:
    """A machine in which time passes only by stepping; it is its own clock."""

    def __init__(self, seconds_per_vector_step: Callable[[int], float]) -> None:
        self._cost = seconds_per_vector_step
        self.time = 0.0
        self.open = 0
        self.tried: list[int] = []

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self.time += seconds
        return stop.is_set()

    @contextmanager
    def opener(self, count: int) -> Iterator[Callable[[], int]]:
        self.tried.append(count)
        self.open = count

        def step() -> int:
            self.time += self._cost(count)
            return count

        try:
            yield step
        finally:
            self.open = 0

    def resident(self) -> int:
        return 1000 + 10 * self.open


def test_the_rate_is_environment_steps_per_second() -> None:
    machine = Machine(lambda _count: 0.01)
    row = measure_count(4, machine.opener, machine.resident, machine, 1.0)
    assert row.envs == 4
    assert abs(row.steps_per_s - 400.0) < 4.0


def test_memory_is_read_while_the_environments_are_open() -> None:
    machine = Machine(lambda _count: 0.01)
    assert measure_count(4, machine.opener, machine.resident, machine, 0.1).resident_bytes == 1040
    assert machine.open == 0


def test_a_sweep_goes_on_while_it_gains_and_stops_when_it_does_not() -> None:
    machine = Machine(lambda count: 0.01 * max(1.0, count / 4))  # saturated from four on
    rows = sweep_counts([1, 2, 4, 8, 16, 32], machine.opener, machine.resident, machine, 0.5)
    assert [row.envs for row in rows] == [1, 2, 4, 8, 16]
    assert machine.tried[-1] == 16


def test_one_unlucky_count_does_not_end_a_sweep() -> None:
    machine = Machine(lambda count: 0.01 * (3.0 if count == 2 else 1.0))
    rows = sweep_counts([1, 2, 4, 8], machine.opener, machine.resident, machine, 0.5)
    assert [row.envs for row in rows] == [1, 2, 4, 8]


def test_each_result_is_told_at_once() -> None:
    machine = Machine(lambda _count: 0.01)
    told: list[Measurement] = []
    rows = sweep_counts([1, 2], machine.opener, machine.resident, machine, 0.1, told.append)
    assert told == rows


def test_environments_are_closed_when_stepping_fails() -> None:
    machine = Machine(lambda _count: 1 / 0)
    try:
        measure_count(4, machine.opener, machine.resident, machine, 0.1)
    except ZeroDivisionError:
        assert machine.open == 0
    else:
        raise AssertionError
