"""Pure. Defines the controller's actions, and the plan that consists of them.

``planner`` chooses the actions and ``apply_plan`` executes them; each carries its reason in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from Daddy.cluster.orchestrator.controller_types import Mode, Orders

if TYPE_CHECKING:
    from Daddy.cluster.orchestrator.decisions.circuit_breaker import Hold


@dataclass(frozen=True, slots=True)
class Submit:
    """Submits one job: after job ``after`` has ended if given, never on the nodes ``exclude``."""

    reason: str
    after: int | None = None
    exclude: tuple[str, ...] = ()
    release: str = ""
    """The release of its launcher; the learner's release is read from the orders at the claim."""
    request: str = ""
    """The release whose resources and limits are requested; empty: those of ``release``."""


@dataclass(frozen=True, slots=True)
class Amend:
    """Changes a waiting job; None keeps a field. A hold may reset the job's age (decision 24)."""

    token: str
    job_id: int
    reason: str
    hold: bool | None = None
    exclude: tuple[str, ...] | None = None
    limit_s: int | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """Signals a running job to write a checkpoint and exit."""

    token: str
    job_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancels a job in any state (``scancel``)."""

    token: str
    job_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class EndTerm:
    """Ends the lease term of a holder that is proven dead, which frees its slot."""

    slot: int
    term: int
    reason: str


@dataclass(frozen=True, slots=True)
class Conclude:
    """Records the final mode and ends the controller: no job is left."""

    mode: Mode
    reason: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Pauses the run and leaves every job as it is, because another person intervened."""

    reason: str


@dataclass(frozen=True, slots=True)
class Notify:
    """Notifies the person; the same ``kind`` is not repeated for six hours."""

    kind: str
    reason: str


Action = Submit | Amend | Signal | Cancel | EndTerm | Conclude | Pause | Notify


@dataclass(frozen=True, slots=True)
class Plan:
    """Holds the actions of one pass, their reasons, and the time of the next pass."""

    actions: tuple[Action, ...]
    reasons: tuple[str, ...]
    wake_at: float
    """Latest time of the next pass, wall seconds."""
    orders: Orders | None = None
    """New orders for starting jobs; None: the orders written before stay."""
    due_at: float = inf
    """Time from which the plan changes without news, wall seconds; the simulator skips to it."""
    holds: tuple[Hold, ...] = ()
    rollout: str = ""
    """The release on trial or given up, as a sentence; empty if all slots run the wanted one."""
    avoided: tuple[str, ...] = ()
    """Nodes on which no job may start."""
