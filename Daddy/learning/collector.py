"""Plays the policy in the environments for one rollout, a group of them at a time.

While the policy judges one group, the others play, and none waits for the slowest: groups may be
steps apart within a rollout. Promises that what is stored does not depend on who was faster: dice
are thrown a step ahead of everybody, and what is summed over all environments is summed in the
order of the steps. The state (memory, episode starts) is part of every checkpoint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from Daddy.core.clock import Clock
from Daddy.learning.device import mixed_precision
from Daddy.learning.diagnostics import Watch
from Daddy.learning.hyperparameters import PpoSettings, seed_for
from Daddy.learning.interfaces import EpisodeEnd, Transition
from Daddy.learning.policy import ActorCritic
from Daddy.learning.reward_normalisation import RewardNormaliser
from Daddy.learning.rollout_buffer import Rollout
from Daddy.learning.vector_rows import VectorEnv

if TYPE_CHECKING:
    from Daddy.learning.interfaces import Observations


@dataclass
class Course:
    """How far each group is in one rollout.

    `at` is the step that each group takes next, `end` the step before which all stop, `settled` how
    many steps all have taken. `dice` are the numbers in [0, 1) that decide on actions, by step;
    `ended` the episodes that ended in steps which are not settled yet.
    """

    at: list[int]
    end: int
    settled: int
    asked: int = 0
    dice: dict[int, Tensor] = field(default_factory=dict)
    ended: defaultdict[int, list[EpisodeEnd]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class Collector:
    """Plays the policy in the environments; owns what lies between two steps.

    `after_step` is told whose step is over.
    """

    vector: VectorEnv
    policy: ActorCritic
    normaliser: RewardNormaliser
    generator: torch.Generator
    settings: PpoSettings
    observations: Observations
    state: Tensor
    starts: NDArray[np.bool_]
    watch: Watch
    after_step: Callable[[slice], None] = field(default=lambda _: None)

    @torch.inference_mode()
    def collect(self, rollout: Rollout, stop: Callable[[], object]) -> bool:
        """Fill `rollout` with the next horizon of every environment, or with the rest of one.

        False, and a rollout that must not be learnt from yet, when `stop` answered meanwhile.
        """
        if not rollout.filled:
            rollout.episodes = []
        groups, horizon = range(len(self.vector.groups)), len(rollout.rewards)
        course = Course([rollout.filled] * len(groups), horizon, rollout.filled)
        playing = sum(self._send(rollout, course, group, stop) for group in groups)
        while playing:
            with self.watch.on("emulation"):
                group, transition = self.vector.recv()
            self.take(rollout, course, group, transition)
            self.after_step(self.vector.groups[group])
            playing -= not self._send(rollout, course, group, stop)
        full = course.end == horizon
        rollout.filled, rollout.played = (0, True) if full else (course.end, rollout.played)
        return full

    def _send(
        self, rollout: Rollout, course: Course, group: int, stop: Callable[[], object]
    ) -> bool:
        """Have a group take its next step; False where it has none left in this rollout."""
        t, members = course.at[group], self.vector.groups[group]
        if t == len(rollout.rewards):
            rollout.last_values[members] = self._judge(members)[1].cpu().numpy()
            return False
        if t % rollout.cut.length == 0:
            if t > course.asked:  # all groups stop at the edge where the first asks, or none does
                course.asked = t
                course.end = t if stop() else course.end
            if t == course.end:
                return False
            rollout.states[t // rollout.cut.length, :, members] = self.state[:, members].cpu()
        self.decide(rollout, course, t, members)
        self.vector.send(group, rollout.actions[t, members])
        return True

    def decide(self, rollout: Rollout, course: Course, t: int, members: slice) -> None:
        """Choose a group's actions of step `t`, and store what they were chosen from."""
        if t not in course.dice:
            course.dice[t] = torch.rand(self.vector.num_envs, generator=self.generator)
        with self.watch.on("inference"):
            logits, values, self.state[:, members] = self._judge(members)
            actions, log_probs = sample(logits.cpu(), course.dice[t][members])
        for key, store in rollout.observations.items():
            store.put(t, self.observations[key][members], members)
        rollout.starts[t, members] = self.starts[members]
        rollout.actions[t, members] = actions
        rollout.log_probs[t, members] = log_probs
        rollout.values[t, members] = values.cpu().numpy()

    def take(self, rollout: Rollout, course: Course, group: int, transition: Transition) -> None:
        """Store the outcome of a group's step, and settle the steps that all have taken by now."""
        t, members = course.at[group], self.vector.groups[group]
        dones = transition.terminated | transition.truncated
        rollout.rewards[t, members] = transition.rewards
        rollout.dones[t, members] = self.starts[members] = dones
        rollout.cut_off[t, members] = transition.truncated & ~transition.terminated
        course.ended[t] += transition.episodes
        for key, values in transition.observations.items():
            self.observations[key][members] = values
        course.at[group] = t + 1
        while course.settled < min(course.at):
            self._settle(rollout, course, course.settled)
            course.settled += 1

    def _settle(self, rollout: Rollout, course: Course, t: int) -> None:
        """Rewards as they are learnt from, and the episodes that ended.

        A cut-off episode goes on in the critic's eyes: its last reward gets the discounted value,
        taken one step early because the final observation is not kept.
        """
        rewards = self.normaliser(rollout.rewards[t], rollout.dones[t])
        rest = self.settings.gamma * rollout.values[t] * rollout.cut_off[t]
        rollout.rewards[t] = rewards + rest
        rollout.episodes += sorted(course.ended.pop(t, ()), key=lambda end: end.env)
        course.dice.pop(t, None)

    def _judge(self, members: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, values and the next memory of a group."""
        device = self.state.device
        seen = {
            key: torch.from_numpy(value[members]).to(device)
            for key, value in self.observations.items()
        }
        starts = torch.from_numpy(self.starts[members]).to(device)
        with mixed_precision(device):
            return self.policy.step(seen, self.state[:, members], starts)


def new_collector(
    vector: VectorEnv, policy: ActorCritic, settings: PpoSettings, seed: int, clock: Clock
) -> Collector:
    """A collector before its first step; its caller gives the first observations."""
    normaliser = RewardNormaliser(
        vector.num_envs, settings.gamma, wanted=settings.normalise_rewards
    )
    return Collector(
        vector=vector,
        policy=policy,
        normaliser=normaliser,
        generator=torch.Generator().manual_seed(seed_for(seed, "playing")),
        settings=settings,
        observations={},
        state=policy.initial_state(vector.num_envs),
        starts=np.ones(vector.num_envs, bool),
        watch=Watch(clock),
    )


def sample(logits: Tensor, dice: Tensor) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """An action (N,) int64 from each row of logits (N, A), with its log-probability (N,).

    `dice` (N,) in [0, 1): where they fall among the summed probabilities decides.
    """
    log_probs = torch.log_softmax(logits, -1)
    below = log_probs.exp().cumsum(-1) <= dice.unsqueeze(-1)
    actions = below.sum(-1, keepdim=True).clamp_(max=logits.shape[-1] - 1)
    return actions.squeeze(-1).numpy(), log_probs.gather(-1, actions).squeeze(-1).numpy()
