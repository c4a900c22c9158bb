"""Pure: everything the controller can do, and a plan made of it.

``plan`` decides, ``apply_plan`` acts; each action carries its reason in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from Daddy.cluster.orchestrator.controller_records import Mode, Orders

if TYPE_CHECKING:
    from Daddy.cluster.orchestrator.decisions.circuit_breaker import Hold


@dataclass(frozen=True, slots=True)
class Submit:
    """Queue one more job; behind job ``after`` where that is given; not on nodes ``exclude``."""

    reason: str
    after: int | None = None
    exclude: tuple[str, ...] = ()
    release: str = ""
    """The source of its launcher; the release it trains with is in the orders."""
    request: str = ""
    """The release whose resources and limits are asked for; empty: those of ``release``."""


@dataclass(frozen=True, slots=True)
class Amend:
    """Change a waiting job in its place; None leaves a thing as it is.

    Nodes and limit leave the job its age; a hold costs it on sites with accounting (decision 24).
    """

    token: str
    job_id: int
    reason: str
    hold: bool | None = None
    exclude: tuple[str, ...] | None = None
    limit_s: int | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """Ask a running job to checkpoint and leave."""

    token: str
    job_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a job, whatever it does."""

    token: str
    job_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class EndTerm:
    """Free the slot of a holder that is proven gone."""

    slot: int
    term: int
    reason: str


@dataclass(frozen=True, slots=True)
class Conclude:
    """Nothing is left to do for ever: write down the final mode and leave."""

    mode: Mode
    reason: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Somebody above us wants the run to stand still: write that down, touch nothing."""

    reason: str


@dataclass(frozen=True, slots=True)
class Notify:
    """Tell the person once; ``kind`` is what is not told again for a while."""

    kind: str
    reason: str


Action = Submit | Amend | Signal | Cancel | EndTerm | Conclude | Pause | Notify


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions for now, their reasons, and the time to ask again."""

    actions: tuple[Action, ...]
    reasons: tuple[str, ...]
    wake_at: float
    """When to look again at the latest, wall seconds."""
    orders: Orders | None = None
    """None: whatever was ordered still holds."""
    due_at: float = inf
    """When the decision would change even if nothing new were seen; a simulator may skip to it."""
    holds: tuple[Hold, ...] = ()
    rollout: str = ""
    """The release that is tried or given up, in words; empty where all slots run the wanted one."""
    avoided: tuple[str, ...] = ()
    """Nodes that are left out."""
