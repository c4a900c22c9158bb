"""Samples the controller's resident memory, CPU time and passes while it runs.

A soak with jobs of one minute has 240 times the hand-overs of a day with jobs of four hours, so the
CPU time of a day is computed from that of waiting, of a quiet pass and of a hand-over.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scripts.soaks.cpu_spans import Span, compute_cost

HANDOVERS_A_DAY = 24.0
"""Hand-overs a day of four slots with jobs of four hours."""


@dataclass(frozen=True)
class Mark:
    """Holds one sample of a controller; `at`: monotonic seconds."""

    pid: int
    at: float
    cpu_s: float
    commands: int
    """Slurm commands run so far."""
    status_ns: int
    """Time of the last change of the status file."""

    def since(self, before: Mark) -> Span:
        """Return the span between an earlier sample and this one."""
        return Span(
            ended=self.at,
            seconds=self.at - before.at,
            cpu_s=self.cpu_s - before.cpu_s,
            commands=self.commands - before.commands,
            passes=int(self.status_ns != before.status_ns),
        )


@dataclass
class Usage:
    """Collects samples of one controller after the other."""

    status: Path
    calls: Path
    peak_rss_mb: float = 0.0
    spans: list[Span] = field(default_factory=list)
    calls_so_far: dict[str, int] = field(default_factory=dict)
    _last: Mark | None = field(default=None, init=False)

    def sample(self, pid: int) -> None:
        """Take one sample of the controller; called a few times a second."""
        now = self._read_mark(pid)
        if now is not None:
            self.peak_rss_mb = max(self.peak_rss_mb, _rss_mb(pid))
            if self._last is not None and self._last.pid == pid:
                self.spans.append(now.since(self._last))
        self._last = now

    def _read_mark(self, pid: int) -> Mark | None:
        cpu = _cpu_s(pid)
        if cpu is None:
            return None
        commands = sum(path.read_bytes().count(b"\n") for path in self._counters())
        status = self.status.stat().st_mtime_ns if self.status.exists() else 0
        return Mark(pid, time.monotonic(), cpu, commands, status)

    def figures(self, poll_s: float, pass_s: float, handovers: int) -> dict[str, object]:
        """Return totals and figures per day for these intervals of polls and quiet passes."""
        seconds = sum(span.seconds for span in self.spans)
        costs = compute_cost(self.spans, poll_s, pass_s, handovers)
        day = 86_400 * (costs.waiting + costs.quiet_pass / pass_s)
        calls = self.calls_so_far
        per_handover = max(0.0, sum(calls.values()) - seconds / pass_s) / max(1, handovers)
        return {
            "peak_rss_mb": round(self.peak_rss_mb, 1),
            "cpu_s": round(sum(span.cpu_s for span in self.spans), 2),
            "watched_s": round(seconds, 1),
            "waited_s": round(costs.waited_s, 1),
            "passes": sum(span.passes for span in self.spans),
            "cpu_ms_per_second_of_waiting": round(1000 * costs.waiting, 3),
            "cpu_ms_per_quiet_pass": round(1000 * costs.quiet_pass, 2),
            "cpu_ms_per_handover": round(1000 * costs.handover, 2),
            "cpu_s_per_day": round(day + HANDOVERS_A_DAY * costs.handover, 1),
            "scheduler_calls": calls,
            "scheduler_calls_per_day": round(86_400 / pass_s + HANDOVERS_A_DAY * per_handover),
        }

    def write(self, path: Path) -> None:
        """Write every span as a line of JSON."""
        path.write_text("".join(json.dumps(asdict(span)) + "\n" for span in self.spans))

    def count_calls(self) -> None:
        """Count the Slurm commands of this run from the call logs of controller and jobs."""
        counts: dict[str, int] = {}
        for path in self._counters():
            for line in path.read_text().splitlines():
                program = line.split()[1] if len(line.split()) > 1 else line.strip()
                counts[program] = counts.get(program, 0) + 1
        self.calls_so_far = counts

    def _counters(self) -> list[Path]:
        return sorted(self.calls.glob("*")) if self.calls.is_dir() else []


def _cpu_s(pid: int) -> float | None:
    """Return CPU seconds of all threads and waited-for children; None where the process is gone.

    Threads are read in nanoseconds where the kernel has them: polls are shorter than a clock tick.
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
