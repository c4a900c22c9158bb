"""Holds the state of one learner, and converts the state to a checkpoint and back.

Promises exact resume: on a CPU a restored learner continues bit for bit, because the checkpoint
holds weights, optimizer, environments, the rollout in progress and every random generator.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from Daddy.core.agreed_settings import describe_sizes
from Daddy.core.assist_compatibility import refuse_missing_assists
from Daddy.core.errors import ConfigError
from Daddy.core.hyperparameters import seed_for
from Daddy.learning.adam import FlatAdam
from Daddy.learning.behaviour_metrics import Milestones, MovementStats
from Daddy.learning.checkpoint import Checkpoint, bytes_to_tensor, select_prefix, tensor_to_bytes
from Daddy.learning.collector import Collector, new_collector
from Daddy.learning.learner_parts import Parts
from Daddy.learning.policy import find_mismatch
from Daddy.learning.policy_health import PolicyHealth
from Daddy.learning.ppo import PpoUpdater
from Daddy.learning.rollout_buffer import Rollout
from Daddy.learning.schedules import Cost, affordable

if TYPE_CHECKING:
    from Daddy.learning.interfaces import StateDict


@dataclass
class Counters:
    """Holds this peer's totals since the run began, over all its processes."""

    env_steps: int = 0
    iterations: int = 0
    episodes: int = 0


@dataclass
class LearnerState:
    """Holds the parts, the experience and the counters of one learner.

    `last_ran` holds the monotonic second (keys in `_steps`: the step) of recurring work,
    `new_milestones` milestones not yet on a curve, `assists_given_up` assists reported as disabled,
    `costs` the seconds spent on checks for versions and on contributions, `first_weights` the
    weights that this process began with, `stored_note` the exchange's state that the newest
    checkpoint agrees with, and `trouble` the error of the last checkpoint that was not written.
    """

    parts: Parts
    updater: PpoUpdater
    collector: Collector
    rollout: Rollout
    term: int
    movement: MovementStats
    milestones: Milestones
    counters: Counters = field(default_factory=Counters)
    version: int = 0
    fleet_steps: int = 0
    last_ran: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    costs: dict[str, Cost] = field(default_factory=lambda: {"adopt": Cost(), "publish": Cost()})
    updated: bool = False
    health: PolicyHealth = field(default_factory=PolicyHealth)
    first_weights: StateDict = field(default_factory=dict)
    new_milestones: list[str] = field(default_factory=list)
    assists_given_up: set[str] = field(default_factory=set)
    stored_note: bytes = b""
    trouble: str = ""

    def weights(self) -> StateDict:
        """Return a copy of the policy's weights on the CPU."""
        state = self.parts.policy.state_dict()
        return {
            name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, value in state.items()
        }

    def load_weights(self, weights: StateDict) -> None:
        """Load `weights`; discard the rollout in progress if they differ from the present ones."""
        ours = self.parts.policy.state_dict()
        if any(not torch.equal(ours[name].cpu(), value) for name, value in weights.items()):
            self.rollout.filled = 0
        self.parts.policy.load_state_dict(weights)

    @torch.inference_mode()
    def recompute_lstm_state(self) -> None:
        """Compute the LSTM state of the present weights from the newest sequence of steps."""
        if self.rollout.completed and self.parts.policy.memory:
            last = self.rollout.last_sequence(self.parts.device)
            inputs = last.observations, last.lstm_state, last.starts
            *_, self.collector.lstm_state = self.parts.policy(*inputs)

    def seconds_since(self, activity: str) -> float:
        """Return the seconds since `mark(activity)`; infinity if never called for `activity`."""
        return self.parts.clock.monotonic() - self.last_ran.get(activity, float("-inf"))

    def mark(self, *activities: str) -> None:
        now = self.parts.clock.monotonic()
        self.last_ran.update(dict.fromkeys(activities, now))

    def affordable(self, activity: str) -> bool:
        """Return True if `activity` (adopt or publish) may run again within its share of time."""
        since, pause = self.seconds_since(activity), self.parts.schedule.longest_pause
        age = self.seconds_since("begin")
        return since >= pause or affordable(self.costs[activity], age, since)


