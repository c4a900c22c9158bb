"""Pure: from samples of a controller's CPU to what each of its doings costs.

Between passes it looks at small files, every few seconds from the end of a pass on. Waiting is
measured in whole looks, so that none is left out and none counted twice. A pass lasts from the
first command that it asks the scheduler to the status that it writes last: a fraction of a second,
or as long as Slurm is silent. A quiet one asks one command.

Nothing escapes: whatever is neither waiting nor the quiet passes of that time is charged to the
hand-overs, with it all faults and every controller that begins. A beat every ten seconds (0.4 ms)
belongs to whatever is done at that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean


@dataclass(frozen=True)
class Span:
    """What the controller did between two samples, at `ended` on the monotonic clock.

    `commands` of the scheduler were begun, `passes` (0 or 1) came to their end.
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
    """One pass, as far as samples tell: several that end between two of them are one."""

    begun: float
    ended: float
    commands: int
    cpu_s: float


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a second of waiting, of a quiet pass (of any, where none was quiet), and of a
    hand-over beside both.

    `waited_s`: how long it was watched while it waited.
    """

    waiting: float
    quiet_pass: float
    handover: float
    waited_s: float


def cost(spans: Sequence[Span], look_s: float, pass_s: float, handovers: int) -> Cost:
    """What a controller's CPU is made of; `spans` in the order of their time.

    Looks come every `look_s`, while all is quiet passes every `pass_s`.
    """
    passes = list(passes_in(spans))
    waits = list(_waits(spans, passes, look_s))
    waited_s = sum(seconds for seconds, _ in waits)
    waiting = sum(cpu for _, cpu in waits) / waited_s if waited_s else 0.0
    quiet = [one.cpu_s for one in passes if one.commands == 1] or [one.cpu_s for one in passes]
    each, seconds = fmean(quiet or [0.0]), sum(one.seconds for one in spans)
    rest = sum(one.cpu_s for one in spans) - seconds * (waiting + each / pass_s)
    return Cost(waiting, each, max(0.0, rest) / max(1, handovers), waited_s)


def passes_in(spans: Sequence[Span]) -> Iterator[Pass]:
    """Every pass. One that a killed controller left undone is part of the next one's first."""
    begun: int | None = None
    for at, one in enumerate(spans):
        if one.commands > 0 and begun is None:
            begun = at
        if one.passes or (one is spans[-1] and begun is not None):
            whole = spans[at if begun is None else begun : at + 1]
            commands, cpu_s = sum(o.commands for o in whole), sum(o.cpu_s for o in whole)
            yield Pass(whole[0].begun, one.ended, commands, cpu_s)
            begun = None


def _waits(
    spans: Sequence[Span], passes: Sequence[Pass], look_s: float
) -> Iterator[tuple[float, float]]:
    """Seconds and CPU between each two passes, from the end of the first to half a look after the
    last look that is surely no part of the second: that many looks.
    """
    for before, after in pairwise(passes):
        looks = int((after.begun - before.ended) / look_s - 0.5)
        until = before.ended + (looks + 0.5) * look_s
        inside = [one for one in spans if before.ended <= one.begun and one.ended <= until]
        seconds = looks * look_s
        if looks > 0 and sum(one.seconds for one in inside) >= seconds:  # it lived all the time
            yield seconds, sum(one.cpu_s for one in inside)
