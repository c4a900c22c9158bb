"""Pure. Divides a controller's CPU time into waiting, quiet passes and hand-overs.

While it waits a controller polls small files every few seconds. Waiting is measured in whole poll
intervals, so that none is omitted or counted twice. A pass lasts from its first Slurm command to
the status file that it writes last: a fraction of a second, or longer where Slurm does not answer.
A quiet pass runs one command.

All other CPU time counts for the hand-overs, also that of faults and of starting controllers. A
heartbeat every ten seconds (0.4 ms) counts for the activity in which it occurs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean


@dataclass(frozen=True)
class Span:
    """Holds the CPU time between two samples, the second at `ended` (monotonic clock).

    `commands`: Slurm commands that began; `passes`: 0, or 1 if a pass ended.
    """

    ended: float
    seconds: float
    cpu_s: float
    commands: int
    passes: int

    @property
    def begun(self) -> float:
        return self.ended - self.seconds


@dataclass(frozen=True)
class Pass:
    """Describes a pass; several that end between the same two samples count as one."""

    begun: float
    ended: float
    commands: int
    cpu_s: float


@dataclass(frozen=True)
class Cost:
    """Holds CPU seconds per second of waiting, per quiet pass (any if none was quiet) and per
    hand-over.

    `waited_s`: seconds of waiting that were sampled.
    """

    waiting: float
    quiet_pass: float
    handover: float
    waited_s: float


def compute_cost(spans: Sequence[Span], poll_s: float, pass_s: float, handovers: int) -> Cost:
    """Divide the CPU time of `spans`, which are in the order of time.

    The controller polls every `poll_s` and makes a quiet pass every `pass_s` seconds.
    """
    passes = list(passes_in(spans))
    waits = list(_waits(spans, passes, poll_s))
    waited_s = sum(seconds for seconds, _ in waits)
    waiting = sum(cpu for _, cpu in waits) / waited_s if waited_s else 0.0
    quiet = [done.cpu_s for done in passes if done.commands == 1] or [done.cpu_s for done in passes]
    quiet_s, seconds = fmean(quiet or [0.0]), sum(span.seconds for span in spans)
    rest = sum(span.cpu_s for span in spans) - seconds * (waiting + quiet_s / pass_s)
    return Cost(waiting, quiet_s, max(0.0, rest) / max(1, handovers), waited_s)


def passes_in(spans: Sequence[Span]) -> Iterator[Pass]:
    """Return every pass; an unfinished pass of a killed controller is part of the next one."""
    first: int | None = None
    for index, span in enumerate(spans):
        if span.commands > 0 and first is None:
            first = index
        if span.passes or (span is spans[-1] and first is not None):
            whole = spans[index if first is None else first : index + 1]
            commands, cpu_s = (
                sum(part.commands for part in whole),
                sum(part.cpu_s for part in whole),
            )
            yield Pass(whole[0].begun, span.ended, commands, cpu_s)
            first = None


def _waits(
    spans: Sequence[Span], passes: Sequence[Pass], poll_s: float
) -> Iterator[tuple[float, float]]:
    """Return (seconds, CPU seconds) of waiting between each two passes.

    Counts from the end of the first pass to half an interval after the last poll before the second.
    """
    for before, after in pairwise(passes):
        polls = int((after.begun - before.ended) / poll_s - 0.5)
        until = before.ended + (polls + 0.5) * poll_s
        inside = [span for span in spans if before.ended <= span.begun and span.ended <= until]
        seconds = polls * poll_s
        if polls > 0 and sum(span.seconds for span in inside) >= seconds:  # it ran all the time
            yield seconds, sum(span.cpu_s for span in inside)
