"""A process leaves by its wall time or by a signal, whatever the signal interrupts."""

import os
import signal
import subprocess
import sys
import threading

from Daddy.core.stop_conditions import (
    SignalEvent,
    StopSignal,
    WallTimeLimit,
    drain_margin,
    event_on_signals,
)
from tests import patience
from tests.patience import PATIENCE_S


class Stopped:
    def __init__(self, now):
        self.time = now

    def now(self):
        return self.time


def test_a_job_leaves_at_the_earlier_of_its_own_limit_and_the_real_end_less_a_margin():
    assert drain_margin(14_400) == 180
    assert drain_margin(60) == 12
    own = WallTimeLimit(1000, 50, 2000, 75, Stopped(1049))
    assert own.stop_reason() is None
    assert WallTimeLimit(1000, 50, 2000, 75, Stopped(1050)).stop_reason() == "wall time"
    real = WallTimeLimit(1000, 13_500, 1075, 75, Stopped(1060))
    assert real.deadline == 1060
    assert real.stop_reason() == "wall time"
    assert WallTimeLimit(1000, 50, None, 0, Stopped(1049)).stop_reason() is None


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


def test_an_alarm_can_be_rung_while_its_own_lock_is_held():
    """A handler that sets an event inside its own wait would wait for ever."""
    alarm = SignalEvent()
    ringing = threading.Thread(target=_ring_inside, args=(alarm,), daemon=True)
    ringing.start()
    ringing.join(PATIENCE_S)
    assert not ringing.is_alive()
    assert alarm.wait(PATIENCE_S)


def _ring_inside(alarm):
    with alarm._cond:
        alarm.trigger()


def test_an_alarm_may_be_rung_as_often_as_one_likes():
    alarm = SignalEvent()
    for _ in range(100_000):
        alarm.trigger()
    assert alarm.wait(PATIENCE_S)


def test_only_the_signals_named_set_it():
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    try:
        first, second = event_on_signals(signal.SIGUSR1), event_on_signals(signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGUSR2)
        assert second.wait(PATIENCE_S)
        assert not first.is_set()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_WAITS = """
import signal
from Daddy.core.stop_conditions import event_on_signals
stop = event_on_signals(signal.SIGTERM)
print("ready", flush=True)
stop.wait()
"""


def test_a_process_that_waits_hears_the_signal():
    argv = [sys.executable, "-c", _WAITS]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as waiting:
        try:
            assert waiting.stdout.readline() == b"ready\n"
            waiting.terminate()
            assert patience.until(lambda: waiting.poll() == 0, 10)
        finally:
            waiting.kill()
