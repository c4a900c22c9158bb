"""What the controller costs: resident memory, CPU time, passes; sampled while it lives.

A day is extrapolated by two rates: CPU per second of waiting (its
looks at small files), and CPU per pass. A soak with jobs of one minute has 240 times the hand-overs
of a day with jobs of four hours; so passes are counted, not seconds alone.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

HANDOVERS_A_DAY = 24.0
"""Four slots, jobs of four hours."""
WINDOW_S = 5.0


@dataclass
class Usage:
    """Samples of one controller after the other."""

    status: Path
    calls: Path
    peak_rss_mb: float = 0.0
    cpu_s: float = 0.0
    passes: int = 0
    windows: list[tuple[float, float, float]] = field(default_factory=list)
    """(seconds, CPU-seconds, passes)."""
    calls_so_far: dict[str, int] = field(default_factory=dict)
    _pid: int = 0
    _mark: tuple[float, float, int] = (0.0, 0.0, 0)
    _stamp: int = 0

    def sample(self, pid: int) -> None:
        """Look at the controller once; call it a few times a second."""
        cpu, rss = _cpu_s(pid), _rss_mb(pid)
        if cpu is None:
            self._pid = 0
            return
        self.peak_rss_mb = max(self.peak_rss_mb, rss)
        stamp = self.status.stat().st_mtime_ns if self.status.exists() else 0
        if stamp != self._stamp:
            self._stamp = stamp
            self.passes += 1
        now = time.monotonic()
        if pid != self._pid:
            self._pid, self._mark = pid, (now, cpu, self.passes)
            return
        begun, before, passes = self._mark
        if now - begun >= WINDOW_S:
            self.windows.append((now - begun, cpu - before, float(self.passes - passes)))
            self.cpu_s += cpu - before
            self._mark = (now, cpu, self.passes)

    def figures(self, pass_s: float, handovers: int) -> dict[str, object]:
        """Per day, with passes every ``pass_s`` while all is quiet and what a hand-over adds."""
        seconds = sum(window[0] for window in self.windows)
        idle, each = _fit(self.windows)
        extra = max(0.0, self.passes - seconds / pass_s) / max(1, handovers)
        passes = 86_400 / pass_s + HANDOVERS_A_DAY * extra
        calls = self.calls_so_far
        per_handover = max(0.0, sum(calls.values()) - seconds / pass_s) / max(1, handovers)
        return {
            "peak_rss_mb": round(self.peak_rss_mb, 1),
            "cpu_s": round(self.cpu_s, 2),
            "watched_s": round(seconds, 1),
            "passes": self.passes,
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


def _fit(windows: list[tuple[float, float, float]]) -> tuple[float, float]:
    """CPU per second of waiting, from windows without a pass; per pass, from what is left."""
    still = [(seconds, cpu) for seconds, cpu, passes in windows if not passes]
    waited = sum(seconds for seconds, _ in still)
    idle = sum(cpu for _, cpu in still) / waited if waited else 0.0
    passes = sum(count for _, _, count in windows)
    busy = sum(cpu - idle * seconds for seconds, cpu, _ in windows)
    return idle, max(0.0, busy / passes) if passes else 0.0


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
