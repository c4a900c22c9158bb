"""One learner between birth and goodbye: what the loop's steps share, and its way to disk and back.

Promises exact resume: a session restored from a checkpoint goes on bit for bit (on a CPU) as the
one that wrote it, because everything with a memory is in it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from Daddy.core.assist_rules import refuse_missing_assists
from Daddy.core.errors import ConfigError
from Daddy.learning.adam import FlatAdam
from Daddy.learning.checkpoint import Checkpoint, bytes_of, tensor_of, with_prefix
from Daddy.learning.collector import Collector, new_collector
from Daddy.learning.diagnostics import Milestones, Walks
from Daddy.learning.hyperparameters import seed_for
from Daddy.learning.learner_parts import Parts
from Daddy.learning.policy import misfit
from Daddy.learning.ppo import Learner
from Daddy.learning.rollout_buffer import Rollout
from Daddy.learning.schedules import Cost, affordable

if TYPE_CHECKING:
    from Daddy.learning.interfaces import StateDict


@dataclass
class Counters:
    """Totals of this peer since its run began, over all processes that carried it."""

    env_steps: int = 0
    iterations: int = 0
    episodes: int = 0


@dataclass
class Session:
    """The learner, its experience and its counters.

    `due` holds when recurring steps last ran, `barren` how many updates in a row learnt nothing,
    `fresh` the milestones that no curve shows yet, `given_up` the assists known not to work,
    `costs` what looks at the shared weights and contributions took.
    """

    parts: Parts
    learner: Learner
    collector: Collector
    rollout: Rollout
    term: int
    walks: Walks
    milestones: Milestones
    counters: Counters = field(default_factory=Counters)
    version: int = 0
    fleet_steps: int = 0
    due: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    costs: dict[str, Cost] = field(default_factory=lambda: {"adopt": Cost(), "publish": Cost()})
    updated: bool = False
    barren: int = 0
    fresh: list[str] = field(default_factory=list)
    given_up: set[str] = field(default_factory=set)

    def weights(self) -> StateDict:
        """The policy's weights on the CPU, a copy."""
        state = self.parts.policy.state_dict()
        return {
            name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, value in state.items()
        }

    def take_weights(self, weights: StateDict) -> None:
        """Go on with these; what was begun with others is of no use to them."""
        ours = self.parts.policy.state_dict()
        if any(not torch.equal(ours[name].cpu(), value) for name, value in weights.items()):
            self.rollout.filled = 0
        self.parts.policy.load_state_dict(weights)

    @torch.inference_mode()
    def replay_memory(self) -> None:
        """Play the newest sequence again, so that the memory is the present weights' own."""
        if self.rollout.played and self.parts.policy.memory:
            last = self.rollout.last_sequence(self.parts.device)
            *_, self.collector.state = self.parts.policy(last.observations, last.state, last.starts)

    def since(self, what: str) -> float:
        """Seconds since `what` was marked; infinite when it never was."""
        return self.parts.clock.monotonic() - self.due.get(what, float("-inf"))

    def mark(self, *whats: str) -> None:
        now = self.parts.clock.monotonic()
        self.due.update(dict.fromkeys(whats, now))

    def affordable(self, what: str) -> bool:
        """True while `what`, one of `costs`, stays within its half of the time for sharing."""
        since, pause = self.since(what), self.parts.pace.longest_pause
        return since >= pause or affordable(self.costs[what], self.since("begin"), since)


def new_session(parts: Parts) -> Session:
    """A session before its first step: fresh environments, weights as the policy has them."""
    torch.manual_seed(parts.seed)
    np.random.seed(parts.seed)  # noqa: NPY002 - the global generator is the point
    random.seed(parts.seed)
    settings, vector, device = parts.settings, parts.vector, parts.device
    policy = parts.policy.to(device)
    optimizer = FlatAdam(policy.named_parameters())
    shuffling = torch.Generator().manual_seed(seed_for(parts.seed, "shuffling"))
    collector = new_collector(vector, policy, settings, parts.seed, parts.clock)
    learner = Learner(policy, optimizer, settings, shuffling, device)
    rollout = Rollout(vector, settings, policy.memory)
    walks = Walks(vector.telemetry_names, vector.num_envs)
    milestones = Milestones(parts.workload.milestones_reached, parts.workload.assists_used)
    return Session(parts, learner, collector, rollout, parts.lease.term, walks, milestones)


def reset_environments(session: Session) -> None:
    """Begin an episode everywhere, each environment from a seed of its own."""
    vector, seed = session.parts.vector, session.parts.seed
    seeds = [seed_for(seed, "environment", env=env) for env in range(vector.num_envs)]
    session.collector.observations = vector.reset(seeds)


