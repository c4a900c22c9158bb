import os
import signal

import pytest

from Daddy.core.duration import format_duration, parse_duration
from Daddy.core.wall import StopSignal, Wall, drain_margin


class Stopped:
    def __init__(self, now):
        self.time = now

    def now(self):
        return self.time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("4:00:00", 14_400), ("2", 120), ("1:30", 90), ("1-00:00:00", 86_400), ("0:01:15", 75)],
)
def test_slurms_ways_to_write_a_length_of_time(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1", "1:2:3:4", "4h"])
def test_anything_else_is_no_length_of_time(text):
    with pytest.raises(ValueError, match="no length of time"):
        parse_duration(text)


def test_lengths_of_time_are_shown_as_slurm_writes_them():
    assert format_duration(14_399.9) == "3:59:59"


def test_a_job_leaves_at_the_earlier_of_its_own_limit_and_the_real_end_less_a_margin():
    assert drain_margin(14_400) == 180
    assert drain_margin(60) == 12
    own = Wall(1000, 50, 2000, 75, Stopped(1049))
    assert own.stop_reason() is None
    assert Wall(1000, 50, 2000, 75, Stopped(1050)).stop_reason() == "wall time"
    real = Wall(1000, 13_500, 1075, 75, Stopped(1060))
    assert real.deadline == 1060
    assert real.stop_reason() == "wall time"
    assert Wall(1000, 50, None, 0, Stopped(1049)).stop_reason() is None


def test_the_first_signal_is_remembered():
    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
    }
    try:
        stop = StopSignal().install()
        assert stop.stop_reason() is None
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.stop_reason() == "signal SIGUSR1"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
