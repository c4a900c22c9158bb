"""From a configuration to parts: what a job and a contributing laptop put together alike.

The entry chooses the workload, the exchange and the frame sink; the rest follows from the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.job import Boot
from Daddy.core.machine import usable_cores
from Daddy.core.seeds import seed_for
from Daddy.core.settings import Config
from Daddy.learning.board import NoBoard, TensorBoard
from Daddy.learning.device import keep_freed_memory, limit_threads
from Daddy.learning.device import resolve as resolve_device
from Daddy.learning.parts import Board, Pace, Parts, Place, Reached, no_milestones
from Daddy.learning.ports import EventSink, FrameSink, Stopper, VectorEnv, WeightExchange
from Daddy.learning.settings import resolve as resolve_settings
from Daddy.learning.vector import make_vector

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.spaces import Dict as DictSpace
    from gymnasium.spaces import Discrete

    from Daddy.core.vocabulary import AgentReport
    from Daddy.learning.policy import ActorCritic

_LEARNERS_PER_MACHINE = 4
"""Torch's fair share of the cores: locally four learners share a machine, and in a job of its own
a learner's emulators need most of them."""


@dataclass(frozen=True)
class Surroundings:
    """What differs between a job and a laptop."""

    peer: str
    checkpoints: Path
    tensorboard: Path
    place: Place
    exchange: WeightExchange
    frames: FrameSink
    stopper: Stopper
    events: EventSink
    clock: Clock
    boot: Boot = field(default_factory=lambda: Boot(SystemClock()))


@dataclass(frozen=True)
class Task:
    """What is learnt: a row of the workloads' table, made concrete by a configuration."""

    name: str
    make_env: Callable[[], gymnasium.Env[Any, Any]]
    make_policy: Callable[[DictSpace, Discrete], ActorCritic]
    reports: Callable[[VectorEnv], Sequence[AgentReport]]
    reached: Reached = no_milestones
    helped: Reached = no_milestones
    given_up: Reached = no_milestones


def assemble(
    config: Config,
    task: Task,
    around: Surroundings,
    cores: int = 0,
    ahead: Callable[[], VectorEnv] | None = None,
) -> Parts:
    """Parts ready for `loop.train`. Whoever calls closes `parts.vector` and `parts.board`.

    `cores` is how many the environments may use (0: all usable; a laptop leaves one free); `ahead`
    gives the environments where they have been begun already.
    ConfigError for a device that is not there; whatever the environment raises.
    """
    training = config.training
    device = resolve_device(training.device)
    keep_freed_memory()
    limit_threads(training.torch_threads or usable_cores() // _LEARNERS_PER_MACHINE)
    how = (training.num_envs, training.vector_backend, cores, training.vector_groups)
    make = partial(make_vector, task.make_env, *how)
    vector = (ahead or make)()
    around.boot.mark("environments")
    torch.manual_seed(seed_for(training.seed, "first weights"))
    return Parts(
        workload=task.name,
        policy=task.make_policy(vector.observation_space, vector.action_space),
        vector=vector,
        settings=resolve_settings(training, device.type),
        pace=pace_of(config),
        device=device,
        seed=seed_for(training.seed, around.peer),
        checkpoints=around.checkpoints,
        place=around.place,
        exchange=around.exchange,
        frames=around.frames,
        stopper=around.stopper,
        events=around.events,
        clock=around.clock,
        board=board_of(config, around),
        reports=task.reports,
        reached=task.reached,
        helped=task.helped,
        given_up=task.given_up,
        assists=tuple(training.assists),
        boot=around.boot,
    )


def pace_of(config: Config) -> Pace:
    """When the loop's recurring steps are due."""
    training = config.training
    return Pace(
        total_steps=training.total_steps,
        checkpoint_interval=training.checkpoint_interval,
        checkpoint_seconds=config.checkpointing.min_seconds,
        max_keep=config.checkpointing.max_keep,
        keep_hours=config.checkpointing.keep_hours,
        sync_interval=config.collaboration.sync_interval_steps,
        sync_share=config.collaboration.sync_share,
        log_interval=training.log_interval,
    )


def board_of(config: Config, around: Surroundings) -> Board:
    """TensorBoard in a folder of this peer, or nothing."""
    wanted = config.training.tensorboard
    return TensorBoard(around.tensorboard / around.peer, around.clock) if wanted else NoBoard()
