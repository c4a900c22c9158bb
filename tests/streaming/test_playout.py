"""Lumps become a steady play: as late as need be, and no later."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from Daddy.streaming.login.flow_control import LONGEST_S, MEMORY_S, Playout
from Daddy.streaming.protocol.spool_segment import Picture
from tests.streaming.helpers import picture


def shot(taken: float) -> Picture:
    return Picture(0, round(taken * 1000), 0, round(taken * 1000) % 2**32, picture(1))


def lumps(playout: Playout, begin: float, seconds: float, jitter: float = 0.0) -> list[float]:
    """Half a second's pictures at once, 20 a second, each lump late by up to ``jitter``; returns
    when each was played, looking every 5 ms.
    """
    chance = random.Random(7)
    arrivals = []
    for lump in range(int(seconds * 2)):
        taken = [begin + lump / 2 + number / 20 for number in range(10)]
        arrivals.append((begin + lump / 2 + 0.5 + chance.random() * jitter, taken))
    played = []
    for tick in range(int((seconds + 2) * 200)):
        now = begin + tick / 200
        while arrivals and arrivals[0][0] <= now:
            playout.add([shot(one) for one in arrivals.pop(0)[1]], now)
        played += [now for _ in playout.due(now)]
    return played


def gaps(played: list[float]) -> list[float]:
    return [round(after - before, 3) for before, after in pairwise(played)]


def test_lumps_are_played_evenly_at_the_pace_at_which_they_were_taken() -> None:
    played = lumps(Playout(), begin=50.0, seconds=5)
    assert len(played) == 100
    assert set(gaps(played)) <= {0.045, 0.05, 0.055}
    assert played[0] == pytest.approx(50.5), "no later than the lump makes it"


def test_lumps_that_come_unevenly_are_even_after_the_latest_of_them() -> None:
    playout = Playout()
    later = lumps(playout, 100.0, seconds=12, jitter=0.2)[60:]
    assert len(later) == 180
    assert sum(gap > 0.06 for gap in gaps(later)) <= 2, "twice later than ever before"
    assert min(gaps(later)) >= 0.035


def test_a_delay_that_is_no_longer_needed_is_played_off_a_fifth_faster() -> None:
    playout = Playout()
    playout.add([shot(10.0)], now=12.0)
    assert playout.due(12.0)
    played = lumps(playout, 12.5, seconds=MEMORY_S + 15)
    assert min(gaps(played)) >= 0.035
    assert max(gaps(played)) <= 0.06
    last_taken = 12.5 + MEMORY_S + 15 - 0.05
    assert played[-1] - last_taken == pytest.approx(0.5, abs=0.03)


def test_a_pause_of_the_learner_does_not_hold_up_what_follows() -> None:
    playout = Playout()
    playout.add([shot(1.0)], now=1.0)
    playout.due(1.0)
    playout.add([shot(9.0)], now=9.0)
    assert len(playout.due(9.0)) == 1


def test_what_is_too_late_is_dropped_but_for_the_newest() -> None:
    playout = Playout()
    playout.add([shot(number / 10) for number in range(100)], now=10.0)
    assert len(playout) == pytest.approx(10 * LONGEST_S, abs=1)
    assert [one.step for _, one in playout.due(20.0)][-1] == 9900
    playout.add([shot(11.0)], now=30.0)
    assert [one.step for _, one in playout.due(30.0)] == [11000], "old, but the newest there is"


def test_a_clock_that_wraps_or_runs_ahead_stops_nothing() -> None:
    playout = Playout()
    wrap = 2**32 / 1000
    playout.add([shot(wrap - 0.05), shot(wrap + 0.05)], now=wrap + 0.1)
    assert len(playout.due(wrap + 0.3)) == 2
    playout.add([shot(wrap + 60 + 2 * number) for number in range(20)], now=wrap + 1)
    assert len(playout.due(wrap + 1 + LONGEST_S)) == 20


@pytest.mark.parametrize(("direct", "late_s"), [(True, 0.05), (False, 0.55)])
def test_pictures_that_come_one_by_one_do_not_wait_as_lumps_did(
    direct: bool, late_s: float
) -> None:
    playout, late = Playout(), 0.0
    lumps(playout, begin=50.0, seconds=5)
    playout.hurry(direct=direct)
    for tick in range(10 * 200):
        now = 57.0 + tick / 200
        if tick % 10 == 0:  # 20 a second, each as soon as it is taken
            playout.add([shot(now)], now)
        for _, one in playout.due(now):
            late = now - one.captured_ms / 1000
    assert late_s - 0.06 <= late <= late_s


def test_what_comes_straight_after_a_while_is_shown_at_once_and_delays_nothing_after_it() -> None:
    playout = Playout()
    playout.hurry(direct=True)
    playout.add([shot(57.0 - number / 10) for number in (3, 2, 1)], 57.0)
    assert [one.step for _, one in playout.due(57.0)] == [56_900], "the newest of what had waited"
    waits = []
    for tick in range(1, 201):
        now = 57.0 + tick / 200
        if tick % 10 == 0:
            playout.add([shot(now)], now)
        waits += [now - one.captured_ms / 1000 for _, one in playout.due(now)]
    assert max(waits) < 0.1
    assert max(waits[-8:]) < 0.01, "the lump is made up for, not remembered for half a minute"
