"""What a learner is put together from: handed to the loop by an entry, replaceable in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.job import Boot
from Daddy.learning.ports import EventSink, FrameSink, Stopper, VectorEnv, WeightExchange
from Daddy.learning.settings import PpoSettings

if TYPE_CHECKING:
    import torch

    from Daddy.core.vocabulary import AgentReport
    from Daddy.learning.policy import ActorCritic


Reached = Callable[[Mapping[str, Any]], Sequence[str]]
"""Names that one environment's facts (telemetry or episode info) show: milestones, assists."""


def no_milestones(facts: Mapping[str, Any]) -> Sequence[str]:  # noqa: ARG001
    """Of a workload that has none."""
    return ()


class Place(Protocol):
    """The place this learner fills: a slot of the run, or a laptop."""

    @property
    def term(self) -> int:
        """Grows with every holder; orders checkpoints."""
        ...

    def held(self) -> bool:
        """Whether the place is still ours; once it is not, nothing may be written any more."""
        ...

    def beat(self, data: Mapping[str, object]) -> None:
        """Prove that the loop goes round."""
        ...


class Board(Protocol):
    """A place for curves, such as TensorBoard."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Pace:
    """When the recurring steps of the loop are due; intervals are steps of this peer.

    ``sync_share`` is the largest share of its time that may go into shared weights.
    """

    total_steps: int
    checkpoint_interval: int
    checkpoint_seconds: float
    max_keep: int
    keep_hours: int = field(default=0, kw_only=True)
    sync_interval: int
    sync_share: float = 1.0
    log_interval: int = 1


@dataclass(frozen=True)
class Parts:
    """Everything the loop works with. `seed` is this peer's own, drawn from the run's.

    `assists` are the scripted helps in use, `helped` says which of them acted in a game, `given_up`
    which do not work.
    """

    workload: str
    policy: ActorCritic
    vector: VectorEnv
    settings: PpoSettings
    pace: Pace
    device: torch.device
    seed: int
    checkpoints: Path
    place: Place
    exchange: WeightExchange
    frames: FrameSink
    stopper: Stopper
    events: EventSink
    clock: Clock
    board: Board
    reports: Callable[[VectorEnv], Sequence[AgentReport]]
    reached: Reached = no_milestones
    helped: Reached = no_milestones
    given_up: Reached = no_milestones
    assists: tuple[str, ...] = ()
    boot: Boot = field(default_factory=lambda: Boot(SystemClock()))


@dataclass(frozen=True)
class Outcome:
    """How a learner ended.

    `done` (total_steps), `drained` (go on with me), `fenced` (the place was given away) or
    `diverged` (going on is pointless).
    """

    kind: str
    reason: str
    step: int
