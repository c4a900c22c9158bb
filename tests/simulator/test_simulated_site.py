"""The simulated queue: waits, the cap, ageing, reservations, and jobs' training time."""

from dataclasses import replace

import pytest

from scripts.simulator.simulated_site import BLACK_HOLE, JobStage
from tests.simulator.conftest import CALM, Watcher, incidents_of, live, steady


def test_a_job_starts_when_its_wait_is_over_and_boots_before_it_trains() -> None:
    watcher = Watcher(steady(600), submits=[100])
    live(watcher)
    assert watcher.seen[:2] == [(700, "started", 0), (715, "trains", 0)]
    assert watcher.when("leaves") == {0: 700 + 14_400 - 180}
    assert watcher.when("ended") == {0: 700 + 14_400 - 177}


def test_never_more_jobs_run_than_the_cap_allows() -> None:
    watcher = Watcher(steady(60), submits=[10 * n for n in range(40)])
    live(watcher)
    assert watcher.most == 4
    assert len(watcher.when("started")) == 40


@pytest.mark.parametrize(("credit", "gap"), [(1.0, 1), (0.5, 8000 - 14_223 / 2), (0.0, 8000)])
def test_time_blocked_by_the_cap_counts_as_much_as_the_site_gives_credit(
    credit: float, gap: float
) -> None:
    """Four jobs run; the fifth ages meanwhile, or does not."""
    watcher = Watcher(steady(8000, credit=credit), submits=[0, 0, 0, 0, 8000])
    live(watcher)
    freed = watcher.when("ended")[0]
    assert watcher.when("started")[4] - freed == pytest.approx(gap, abs=2)


def test_a_job_behind_another_becomes_old_only_after_it() -> None:
    watcher = Watcher(steady(500))
    watcher.submit_first_jobs = lambda: [
        watcher.submit(0),
        watcher.submit(1, after=watcher.jobs[0]),
        watcher.submit(2, after=watcher.jobs[1]),
    ]
    watcher.site.call_at(2000, lambda: watcher.site.end_job(watcher.jobs[1], "CANCELLED", None))
    live(watcher)
    assert watcher.when("started") == {0: 500, 2: 2500}


def test_a_full_submit_limit_refuses_the_next_job() -> None:
    watcher = Watcher(steady(60, max_submit=2))
    watcher.submit_first_jobs = lambda: [watcher.submit(n) for n in range(3)]
    books = live(watcher)
    assert books.submissions == 2
    assert len(watcher.when("started")) == 2


def test_nothing_starts_while_slurmctld_is_away_and_running_jobs_go_on() -> None:
    scenario = steady(60)
    away = incidents_of(scenario, outages=((500.0, 2000.0),))
    watcher = Watcher(scenario, submits=[0, 490], incidents=away)
    live(watcher)
    assert watcher.when("started") == {0: 60, 1: 2000}
    assert watcher.when("leaves")[0] == 60 + 14_220


def test_no_job_reaches_into_a_reservation_unless_it_was_made_shorter() -> None:
    scenario = steady(60, maintenance=True)
    closed = incidents_of(scenario, maintenance=((20_000.0, 30_000.0),))
    watcher = Watcher(scenario, submits=[0, 6000, 6000], incidents=closed)
    watcher.site.call_at(7000, lambda: _shorten(watcher))
    books = live(watcher)
    assert watcher.when("started") == {0: 60, 1: 30_000, 2: 7000}
    assert watcher.when("leaves")[2] == 7000 + 12_000
    assert books.allowed == 4 * (2 * 86_400 - 10_000)


def _shorten(watcher: Watcher) -> None:
    job = watcher.jobs[2]
    job.limit_s, job.runs_s = 12_500, 12_000
    watcher.site.start_ready_jobs()


def test_a_crash_costs_what_came_after_the_last_checkpoint() -> None:
    watcher = Watcher(steady(60), submits=[0])
    watcher.site.call_at(60 + 15 + 150, lambda: watcher.site.end_job(watcher.jobs[0], "FAILED", 1))
    books = live(watcher)
    assert books.useful == 120  # two checkpoints of 60 s
    assert books.allocated == 165


def test_a_hung_job_keeps_its_place_until_its_limit() -> None:
    watcher = Watcher(steady(60), submits=[0])
    watcher.site.call_at(1000, lambda: watcher.site.silence_job(watcher.jobs[0], JobStage.HUNG))
    books = live(watcher)
    assert watcher.when("silent") == {0: 1000}
    assert "leaves" not in {what for _, what, _ in watcher.seen}
    assert (watcher.jobs[0].word, watcher.when("ended")[0]) == ("TIMEOUT", 14_460)
    assert books.useful == 900


def test_a_dead_node_is_noticed_late() -> None:
    rates = replace(CALM, node_failure_every_s=3600.0)
    watcher = Watcher(steady(60, rates=rates), submits=[0])
    live(watcher)
    job = watcher.jobs[0]
    assert job.word == "NODE_FAIL"
    assert job.ended - job.silent_from == pytest.approx(rates.node_noticed_s)


def test_a_black_hole_takes_its_share_of_starts_unless_it_is_left_out() -> None:
    scenario = steady(1, days=20.0)
    trap = incidents_of(scenario, black_holes=((0.0, 20 * 86_400.0),))
    watcher = Watcher(scenario, submits=[15_000 * n for n in range(100)], incidents=trap)
    live(watcher)
    caught = [job for job in watcher.jobs if job.node == BLACK_HOLE]
    assert 35 <= len(caught) <= 65
    assert {job.ended - job.started for job in caught} == {20.0}
    warned = Watcher(scenario, incidents=trap)
    avoid = (BLACK_HOLE,)
    warned.submit_first_jobs = lambda: [warned.submit(n, excluded=avoid) for n in range(40)]
    live(warned)
    assert not [job for job in warned.jobs if job.node == BLACK_HOLE]


def test_the_books_know_what_was_not_used() -> None:
    watcher = Watcher(steady(60, days=1.0), submits=[0])
    books = live(watcher)
    assert books.used == pytest.approx((14_220 - 15) / (4 * 86_400))
    assert books.idle == pytest.approx(18 / 14_223)
