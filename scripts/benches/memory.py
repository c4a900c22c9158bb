"""Whether an environment's memory stays flat: 100,000 steps each, weighed ten times on the way.

Each of as many processes as there are cores plays one environment, with episodes short enough that
whatever an episode keeps is kept and let go some fifty times.
"""

from __future__ import annotations

import multiprocessing
import os
from contextlib import closing
from multiprocessing.connection import Connection

import numpy as np

from Daddy.core.machine import die_with_parent, resident_bytes, usable_cores
from Daddy.pokemon.emulator import BUTTONS
from Daddy.pokemon.env import PokemonRedEnv

STEPS, QUICK_STEPS = 100_000, 5_000
LOOKS = 10
MIB = 1 << 20


def run(quick: bool) -> dict[str, object]:
    """Resident MiB of each process at ten equal distances, and what a thousand steps add."""
    steps = QUICK_STEPS if quick else STEPS
    context = multiprocessing.get_context("spawn")
    weights: list[list[float]] = []
    children = []
    for seed in range(usable_cores()):
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_play, args=(theirs, steps, seed))
        child.start()
        children.append((child, ours))
    for look in range(1, LOOKS + 1):
        row = [round(pipe.recv() / MIB, 2) for _, pipe in children]
        print(f"  {look * steps // LOOKS:>8,} steps   {row} MiB", flush=True)
        weights.append(row)
    for child, _ in children:
        child.join()
    settled = np.array(weights[1:])
    grows = np.polyfit(np.arange(1, LOOKS) * steps / LOOKS / 1000, settled, 1)[0]
    return {
        "steps_each": steps,
        "resident_mb": weights,
        "grows_kb_per_1000_steps": [round(float(slope) * 1024, 2) for slope in grows],
    }


def _play(pipe: Connection, steps: int, seed: int) -> None:
    die_with_parent()
    keys = np.random.default_rng(seed)
    with closing(PokemonRedEnv()) as env:
        env.reset(seed=seed)
        for step in range(1, steps + 1):
            *_, won, late, _ = env.step(int(keys.integers(len(BUTTONS))))
            if won or late:
                env.reset()
            if step % (steps // LOOKS) == 0:
                pipe.send(resident_bytes(os.getpid()))
