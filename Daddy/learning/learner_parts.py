"""The parts of a learner, put together from a configuration by :func:`assemble`.

A job and a contributing laptop differ in their :class:`Surroundings` alone, which the entry makes;
the rest follows from the settings and the workload. Tests replace single parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.job_environment import StartupTimer
from Daddy.core.machine_info import usable_cores
from Daddy.core.settings import KEPT_CHECKPOINTS, Config
from Daddy.core.shared_types import EventSink
from Daddy.learning.device import keep_freed_memory, limit_threads
from Daddy.learning.device import resolve as resolve_device
from Daddy.learning.hyperparameters import PpoSettings, seed_for
from Daddy.learning.hyperparameters import resolve as resolve_settings
from Daddy.learning.interfaces import (
    EnvWorkload,
    FrameSink,
    LearnerLease,
    Stopper,
    WeightExchange,
)
from Daddy.learning.vector_rows import VectorEnv

if TYPE_CHECKING:
    from Daddy.learning.policy import ActorCritic

_CHECKPOINT_S = 60.0
"""Shortest time between due checkpoints: they go to a network file system."""
_LONGEST_PAUSE_S = 600.0
"""Between two contributions, or two looks, of a learner that shares through a slow disk."""
_LEARNERS_PER_MACHINE = 4
"""Torch's fair share of the cores: locally four learners or more share a machine, and in a job of
its own a learner's emulators need most of them."""


@dataclass(frozen=True)
class Pace:
    """When the recurring steps of the loop are due; intervals are steps of this peer.

    Sharing takes a hundredth of a learner's time at most, but comes after ``longest_pause``
    seconds however dear it is.
    """

    total_steps: int
    checkpoint_interval: int
    checkpoint_seconds: float
    max_keep: int
    sync_interval: int
    longest_pause: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The parts in which a job and a laptop differ."""

    peer: str
    checkpoints: Path
    tensorboard: Path | None
    lease: LearnerLease
    exchange: WeightExchange
    frames: FrameSink
    stopper: Stopper
    events: EventSink
    clock: Clock
    boot: StartupTimer = field(default_factory=lambda: StartupTimer(SystemClock()))


@dataclass(frozen=True, kw_only=True)
class Parts(Surroundings):
    """Everything the loop works with. `seed` is this peer's own, drawn from the run's.

    `assists` are the scripted helps in use.
    """

    workload: EnvWorkload
    policy: ActorCritic
    vector: VectorEnv
    settings: PpoSettings
    pace: Pace
    device: torch.device
    seed: int
    board: TensorBoard
    assists: tuple[str, ...] = ()


def assemble(
    config: Config,
    workload: EnvWorkload,
    around: Surroundings,
    environments: Callable[[], VectorEnv],
) -> Parts:
    """Parts ready for `loop.train`. The caller closes `vector` and `board` of them.

    `environments` gives them, or waits for those that are being made. ConfigError for a device that
    is not there; whatever the environment raises.
    """
    training = config.training
    device = resolve_device(training.device)
    keep_freed_memory()
    alone = config.controller.executor == "slurm"  # such a job sees only cores of its own
    neighbours = 1 if alone else config.slurm.max_running
    limit_threads(usable_cores() // max(_LEARNERS_PER_MACHINE, neighbours))
    vector = environments()
    around.boot.mark("environments")
    torch.manual_seed(seed_for(training.seed, "first weights"))
    curves = around.tensorboard
    return Parts(
        **vars(around),
        workload=workload,
        policy=workload.make_policy(vector.observation_space, vector.action_space),
        vector=vector,
        settings=resolve_settings(training, device.type),
        pace=Pace(
            total_steps=training.total_steps,
            checkpoint_interval=training.checkpoint_interval,
            checkpoint_seconds=config.slurm.limit_interval(_CHECKPOINT_S),
            max_keep=KEPT_CHECKPOINTS,
            sync_interval=config.collaboration.sync_interval_steps,
            longest_pause=config.slurm.limit_interval(_LONGEST_PAUSE_S),
        ),
        device=device,
        seed=seed_for(training.seed, around.peer),
        board=TensorBoard(curves and curves / around.peer, around.clock),
        assists=tuple(training.assists),
    )


_FLUSH_SECONDS = 10


class TensorBoard:
    """Writes scalar curves under `folder`, without one nothing.

    Loaded after the first update only: its imports would delay a job's start.
    """

    def __init__(self, folder: Path | None, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._writer: Any = None

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """One point at `step` on the curve of every name."""
        if self._folder is None:
            return
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        points = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        event = Event(wall_time=self._clock.now(), step=step, summary=Summary(value=points))
        try:
            if self._writer is None:
                self._writer = EventFileWriter(str(self._folder), flush_secs=_FLUSH_SECONDS)
            self._writer.add_event(event)
        except OSError:  # a full disk costs points, not the learner; a new file is tried next time
            self._writer = None

    def close(self) -> None:
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
