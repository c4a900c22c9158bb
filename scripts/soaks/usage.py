"""What the controller costs: resident memory, CPU time, passes; sampled while it lives.

A day is extrapolated by two rates: CPU per second of waiting (its looks at small files), and CPU
per pass. A soak with jobs of one minute has 240 times the hand-overs of a day with jobs of four
hours; so passes are counted, not seconds alone. What is near a pass is no waiting: a pass is known
by the status it writes last, and has used its CPU by then.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path

HANDOVERS_A_DAY = 24.0
"""Four slots, jobs of four hours."""
BEFORE_S, AFTER_S = 5.0, 1.0
"""Seconds before and after the end of a pass that may hold some of its work."""


@dataclass(frozen=True)
class Span:
    """What the controller used between two samples, at `ended` on the monotonic clock."""

    ended: float
    seconds: float
    cpu_s: float
    passes: int


@dataclass
class Usage:
    """Samples of one controller after the other."""

    status: Path
    calls: Path
    peak_rss_mb: float = 0.0
    spans: list[Span] = field(default_factory=list)
    calls_so_far: dict[str, int] = field(default_factory=dict)
    _pid: int = 0
    _mark: tuple[float, float] = (0.0, 0.0)
    _stamp: int = 0

    def sample(self, pid: int) -> None:
        """Look at the controller once; call it a few times a second."""
        cpu, rss = _cpu_s(pid), _rss_mb(pid)
        if cpu is None:
            self._pid = 0
            return
        self.peak_rss_mb = max(self.peak_rss_mb, rss)
        now = time.monotonic()
        stamp = self.status.stat().st_mtime_ns if self.status.exists() else 0
        passed, self._stamp = int(stamp != self._stamp), stamp
        if pid == self._pid:
            then, before = self._mark
            self.spans.append(Span(now, now - then, cpu - before, passed))
        self._pid, self._mark = pid, (now, cpu)

    def figures(self, pass_s: float, handovers: int) -> dict[str, object]:
        """Per day, with passes every ``pass_s`` while all is quiet and what a hand-over adds."""
        seconds = sum(one.seconds for one in self.spans)
        done = sum(one.passes for one in self.spans)
        idle, each, waited = _fit(self.spans)
        extra = max(0.0, done - seconds / pass_s) / max(1, handovers)
        passes = 86_400 / pass_s + HANDOVERS_A_DAY * extra
        calls = self.calls_so_far
        per_handover = max(0.0, sum(calls.values()) - seconds / pass_s) / max(1, handovers)
        return {
            "peak_rss_mb": round(self.peak_rss_mb, 1),
            "cpu_s": round(sum(one.cpu_s for one in self.spans), 2),
            "watched_s": round(seconds, 1),
            "waited_s": round(waited, 1),
            "passes": done,
            "cpu_ms_per_pass": round(1000 * each, 2),
            "cpu_ms_per_idle_second": round(1000 * idle, 3),
            "cpu_s_per_day": round(86_400 * idle + passes * each, 1),
            "scheduler_calls": calls,
            "scheduler_calls_per_day": round(86_400 / pass_s + HANDOVERS_A_DAY * per_handover),
        }

    def count_calls(self) -> None:
        """Scheduler commands that anybody ran for this run, by the product's own counters."""
        found: dict[str, int] = {}
        files = sorted(self.calls.glob("*")) if self.calls.is_dir() else []
        for path in files:
            for line in path.read_text().splitlines():
                word = line.split()[1] if len(line.split()) > 1 else line.strip()
                found[word] = found.get(word, 0) + 1
        self.calls_so_far = found


def _fit(spans: list[Span]) -> tuple[float, float, float]:
    """CPU per second far from any pass, CPU per pass from what is left, seconds far from any."""
    ends = [one.ended for one in spans if one.passes]
    still = [one for one in spans if not _near(one, ends)]
    waited = sum(one.seconds for one in still)
    idle = sum(one.cpu_s for one in still) / waited if waited else 0.0
    busy = sum(one.cpu_s - idle * one.seconds for one in spans)
    return idle, max(0.0, busy / len(ends)) if ends else 0.0, waited


def _near(span: Span, ends: list[float]) -> bool:
    """Whether a pass ended shortly before the span, in it, or soon after it."""
    begun = span.ended - span.seconds
    follows = bisect_left(ends, begun - AFTER_S)
    return follows < len(ends) and ends[follows] <= span.ended + BEFORE_S


def _cpu_s(pid: int) -> float | None:
    """CPU of all threads, and of the children it waited for; None when it is gone.

    Its own in nanoseconds where the kernel tells: short looks fall between the clock's ticks.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    cells = text[text.rindex(")") + 2 :].split()
    if cells[0] in "ZX":
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    own = _own_cpu_ns(pid)
    if own is None:
        return sum(int(cell) for cell in cells[11:15]) / ticks
    return own / 1e9 + sum(int(cell) for cell in cells[13:15]) / ticks


def _own_cpu_ns(pid: int) -> int | None:
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
    except OSError:
        return None


def _rss_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    words = next((line.split() for line in lines if line.startswith("VmRSS:")), ["", "0"])
    return int(words[1]) / 1024
