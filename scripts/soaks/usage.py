"""What the controller costs: resident memory, CPU time, passes; sampled while it lives.

A soak with jobs of one minute has 240 times the hand-overs of a day with jobs of four hours. So a
day is put together from what each doing costs: waiting, a quiet pass, a hand-over.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scripts.soaks.cpu_spans import Span, cost

HANDOVERS_A_DAY = 24.0
"""Four slots, jobs of four hours."""


@dataclass(frozen=True)
class Mark:
    """What was seen of one controller at one moment."""

    pid: int
    at: float
    cpu_s: float
    commands: int
    """Asked of the scheduler so far."""
    status_ns: int
    """When the last status was written."""

    def since(self, before: Mark) -> Span:
        """What it did between two marks."""
        return Span(
            ended=self.at,
            seconds=self.at - before.at,
            cpu_s=self.cpu_s - before.cpu_s,
            commands=self.commands - before.commands,
            passes=int(self.status_ns != before.status_ns),
        )


@dataclass
class Usage:
    """Samples of one controller after the other."""

    status: Path
    calls: Path
    peak_rss_mb: float = 0.0
    spans: list[Span] = field(default_factory=list)
    calls_so_far: dict[str, int] = field(default_factory=dict)
    _last: Mark | None = field(default=None, init=False)

    def sample(self, pid: int) -> None:
        """Look at the controller once; call it a few times a second."""
        now = self._look(pid)
        if now is not None:
            self.peak_rss_mb = max(self.peak_rss_mb, _rss_mb(pid))
            if self._last is not None and self._last.pid == pid:
                self.spans.append(now.since(self._last))
        self._last = now

    def _look(self, pid: int) -> Mark | None:
        cpu = _cpu_s(pid)
        if cpu is None:
            return None
        commands = sum(path.read_bytes().count(b"\n") for path in self._counters())
        status = self.status.stat().st_mtime_ns if self.status.exists() else 0
        return Mark(pid, time.monotonic(), cpu, commands, status)

    def figures(self, look_s: float, pass_s: float, handovers: int) -> dict[str, object]:
        """Per day, with looks and quiet passes so far apart, and what a hand-over adds."""
        seconds = sum(one.seconds for one in self.spans)
        costs = cost(self.spans, look_s, pass_s, handovers)
        day = 86_400 * (costs.waiting + costs.quiet_pass / pass_s)
        calls = self.calls_so_far
        per_handover = max(0.0, sum(calls.values()) - seconds / pass_s) / max(1, handovers)
        return {
            "peak_rss_mb": round(self.peak_rss_mb, 1),
            "cpu_s": round(sum(one.cpu_s for one in self.spans), 2),
            "watched_s": round(seconds, 1),
            "waited_s": round(costs.waited_s, 1),
            "passes": sum(one.passes for one in self.spans),
            "cpu_ms_per_second_of_waiting": round(1000 * costs.waiting, 3),
            "cpu_ms_per_quiet_pass": round(1000 * costs.quiet_pass, 2),
            "cpu_ms_per_handover": round(1000 * costs.handover, 2),
            "cpu_s_per_day": round(day + HANDOVERS_A_DAY * costs.handover, 1),
            "scheduler_calls": calls,
            "scheduler_calls_per_day": round(86_400 / pass_s + HANDOVERS_A_DAY * per_handover),
        }

    def write(self, path: Path) -> None:
        """Every span as a line of JSON: what a figure that breaks its bound is made of."""
        path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in self.spans))

    def count_calls(self) -> None:
        """Scheduler commands that anybody ran for this run, by the product's own counters."""
        found: dict[str, int] = {}
        for path in self._counters():
            for line in path.read_text().splitlines():
                word = line.split()[1] if len(line.split()) > 1 else line.strip()
                found[word] = found.get(word, 0) + 1
        self.calls_so_far = found

    def _counters(self) -> list[Path]:
        return sorted(self.calls.glob("*")) if self.calls.is_dir() else []


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
