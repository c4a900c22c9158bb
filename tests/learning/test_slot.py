import subprocess
import sys
import threading

import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.lease import Lease, end_term, read_lease
from Daddy.core.machine import host_name, identify, myself
from Daddy.core.paths import RunPaths
from Daddy.learning.slot import claim


class FastClock(SystemClock):
    """A monotonic clock on which waiting takes no time."""

    def __init__(self):
        self.at = 0.0

    def monotonic(self):
        return self.at

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self.at += seconds
        return False


def holder(pid, created, host=None):
    return {"token": "abc", "host": host or host_name(), "pid": pid, "created": created}


@pytest.fixture
def run(tmp_path):
    return RunPaths(tmp_path)


@pytest.fixture
def alive():
    me = myself()
    return holder(me.pid, me.created)


def test_the_first_free_slot_is_claimed(run, alive):
    first = claim(run, range(4), alive, FastClock(), 0.0)
    second = claim(run, range(4), alive, FastClock(), 0.0)
    assert (first.number, second.number) == (0, 1)
    assert first.held()
    assert second.held()


def test_nobody_takes_a_slot_whose_holder_lives(run, alive):
    claim(run, [2], alive, FastClock(), 0.0)
    assert claim(run, [2], alive, FastClock(), 5.0) is None


def test_a_slot_that_was_given_back_is_claimed_with_the_next_term(run, alive):
    claim(run, [0], alive, FastClock(), 0.0).release("wall time")
    again = claim(run, [0], alive, FastClock(), 0.0)
    assert again.term == 2


def test_a_killed_holder_on_this_host_is_replaced_at_once(run, alive):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    who = identify(child.pid)
    Lease.claim(run.slot(0).lease, holder(who.pid, who.created))
    assert claim(run, [0], alive, FastClock(), 0.0) is None
    child.kill()
    child.wait()
    child.stdin.close()
    seat = claim(run, [0], alive, FastClock(), 0.0)
    assert seat.term == 2


def test_another_process_with_the_same_pid_is_not_the_holder(run, alive):
    me = myself()
    Lease.claim(run.slot(0).lease, holder(me.pid, me.created - 1000.0))
    assert claim(run, [0], alive, FastClock(), 0.0).term == 2


def test_a_silent_holder_on_another_host_is_replaced_only_after_long_silence(run, alive):
    Lease.claim(run.slot(0).lease, holder(1, 1.0, host="elsewhere"))
    assert claim(run, [0], alive, FastClock(), 100.0) is None
    seat = claim(run, [0], alive, FastClock(), 130.0)
    assert seat.term == 2


def test_a_holder_elsewhere_that_beats_is_never_replaced(run, alive):
    lease = Lease.claim(run.slot(0).lease, holder(1, 1.0, host="elsewhere"))

    class Beating(FastClock):
        def wait(self, stop, seconds):
            lease.beat({})
            return super().wait(stop, seconds)

    assert claim(run, [0], alive, Beating(), 300.0) is None


def test_a_seat_that_was_given_away_stays_lost_and_is_not_ended_again(run, alive):
    clock = FastClock()
    seat = claim(run, [0], alive, clock, 0.0)
    end_term(run.slot(0).lease, seat.term, "dead for all we know")
    successor = claim(run, [0], alive, clock, 0.0)
    clock.at += 10.0
    seat.beat({"env_steps": 5})
    assert not seat.held()
    seat.release("I was fenced")
    view = read_lease(run.slot(0).lease)
    assert view.term == successor.term
    assert view.ended is None
    assert "env_steps" not in view.beat


def test_a_seat_beats_at_most_once_a_second(run, alive):
    clock = FastClock()
    seat = claim(run, [0], alive, clock, 0.0)
    counters = []
    for _ in range(20):
        clock.at += 0.1
        seat.beat({})
        counters.append(read_lease(run.slot(0).lease).beat["counter"])
    assert counters[-1] - counters[0] <= 2
