"""Pure. Resolves the hyperparameters of one learner from the configuration and its device."""

import hashlib
from dataclasses import dataclass, fields
from math import gcd

from Daddy.core.errors import ConfigError
from Daddy.core.settings import HyperparameterSettings

_ROLLOUT, _GPU_ROLLOUT = 2_048, 65_536
"""Steps per iteration of a CPU and of a GPU learner, if the configuration gives neither horizon nor
rollout; an environment plays 64 at least."""

_LARGEST_RATE = 1.0
"""Adam moves each weight by about the learning rate in a step, and weights are far below 1."""
_LEAST_BATCH = 2
"""Steps of a minibatch at least: advantages are normalised within it, and of one step are 0."""


@dataclass(frozen=True)
class SequencePlan:
    """Holds the split of a rollout: sequences of `length` steps, `per_minibatch` sequences each."""

    length: int
    per_minibatch: int

    def minibatches(self, sequences: int) -> int:
        """Return the smallest number of equal minibatches that hold `sequences` sequences.

        They are equal since a small last minibatch would weigh as much in the update as a full one.
        """
        return -(-sequences // self.per_minibatch)


def plan_sequences(horizon: int, num_envs: int, batch_size: int, bptt: int) -> SequencePlan:
    """Plan sequences of up to `bptt` steps, as many per minibatch as `batch_size` steps hold.

    The length divides the horizon, so that every step is used exactly once per epoch.
    """
    length = gcd(horizon, max(1, min(bptt, batch_size)))
    sequences = num_envs * (horizon // length)
    return SequencePlan(length, min(sequences, max(1, batch_size // length)))


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
        "learning_rate": training.learning_rate or (3e-4 if gpu else 2.3e-3),
    }
    settings = PpoSettings(**{**given, **filled})
    _refuse_impossible(settings)
    return settings


def _refuse_impossible(settings: PpoSettings) -> None:
    """Raise ConfigError for a step size or a minibatch with which no policy can learn."""
    rate, batch, rollout = settings.learning_rate, settings.batch_size, settings.steps_per_iteration
    plan = settings.sequences
    sequences = rollout // plan.length
    smallest = sequences // plan.minibatches(sequences) * plan.length
    played = f"{rollout} steps ({settings.num_envs} environments x horizon {settings.horizon})"
    if rate > _LARGEST_RATE:
        raise ConfigError(
            f"training.learning_rate {rate:g} is above {_LARGEST_RATE:g}: "
            "each step of Adam would replace all weights",
            "set training.learning_rate between 0.00001 and 0.01",
        )
    if smallest < _LEAST_BATCH:
        raise ConfigError(
            f"training.batch_size {batch} gives minibatches of a single step in a rollout of "
            f"{played}: the policy would get no gradient",
            "set training.horizon to 64 and training.batch_size to 64",
        )
    if batch > rollout:
        raise ConfigError(
            f"training.batch_size {batch} is more than a rollout of {played}",
            f"set training.batch_size to {rollout} or less, or a longer training.horizon",
        )


def _horizon(training: HyperparameterSettings, *, gpu: bool) -> int:
    """Return steps per environment: about `rollout` in all, or if unset 64 to 256 (GPU: 512)."""
    if training.rollout is not None:
        sequences = round(training.rollout / (training.num_envs * training.bptt))
        return max(1, sequences) * training.bptt
    most, rollout = (512, _GPU_ROLLOUT) if gpu else (256, _ROLLOUT)
    steps = max(64, min(most, rollout // training.num_envs))
    return max(1, steps // training.bptt) * training.bptt  # else sequences would be shorter


def seed_for(run_seed: int, peer: str, attempt: str = "", env: int = 0) -> int:
    """Return a 31-bit seed that depends on every argument and is the same on every machine."""
    text = f"{run_seed}|{peer}|{attempt}|{env}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") & 0x7FFF_FFFF
