"""Builds the parts of a learner from a configuration (:func:`assemble`).

A job and a contributing laptop differ only in their :class:`Surroundings`, which the entry point
makes; the other parts follow from the settings and the workload. Tests replace single parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.host_and_processes import usable_cores
from Daddy.core.hyperparameters import PpoSettings, resolve_settings, seed_for
from Daddy.core.job_environment import StartupTimer
from Daddy.core.settings import KEPT_CHECKPOINTS, Config
from Daddy.core.shared_types import EventSink
from Daddy.learning.device import keep_freed_memory, limit_threads, resolve_device
from Daddy.learning.interfaces import (
    EnvWorkload,
    FrameSink,
    LearnerLease,
    ProcessGroup,
    SingleProcess,
    Stopper,
    WeightExchange,
)
from Daddy.learning.vector_rows import VectorEnv

if TYPE_CHECKING:
    from Daddy.learning.policy import ActorCritic

_CHECKPOINT_S = 60.0
"""Shortest time between two checkpoints: they are written to a network file system."""
_LONGEST_PAUSE_S = 600.0
"""Longest time between two contributions, or two checks for newer versions, on a slow disk."""
_LEARNERS_PER_MACHINE = 4
"""Divisor of the cores for torch's threads: locally four learners or more share a machine, and in a
Slurm job the emulators need most cores."""


@dataclass(frozen=True)
class LoopSchedule:
    """Holds the intervals of the loop's recurring work, in this peer's steps or in seconds.

    Sharing weights takes 1 % of the time at most, with pauses of up to ``longest_pause`` seconds.
    """

    total_steps: int
    checkpoint_interval: int
    checkpoint_seconds: float
    max_keep: int
    sync_interval: int
    longest_pause: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Holds the parts of a learner that differ between a job and a laptop."""

    peer: str
    checkpoints: Path
    tensorboard: Path | None
    lease: LearnerLease
    exchange: WeightExchange
    frames: FrameSink
    stopper: Stopper
    events: EventSink
    clock: Clock
    group: ProcessGroup = field(default_factory=SingleProcess)
    boot: StartupTimer = field(default_factory=lambda: StartupTimer(SystemClock()))


@dataclass(frozen=True, kw_only=True)
class Parts(Surroundings):
    """Holds all parts of a learner; `seed` comes from the run's; `assists` are those in use."""

    workload: EnvWorkload
    policy: ActorCritic
    vector: VectorEnv
    settings: PpoSettings
    schedule: LoopSchedule
    device: torch.device
    seed: int
    board: TensorBoard
    assists: tuple[str, ...] = ()


def assemble(
    config: Config,
    workload: EnvWorkload,
    surroundings: Surroundings,
    environments: Callable[[], VectorEnv],
) -> Parts:
    """Return the parts for `loop.train`. The caller closes the parts' `vector` and `board`.

    `environments` returns the vector, perhaps after a wait. ConfigError for a missing device.
    """
    training = config.training
    device = resolve_device(training.device)
    keep_freed_memory()
    own_cores = config.controller.executor == "slurm"  # a Slurm job sees only its own cores
    learners = 1 if own_cores else config.slurm.max_running
    limit_threads(usable_cores() // max(_LEARNERS_PER_MACHINE, learners))
    vector = environments()
    surroundings.boot.mark("environments")
    torch.manual_seed(seed_for(training.seed, "first weights"))
    curves = surroundings.tensorboard
    return Parts(
        **vars(surroundings),
        workload=workload,
        policy=workload.make_policy(training, vector.observation_space, vector.action_space),
        vector=vector,
        settings=resolve_settings(training, device.type),
        schedule=LoopSchedule(
            total_steps=training.total_steps,
            checkpoint_interval=training.checkpoint_interval,
            checkpoint_seconds=config.slurm.limit_interval(_CHECKPOINT_S),
            max_keep=KEPT_CHECKPOINTS,
            sync_interval=config.collaboration.sync_interval_steps,
            longest_pause=config.slurm.limit_interval(_LONGEST_PAUSE_S),
        ),
        device=device,
        seed=seed_for(training.seed, surroundings.peer),
        board=TensorBoard(curves and curves / surroundings.peer, surroundings.clock),
        assists=tuple(training.assists),
    )


_FLUSH_SECONDS = 10


class TensorBoard:
    """Writes scalar curves to TensorBoard files in `folder`, or nothing if `folder` is None.

    Imports TensorBoard with the first curve only, since its imports would delay a job's start.
    """

    def __init__(self, folder: Path | None, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._writer: Any = None

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write a point at `step` to the curve of each name."""
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
        except OSError:  # a full disk: drop the points, and open a new file the next time
            self._writer = None

    def close(self) -> None:
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
