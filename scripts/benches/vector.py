"""How close N environments come to the limit of emulation on this machine.

The limit is cores x bare, where bare is the mean rate of as many simultaneous loops of button,
24 frames and one frame drawn as there are usable cores: nothing but the emulator. Each round
measures the limit and every backend once, one after the other, so that a machine that slows down
slows all of them; ratios are taken within a round, and the median round is reported. The peer is
pufferlib as it comes: its emulation layer and its Multiprocessing, with as many env processes.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from multiprocessing.synchronize import Barrier
from statistics import median
from typing import Any

import numpy as np

from Daddy.core.machine import cpu_seconds, myself, usable_cores
from Daddy.core.rom import load_rom
from Daddy.learning.ports import VectorEnv
from Daddy.learning.vector import Backend, make_vector, puffer_installed
from Daddy.pokemon.emulator import BUTTONS, Emulator
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.rom import find_rom
from Daddy.pokemon.starts.boot import beginning

ENVS_PER_CORE = 8
ROUNDS, SECONDS = 7, 2.0
QUICK_ROUNDS, QUICK_SECONDS = 3, 0.6
START_S = 60.0
"""Seconds that bare loops may take to be ready."""


def run(quick: bool) -> dict[str, object]:
    """Steps per second, and their ratio to cores x bare measured in the same rounds."""
    rounds, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if quick else (ROUNDS, SECONDS)
    cores = usable_cores()
    num_envs = ENVS_PER_CORE * cores
    contenders = _contenders(num_envs, cores)
    try:
        measured = [_round(contenders, cores, seconds) for _ in range(rounds)]
    finally:
        for contender in contenders.values():
            contender.close()
    limits = [cores * figures["bare"] for figures in measured]
    result: dict[str, object] = {
        "game": load_rom(find_rom(None)).name,
        "num_envs": num_envs,
        "rounds": rounds,
        "bare_steps_per_s": median(figures["bare"] for figures in measured),
        "limit_steps_per_s": median(limits),
    }
    for name, contender in contenders.items():
        rates = [figures[name] for figures in measured]
        result[name] = {
            "steps_per_s": median(rates),
            "of_limit": median(rate / limit for rate, limit in zip(rates, limits, strict=True)),
            "best_of_limit": max(rate / limit for rate, limit in zip(rates, limits, strict=True)),
            "driver_cpu": median(contender.driver_cpu),
        }
    return result


class Contender:
    """A way to step `num_envs` environments, and how much processor its driver took."""

    def __init__(self, step: Callable[[Any], object], close: Callable[[], object], n: int) -> None:
        self.close, self.driver_cpu = close, list[float]()
        self._step, self._num_envs, self._rng = step, n, np.random.default_rng(0)

    def rate(self, seconds: float) -> float:
        """Environment steps per second over about `seconds`, with random keys."""
        began, cpu, steps = time.perf_counter(), cpu_seconds(myself().pid), 0
        while time.perf_counter() - began < seconds:
            self._step(self._rng.integers(len(BUTTONS), size=self._num_envs))
            steps += self._num_envs
        wall = time.perf_counter() - began
        self.driver_cpu.append((cpu_seconds(myself().pid) - cpu) / wall)
        return steps / wall


def _contenders(num_envs: int, cores: int) -> dict[str, Contender]:
    backends: list[Backend] = ["threads", "serial"]
    if puffer_installed():
        backends.insert(0, "pufferlib")
    contenders: dict[str, Contender] = {name: _ours(name, num_envs) for name in backends}
    if puffer_installed():
        contenders["peer_stock_pufferlib"] = _stock_pufferlib(num_envs, cores)
    return contenders


def _ours(backend: Backend, num_envs: int) -> Contender:
    vector: VectorEnv = make_vector(PokemonRedEnv, num_envs, backend)
    vector.reset(range(num_envs))
    return Contender(vector.step, vector.close, num_envs)


def _stock_pufferlib(num_envs: int, cores: int) -> Contender:
    from pufferlib.emulation import GymnasiumPufferEnv
    from pufferlib.vector import Multiprocessing

    creator = partial(GymnasiumPufferEnv, env_creator=PokemonRedEnv)
    vector = Multiprocessing(
        *([creator] * num_envs, [[]] * num_envs, [{}] * num_envs),
        num_envs=num_envs,
        num_workers=cores,
        overwork=True,
    )
    vector.reset()
    return Contender(vector.step, vector.close, num_envs)


def _round(contenders: dict[str, Contender], cores: int, seconds: float) -> dict[str, float]:
    figures = {"bare": bare(cores, seconds)}
    for name, contender in contenders.items():
        figures[name] = contender.rate(seconds)
    return figures


def bare(cores: int, seconds: float) -> float:
    """Mean rate, in steps per second, of `cores` simultaneous loops of nothing but emulation."""
    context = multiprocessing.get_context("spawn")
    ready, rates = context.Barrier(cores), context.SimpleQueue()
    loops = [
        context.Process(target=_bare_loop, args=(ready, rates, seconds, i), daemon=True)
        for i in range(cores)
    ]
    for loop in loops:
        loop.start()
    with closing(rates):
        found: list[float] = [rates.get() for _ in loops]
    for loop in loops:
        loop.join()
    return sum(found) / cores


def _bare_loop(ready: Barrier, rates: Any, seconds: float, seed: int) -> None:
    rom = load_rom(find_rom(None))
    emulator = Emulator(rom.data)
    emulator.load_state(beginning(rom))
    keys = [BUTTONS[i] for i in np.random.default_rng(seed).integers(len(BUTTONS), size=100_000)]
    rate = 0.0
    with suppress(Exception):
        ready.wait(START_S)
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            emulator.press(keys[steps])
            steps += 1
        rate = steps / (time.perf_counter() - began)
    rates.put(rate)
