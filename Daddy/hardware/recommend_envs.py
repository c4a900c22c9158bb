"""Pure. Recommends a number of environments for a machine, with the reasons.

From a machine's facts alone, the recommendation is the cautious table of the guide. From a measured
sweep, it is the smallest number within five per cent of the fastest whose measured memory fits.
Both leave one core and four gigabytes to the person at the keyboard.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

GIB = 1 << 30
CORES_FOR_THE_PERSON = 1
BYTES_FOR_THE_PERSON = 4 * GIB
BYTES_PER_ENV = GIB * 4 // 3
"""Assumed without a measurement (the guide: 8 GB, at most 3). Measured values are far less."""
MOST_ON_A_LAPTOP = 6
MOST_WITH_PLENTY = 8
PLENTY_BYTES = 24 * GIB
MOST_WITH_GPU = 16
"""Upper limits of the guide's table; higher numbers need a measurement."""
MOST_SWEPT = 64
"""Largest number that a sweep tries."""
NEAR_ENOUGH = 0.95
"""Share of the highest rate at which a smaller number of environments is preferred."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Holds a machine's usable cores, memory in bytes, and if it has a GPU with own memory.

    An Apple laptop's GPU shares the main memory, so that GPU does not count.
    """

    cores: int
    memory_bytes: int
    has_gpu: bool = False

    @property
    def spare_bytes(self) -> int:
        """Bytes of memory beyond the 4 GiB that are left to the person."""
        return max(0, self.memory_bytes - BYTES_FOR_THE_PERSON)

    @property
    def free_cores(self) -> int:
        """Number of cores less the one that is left to the person, at least 1."""
        return max(1, self.cores - CORES_FOR_THE_PERSON)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Holds a sweep's result: steps per second and resident bytes with ``envs`` environments.

    ``groups``: the number of groups in which they were stepped; 0: the default number.
    """

    envs: int
    steps_per_s: float
    resident_bytes: int
    groups: int = 0


class Recommendation(NamedTuple):
    """Holds a recommended number of environments, and the reasons as sentences."""

    envs: int
    reasons: tuple[str, ...]


def recommend(facts: MachineFacts) -> Recommendation:
    """Recommend a number of environments from the machine's facts alone."""
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
    """Recommend the smallest count within 5 % of the fastest that fits; ValueError without rows."""
    if not rows:
        raise ValueError("nothing was measured")
    fitting = [row for row in rows if row.resident_bytes <= facts.spare_bytes]
    reasons = [
        f"cores: {facts.cores}, one of them left to you",
        f"memory: {_gib(facts.spare_bytes)} beside your 4 GiB",
    ]
    if not fitting:
        reasons.append("no environment fits beside your 4 GiB: run one, and close other programs")
        return Recommendation(1, tuple(reasons))
    fastest = max(fitting, key=lambda row: row.steps_per_s)
    chosen = min(
        (row for row in fitting if row.steps_per_s >= NEAR_ENOUGH * fastest.steps_per_s),
        key=lambda row: row.envs,
    )
    reasons.append(_reason(chosen, fastest))
    if len(fitting) < len(rows):
        reasons.append(f"{len(rows) - len(fitting)} larger counts need more memory than there is")
    return Recommendation(chosen.envs, tuple(reasons))


def choose_groups(
    facts: MachineFacts, usual: Measurement, others: Sequence[Measurement]
) -> tuple[Measurement, str]:
    """Choose the fastest number of groups, or the default if none gains five per cent.

    Rows of ``others`` that need the person's memory are left out. Returns the row and the reason.
    """
    fitting = (row for row in others if row.resident_bytes <= facts.spare_bytes)
    best = max((usual, *fitting), key=lambda row: row.steps_per_s)
    if best.steps_per_s <= usual.steps_per_s / NEAR_ENOUGH:
        return usual, f"no other number of groups ({len(others)}) gains more than five per cent"
    gain = best.steps_per_s / usual.steps_per_s - 1
    return best, f"{best.groups} groups are {gain:.0%} faster than the default number"


def counts_to_try(facts: MachineFacts) -> tuple[int, ...]:
    """Return the numbers of environments to measure: 1, and 1 to 8 times the free cores."""
    free = facts.free_cores
    counts = {1, free, 2 * free, 4 * free, 8 * free}
    return tuple(sorted(count for count in counts if count <= MOST_SWEPT))


def _bound(facts: MachineFacts) -> tuple[int, list[str]]:
    """Return the guide's largest number of environments for this machine, with reasons."""
    free = facts.free_cores
    reasons = [f"cores: {facts.cores}, one of them left to you"]
    if facts.has_gpu:
        reasons.append("a GPU runs the network, so each free core drives two environments")
        return min(MOST_WITH_GPU, 2 * free), reasons
    if facts.memory_bytes > PLENTY_BYTES:
        return min(MOST_WITH_PLENTY, free + 1), reasons
    return min(MOST_ON_A_LAPTOP, free), reasons


def _reason(chosen: Measurement, fastest: Measurement) -> str:
    if chosen.envs == fastest.envs:
        return f"{chosen.envs} was the fastest: {chosen.steps_per_s:.0f} steps/s"
    share = chosen.steps_per_s / fastest.steps_per_s
    return (
        f"{chosen.envs} reaches {share:.0%} of the fastest ({fastest.envs} environments, "
        f"{fastest.steps_per_s:.0f} steps/s) and costs less"
    )


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
