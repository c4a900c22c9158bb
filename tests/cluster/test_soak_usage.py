"""What a controller's CPU is made of: waiting and passes, told apart from samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.soaks.usage import Span, Usage

STEP_S = 0.25


def samples(seconds: float, every_s: float, idle: float, each: float, spread_s: float):
    """Spans of a controller that spends `each` over the `spread_s` before a pass ends."""
    count = int(seconds / STEP_S)
    ends = {int(at / STEP_S) for at in range(int(every_s), int(seconds), int(every_s))}
    burst = int(spread_s / STEP_S)
    cpu = [idle * STEP_S] * count
    for end in ends:
        for step in range(end - burst, end):
            cpu[step + 1] += each / burst
    return [Span((i + 1) * STEP_S, STEP_S, cpu[i], int(i in ends)) for i in range(count)]


@pytest.mark.parametrize("spread_s", [0.25, 1.0, 4.0])
def test_the_work_of_a_pass_is_not_taken_for_waiting(tmp_path: Path, spread_s: float) -> None:
    spans = samples(600.0, 20.0, idle=0.0002, each=0.04, spread_s=spread_s)
    figures = Usage(tmp_path, tmp_path, spans=spans).figures(pass_s=150.0, handovers=0)
    assert figures["cpu_ms_per_idle_second"] == pytest.approx(0.2)
    assert figures["cpu_ms_per_pass"] == pytest.approx(40.0, rel=0.01)
    assert figures["passes"] == 29


def test_where_passes_never_rest_all_is_theirs(tmp_path: Path) -> None:
    spans = samples(56.0, 5.0, idle=0.0, each=0.04, spread_s=1.0)
    figures = Usage(tmp_path, tmp_path, spans=spans).figures(pass_s=150.0, handovers=0)
    assert (figures["waited_s"], figures["cpu_ms_per_idle_second"]) == (0.0, 0.0)
    assert figures["cpu_ms_per_pass"] == pytest.approx(40.0, rel=0.01)
