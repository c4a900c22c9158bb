import subprocess
import sys
import threading

import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.host_and_processes import current_process, host_name, identify_process
from Daddy.core.lease import Lease, end_term, read_lease
from Daddy.core.run_paths import RunPaths
from Daddy.core.slot_lease import LEAVING, SLOT_WAIT_S, claim_slot, resume_slot


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
    token = "abc" if host is None else "theirs"
    return {"token": token, "host": host or host_name(), "pid": pid, "created": created}


@pytest.fixture
def run(tmp_path):
    return RunPaths(tmp_path)


@pytest.fixture
def alive():
    me = current_process()
    return holder(me.pid, me.created)


def test_the_first_free_slot_is_claimed(run, alive):
    first = claim_slot(run, range(4), alive, FastClock(), 0.0)
    second = claim_slot(run, range(4), {**alive, "token": "def"}, FastClock(), 0.0)
    assert (first.number, second.number) == (0, 1)
    assert first.held()
    assert second.held()


def test_nobody_takes_a_slot_whose_holder_lives(run, alive):
    claim_slot(run, [2], alive, FastClock(), 0.0)
    assert claim_slot(run, [2], {**alive, "token": "def"}, FastClock(), 5.0) is None


def test_each_rank_of_an_attempt_holds_one_slot(run, alive):
    ranks = [{**alive, "rank": rank} for rank in (0, 1)]
    assert claim_slot(run, [0], ranks[0], FastClock(), 0.0)
    assert claim_slot(run, [1], ranks[1], FastClock(), 0.0)
    assert claim_slot(run, [2], ranks[1], FastClock(), 0.0) is None


def test_a_slot_that_was_given_back_is_claimed_with_the_next_term(run, alive):
    claim_slot(run, [0], alive, FastClock(), 0.0).release("wall time")
    again = claim_slot(run, [0], alive, FastClock(), 0.0)
    assert again.term == 2


def test_a_killed_holder_on_this_host_is_replaced_at_once(run, alive):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    who = identify_process(child.pid)
    Lease.acquire(run.slot(0).lease, holder(who.pid, who.created))
    assert claim_slot(run, [0], alive, FastClock(), 0.0) is None
    child.kill()
    child.wait()
    child.stdin.close()
    seat = claim_slot(run, [0], alive, FastClock(), 0.0)
    assert seat.term == 2


def test_another_process_with_the_same_pid_is_not_the_holder(run, alive):
    me = current_process()
    Lease.acquire(run.slot(0).lease, holder(me.pid, me.created - 1000.0))
    assert claim_slot(run, [0], alive, FastClock(), 0.0).term == 2


def test_a_silent_holder_on_another_host_is_replaced_only_after_long_silence(run, alive):
    Lease.acquire(run.slot(0).lease, holder(1, 1.0, host="elsewhere"))
    assert claim_slot(run, [0], alive, FastClock(), 100.0) is None
    seat = claim_slot(run, [0], alive, FastClock(), SLOT_WAIT_S)
    assert seat.term == 2


def beating(lease, data):
    """A clock on which that holder beats whenever somebody waits."""

    class Beating(FastClock):
        def wait(self, stop, seconds):
            lease.beat(data)
            return super().wait(stop, seconds)

    return Beating()


def test_where_every_holder_is_seen_to_stay_a_job_leaves_within_seconds(run, alive):
    lease = Lease.acquire(run.slot(0).lease, holder(1, 1.0, host="elsewhere"))
    clock = beating(lease, {"leaves_in_s": 9000.0})
    assert claim_slot(run, [0], alive, clock, 300.0) is None
    assert clock.at < 2.0


@pytest.mark.parametrize("last", [{"stage": LEAVING}, {"leaves_in_s": 20.0}])
def test_a_holder_that_is_about_to_leave_is_waited_for(run, alive, last):
    lease = Lease.acquire(run.slot(0).lease, holder(1, 1.0, host="elsewhere"))
    clock = beating(lease, last)
    stay = clock.wait
    clock.wait = lambda stop, seconds: (stay(stop, seconds), clock.at > 25 and lease.release("x"))
    seat = claim_slot(run, [0], alive, clock, 60.0)
    assert seat.term == 2


def test_a_token_that_fills_a_slot_is_not_given_another(run, alive):
    assert claim_slot(run, [1], alive, FastClock(), 0.0).number == 1
    assert claim_slot(run, range(4), alive, FastClock(), 60.0) is None
    assert read_lease(run.slot(0).lease) is None


def test_of_two_jobs_with_one_token_that_claim_at_once_the_later_to_look_leaves(run, alive):
    class Twin(FastClock):
        """The other job claims between our look and our claim."""

        def wait(self, stop, seconds):
            Lease.acquire(run.slot(3).lease, alive)
            blocker.release("over")
            return super().wait(stop, seconds)

    blocker = Lease.acquire(run.slot(0).lease, {**alive, "token": "other"})
    assert claim_slot(run, [0], alive, Twin(), 60.0) is None
    view = read_lease(run.slot(0).lease)
    assert view.term == 1 or view.ended is not None


def test_a_job_that_the_scheduler_started_anew_goes_on_in_its_slot(run):
    """On another host nobody can see that the first start is gone: the restart count says it."""
    first = {**holder(1, 1.0, host="elsewhere"), "job_id": "17", "restarts": 0}
    again = {**first, "host": host_name(), "restarts": 1}
    Lease.acquire(run.slot(2).lease, first)
    assert claim_slot(run, [2], first, FastClock(), 0.0) is None
    seat = claim_slot(run, [2], again, FastClock(), 0.0)
    assert (seat.number, seat.term) == (2, 2)
    assert "restarted" in read_lease_end(run.slot(2).lease, 1)


def read_lease_end(folder, term):
    return (folder / f"term-{term:06d}.end.json").read_text()


def test_the_program_that_a_launcher_becomes_goes_on_with_its_term(run, alive):
    claimed = claim_slot(run, [1], alive, FastClock(), 0.0)
    counter = read_lease(run.slot(1).lease).beat["counter"]
    seat = resume_slot(run, 1, claimed.term, FastClock())
    seat.beat({"stage": "loading"})
    assert read_lease(run.slot(1).lease).beat["counter"] == counter + 1
    seat.release("wall time")
    assert read_lease(run.slot(1).lease).ended == "wall time"
    assert resume_slot(run, 1, claimed.term, FastClock()) is None


def test_a_term_of_another_process_is_not_resumed(run, alive):
    Lease.acquire(run.slot(0).lease, {**alive, "pid": 1})
    assert resume_slot(run, 0, 1, FastClock()) is None


def test_a_seat_that_was_given_away_stays_lost_and_is_not_ended_again(run, alive):
    clock = FastClock()
    seat = claim_slot(run, [0], alive, clock, 0.0)
    end_term(run.slot(0).lease, seat.term, "dead for all we know")
    successor = claim_slot(run, [0], alive, clock, 0.0)
    clock.at += 10.0
    assert not seat.held()
    seat.beat({"env_steps": 5})
    seat.release("I was fenced")
    view = read_lease(run.slot(0).lease)
    assert view.term == successor.term
    assert view.ended is None
    assert "env_steps" not in view.beat


def test_a_seat_beats_at_most_once_a_second(run, alive):
    clock = FastClock()
    seat = claim_slot(run, [0], alive, clock, 0.0)
    counters = []
    for _ in range(20):
        clock.at += 0.1
        seat.beat({})
        counters.append(read_lease(run.slot(0).lease).beat["counter"])
    assert counters[-1] - counters[0] <= 2
