"""Measures the speed of environments with random keys."""

import numpy as np

from Daddy.core.clock import Clock
from Daddy.learning.vector_rows import VectorEnv


def random_rate(vector: VectorEnv, seconds: float, clock: Clock, seed: int = 0) -> float:
    """Play random keys for about `seconds`; return environment steps per second."""
    rng, keys = np.random.default_rng(seed), int(vector.action_space.n)
    start, steps, playing = clock.monotonic(), 0, len(vector.groups)

    def send(group: int) -> None:
        members = vector.groups[group]
        vector.send(group, rng.integers(keys, size=members.stop - members.start))

    for group in range(playing):
        send(group)
    while playing:
        group, transition = vector.recv()
        steps += len(transition.rewards)
        if clock.monotonic() - start < seconds:
            send(group)
        else:
            playing -= 1
    return steps / max(clock.monotonic() - start, 1e-9)
