"""What a person at the keyboard reads while the loop runs: a line now and then, one at the end.

Stands between the loop and its event sink and frame sink, hands everything on, and remembers what
the line needs. Promises to print at most once in `every_s` seconds, except when a version, a
contribution or a receipt is worth a line of its own.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from Daddy.core.clock import Clock
from Daddy.core.shared_types import AgentReport, EventSink
from Daddy.learning.interfaces import FrameSink

RECENT_EPISODES = 50
RECENT_RATES = 5
_OWN_MILESTONES = ("handed in", "accepted", "refused")


class ConsoleReporter:
    """An event sink and a frame sink that also talk."""

    def __init__(
        self,
        events: EventSink,
        frames: FrameSink,
        clock: Clock,
        say: Callable[[str], None],
        every_s: float = 10.0,
    ) -> None:
        self._events = events
        self._frames = frames
        self.request_counter = frames.request_counter
        self._clock = clock
        self._say = say
        self._every_s = every_s
        self._begun = self._said = clock.monotonic()
        self._rates: deque[float] = deque(maxlen=RECENT_RATES)
        self._returns: deque[float] = deque(maxlen=RECENT_EPISODES)
        self._best: AgentReport | None = None
        self.versions: list[int] = []
        self.milestones = Counter[str]()
        self.moved = 0.0
        self.accepted = self.refused = self.episodes = self.step = 0

    # -- the event sink

    def write(self, event: str, step: int, data: Mapping[str, Any]) -> None:
        """Hand on, remember, and say what cannot wait."""
        self._events.write(event, step, data)
        self.step = max(self.step, step)
        if event == "metric":
            self._rates.append(data.get("steps_per_second", 0.0))
        elif event == "result":
            returns = data.get("returns", ())
            self._returns.extend(returns)
            self.episodes += len(returns)
        elif event == "state":
            self._take_state(data)
        elif event == "progress" and "milestone" in data:
            helps = f" (with {', '.join(data['assists'])})" if data.get("assists") else ""
            self._say(f"first reached at step {step:,}: {data['milestone']}{helps}")
        elif event == "error":
            self._say(f"trouble: {data.get('reason') or data.get('text') or dict(data)}")
        now = self._clock.monotonic()
        if now - self._said >= self._every_s and self._rates:
            self._said = now
            self._say(self.progress_line())

    def _take_state(self, data: Mapping[str, Any]) -> None:
        state = data.get("state")
        if state == "playing":
            self.versions.append(data["version"])
            self._say(f"playing version {data['version']} (sha256 {data['sha'][:12]})")
        elif state == "published" and not data["said"].startswith("not yet"):
            self._say(data["said"])
        elif state == "receipt":
            contribution = f"contribution {data['sequence']}"
            if data["accepted"]:
                self.accepted += 1
                self.moved += data["share"]
                into = f"version {data['version']} (share {data['share']:.0%})"
                self._say(f"{contribution} was accepted into {into}")
            else:
                self.refused += 1
                self._say(f"{contribution} was refused: {data.get('reason')}")
        elif state == "milestone":  # played again here, handed in, accepted or refused
            self.milestones[data["what"]] += 1
            held = data.get("milestones")
            about = data.get("reason") if held is None else f"{len(held)} milestones"
            self._say(f"milestone {data['what']}: {about}")
        elif state == "resumed":
            for reason in data["refused"]:
                self._say(f"passed over a damaged checkpoint: {reason}")
            self._say(f"resumed at step {data['checkpoint_step']}")

    # -- the frame sink

    def poll_requests(self) -> tuple[bool, frozenset[int]]:
        """What is asked for, once."""
        return self._frames.poll_requests()

    def send_reports(self, reports: Sequence[AgentReport]) -> None:
        """Hand on, and remember the furthest agent."""
        self._frames.send_reports(reports)
        seen = [*reports, self._best] if self._best else reports
        self._best = max(seen, key=_rank, default=None)

    def send_picture(self, agent: int, picture: bytes) -> None:
        """Hand on."""
        self._frames.send_picture(agent, picture)

    # -- talking

    def progress_line(self) -> str:
        """How it goes, in one line."""
        rate = f"{fmean(self._rates):.0f} steps/s" if self._rates else "warming up"
        parts = [f"step {self.step:,}", rate, f"{self.episodes} episodes"]
        if self._returns:
            parts.append(f"mean return {fmean(self._returns):.2f}")
        if self._best is not None:
            best = self._best
            where = f" at {best.map_name}" if best.map_name else ""
            parts.append(f"best {best.badges} badges, {best.story_flags} story flags{where}")
        return " · ".join(parts)

    def summary_line(self, reason: str) -> str:
        """The whole stay, in one line."""
        seconds = self._clock.monotonic() - self._begun
        played = f"{self.step:,} steps in {seconds:.0f} s" if self.step else "nothing was played"
        text = f"ended ({reason}): {played}, {self.episodes} episodes"
        if self.versions:
            distinct = len(set(self.versions))
            text += f", {distinct} version{'s' * (distinct > 1)}, last {self.versions[-1]}"
        if self.accepted or self.refused:
            text += f", contributions accepted {self.accepted}, refused {self.refused}"
            text += f" (together {self.moved:.0%} of a version)" * bool(self.accepted)
        if self.milestones["handed in"]:
            told = ", ".join(f"{what} {self.milestones[what]}" for what in _OWN_MILESTONES)
            text += f", milestones {told}"
        return text


def _rank(report: AgentReport) -> tuple[int, int, float]:
    """Badges, then story flags, then reward: the viewer's own order."""
    return report.badges, report.story_flags, report.episode_return
