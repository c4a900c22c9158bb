"""Pure: the numbers one learner runs with, resolved from the configuration and its device."""

from __future__ import annotations

from dataclasses import dataclass

from Daddy.core.settings import Training
from Daddy.learning.schedule import Cut, cut

_BPTT = 16
"""Steps gradients flow through the LSTM where a test does not say: the setting's default."""
_GPU_ROLLOUT = 65_536
"""Steps a GPU learner collects per iteration at most where nothing is said about it."""


@dataclass(frozen=True)
class PpoSettings:
    """What PPO needs; see `Daddy.core.settings.Training` for each meaning."""

    num_envs: int
    horizon: int
    batch_size: int
    update_epochs: int
    learning_rate: float
    clip: float
    entropy: float
    value_coefficient: float
    gamma: float
    gae_lambda: float
    max_grad_norm: float
    schedule: str = "constant"
    mixed_precision: bool = False
    bptt: int = _BPTT
    value_clip: float = 0.0
    adam_epsilon: float = 1e-5
    normalise_rewards: bool = True

    @property
    def cut(self) -> Cut:
        return cut(self.horizon, self.num_envs, self.batch_size, self.bptt)

    @property
    def steps_per_iteration(self) -> int:
        return self.horizon * self.num_envs


def resolve(training: Training, device_type: str) -> PpoSettings:
    """The profile fills what the configuration leaves open; `auto` follows the device."""
    gpu = device_type == "cuda" if training.profile == "auto" else training.profile == "gpu"
    return PpoSettings(
        num_envs=training.num_envs,
        horizon=training.horizon or _horizon(training, gpu=gpu),
        batch_size=training.batch_size,
        update_epochs=training.update_epochs,
        learning_rate=training.learning_rate or (3e-4 if gpu else 1e-3),
        clip=training.clip,
        entropy=training.entropy,
        value_coefficient=training.value_coefficient,
        gamma=training.gamma,
        gae_lambda=training.gae_lambda,
        max_grad_norm=training.max_grad_norm,
        mixed_precision=training.mixed_precision,
        schedule=training.learning_rate_schedule,
        bptt=training.bptt,
        value_clip=training.value_clip,
        adam_epsilon=training.adam_epsilon,
        normalise_rewards=training.normalise_rewards,
    )


def _horizon(training: Training, *, gpu: bool) -> int:
    """Steps per environment: as many whole sequences as come nearest to `rollout` steps."""
    if training.rollout is not None:
        sequences = round(training.rollout / (training.num_envs * training.bptt))
        return max(1, sequences) * training.bptt
    return max(64, min(512, _GPU_ROLLOUT // training.num_envs)) if gpu else 64
