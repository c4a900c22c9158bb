"""Pure: how many environments a machine should run, and why.

Two ways to know. From facts alone, the guide's table, which is cautious by design. From a measured
sweep, the smallest count that is within five per cent of the fastest; only there does memory count
as what it is. Either way one core and four gigabytes stay with the person at the keyboard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

GIB = 1 << 30
CORES_FOR_THE_PERSON = 1
BYTES_FOR_THE_PERSON = 4 * GIB
BYTES_PER_ENV = GIB * 4 // 3
"""Of the guide's table (8 GB: at most 3). Measuring finds far less; without it, be cautious."""
MOST_ON_A_LAPTOP = 6
MOST_WITH_PLENTY = 8
PLENTY_BYTES = 24 * GIB
MOST_WITH_GPU = 16
"""Upper ends of the guide's table; more has to be measured first."""
MOST = 64
"""Nobody's laptop; a typing error in --num-envs shall not take a machine down."""
NEAR_ENOUGH = 0.95
"""Share of the fastest count's speed with which a smaller count is preferred."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """A machine: usable cores, memory in bytes, and whether it has a GPU with memory of its own.

    An Apple laptop's GPU shares the memory, so it does not count.
    """

    cores: int
    memory_bytes: int
    has_gpu: bool = False

    @property
    def spare_bytes(self) -> int:
        """Memory beside what stays with the person."""
        return max(0, self.memory_bytes - BYTES_FOR_THE_PERSON)

    @property
    def free_cores(self) -> int:
        """Cores beside the one that stays with the person, at least one."""
        return max(1, self.cores - CORES_FOR_THE_PERSON)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of a sweep: environment steps per second and resident bytes with ``envs``.

    ``backend`` and ``groups`` say how they were run side by side, "auto" and 0: as is usual.
    """

    envs: int
    steps_per_s: float
    resident_bytes: int
    backend: str = "auto"
    groups: int = 0


class Recommendation(NamedTuple):
    """A number of environments, and the reasons."""

    envs: int
    reasons: tuple[str, ...]


def recommend(facts: MachineFacts) -> Recommendation:
    """From the facts alone, before anything was measured."""
    bound, reasons = _bound(facts)
    fitting = facts.spare_bytes // BYTES_PER_ENV
    reasons.append(
        f"memory: {_gib(facts.memory_bytes)} less 4 GiB for you holds {fitting} environments"
    )
    upper = max(1, min(bound, fitting))
    if upper < bound:
        reasons.append(f"memory decides: {upper}")
    return Recommendation(upper, tuple(reasons))


def recommend_measured(facts: MachineFacts, rows: Sequence[Measurement]) -> Recommendation:
    """From a sweep: the smallest count within five per cent of the fastest that memory allows.

    ValueError when ``rows`` is empty.
    """
    if not rows:
        raise ValueError("nothing was measured")
    fitting = [row for row in rows if row.resident_bytes <= facts.spare_bytes]
    reasons = [
        f"cores: {facts.cores}, one of them left to you",
        f"memory: {_gib(facts.spare_bytes)} beside your 4 GiB",
    ]
    if not fitting:
        reasons.append("not even one environment fits beside your 4 GiB: one, and close something")
        return Recommendation(1, tuple(reasons))
    fastest = max(fitting, key=lambda row: row.steps_per_s)
    chosen = min(
        (row for row in fitting if row.steps_per_s >= NEAR_ENOUGH * fastest.steps_per_s),
        key=lambda row: row.envs,
    )
    reasons.append(_why(chosen, fastest))
    if len(fitting) < len(rows):
        reasons.append(f"{len(rows) - len(fitting)} larger counts need more memory than there is")
    return Recommendation(chosen.envs, tuple(reasons))


def choose_backend(
    facts: MachineFacts, usual: Measurement, others: Sequence[Measurement]
) -> tuple[Measurement, str]:
    """How to run as many environments as ``usual`` has: as it does, unless another gains by it.

    Ways that need the person's memory are none.
    """
    fitting = (row for row in others if row.resident_bytes <= facts.spare_bytes)
    best = max((usual, *fitting), key=lambda row: row.steps_per_s)
    if best.steps_per_s <= usual.steps_per_s / NEAR_ENOUGH:
        return usual, f"no other way of {len(others)} is faster by more than five per cent"
    gain = best.steps_per_s / usual.steps_per_s - 1
    return best, f"{best.backend} in {best.groups} groups is {gain:.0%} faster than what is usual"


def counts_to_try(facts: MachineFacts) -> tuple[int, ...]:
    """Environment counts worth measuring: around the cores that may be used, then multiples."""
    free = facts.free_cores
    wanted = {1, free, 2 * free, 4 * free, 8 * free}
    return tuple(sorted(count for count in wanted if count <= MOST))


def _bound(facts: MachineFacts) -> tuple[int, list[str]]:
    """What the cores allow, as the guide's table has it."""
    free = facts.free_cores
    reasons = [f"cores: {facts.cores}, one of them left to you"]
    if facts.has_gpu:
        reasons.append("a GPU runs the network, so each free core drives two environments")
        return min(MOST_WITH_GPU, 2 * free), reasons
    if facts.memory_bytes > PLENTY_BYTES:
        return min(MOST_WITH_PLENTY, free + 1), reasons
    return min(MOST_ON_A_LAPTOP, free), reasons


def _why(chosen: Measurement, fastest: Measurement) -> str:
    if chosen.envs == fastest.envs:
        return f"{chosen.envs} was the fastest: {chosen.steps_per_s:.0f} steps/s"
    share = chosen.steps_per_s / fastest.steps_per_s
    return (
        f"{chosen.envs} reaches {share:.0%} of the fastest ({fastest.envs} environments, "
        f"{fastest.steps_per_s:.0f} steps/s) and costs less"
    )


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
