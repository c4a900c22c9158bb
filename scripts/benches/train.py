"""Compares the speed of training with the ceiling that its parts allow on this machine.

Each round times the parts separately and then training itself: emulation (random keys, no network),
inference (the collector's, one group at a time) and learning (the update of one rollout). The
ceiling is the best possible schedule of these parts: on a CPU, emulation and inference share the
cores without a gap, and learning, which needs the rollout, comes after; on a GPU, inference takes
no time of the cores. A round with a share above 1 does not count and is listed (`left_out`).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from Daddy.core.clock import SystemClock
from Daddy.core.host_and_processes import usable_cores
from Daddy.core.load_config import load_config
from Daddy.core.settings import Config
from Daddy.learning.startup_preloading import prepare_imports
from Daddy.workloads import WORKLOADS
from scripts.benches._limit_rounds import median_shares, rounds_left_out
from scripts.benches._random_rate import random_rate

if TYPE_CHECKING:
    from Daddy.learning.interfaces import EnvWorkload, FrameSink
    from Daddy.learning.learner_state import LearnerState

FLAT = True
ROUNDS, ITERATIONS, SECONDS = 7, 2, 3.0
QUICK_ROUNDS, QUICK_ITERATIONS, QUICK_SECONDS = 2, 1, 1.0
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
        rows = [_round(learner, quick, f"{n + 1}/{rounds}") for n in range(rounds)]
        facts = _facts(learner)
    shares = [_shares(row) for row in rows]
    medians: dict[str, Any] = {name: median(row[name] for row in rows) for name in rows[0]}
    return {
        **{name: round(medians[name], 1) for name in ("env_only", "training", "ceiling")},
        **median_shares(shares),
        "us_per_step": {
            name: round(medians[name], 1) for name in ("emulation", "inference", "learning", "rest")
        },
        **facts,
        "rounds": rounds,
        "left_out": rounds_left_out(shares),
    }


def _shares(row: Mapping[str, float]) -> dict[str, float]:
    limits = ("ceiling", "env_only")
    return {f"of_{limit}": row["training"] / row[limit] for limit in limits}


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


def _round(learner: LearnerState, quick: bool, name: str) -> dict[str, float]:
    """Time each part, then training; return rates per second, and the parts in us a step."""
    seconds, iterations = (QUICK_SECONDS, QUICK_ITERATIONS) if quick else (SECONDS, ITERATIONS)
    cores = usable_cores() if learner.parts.device.type == "cpu" else 0
    env_only = random_rate(learner.parts.vector, seconds, SystemClock())
    inference_s = _time_inference(learner)
    training = iterate(learner, iterations)
    learning_s = _time_update(learner)
    playing_s = 1 / env_only + inference_s / cores if cores else max(1 / env_only, inference_s)
    ceiling = 1 / (playing_s + learning_s)
    print(
        f"  round {name}  env only {env_only:6.0f}/s  training {training:6.0f}/s  "
        f"ceiling {ceiling:6.0f}/s  {training / ceiling:5.2f}",
        flush=True,
    )
    return {
        "env_only": env_only,
        "training": training,
        "ceiling": ceiling,
        "emulation": 1e6 / env_only,
        "inference": 1e6 * (playing_s - 1 / env_only),
        "learning": 1e6 * learning_s,
        "rest": 1e6 * (1 / training - 1 / ceiling),
    }


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
