"""Measures the parts of one environment step, each right after emulated frames."""

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from Daddy.learning.vector_rows import EnvRow, Rows, row_layout
from Daddy.pokemon import cutscene
from Daddy.pokemon.emulator import BUTTONS, Emulator
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.game_progress import read_progress
from Daddy.pokemon.observation import ObservationWriter

STEPS, REPEATS = 100, 5


def measure() -> dict[str, float]:
    """Return the median microseconds of each part, run right after 24 frames of emulation.

    Emulation evicts Python from the caches, so each part is slower than in a tight loop. An env
    process finishes several environments in a row, and only the first is that slow.
    """
    env = PokemonRedEnv()
    env.reset(seed=0)
    row = EnvRow(env, Rows(row_layout(env), np.zeros((1, row_layout(env).size), np.uint8)), 0, 0)
    parts = _parts(env, row)
    keys = np.random.default_rng(0).integers(len(BUTTONS), size=STEPS).tolist()
    spent: dict[str, list[float]] = {name: [] for name in ("emulator", *parts, "whole step")}
    emulator = env._emulator  # noqa: SLF001 - a profile looks inside
    for _ in range(REPEATS):
        spent["emulator"].append(_time_calls(lambda n: emulator.press(BUTTONS[keys[n]])))
        for name, part in parts.items():
            spent[name].append(_time_after_frames(emulator, keys, part))
        spent["whole step"].append(_time_calls(lambda n: row.step(keys[n], draw=False)))
    return {name: round(1e6 * median(times), 1) for name, times in spent.items()}


def _parts(env: PokemonRedEnv, row: EnvRow) -> dict[str, Callable[[], object]]:
    emulator, tracker = env._emulator, env._tracker  # noqa: SLF001
    image = emulator.ram()
    now = read_progress(image)
    writer = ObservationWriter(row._observation)  # noqa: SLF001
    return {
        "look for a script": lambda: cutscene.wait_for_control(emulator),
        "facts": lambda: read_progress(image),
        "reward": lambda: tracker.pay_step(now, now),
        "observation": lambda: writer.write(
            emulator.half_screen(writer.screen), now, tracker.memory.visited
        ),
        "telemetry": lambda: row._write_telemetry(draw=False),  # noqa: SLF001
    }


def _time_after_frames(emulator: Emulator, keys: list[int], part: Callable[[], object]) -> float:
    spent = 0.0
    for key in keys:
        emulator.press(BUTTONS[key])
        began = time.perf_counter()
        part()
        spent += time.perf_counter() - began
    return spent / len(keys)


def _time_calls(call: Callable[[int], object]) -> float:
    began = time.perf_counter()
    for n in range(STEPS):
        call(n)
    return (time.perf_counter() - began) / STEPS
