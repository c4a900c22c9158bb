"""Compares the speed of training with the ceiling that its parts allow on this machine.

Each short round times the parts separately and then training itself: emulation (random keys, no
network), inference (the collector's, one group at a time) and learning (the update of one rollout).
The ceiling is the best possible schedule of these parts: on a CPU, emulation and inference share
the cores without a gap, and learning, which needs the rollout, comes after; on a GPU, inference
takes no time of the cores. A share is a ratio of times summed over the rounds, as a virtual
machine's cores change their speed by themselves; `halves` gives it for the odd and the even rounds
alone: their difference is the noise.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

from Daddy.core.clock import SystemClock
from Daddy.core.host_and_processes import usable_cores
from Daddy.core.load_config import load_config
from Daddy.core.settings import Config
from Daddy.learning.startup_preloading import prepare_imports
from Daddy.workloads import WORKLOADS
from scripts.benches._random_rate import random_rate

if TYPE_CHECKING:
    from Daddy.learning.interfaces import EnvWorkload, FrameSink
    from Daddy.learning.learner_state import LearnerState

FLAT = True
ROUNDS, QUICK_ROUNDS, SECONDS = 24, 2, 1.0
DECISIONS = 40


class NullLease:
    """A lease that is never lost, a stopper that never stops, and an event log that drops all."""

    term = 1

    def held(self) -> bool:
        return True

    def beat(self, data: object) -> None:
        """Do nothing."""

    def write(self, event: str, step: int, data: object) -> None:
        """Do nothing."""

    def stop_reason(self) -> None:
        """Return None: never stop."""


def run(quick: bool) -> dict[str, object]:
    """Return steps per second of training and of its environments alone, and the ceiling."""
    prepare_imports()
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with training_learner(_config()) as learner:
        iterate(learner, 1)
        rows = [_round(learner, f"{n + 1}/{rounds}") for n in range(rounds)]
        facts = _facts(learner)
    times = {name: mean(row[name] for row in rows) for name in rows[0]}
    rest = times["training"] - _ceiling(times)
    return {
        "env_only": round(1e6 / times["emulation"], 1),
        "training": round(1e6 / times["training"], 1),
        "ceiling": round(1e6 / _ceiling(times), 1),
        "of_ceiling": _share(rows),
        "of_env_only": round(times["emulation"] / times["training"], 3),
        "us_per_step": {name: round(us, 1) for name, us in {**times, "rest": rest}.items()},
        "halves": [_share(rows[::2]), _share(rows[1::2])],
        **facts,
        "rounds": rounds,
    }


def _ceiling(times: Mapping[str, float]) -> float:
    """Return the microseconds of a step in which no part waits for another."""
    return times["emulation"] + times["inference"] + times["learning"]


def _share(rows: Sequence[Mapping[str, float]]) -> float:
    return round(sum(map(_ceiling, rows)) / sum(row["training"] for row in rows), 3)


def _config() -> Config:
    """Return the shipped configuration, for the best device here and its profile."""
    from Daddy.learning.device import has_gpu

    profile = "gpu" if has_gpu() else "auto"
    flags = {"training.device": "auto", "training.profile": profile, "archive.mode": "off"}
    return load_config(None, flags)


@contextmanager
def training_learner(
    config: Config, workload: EnvWorkload | None = None, frames: FrameSink | None = None
) -> Iterator[LearnerState]:
    """Yield a learner of ``workload`` (default: the configured one) without collaboration.

    ``frames`` receives its pictures; None drops them.
    """
    from Daddy.learning.interfaces import NoExchange, NoFrames
    from Daddy.learning.learner_parts import Surroundings, assemble
    from Daddy.learning.loop import start_learner
    from Daddy.learning.make_vector import make_vector

    row, null = workload or WORKLOADS[config.training.workload], NullLease()
    training = config.training
    envs = (training.num_envs, training.vector_backend)
    with tempfile.TemporaryDirectory(prefix="daddy-bench-") as folder:
        surroundings = Surroundings(
            peer="bench",
            checkpoints=Path(folder),
            tensorboard=None,
            lease=null,
            exchange=NoExchange(),
            frames=frames or NoFrames(),
            stopper=null,
            events=null,
            clock=SystemClock(),
        )
        parts = assemble(
            config, row, surroundings, partial(make_vector, row.make_env(config), *envs)
        )
        try:
            yield start_learner(parts)
        finally:
            parts.vector.close()


def _round(learner: LearnerState, name: str) -> dict[str, float]:
    """Time each part, then training; return microseconds a step."""
    cores = usable_cores() if learner.parts.device.type == "cpu" else 0
    emulation = 1 / random_rate(learner.parts.vector, SECONDS, SystemClock())
    inference = _time_inference(learner)
    inference = inference / cores if cores else max(0.0, inference - emulation)
    training = 1 / iterate(learner, 1)
    parts = {"emulation": emulation, "inference": inference, "learning": _time_update(learner)}
    times = {part: 1e6 * seconds for part, seconds in {**parts, "training": training}.items()}
    print(
        f"  round {name}  env only {1 / emulation:6.0f}/s  training {1 / training:6.0f}/s  "
        f"ceiling {1e6 / _ceiling(times):6.0f}/s  {_share([times]):5.2f}",
        flush=True,
    )
    return times


def _time_inference(learner: LearnerState) -> float:
    """Return the seconds of inference per step on one core or the GPU, group by group."""
    import torch

    from Daddy.learning.collector import RolloutProgress

    collector, rollout = learner.collector, learner.rollout
    groups = collector.vector.groups
    progress = RolloutProgress([0] * len(groups), len(rollout.rewards), 0)
    state, times = collector.lstm_state.clone(), []
    with torch.inference_mode():
        for _ in range(DECISIONS):
            start = time.perf_counter()
            for members in groups:
                collector.choose_actions(rollout, progress, 0, members)
            times.append(time.perf_counter() - start)
    collector.lstm_state = state
    return median(times) / collector.vector.num_envs


def iterate(learner: LearnerState, iterations: int) -> float:
    """Run iterations of the learner's loop; return their steps per second."""
    from Daddy.learning.learner_reporting import record_iteration
    from Daddy.learning.loop import adopt_newer, collect_rollout, estimate_advantages, update_policy

    steps, start = 0, time.perf_counter()
    for _ in range(iterations):
        adopt_newer(learner)
        collect_rollout(learner)
        estimate_advantages(learner)
        update_policy(learner)
        record_iteration(learner)
        steps += learner.rollout.rewards.size
    return steps / (time.perf_counter() - start)


def _time_update(learner: LearnerState) -> float:
    """Repeat the update of the last rollout; return its seconds per step."""
    from Daddy.learning.loop import estimate_advantages, update_policy

    start = time.perf_counter()
    estimate_advantages(learner)
    update_policy(learner)
    return (time.perf_counter() - start) / learner.rollout.rewards.size


def _facts(learner: LearnerState) -> dict[str, object]:
    import torch

    vector, settings = learner.parts.vector, learner.parts.settings
    return {
        "device": str(learner.parts.device),
        "backend": type(vector).__name__,
        "num_envs": vector.num_envs,
        "groups": len(vector.groups),
        "horizon": settings.horizon,
        "minibatch": settings.batch_size,
        "passes": settings.update_epochs,
        "torch_threads": torch.get_num_threads(),
    }
