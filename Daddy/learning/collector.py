"""Plays the policy in the environments for one rollout, one group of environments at a time.

While the policy infers actions for one group, the others play, so groups may be steps apart within
a rollout. Promises that the rollout does not depend on which group was faster: the random numbers
of a step are drawn for all groups at once, and statistics over all environments are updated in the
order of the steps. The LSTM state and the episode starts are part of every checkpoint.
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
from Daddy.core.hyperparameters import PpoSettings, seed_for
from Daddy.learning.behaviour_metrics import Stopwatch
from Daddy.learning.device import mixed_precision
from Daddy.learning.interfaces import EpisodeEnd, Transition
from Daddy.learning.policy import ActorCritic
from Daddy.learning.reward_normalisation import RewardNormaliser
from Daddy.learning.rollout_buffer import Rollout
from Daddy.learning.vector_rows import VectorEnv

if TYPE_CHECKING:
    from Daddy.learning.interfaces import Observations


@dataclass
class RolloutProgress:
    """Holds the progress of each group of environments in one rollout.

    `next_step` holds each group's next step, `end` the step before which all stop,
    `completed_steps` the number of steps that all groups have taken. `uniforms` are random numbers
    in [0, 1), by step, from which actions are sampled; `episodes` ended in steps not yet completed.
    """

    next_step: list[int]
    end: int
    completed_steps: int
    stop_checked_at: int = 0
    uniforms: dict[int, Tensor] = field(default_factory=dict)
    episodes: defaultdict[int, list[EpisodeEnd]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class Collector:
    """Plays the policy in the environments; holds observations and LSTM state in between.

    `after_step` is called with the environments that have just made a step.
    """

    vector: VectorEnv
    policy: ActorCritic
    normaliser: RewardNormaliser
    generator: torch.Generator
    settings: PpoSettings
    observations: Observations
    lstm_state: Tensor
    starts: NDArray[np.bool_]
    stopwatch: Stopwatch
    after_step: Callable[[slice], None] = field(default=lambda _: None)

    @torch.inference_mode()
    def collect(self, rollout: Rollout, stop: Callable[[], object]) -> bool:
        """Fill `rollout` with each environment's next horizon of steps, or complete it if partial.

        Return True if the rollout is full, False if `stop()` was true: the rollout is then partial.
        """
        if not rollout.filled:
            rollout.episodes = []
        groups, horizon = range(len(self.vector.groups)), len(rollout.rewards)
        progress = RolloutProgress([rollout.filled] * len(groups), horizon, rollout.filled)
        playing = sum(self._send(rollout, progress, group, stop) for group in groups)
        while playing:
            with self.stopwatch.measure("emulation"):
                group, transition = self.vector.recv()
            self.store_transition(rollout, progress, group, transition)
            self.after_step(self.vector.groups[group])
            playing -= not self._send(rollout, progress, group, stop)
        full = progress.end == horizon
        rollout.filled = 0 if full else progress.end
        rollout.completed |= full
        return full

    def _send(
        self, rollout: Rollout, progress: RolloutProgress, group: int, stop: Callable[[], object]
    ) -> bool:
        """Send the group's next actions to its environments; return False at the rollout's end."""
        t, members = progress.next_step[group], self.vector.groups[group]
        if t == len(rollout.rewards):
            rollout.last_values[members] = self._infer(members)[1].cpu().numpy()
            return False
        if t % rollout.sequences.length == 0:
            if t > progress.stop_checked_at:  # the first group to arrive decides for all groups
                progress.stop_checked_at = t
                progress.end = t if stop() else progress.end
            if t == progress.end:
                return False
            sequence = t // rollout.sequences.length
            rollout.lstm_states[sequence, :, members] = self.lstm_state[:, members].cpu()
        self.choose_actions(rollout, progress, t, members)
        self.vector.send(group, rollout.actions[t, members])
        return True

    def choose_actions(
        self, rollout: Rollout, progress: RolloutProgress, t: int, members: slice
    ) -> None:
        """Sample a group's actions of step `t`, and store them with the policy's inputs."""
        if t not in progress.uniforms:
            progress.uniforms[t] = torch.rand(self.vector.num_envs, generator=self.generator)
        with self.stopwatch.measure("inference"):
            logits, values, self.lstm_state[:, members] = self._infer(members)
            actions, log_probs = sample(logits.cpu(), progress.uniforms[t][members])
        for key, store in rollout.observations.items():
            store.store(t, self.observations[key][members], members)
        rollout.starts[t, members] = self.starts[members]
        rollout.actions[t, members] = actions
        rollout.log_probs[t, members] = log_probs
        rollout.values[t, members] = values.cpu().numpy()

    def store_transition(
        self, rollout: Rollout, progress: RolloutProgress, group: int, transition: Transition
    ) -> None:
        """Store `transition` of a group's step; complete every step that all groups have taken."""
        t, members = progress.next_step[group], self.vector.groups[group]
        dones = transition.terminated | transition.truncated
        rollout.rewards[t, members] = transition.rewards
        rollout.dones[t, members] = self.starts[members] = dones
        rollout.truncations[t, members] = transition.truncated & ~transition.terminated
        progress.episodes[t] += transition.episodes
        for key, values in transition.observations.items():
            self.observations[key][members] = values
        progress.next_step[group] = t + 1
        while progress.completed_steps < min(progress.next_step):
            self._complete(rollout, progress, progress.completed_steps)
            progress.completed_steps += 1

    def _complete(self, rollout: Rollout, progress: RolloutProgress, t: int) -> None:
        """Normalise the rewards of step `t`, and add its ended episodes to the rollout.

        A truncated episode's last reward gets the discounted value of the observation before its
        last step added, since the final observation is not stored.
        """
        rewards = self.normaliser(rollout.rewards[t], rollout.dones[t])
        bootstrap = self.settings.gamma * rollout.values[t] * rollout.truncations[t]
        rollout.rewards[t] = rewards + bootstrap
        rollout.episodes += sorted(progress.episodes.pop(t, ()), key=lambda end: end.env)
        progress.uniforms.pop(t, None)

    def _infer(self, members: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits, values and the next LSTM state of a group."""
        device = self.lstm_state.device
        observations = {
            key: torch.from_numpy(value[members]).to(device)
            for key, value in self.observations.items()
        }
        starts = torch.from_numpy(self.starts[members]).to(device)
        with mixed_precision(device):
            return self.policy.step(observations, self.lstm_state[:, members], starts)


def new_collector(
    vector: VectorEnv, policy: ActorCritic, settings: PpoSettings, seed: int, clock: Clock
) -> Collector:
    """Return a new collector; the caller sets `observations` before the first `collect`."""
    normaliser = RewardNormaliser(
        vector.num_envs, settings.gamma, enabled=settings.normalise_rewards
    )
    return Collector(
        vector=vector,
        policy=policy,
        normaliser=normaliser,
        generator=torch.Generator().manual_seed(seed_for(seed, "playing")),
        settings=settings,
        observations={},
        lstm_state=policy.initial_state(vector.num_envs),
        starts=np.ones(vector.num_envs, bool),
        stopwatch=Stopwatch(clock),
    )


def sample(logits: Tensor, uniforms: Tensor) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Sample an action (N,) int64 from each row of logits (N, A), with its log-probability (N,).

    An action inverts the cumulative distribution at its random number in `uniforms` (N,), which is
    in [0, 1).
    """
    log_probs = torch.log_softmax(logits, -1)
    below = log_probs.exp().cumsum(-1) <= uniforms.unsqueeze(-1)
    actions = below.sum(-1, keepdim=True).clamp_(max=logits.shape[-1] - 1)
    return actions.squeeze(-1).numpy(), log_probs.gather(-1, actions).squeeze(-1).numpy()
