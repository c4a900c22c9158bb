"""Pure. Resolves the hyperparameters of one learner from the configuration and its device."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields

from Daddy.core.settings import HyperparameterSettings
from Daddy.learning.schedules import SequencePlan, plan_sequences

_GPU_ROLLOUT = 65_536
"""Steps per iteration of a GPU learner at most, if the configuration gives neither of the two."""


@dataclass(frozen=True)
class PpoSettings:
    """Holds the hyperparameters of PPO, named as in `core.settings.HyperparameterSettings`."""

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
    def sequences(self) -> SequencePlan:
        return plan_sequences(self.horizon, self.num_envs, self.batch_size, self.bptt)

    @property
    def steps_per_iteration(self) -> int:
        return self.horizon * self.num_envs


def resolve_settings(training: HyperparameterSettings, device_type: str) -> PpoSettings:
    """Return PPO's settings; horizon and rate, if unset, follow the profile (auto: the device)."""
    gpu = device_type == "cuda" if training.profile == "auto" else training.profile == "gpu"
    given = {field.name: getattr(training, field.name) for field in fields(PpoSettings)}
    filled = {
        "horizon": training.horizon or _horizon(training, gpu=gpu),
        "learning_rate": training.learning_rate or (3e-4 if gpu else 1e-3),
    }
    return PpoSettings(**{**given, **filled})


def _horizon(training: HyperparameterSettings, *, gpu: bool) -> int:
    """Return steps per environment: about `rollout` in all, or if unset 64 (GPU: 64 to 512)."""
    if training.rollout is not None:
        sequences = round(training.rollout / (training.num_envs * training.bptt))
        return max(1, sequences) * training.bptt
    return max(64, min(512, _GPU_ROLLOUT // training.num_envs)) if gpu else 64


def seed_for(run_seed: int, peer: str, attempt: str = "", env: int = 0) -> int:
    """Return a 31-bit seed that depends on every argument and is the same on every machine."""
    text = f"{run_seed}|{peer}|{attempt}|{env}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") & 0x7FFF_FFFF
