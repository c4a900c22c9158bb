"""Four learners of one run, as jobs are: begun, watched, ended together; and what its events tell.

They are `python -m Daddy.train_slim` as users run it, with one thread each. Steps are the fleet's:
what all four had played when something happened.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from Daddy.core.errors import DaddyError, ExitCode
from Daddy.core.events import EventTail, read_events
from Daddy.core.files import write_json
from scripts.benches._learning_pool import learner, note_code, single_threaded
from scripts.benches._learning_runs import Run

WORKERS = 4
_LOOK_S, _TELL_S = 1.0, 20.0
_ENDS = (ExitCode.DONE, ExitCode.DRAINED)
_OWN = ("metric", "progress")
"""Events whose step is the learner's own; a merger's is the fleet's."""

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Steps:
    """How far each learner was when: times and steps in order, by peer."""

    told: Mapping[str, tuple[list[float], list[int]]]

    def of_fleet(self, ts: float) -> int:
        """Steps of all learners together by `ts`, in wall seconds."""
        total = 0
        for times, steps in self.told.values():
            place = bisect_right(times, ts)
            total += steps[place - 1] if place else 0
        return total


def steps_of(run: Run) -> Steps:
    """From the events of each slot."""
    told: dict[str, tuple[list[float], list[int]]] = {}
    for path in sorted(run.paths.events.glob("learner-slot-*.jsonl")):
        times, steps, most = list[float](), list[int](), 0
        own = (one for one in read_events(path.parent, path.name) if one["event"] in _OWN)
        for event in own:
            most = max(most, int(event["step"]))
            times.append(float(event["ts"]))
            steps.append(most)
        told[path.stem] = (times, steps)
    return Steps(told)


def first(run: Run, milestone: str) -> int | None:
    """Steps of the fleet when its first learner had `milestone`; None if none has."""
    stamps = [
        float(event["ts"]) for event in read_events(run.paths.events) if _is(event, milestone)
    ]
    return steps_of(run).of_fleet(min(stamps)) if stamps else None


def _is(event: Event, milestone: str) -> bool:
    return bool(event["event"] == "progress" and event["data"].get("milestone") == milestone)


def play(run: Run, tell: Callable[[str], None], *, to_the_end: bool) -> None:
    """Until all steps are used up, or the first learner is there; kept in the run's folder.

    DaddyError if a learner fails; KeyboardInterrupt leaves checkpoints to go on from.
    """
    note_code(run)
    run.write_config()
    run.paths.events.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        children = [
            stack.enter_context(single_threaded(run.folder, learner(run))) for _ in range(WORKERS)
        ]
        for there in _watch(run, tell):
            if all(child.poll() is not None for child in children) or (there and not to_the_end):
                break
    for child in children:
        if child.returncode not in _ENDS:
            said = f"{run.name}: a learner ended with exit code {child.returncode}"
            raise DaddyError(said, f"read {run.folder / 'log.txt'}")
    write_json(run.done, {"wall_s": run.seconds() / WORKERS})


def _watch(run: Run, tell: Callable[[str], None]) -> Iterator[bool]:
    """Once a second, whether the goal was reached; tells how far the run is now and then."""
    tail, there, said = EventTail(run.paths.events), False, time.monotonic()
    while True:
        there = there or any(_is(event, run.part.goal) for event in tail.new())
        yield there
        if time.monotonic() - said >= _TELL_S:
            said = time.monotonic()
            steps = steps_of(run).of_fleet(float("inf"))
            tell(f"{run.name}: {steps:,} steps")
        time.sleep(_LOOK_S)
