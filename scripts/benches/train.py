"""How close training comes to what its parts allow on this machine.

The parts are timed apart in the run that is judged, turn by turn with it: emulation (random keys,
no network), inference (the collector's own decisions, one group at a time) and learning (the
update of one rollout). They are put together as well as it could be done: where the network runs on
a CPU, emulation and inference share the cores without a gap, and learning, which needs the rollout,
comes after; where it runs on a GPU, inference costs the cores nothing. That is the ceiling.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from Daddy.core.clock import SystemClock
from Daddy.core.load_config import load_config
from Daddy.core.machine_info import usable_cores
from Daddy.core.settings import Config
from Daddy.learning.env_benchmark import random_rate
from Daddy.learning.preloading import prepare_imports
from Daddy.workloads import WORKLOADS

if TYPE_CHECKING:
    from Daddy.learning.interfaces import EnvWorkload, FrameSink
    from Daddy.learning.learner_state import LearnerState

FLAT = True
ROUNDS, ITERATIONS, SECONDS = 7, 2, 3.0
QUICK_ROUNDS, QUICK_ITERATIONS, QUICK_SECONDS = 2, 1, 1.0
DECISIONS = 40


class Alone:
    """A place that is always ours, and a book that nobody reads."""

    term = 1

    def held(self) -> bool:
        return True

    def beat(self, data: object) -> None:
        """Nobody waits for it."""

    def write(self, event: str, step: int, data: object) -> None:
        """Nobody reads it."""

    def stop_reason(self) -> None:
        """Nobody stops us."""


def run(quick: bool) -> dict[str, object]:
    """Steps per second of training, of its environments alone, and the ceiling between them."""
    prepare_imports()
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with training_learner(_config()) as learner:
        iterate(learner, 1)
        measured = [_round(learner, quick, f"{n + 1}/{rounds}") for n in range(rounds)]
        facts = _facts(learner)
    found: dict[str, Any] = {name: median(one[name] for one in measured) for name in measured[0]}
    return {
        **{name: round(found[name], 1) for name in ("env_only", "training", "ceiling")},
        "of_ceiling": round(median(one["training"] / one["ceiling"] for one in measured), 3),
        "of_env_only": round(median(one["training"] / one["env_only"] for one in measured), 3),
        "us_per_step": {
            name: round(found[name], 1) for name in ("emulation", "inference", "learning", "rest")
        },
        **facts,
        "rounds": rounds,
    }


def _config() -> Config:
    """What is shipped, on the best device there is, with the recipe for it."""
    from Daddy.learning.device import has_gpu

    profile = "gpu" if has_gpu() else "auto"
    flags = {"training.device": "auto", "training.profile": profile, "archive.mode": "off"}
    return load_config(None, flags)


@contextmanager
def training_learner(
    config: Config, given: EnvWorkload | None = None, frames: FrameSink | None = None
) -> Iterator[LearnerState]:
    """A learner of the configured workload (or the one ``given``) that shares with nobody.

    ``frames`` takes its pictures; nobody does where it is None.
    """
    from Daddy.learning.interfaces import NoExchange, NoFrames
    from Daddy.learning.learner_parts import Surroundings, assemble
    from Daddy.learning.loop import start_learner
    from Daddy.learning.make_vector import make_vector

    row, alone = given or WORKLOADS[config.training.workload], Alone()
    training = config.training
    how = (training.num_envs, training.vector_backend)
    with tempfile.TemporaryDirectory(prefix="daddy-bench-") as folder:
        around = Surroundings(
            peer="bench",
            checkpoints=Path(folder),
            tensorboard=None,
            lease=alone,
            exchange=NoExchange(),
            frames=frames or NoFrames(),
            stopper=alone,
            events=alone,
            clock=SystemClock(),
        )
        parts = assemble(config, row, around, partial(make_vector, row.make_env(config), *how))
        try:
            yield start_learner(parts)
        finally:
            parts.vector.close()


def _round(learner: LearnerState, quick: bool, name: str) -> dict[str, float]:
    """Each part alone, training itself, and what follows: rates per second, parts in us a step."""
    seconds, iterations = (QUICK_SECONDS, QUICK_ITERATIONS) if quick else (SECONDS, ITERATIONS)
    cores = usable_cores() if learner.parts.device.type == "cpu" else 0
    env_only = random_rate(learner.parts.vector, seconds, SystemClock())
    inference_s = _decide(learner)
    training = iterate(learner, iterations)
    learning_s = _learn(learner)
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


def _decide(learner: LearnerState) -> float:
    """Seconds of one core (or of the GPU) per step for what is decided, groups one by one."""
    import torch

    from Daddy.learning.collector import RolloutProgress

    collector, rollout = learner.collector, learner.rollout
    groups = collector.vector.groups
    progress = RolloutProgress([0] * len(groups), len(rollout.rewards), 0)
    state, took = collector.lstm_state.clone(), []
    with torch.inference_mode():
        for _ in range(DECISIONS):
            began = time.perf_counter()
            for members in groups:
                collector.choose_actions(rollout, progress, 0, members)
            took.append(time.perf_counter() - began)
    collector.lstm_state = state
    return median(took) / collector.vector.num_envs


def iterate(learner: LearnerState, iterations: int) -> float:
    """Steps per second of whole iterations of the learner's loop."""
    from Daddy.learning.loop import (
        adopt_newer,
        collect_rollout,
        estimate_advantages,
        update_policy,
    )
    from Daddy.learning.run_log import record_iteration

    steps, began = 0, time.perf_counter()
    for _ in range(iterations):
        adopt_newer(learner)
        collect_rollout(learner)
        estimate_advantages(learner)
        update_policy(learner)
        record_iteration(learner)
        steps += learner.rollout.rewards.size
    return steps / (time.perf_counter() - began)


def _learn(learner: LearnerState) -> float:
    """Seconds per step for learning from the rollout that was played last, once more."""
    from Daddy.learning.loop import estimate_advantages, update_policy

    began = time.perf_counter()
    estimate_advantages(learner)
    update_policy(learner)
    return (time.perf_counter() - began) / learner.rollout.rewards.size


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