def new_learner(parts: Parts) -> LearnerState:
    """Return a learner with initial weights; the caller resets or restores its environments."""
    torch.manual_seed(parts.seed)
    np.random.seed(parts.seed)  # noqa: NPY002 - the global generator is the point
    random.seed(parts.seed)
    settings, vector, device = parts.settings, parts.vector, parts.device
    policy = parts.policy.to(device)
    optimizer = FlatAdam(policy.named_parameters(), parts.group)
    shuffling = torch.Generator().manual_seed(seed_for(parts.seed, "shuffling"))
    collector = new_collector(vector, policy, settings, parts.seed, parts.clock)
    updater = PpoUpdater(policy, optimizer, settings, shuffling, device, parts.group)
    rollout = Rollout(vector, settings, policy.memory)
    movement = MovementStats(vector.telemetry_names, vector.num_envs)
    milestones = Milestones(parts.workload.milestones_reached, parts.workload.assists_used)
    term = parts.lease.term
    return LearnerState(parts, updater, collector, rollout, term, movement, milestones)


def equalise_ranks(learner: LearnerState) -> None:
    """Take the weights, optimizer and step total of rank 0 (DDP). ConfigError: sizes differ."""
    group, settings = learner.parts.group, learner.parts.settings
    if group.size == 1:
        return
    sizes = (
        learner.updater.optimizer.mean.numel(),
        settings.steps_per_iteration,
        learner.updater.minibatches,
        learner.parts.schedule.total_steps,
    )
    facts = torch.tensor([*sizes, learner.counters.env_steps])
    group.broadcast(facts)
    *first, learner.counters.env_steps = facts.tolist()
    if list(sizes) != first:
        raise ConfigError(
            f"this rank's parameters, steps an iteration, minibatches and total_steps are "
            f"{list(sizes)}, those of rank 0 are {first}",
            "start all ranks with the same settings",
        )
    learner.updater.optimizer.broadcast()


def reset_environments(learner: LearnerState) -> None:
    """Start an episode in every environment, each with a seed of its own."""
    vector, seed = learner.parts.vector, learner.parts.seed
    seeds = [seed_for(seed, "environment", env=env) for env in range(vector.num_envs)]
    learner.collector.observations = vector.reset(seeds)


def to_checkpoint(learner: LearnerState) -> Checkpoint:
    """Return the learner's whole state as a Checkpoint of tensors and JSON facts."""
    updater, collector, counters = learner.updater, learner.collector, learner.counters
    tensors = {f"policy.{name}": value for name, value in learner.weights().items()}
    tensors |= {
        f"optimizer.{name}": value for name, value in updater.optimizer.state_dict().items()
    }
    large, small = generator_states()
    tensors |= {f"random.{name}": value for name, value in large.items()}
    tensors["random.shuffling"] = updater.generator.get_state()
    tensors["random.playing"] = collector.generator.get_state()
    tensors["memory"] = collector.lstm_state
    tensors["starts"] = torch.from_numpy(collector.starts.copy())
    tensors["exchange"] = bytes_to_tensor(learner.parts.exchange.resume_state())
    for env, state in enumerate(learner.parts.vector.save_states()):
        tensors[f"environment.{env}"] = bytes_to_tensor(state)
    arrays, rollout_facts = learner.rollout.partial_state()
    tensors |= {f"rollout.{name}": value for name, value in arrays.items()}
    tensors |= {f"gauges.{name}": value for name, value in learner.movement.state_dict().items()}
    facts = {
        "workload": learner.parts.workload.name,
        "num_envs": learner.parts.vector.num_envs,
        "optimizer_steps": updater.optimizer.steps,
        "normaliser": collector.normaliser.state_dict(),
        "random": small,
        "version": learner.version,
        "fleet_steps": learner.fleet_steps,
        "rollout": rollout_facts,
        "milestones": dict(learner.milestones.first),
        "milestones_helped": dict(learner.milestones.assisted),
        "assists": list(learner.parts.assists),
        **vars(counters),
    }
    return Checkpoint(learner.term, counters.env_steps, tensors, facts)


