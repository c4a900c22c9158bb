"""Events that signals set: in the middle of anything, by real signals."""

import os
import signal
import subprocess
import sys
import threading

from Daddy.core.signals import Alarm, set_by
from tests import patience


def test_an_alarm_can_be_rung_while_its_own_lock_is_held():
    """Where a handler may interrupt a wait; an event that is set there waits for itself."""
    alarm = Alarm()
    ringing = threading.Thread(target=_ring_inside, args=(alarm,), daemon=True)
    ringing.start()
    ringing.join(10)
    assert not ringing.is_alive()
    assert alarm.wait(10)


def _ring_inside(alarm):
    with alarm._cond:
        alarm.ring()


def test_an_alarm_may_be_rung_as_often_as_one_likes():
    alarm = Alarm()
    for _ in range(100_000):
        alarm.ring()
    assert alarm.wait(10)


def test_only_the_signals_named_set_it():
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    try:
        first, second = set_by(signal.SIGUSR1), set_by(signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGUSR2)
        assert second.wait(10)
        assert not first.is_set()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_WAITS = """
import signal
from Daddy.core.signals import set_by
stop = set_by(signal.SIGTERM)
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
