"""A learner of the bench `sharing`: the product's own session, taken step by step.

Policy, collector, PPO and the loop's steps are those that a job runs; only their order is the
bench's, so that several learners in one process take turns and time is told instead of spent.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from Daddy.core.hyperparameters import resolve_settings, seed_for
from Daddy.core.name_validation import new_incarnation
from Daddy.core.settings import TrainingSettings
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.learning import loop
from Daddy.learning.cartpole import CartPole
from Daddy.learning.interfaces import NoFrames, WeightExchange
from Daddy.learning.learner_parts import LoopSchedule, Parts, TensorBoard
from Daddy.learning.learner_state import LearnerState
from Daddy.learning.make_vector import make_vector
from Daddy.learning.policy import ActorCritic, make_policy
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.weight_exchange import SharedExchange
from Daddy.workloads import WORKLOADS

FEATURES = 64
PPO = resolve_settings(
    TrainingSettings(num_envs=16, horizon=64, batch_size=128, learning_rate=2e-3, profile="cpu"),
    "cpu",
)
"""Settings of every learner in every arm: 1024 steps an update; others are the product's."""
ROUND_S = 20.0
"""Seconds of a round of training on the test clock."""


@dataclass
class ManualClock:
    """A clock that moves when a round is over, or during a wait."""

    time: float = 1_000.0

    def now(self) -> float:
        return 1_700_000_000.0 + self.time

    def monotonic(self) -> float:
        return self.time

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Move the clock on by the waited seconds, at once."""
        self.time += seconds
        return stop.is_set()


@dataclass
class EventCounter:
    """Records events of the exchange and the loop: counts actions, keeps errors."""

    counts: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        """One event at `step`."""
        if event == "error":
            self.errors.append(f"step {step}: {dict(data)}")
        state = str(data.get("state", event))
        self.counts[state] = self.counts.get(state, 0) + 1
        if state == "refused":
            self.refused.append(str(data.get("reason")))


class AlwaysHeld:
    """A slot lease that no other process wants."""

    term = 1

    def held(self) -> bool:
        return True

    def beat(self, data: Mapping[str, object]) -> None:
        """Accept a heartbeat."""


class NeverStops:
    """A stop signal that never comes: the bench counts rounds."""

    def stop_reason(self) -> None:
        """Nobody asks to leave."""


def settings(**changes: object) -> ExchangeSettings:
    """Return the product's exchange settings for a folder of this bench."""
    return replace(ExchangeSettings(run="sharing", workload="cartpole", wan=False), **changes)  # type: ignore[arg-type]


def exchange(
    root: Path, peer: str, clock: ManualClock, ear: EventCounter, how: ExchangeSettings
) -> SharedExchange:
    """Return a new process's exchange with the shared folder `root`."""
    return SharedExchange(SharedPaths(root), peer, new_incarnation(), how, clock, ear)


def first_policy(seed: int) -> ActorCritic:
    """Return the common first policy of all learners of one seed."""
    torch.manual_seed(seed_for(seed, "first weights"))
    return make_policy(CartPole().observation_space, 2, FEATURES, 0)  # type: ignore[arg-type]


def learner(
    seed: int,
    peer: str,
    folder: Path,
    sharing: WeightExchange,
    clock: ManualClock,
    ear: EventCounter,
    size: int = 1,
) -> LearnerState:
    """Return a session before its first round, from the newest checkpoint in `folder` if any.

    `size` learners in one: so many times the environments and the minibatch.
    """
    ppo = replace(PPO, num_envs=size * PPO.num_envs, batch_size=size * PPO.batch_size)
    parts = Parts(
        workload=replace(WORKLOADS["cartpole"], reports=lambda _: ()),
        peer=peer,
        tensorboard=folder,
        policy=first_policy(seed),
        vector=make_vector(CartPole, ppo.num_envs, "serial", 1, 1),
        settings=ppo,
        schedule=LoopSchedule(0, 1, 0.0, 2, sync_interval=1),
        device=torch.device("cpu"),
        seed=seed_for(seed, peer),
        checkpoints=folder / "checkpoints" / peer,
        lease=AlwaysHeld(),
        exchange=sharing,
        frames=NoFrames(),
        stopper=NeverStops(),
        events=ear,
        clock=clock,
        board=TensorBoard(None, clock),
    )
    return loop.start_learner(parts)


def train(session: LearnerState) -> None:
    """Collect a rollout and learn from it."""
    loop.collect_rollout(session)
    loop.estimate_advantages(session)
    loop.update_policy(session)
