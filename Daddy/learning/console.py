"""Prints a learner's progress for the person at the keyboard: periodic lines, and a summary.

Forwards every call of the loop to an event sink and a frame sink. Prints a progress line at most
every `every_s` seconds, and lines for versions, contributions, receipts, milestones and errors.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from Daddy.core.clock import Clock
from Daddy.core.shared_types import AgentReport, EventSink
from Daddy.learning.interfaces import FrameSink

RECENT_EPISODES = 50
RECENT_RATES = 5
_MILESTONE_STEPS = ("handed in", "accepted", "refused")


class ConsoleReporter:
    """Forwards all events, reports and pictures to two sinks, and prints progress lines."""

    def __init__(
        self,
        events: EventSink,
        frames: FrameSink,
        clock: Clock,
        print_line: Callable[[str], None],
        every_s: float = 10.0,
        *,
        print_errors: bool = True,
    ) -> None:
        self._events = events
        self._frames = frames
        self.request_counter = frames.request_counter
        self._clock = clock
        self._print = print_line
        self._every_s = every_s
        self._print_errors = print_errors  # False: the event log prints them
        self._started = self._printed = clock.monotonic()
        self._rates: deque[float] = deque(maxlen=RECENT_RATES)
        self._returns: deque[float] = deque(maxlen=RECENT_EPISODES)
        self._best: AgentReport | None = None
        self.versions: list[int] = []
        self.milestones = Counter[str]()
        self.accepted_share = 0.0
        self.accepted = self.refused = self.episodes = self.step = 0

    # -- the event sink

    def write(self, event: str, step: int, data: Mapping[str, Any]) -> None:
        """Forward an event, store its numbers, and print a line about it if people need to know."""
        self._events.write(event, step, data)
        self.step = max(self.step, step)
        if event == "metric":
            self._rates.append(data.get("steps_per_second", 0.0))
        elif event == "result":
            returns = data.get("returns", ())
            self._returns.extend(returns)
            self.episodes += len(returns)
        elif event == "state":
            self._print_state(data)
        elif event == "progress" and "milestone" in data:
            assists = f" (with {', '.join(data['assists'])})" if data.get("assists") else ""
            self._print(f"first reached at step {step:,}: {data['milestone']}{assists}")
        elif event == "error" and self._print_errors:
            self._print(f"error: {data.get('reason') or data.get('text') or dict(data)}")
        now = self._clock.monotonic()
        if now - self._printed >= self._every_s and self._rates:
            self._printed = now
            self._print(self.progress_line())

    def _print_state(self, data: Mapping[str, Any]) -> None:
        state = data.get("state")
        if state == "playing":
            self.versions.append(data["version"])
            self._print(f"playing version {data['version']} (sha256 {data['sha'][:12]})")
        elif state == "published" and not data["said"].startswith("not yet"):
            self._print(data["said"])
        elif state == "receipt":
            contribution = f"contribution {data['sequence']}"
            if data["accepted"]:
                self.accepted += 1
                self.accepted_share += data["share"]
                into = f"version {data['version']} (share {data['share']:.0%})"
                self._print(f"{contribution} was accepted into {into}")
            else:
                self.refused += 1
                self._print(f"{contribution} was refused: {data.get('reason')}")
        elif state == "milestone":  # replayed here, handed in, accepted or refused
            self.milestones[data["what"]] += 1
            names = data.get("milestones")
            detail = data.get("reason") if names is None else f"{len(names)} milestones"
            self._print(f"milestone {data['what']}: {detail}")
        elif state == "resumed":
            for reason in data["refused"]:
                self._print(f"skipped a damaged checkpoint: {reason}")
            self._print(f"resumed at step {data['checkpoint_step']}")

    # -- the frame sink

    def poll_requests(self) -> tuple[bool, frozenset[int]]:
        return self._frames.poll_requests()

    def send_reports(self, reports: Sequence[AgentReport]) -> None:
        """Forward reports, and store the most advanced agent's for `progress_line`."""
        self._frames.send_reports(reports)
        candidates = [*reports, self._best] if self._best else reports
        self._best = max(candidates, key=_rank, default=None)

    def send_picture(self, agent: int, picture: bytes) -> None:
        self._frames.send_picture(agent, picture)

    # -- lines

    def progress_line(self) -> str:
        """Return steps, speed, episodes, mean return and best agent as one line."""
        rate = f"{fmean(self._rates):.0f} steps/s" if self._rates else "warming up"
        parts = [f"step {self.step:,}", rate, f"{self.episodes} episodes"]
        if self._returns:
            parts.append(f"mean return {fmean(self._returns):.2f}")
        if self._best is not None:
            best = self._best
            where = f" at {best.map_name}" if best.map_name else ""
            parts.append(f"best agent: badges {best.badges}, story flags {best.story_flags}{where}")
        return " · ".join(parts)

    def summary_line(self, reason: str) -> str:
        """Return a summary of this process's play as one line, with the `reason` of its end."""
        seconds = self._clock.monotonic() - self._started
        played = f"{self.step:,} steps in {seconds:.0f} s" if self.step else "nothing was played"
        text = f"ended ({reason}): {played}, {self.episodes} episodes"
        if self.versions:
            distinct = len(set(self.versions))
            text += f", {distinct} version{'s' * (distinct > 1)}, last {self.versions[-1]}"
        if self.accepted or self.refused:
            text += f", contributions accepted {self.accepted}, refused {self.refused}"
            text += f" (together {self.accepted_share:.0%} of a version)" * bool(self.accepted)
        if self.milestones["handed in"]:
            counts = ", ".join(f"{step} {self.milestones[step]}" for step in _MILESTONE_STEPS)
            text += f", milestones {counts}"
        return text


def _rank(report: AgentReport) -> tuple[int, int, float]:
    """Return an agent's sort key, as in the viewer: badges, story flags, return."""
    return report.badges, report.story_flags, report.episode_return
