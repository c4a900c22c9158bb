"""Plays with random actions, for comparison with the learners of the same run."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from Daddy.core.clock import Clock
from Daddy.core.event_log import EventWriter
from Daddy.core.hyperparameters import seed_for
from Daddy.core.settings import Config
from Daddy.learning.make_vector import make_vector
from Daddy.workloads import WORKLOADS

ENVIRONMENTS = 4


def play_at_random(
    config: Config, events: Path, episodes: int, clock: Clock, show: Callable[[str], None]
) -> float:
    """Play at least ``episodes`` episodes with uniformly random actions; write their returns.

    Tells ``show`` the progress in words; returns the seconds of a step.
    """
    training = config.training
    writer = EventWriter(events, config.run_name, training.workload, "demo", "random", clock)
    vector = make_vector(WORKLOADS[training.workload].make_env(config), ENVIRONMENTS)
    rng = np.random.default_rng(training.seed)
    returns: list[float] = []
    lengths: list[int] = []
    try:
        vector.reset([seed_for(training.seed, "random", "", env) for env in range(ENVIRONMENTS)])
        begin, steps = clock.monotonic(), 0
        while len(returns) < episodes:
            ended = vector.step(rng.integers(vector.action_space.n, size=ENVIRONMENTS)).episodes
            returns += [float(episode.episode_return) for episode in ended]
            lengths += [int(episode.length) for episode in ended]
            steps += ENVIRONMENTS
            show(f"{len(returns)} of {episodes} episodes, {steps:,} steps")
        seconds = (clock.monotonic() - begin) / steps
    finally:
        vector.close()
    writer.write("result", 0, {"result": "random", "returns": returns, "lengths": lengths})
    return seconds
