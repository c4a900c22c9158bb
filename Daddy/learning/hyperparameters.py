"""Pure. The numbers of one learner, resolved from the configuration and its device."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields

from Daddy.core.settings import HyperparameterSettings
from Daddy.learning.schedules import Cut, cut

_GPU_ROLLOUT = 65_536
"""Steps a GPU learner collects per iteration at most where nothing is said about it."""


@dataclass(frozen=True)
class PpoSettings:
    """The hyperparameters of PPO, named as in `core.settings.HyperparameterSettings`."""

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
    learning_rate_schedule: str = "constant"
    bptt: int = 16
    value_clip: float = 0.0
    normalise_rewards: bool = True

    @property
    def cut(self) -> Cut:
        return cut(self.horizon, self.num_envs, self.batch_size, self.bptt)

    @property
    def steps_per_iteration(self) -> int:
        return self.horizon * self.num_envs


def resolve(training: HyperparameterSettings, device_type: str) -> PpoSettings:
    """The profile fills the open settings; `auto` follows the device."""
    gpu = device_type == "cuda" if training.profile == "auto" else training.profile == "gpu"
    given = {field.name: getattr(training, field.name) for field in fields(PpoSettings)}
    filled = {
        "horizon": training.horizon or _horizon(training, gpu=gpu),
        "learning_rate": training.learning_rate or (3e-4 if gpu else 1e-3),
    }
    return PpoSettings(**{**given, **filled})


def _horizon(training: HyperparameterSettings, *, gpu: bool) -> int:
    """Steps per environment: as many whole sequences as come nearest to `rollout` steps."""
    if training.rollout is not None:
        sequences = round(training.rollout / (training.num_envs * training.bptt))
        return max(1, sequences) * training.bptt
    return max(64, min(512, _GPU_ROLLOUT // training.num_envs)) if gpu else 64


def seed_for(run_seed: int, peer: str, attempt: str = "", env: int = 0) -> int:
    """A 31-bit seed that differs in every argument and is the same on every machine."""
    text = f"{run_seed}|{peer}|{attempt}|{env}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") & 0x7FFF_FFFF
