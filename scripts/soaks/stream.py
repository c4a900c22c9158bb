"""Sends damaged messages to every decoder of the stream that reads another party's bytes.

``--messages 1000000 --seed N``. A decoder may raise only the errors that its docstring announces,
and no connection may hold more than 64 KiB beside the pictures that it must keep (``visits.py``).
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from Daddy.core.host_and_processes import usable_cores
from Daddy.core.process_pool import process_pool
from scripts.soaks import hostile_relay, hostile_visits
from scripts.soaks.hostile_visits import Visit

LIMIT = 64 * 1024
"""Bytes that one connection may hold."""
Target = Callable[[random.Random], Visit]
CONNECTIONS: tuple[Target, ...] = (
    hostile_visits.stranger_at_the_viewer, hostile_visits.stranger_at_the_relay,
    hostile_visits.spoilt_streams, hostile_visits.false_relay, hostile_visits.false_viewer,
)  # fmt: skip
"""Visits in which the hostile peer chooses every byte: their memory is measured."""
OTHERS: tuple[Target, ...] = (
    hostile_visits.looked_at, hostile_visits.bodies, hostile_visits.pictures,
    hostile_visits.segments, hostile_visits.files,
)  # fmt: skip
_CHUNK = 5_000
_PRINT_EVERY_S = 15.0
_SHOWN = 20


@dataclass
class Outcome:
    """The result of a chunk of messages; ``broken`` names the visit (its seed) and the finding."""

    count: Counter[str] = field(default_factory=Counter)
    held: dict[str, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Add another chunk's result."""
        self.count.update(other.count)
        self.broken += other.broken
        for name, most in other.held.items():
            self.held[name] = max(self.held.get(name, 0), most)


def run(total: int, seed: int) -> dict[str, object]:
    """Send ``total`` messages; return figures over all of them."""
    sizes = [_CHUNK] * (total // _CHUNK) + [total % _CHUNK] * bool(total % _CHUNK)
    whole, printed = Outcome(), time.monotonic()
    for outcome in _chunks(sizes, seed):
        whole.add(outcome)
        if outcome.broken or time.monotonic() - printed > _PRINT_EVERY_S:
            printed = time.monotonic()
            sent = whole.count["messages"]
            print(f"{sent:,} of {total:,} messages, {len(whole.broken)} broken", flush=True)
    broken = whole.broken[:_SHOWN]
    return {**whole.count, "held_bytes_most": whole.held, "broken": broken}


def _chunks(sizes: list[int], seed: int) -> Iterator[Outcome]:
    if len(sizes) == 1:
        yield throw(seed, (0, sizes[0]))
        return
    with process_pool(usable_cores()) as pool:
        yield from pool.imap(partial(throw, seed), enumerate(sizes))


def throw(seed: int, chunk: tuple[int, int]) -> Outcome:
    """Send ``chunk[1]`` messages in visits, each with a seed of its own."""
    hostile_relay.prepare()
    outcome, number = Outcome(), 0
    for target in (*CONNECTIONS, *OTHERS):  # imports and caches of the first call are no leak
        _run_visit(target, f"{seed} first", Outcome())
    while outcome.count["messages"] < chunk[1]:
        targets = CONNECTIONS if number % 2 else OTHERS
        target = targets[number // 2 % len(targets)]
        _run_visit(target, f"{seed} {chunk[0]} {number}", outcome)
        number += 1
    return outcome


def _run_visit(target: Target, seed: str, outcome: Outcome) -> None:
    """Run one visit; measure its most memory, without pictures, for those in ``CONNECTIONS``."""
    measured = target in CONNECTIONS
    if measured:
        tracemalloc.start()
    try:
        visit = target(random.Random(seed))
        peak = tracemalloc.get_traced_memory()[1] if measured else 0
    except Exception as error:  # noqa: BLE001 - any unexpected error is a finding
        outcome.broken.append(f"{target.__name__}, visit {seed}: {error!r}"[:300])
        visit, peak = Visit(1, 0), 0
    finally:
        tracemalloc.stop()
    name, held = target.__name__, peak - visit.pictures
    outcome.count.update({"messages": visit.thrown, "refused": visit.refused, "visits": 1})
    outcome.count[f"messages, {name}"] += visit.thrown
    if measured:
        outcome.held[name] = max(outcome.held.get(name, 0), held)
    if held > LIMIT:
        outcome.broken.append(f"{name}, visit {seed}: held {held} bytes")
