"""Tests of parallel loading: errors are raised on request, and nothing is left open."""

import gc
import threading

import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.job_environment import StartupTimer
from Daddy.learning.startup_preloading import (
    LOADED,
    EnvironmentLoader,
    beat_while_loading,
    garbage_collection_paused,
)
from tests.patience import PATIENCE_S


class Made:
    closed = False

    def close(self):
        self.closed = True


@pytest.mark.parametrize("on_thread", [True, False])
def test_what_was_made_ahead_is_taken_once_it_is_ready(on_thread):
    made, where = Made(), []

    def make():
        where.append(threading.current_thread() is threading.main_thread())
        return made

    ahead = EnvironmentLoader(make, on_thread=on_thread)
    assert ahead() is made
    assert where == [not on_thread]
    ahead.close()
    assert not made.closed  # whoever took it closes it


@pytest.mark.parametrize("on_thread", [True, False])
def test_a_failure_is_raised_where_the_environments_are_asked_for(on_thread):
    def fail():
        raise OSError("no ROM")

    ahead = EnvironmentLoader(fail, on_thread=on_thread)
    with pytest.raises(OSError, match="no ROM"):
        ahead()
    ahead.close()


def test_what_nobody_took_is_closed():
    made = Made()
    EnvironmentLoader(lambda: made, on_thread=True).close()
    assert made.closed


class Seat:
    def __init__(self):
        self.beats = 0
        self.beaten = threading.Event()

    def beat(self, data):
        assert data == {"stage": "loading"}
        self.beats += 1
        self.beaten.set()


def test_a_learner_beats_while_it_loads_and_no_longer():
    seat, boot = Seat(), StartupTimer(SystemClock())
    beat_while_loading(seat, boot, SystemClock())
    assert seat.beaten.wait(PATIENCE_S)
    boot.mark(LOADED)
    for thread in threading.enumerate():
        if thread.name == "beat":
            thread.join(10.0)
    beats = seat.beats
    assert boot.has_passed(LOADED)
    assert seat.beats == beats


def test_rubbish_is_looked_for_again_after_loading_whatever_happens():
    def load():
        with garbage_collection_paused():
            assert not gc.isenabled()
            raise OSError

    with pytest.raises(OSError):
        load()
    gc.unfreeze()
    assert gc.isenabled()