def to_checkpoint(session: Session) -> Checkpoint:
    """Everything with a memory."""
    learner, collector, counters = session.learner, session.collector, session.counters
    tensors = {f"policy.{name}": value for name, value in session.weights().items()}
    tensors |= {f"optimizer.{name}": value for name, value in learner.optimizer.tensors().items()}
    large, small = generators()
    tensors |= {f"random.{name}": value for name, value in large.items()}
    tensors["random.shuffling"] = learner.generator.get_state()
    tensors["random.playing"] = collector.generator.get_state()
    tensors["memory"] = collector.state
    tensors["starts"] = torch.from_numpy(collector.starts.copy())
    tensors["exchange"] = tensor_of(session.parts.exchange.resume_state())
    for env, state in enumerate(session.parts.vector.save_states()):
        tensors[f"environment.{env}"] = tensor_of(state)
    begun, about_it = session.rollout.begun()
    tensors |= {f"rollout.{name}": value for name, value in begun.items()}
    tensors |= {f"gauges.{name}": value for name, value in session.walks.tensors().items()}
    facts = {
        "workload": session.parts.workload.name,
        "num_envs": session.parts.vector.num_envs,
        "optimizer_steps": learner.optimizer.steps,
        "normaliser": collector.normaliser.state(),
        "random": small,
        "version": session.version,
        "fleet_steps": session.fleet_steps,
        "rollout": about_it,
        "milestones": dict(session.milestones.first),
        "milestones_helped": dict(session.milestones.helped),
        "assists": list(session.parts.assists),
        **vars(counters),
    }
    return Checkpoint(session.term, counters.env_steps, tensors, facts)


def restore(session: Session, checkpoint: Checkpoint) -> None:
    """Go on from `checkpoint`. ConfigError where it belongs to another workload or network.

    WeightsError where it was learnt with assists that are not in use.
    """
    tensors, facts = checkpoint.tensors, checkpoint.facts
    _check_kin(session, tensors, facts)
    session.take_weights(with_prefix(tensors, "policy."))
    session.learner.optimizer.load(
        with_prefix(tensors, "optimizer."), int(facts["optimizer_steps"])
    )
    session.term = max(session.term, checkpoint.term)  # terms began anew if leases were deleted
    session.learner.generator.set_state(tensors["random.shuffling"])
    session.collector.generator.set_state(tensors["random.playing"])
    session.collector.normaliser.load(facts["normaliser"])
    session.counters = Counters(*(int(facts[name]) for name in vars(Counters())))
    session.version = int(facts["version"])
    session.fleet_steps = int(facts["fleet_steps"])
    if facts["num_envs"] == session.parts.vector.num_envs:
        _restore_environments(session, tensors, facts.get("rollout", {}))
    session.walks.load(with_prefix(tensors, "gauges."))
    session.milestones.first = dict(facts.get("milestones", {}))
    session.milestones.helped = dict(facts.get("milestones_helped", {}))
    restore_generators(with_prefix(tensors, "random."), facts["random"])


def _restore_environments(
    session: Session, tensors: Mapping[str, torch.Tensor], about_rollout: Mapping[str, Any]
) -> None:
    collector, vector = session.collector, session.parts.vector
    states = [bytes_of(tensors[f"environment.{env}"]) for env in range(vector.num_envs)]
    collector.observations = vector.load_states(states)
    collector.state = tensors["memory"].to(session.parts.device)
    collector.starts = tensors["starts"].numpy().astype(bool)
    session.rollout.go_on(with_prefix(tensors, "rollout."), about_rollout)


def _check_kin(session: Session, tensors: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    odd = misfit(session.parts.policy.state_dict(), with_prefix(tensors, "policy."))
    reason = f"its network has another shape ({odd})" if odd else ""
    if facts["workload"] != session.parts.workload.name:
        reason = f"it is of {facts['workload']!r}"
    if not reason:
        name = f"the checkpoint in {session.parts.checkpoints}"
        refuse_missing_assists(name, facts.get("assists", ()), session.parts.assists)
        return
    raise ConfigError(
        f"the checkpoint in {session.parts.checkpoints} cannot be continued: {reason}",
        "give this run another run_dir, or restore the settings it was begun with",
    )


def generators() -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The process-wide generators of torch, numpy and Python: large parts, and the rest as JSON.

    The learner draws from generators of its own; these are kept because a library that draws from
    the global ones must not spoil an exact resume.
    """
    numpy_state: Any = np.random.get_state(legacy=True)  # noqa: NPY002
    name, keys, *rest = numpy_state
    version, words, gauss = random.getstate()
    found = {
        "torch": torch.get_rng_state(),
        "numpy": torch.from_numpy(keys.astype(np.int64)),
        "python": torch.tensor(words, dtype=torch.int64),
    }
    if torch.cuda.is_available():
        found["cuda"] = torch.cuda.get_rng_state()
    return found, {"numpy": [name, *rest], "python": [version, gauss]}


def restore_generators(stored: Mapping[str, torch.Tensor], small: Mapping[str, Any]) -> None:
    """Go on as when `generators` gave these."""
    torch.set_rng_state(stored["torch"])
    if "cuda" in stored and torch.cuda.is_available():
        torch.cuda.set_rng_state(stored["cuda"])
    name, *rest = small["numpy"]
    np.random.set_state((name, stored["numpy"].numpy().astype(np.uint32), *rest))  # noqa: NPY002
    version, gauss = small["python"]
    random.setstate((version, tuple(stored["python"].tolist()), gauss))