def restore(learner: LearnerState, checkpoint: Checkpoint) -> None:
    """Restore a learner's state from `checkpoint`.

    ConfigError if it belongs to another workload or network, WeightsError if it was learnt
    with assists that are not in use.
    """
    tensors, facts = checkpoint.tensors, checkpoint.facts
    _check_compatible(learner, checkpoint)
    learner.load_weights(select_prefix(tensors, "policy."))
    learner.updater.optimizer.load_state_dict(
        select_prefix(tensors, "optimizer."), int(facts["optimizer_steps"])
    )
    learner.term = max(learner.term, checkpoint.term)  # terms restart at 1 if leases were deleted
    learner.updater.generator.set_state(tensors["random.shuffling"])
    learner.collector.generator.set_state(tensors["random.playing"])
    learner.collector.normaliser.load_state_dict(facts["normaliser"])
    learner.counters = Counters(*(int(facts[name]) for name in vars(Counters())))
    learner.version = int(facts["version"])
    learner.fleet_steps = int(facts["fleet_steps"])
    if facts["num_envs"] == learner.parts.vector.num_envs:
        _restore_environments(learner, checkpoint)
    learner.movement.load_state_dict(select_prefix(tensors, "gauges."))
    learner.milestones.first = dict(facts.get("milestones", {}))
    learner.milestones.assisted = dict(facts.get("milestones_helped", {}))
    restore_generators(select_prefix(tensors, "random."), facts["random"])


def _restore_environments(learner: LearnerState, checkpoint: Checkpoint) -> None:
    collector, vector, tensors = learner.collector, learner.parts.vector, checkpoint.tensors
    states = [tensor_to_bytes(tensors[f"environment.{env}"]) for env in range(vector.num_envs)]
    collector.observations = vector.load_states(states)
    collector.lstm_state = tensors["memory"].to(learner.parts.device)
    collector.starts = tensors["starts"].numpy().astype(bool)
    facts = checkpoint.facts.get("rollout", {})
    learner.rollout.load_partial(select_prefix(tensors, "rollout."), facts)


def _check_compatible(learner: LearnerState, checkpoint: Checkpoint) -> None:
    facts, weights = checkpoint.facts, select_prefix(checkpoint.tensors, "policy.")
    ours = learner.parts.policy.state_dict()
    differ = [describe_sizes(weights, ours), find_mismatch(ours, weights)]
    reason = f"its network has another shape ({'; '.join(filter(None, differ))})"
    reason = reason if any(differ) else ""
    if facts["workload"] != learner.parts.workload.name:
        reason = f"its workload is {facts['workload']!r}"
    if not reason:
        name = f"the checkpoint in {learner.parts.checkpoints}"
        refuse_missing_assists(name, facts.get("assists", ()), learner.parts.assists)
        return
    raise ConfigError(
        f"the checkpoint in {learner.parts.checkpoints} cannot be continued: {reason}",
        "give this run another run_dir, or restore the settings that the checkpoint was made with",
    )


def generator_states() -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return the global random generators' states (torch, numpy, Python): tensors, and JSON.

    The learner has generators of its own; the global ones are saved because a library that draws
    from them would otherwise break exact resume.
    """
    numpy_state: Any = np.random.get_state(legacy=True)  # noqa: NPY002
    name, keys, *rest = numpy_state
    version, words, gauss = random.getstate()
    states = {
        "torch": torch.get_rng_state(),
        "numpy": torch.from_numpy(keys.astype(np.int64)),
        "python": torch.tensor(words, dtype=torch.int64),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states, {"numpy": [name, *rest], "python": [version, gauss]}


def restore_generators(tensors: Mapping[str, torch.Tensor], small: Mapping[str, Any]) -> None:
    """Restore the global generators from the result of `generator_states`."""
    torch.set_rng_state(tensors["torch"])
    if "cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["cuda"])
    name, *rest = small["numpy"]
    np.random.set_state((name, tensors["numpy"].numpy().astype(np.uint32), *rest))  # noqa: NPY002
    version, gauss = small["python"]
    random.setstate((version, tuple(tensors["python"].tolist()), gauss))
