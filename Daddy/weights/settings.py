"""Pure: the numbers of the exchange that a config may set, with their reasons."""

from __future__ import annotations

from dataclasses import dataclass, field

from Daddy.weights.weighting import Limits

RULES = ("delta", "polyak", "elastic")
ELASTIC = 0.9
"""Elastic averaging: the sum of all jobs' pulls on the shared weights, K x a, stays below one."""


@dataclass(frozen=True, slots=True)
class ExchangeSettings:
    """How one peer takes part.

    ``rule``: "delta" adds progress since the base; "polyak" averages absolute weights and so undoes
    others' work when a writer is stale; "elastic" pulls job and shared weights towards each other.
    ``period_s`` is the longest a contribution waits for others. ``silence_s`` is how long a heartbeat
    may stand still. Staleness is counted in versions. ``keep_versions`` states stay on disk.
    ``wan`` offers versions to laptops.
    """

    run: str
    workload: str
    rule: str = "delta"
    period_s: float = 10.0
    silence_s: float = 60.0
    max_staleness: int = 4
    laptop_max_staleness: int = 8
    limits: Limits = field(default_factory=Limits)
    keep_versions: int = 8
    wan: bool = True
