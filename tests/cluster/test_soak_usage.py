"""Tests the division of a controller's CPU time into waiting, passes and hand-overs."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.soaks.cpu_spans import Cost, Span, compute_cost, passes_in
from scripts.soaks.usage import Usage

STEP_S, POLL_S, QUIET_S = 0.25, 3.0, 150.0
POLL, EACH = 0.0012, 0.024


def still(seconds: float) -> list[Span]:
    """Return spans without CPU time."""
    return [Span((i + 1) * STEP_S, STEP_S, 0.0, 0, 0) for i in range(int(seconds / STEP_S))]


def add(spans: list[Span], at: float, cpu_s: float = 0.0, commands: int = 0, passes: int = 0):
    """Add CPU time, commands or a pass at a time."""
    i = int(at / STEP_S)
    old = spans[i]
    spans[i] = Span(
        old.ended, STEP_S, old.cpu_s + cpu_s, old.commands + commands, max(old.passes, passes)
    )


def life(seconds: float, ends: Sequence[float], lasting_s: float = 0.1, each: float = EACH):
    """Return the spans of a controller with passes at ``ends`` and a poll every three seconds."""
    spans = still(seconds)
    for at, after in zip(ends, [*ends[1:], seconds], strict=True):
        add(spans, at - lasting_s, each / 2, commands=1)
        add(spans, at, each / 2, passes=1)
        poll = at + POLL_S
        while poll < after - lasting_s:
            add(spans, poll, POLL)
            poll += POLL_S
    return spans


def costs(spans: Sequence[Span], handovers: int = 0) -> Cost:
    return compute_cost(spans, POLL_S, QUIET_S, handovers)


@pytest.mark.parametrize("every_s", [10.0, 10.4, 11.9, 13.9, 31.0])
@pytest.mark.parametrize("lasting_s", [0.1, 1.2, 5.0])
def test_looks_are_counted_once_wherever_passes_fall_between_them(
    every_s: float, lasting_s: float
) -> None:
    ends = [every_s * n for n in range(1, int(600 / every_s))]
    found = costs(life(600.0, ends, lasting_s))
    assert found.waited_s > 0
    assert found.waiting == pytest.approx(POLL / POLL_S)
    assert found.quiet_pass == pytest.approx(EACH, rel=0.04), "a poll may fall into its sample"


def test_what_is_spent_on_waiting_is_waiting() -> None:
    spans = [
        replace(span, cpu_s=span.cpu_s + 0.0025)
        for span in life(600.0, [60.0 * n for n in range(1, 10)])
    ]
    assert costs(spans).waiting == pytest.approx(POLL / POLL_S + 0.01, rel=0.1)


def test_a_pass_as_long_as_slurm_is_silent_is_one_pass_and_no_waiting() -> None:
    spans = life(120.0, [10.0, 60.0, 110.0])
    for at in (42.0, 50.0, 58.0):  # commands that time out
        add(spans, at, 0.02, commands=1)
    silent = list(passes_in(spans))[1]
    assert (silent.begun, silent.commands) == (42.0, 4)
    assert silent.cpu_s == pytest.approx(EACH + 3 * 0.02 + 6 * POLL)
    found = costs(spans)
    assert found.waiting == pytest.approx(POLL / POLL_S)
    assert found.quiet_pass == pytest.approx(EACH), "of passes with one command"


def test_a_pass_that_asks_nothing_is_as_long_as_the_sample_in_which_it_ends() -> None:
    spans = still(20.0)
    add(spans, 10.1, EACH, passes=1)
    (only,) = passes_in(spans)
    assert (only.begun, only.ended, only.commands, only.cpu_s) == (10.0, 10.25, 0, EACH)


def test_a_pass_that_nobody_finishes_is_no_waiting() -> None:
    killed = life(60.0, [10.0, 50.0])
    add(killed, 30.0, 0.5, commands=1)
    assert [each.begun for each in passes_in(killed)] == [9.75, 30.0]
    assert costs(killed).waiting == pytest.approx(POLL / POLL_S)
    last = life(60.0, [10.0])
    add(last, 55.0, 0.5, commands=1)
    assert [each.begun for each in passes_in(last)] == [9.75, 55.0]


def test_while_nobody_lives_nobody_waits() -> None:
    spans = life(120.0, [10.0, 100.0])
    gone = [span for span in spans if not 20.0 < span.ended <= 90.0]
    assert costs(gone).waited_s == 0.0


def test_all_that_is_neither_waiting_nor_a_quiet_pass_is_the_handovers() -> None:
    ends = [10.0 * n for n in range(1, 60)]
    spans = life(600.0, ends)
    for at in ends[::4]:
        add(spans, at, 0.1, commands=3)
    found = costs(spans, handovers=15)
    quiet = 600.0 * (found.waiting + found.quiet_pass / QUIET_S)
    total = sum(span.cpu_s for span in spans)
    assert found.quiet_pass == pytest.approx(EACH)
    assert quiet + 15 * found.handover == pytest.approx(total)
    assert found.handover > 0.1


def test_a_day_is_put_together_from_what_each_doing_costs(tmp_path: Path) -> None:
    ends = [10.0 * n for n in range(1, 60)]
    usage = Usage(tmp_path, tmp_path, spans=life(600.0, ends))
    figures = usage.figures(POLL_S, QUIET_S, handovers=10)
    assert figures["cpu_ms_per_second_of_waiting"] == pytest.approx(0.4)
    assert figures["cpu_ms_per_quiet_pass"] == pytest.approx(24.0)
    handover = float(str(figures["cpu_ms_per_handover"]))
    day = 86_400 * 0.0004 + 576 * 0.024 + 24 * handover / 1000
    assert figures["cpu_s_per_day"] == pytest.approx(day, abs=0.06)
    assert (figures["passes"], figures["watched_s"]) == (59, 600.0)


def test_who_is_not_watched_costs_nothing(tmp_path: Path) -> None:
    figures = Usage(tmp_path, tmp_path).figures(POLL_S, QUIET_S, handovers=0)
    assert (figures["cpu_s_per_day"], figures["waited_s"], figures["passes"]) == (0.0, 0.0, 0)


def test_a_controller_that_is_watched_is_measured_and_one_that_is_gone_is_not(
    tmp_path: Path,
) -> None:
    usage = Usage(tmp_path / "status.json", tmp_path / "calls")
    usage.sample(os.getpid())
    usage.calls.mkdir()
    (usage.calls / "host-2026-01-01.log").write_text("1795408131 squeue\n1795408132 sbatch\n")
    usage.status.write_text("{}")
    usage.sample(os.getpid())
    usage.sample(2**22 + 1)
    usage.sample(os.getpid())
    (span,) = usage.spans
    assert (span.commands, span.passes, span.seconds > 0) == (2, 1, True)
    assert usage.peak_rss_mb > 1
    usage.write(tmp_path / "usage.jsonl")
    assert (tmp_path / "usage.jsonl").read_text().count("\n") == 1
