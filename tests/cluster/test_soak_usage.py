"""What a controller's CPU is made of: waiting and passes, told apart from samples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.soaks.spans import Span
from scripts.soaks.usage import Usage

STEP_S = 0.25


def samples(seconds: float, every_s: float, idle: float, each: float, spread_s: float):
    """Spans of a controller that asks `spread_s` before a pass ends and spends `each` by then."""
    count = int(seconds / STEP_S)
    ends = {int(at / STEP_S) for at in range(int(every_s), int(seconds), int(every_s))}
    burst = int(spread_s / STEP_S)
    cpu, asks = [idle * STEP_S] * count, {end - burst + 1 for end in ends}
    for end in ends:
        for step in range(end - burst, end):
            cpu[step + 1] += each / burst
    return [
        Span((i + 1) * STEP_S, STEP_S, cpu[i], calls=18 * (i in asks), passes=int(i in ends))
        for i in range(count)
    ]


@pytest.mark.parametrize("spread_s", [0.25, 1.0, 4.0, 15.0])
def test_the_work_of_a_pass_is_not_taken_for_waiting(tmp_path: Path, spread_s: float) -> None:
    spans = samples(600.0, 20.0, idle=0.0002, each=0.04, spread_s=spread_s)
    figures = Usage(tmp_path, tmp_path, spans=spans).figures(pass_s=150.0, handovers=0)
    assert figures["cpu_ms_per_idle_second"] == pytest.approx(0.2)
    assert figures["cpu_ms_per_pass"] == pytest.approx(40.0, rel=0.01)
    assert figures["passes"] == 29


def test_what_is_spent_far_from_any_pass_is_waiting(tmp_path: Path) -> None:
    spans = samples(600.0, 60.0, idle=0.01, each=0.0, spread_s=0.25)
    figures = Usage(tmp_path, tmp_path, spans=spans).figures(pass_s=150.0, handovers=0)
    assert figures["cpu_ms_per_idle_second"] == pytest.approx(10.0)
    assert figures["cpu_ms_per_pass"] == pytest.approx(0.0, abs=1e-6)
    assert figures["waited_s"] > 550.0


def test_where_passes_never_rest_all_is_theirs(tmp_path: Path) -> None:
    spans = samples(55.0, 2.0, idle=0.0, each=0.04, spread_s=2.0)
    figures = Usage(tmp_path, tmp_path, spans=spans).figures(pass_s=150.0, handovers=0)
    assert (figures["waited_s"], figures["cpu_ms_per_idle_second"]) == (0.0, 0.0)
    assert figures["cpu_ms_per_pass"] == pytest.approx(40.0, rel=0.01)


def test_a_controller_that_is_watched_is_measured_and_one_that_is_gone_is_not(
    tmp_path: Path,
) -> None:
    usage = Usage(tmp_path / "status.json", tmp_path / "calls")
    usage.sample(os.getpid())
    usage.calls.mkdir()
    (usage.calls / "host-2026-01-01.log").write_text("1795408131 squeue\n")
    usage.status.write_text("{}")
    usage.sample(os.getpid())
    usage.sample(2**22 + 1)
    usage.sample(os.getpid())
    (span,) = usage.spans
    assert (span.calls, span.passes, span.seconds > 0, usage.peak_rss_mb > 1) == (18, 1, True, True)
