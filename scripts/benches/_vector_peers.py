"""Steps N environments with our vector and other libraries', and measures the emulation limit."""

import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any, Protocol, cast

import gymnasium
import numpy as np

from Daddy.core.clock import SystemClock
from Daddy.core.host_and_processes import die_with_parent
from Daddy.core.process_pool import interrupts_blocked
from Daddy.core.rom_identity import load_rom
from Daddy.learning.make_vector import make_vector
from Daddy.pokemon.emulator import BUTTONS, Emulator
from Daddy.pokemon.find_rom import find_rom
from Daddy.pokemon.starts.find_start_state import beginning_state
from scripts.benches._random_rate import random_rate

EnvFactory = Callable[[], gymnasium.Env[Any, Any]]
EPISODE = 2048
"""Steps after which a bare loop restarts the game, as the environments do."""
PEERS = {
    "sb3_subproc": ("stable_baselines3", "pip install -c constraints.txt -e '.[demo]'"),
    "gymnasium_async": ("gymnasium", "pip install -e ."),
    "pufferlib": ("pufferlib", "./scripts/install (Linux on x86-64, Python below 3.12)"),
}
"""Name in the figures → the package, and the command that installs it."""


class Contender(Protocol):
    """A way of stepping environments whose speed is measured."""

    def rate(self, seconds: float) -> float:
        """Return environment steps per second over about `seconds`, with random keys."""
        ...

    def close(self) -> None: ...


class Bare:
    """One process per core, each a loop of key, 24 frames and one frame drawn."""

    def __init__(self, cores: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes, self._loops = [], []
        for number in range(cores):
            ours, theirs = context.Pipe()
            loop = context.Process(target=_bare_loop, args=(theirs, number), daemon=True)
            with interrupts_blocked():
                loop.start()
            self._pipes.append(ours)
            self._loops.append(loop)
        for pipe in self._pipes:
            pipe.recv()

    def rate(self, seconds: float) -> float:
        """Return the mean rate of the simultaneous loops; cores times this is the limit."""
        for pipe in self._pipes:
            pipe.send(seconds)
        return float(np.mean([pipe.recv() for pipe in self._pipes]))

    def close(self) -> None:
        """End the loops."""
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.send(0.0)
        for loop in self._loops:
            loop.join()


def _bare_loop(pipe: Connection, seed: int) -> None:
    die_with_parent()
    rom = load_rom(find_rom(None))
    start, emulator = beginning_state(rom), Emulator(rom.data)
    emulator.restore_state(start)
    keys = np.random.default_rng(seed)
    pipe.send("ready")
    while seconds := pipe.recv():
        steps, spent = 0, 0.0
        while spent < seconds:
            chosen = [BUTTONS[i] for i in keys.integers(len(BUTTONS), size=64)]
            began = time.perf_counter()
            for key in chosen:
                emulator.press(key)
            spent += time.perf_counter() - began
            steps += len(chosen)
            if steps % EPISODE == 0:
                emulator.restore_state(start)
        pipe.send(steps / spent)


class Ours:
    """Our vector with random keys, stepped group by group as the learner does."""

    def __init__(
        self, env_fn: EnvFactory, num_envs: int, *, pinned: bool = False, **options: Any
    ) -> None:
        """Make a vector with `options` of `make_vector`; `pinned`: each process to one core."""
        self.vector: Any = make_vector(env_fn, num_envs, **options)
        self.vector.reset(range(num_envs))
        if pinned:
            cores = sorted(os.sched_getaffinity(0))
            for number, pid in enumerate(cast("Any", self.vector).pids):
                os.sched_setaffinity(pid, {cores[number % len(cores)]})

    def rate(self, seconds: float) -> float:
        """Return environment steps per second; see `Contender`."""
        return random_rate(self.vector, seconds, SystemClock())

    def close(self) -> None:
        """End the environments."""
        self.vector.close()


class Stepped:
    """Another library's vector, which steps all environments at once."""

    def __init__(self, step: Callable[[Any], object], close: Callable[[], object], n: int) -> None:
        self._step, self._close, self._num_envs = step, close, n
        self._rng = np.random.default_rng(0)

    def rate(self, seconds: float) -> float:
        """Return environment steps per second; see `Contender`."""
        start, steps = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            self._step(self._rng.integers(len(BUTTONS), size=self._num_envs))
            steps += self._num_envs
        return steps / (time.perf_counter() - start)

    def close(self) -> None:
        """End the environments."""
        self._close()


def missing(peer: str) -> str:
    """Return a message with the install command if a library is missing, else an empty string."""
    package, command = PEERS[peer]
    return "" if find_spec(package) else f"not installed: {command}"


def make_peer(peer: str, env_fn: EnvFactory, num_envs: int, cores: int) -> Stepped:
    """Return another library's vector of the same environments, with its own defaults.

    Its processes' standard error is dropped: dozens of them repeat the same warnings.
    """
    shown = os.dup(2)
    dropped = os.open(os.devnull, os.O_WRONLY)
    os.dup2(dropped, 2)
    try:
        return _MAKERS[peer](env_fn, num_envs, cores)
    finally:
        os.dup2(shown, 2)
        os.close(shown)
        os.close(dropped)


def _sb3(env_fn: EnvFactory, num_envs: int, cores: int) -> Stepped:  # noqa: ARG001
    from stable_baselines3.common.vec_env import SubprocVecEnv

    vector = SubprocVecEnv([env_fn] * num_envs)
    vector.reset()
    return Stepped(vector.step, vector.close, num_envs)


def _gymnasium(env_fn: EnvFactory, num_envs: int, cores: int) -> Stepped:  # noqa: ARG001
    vector = gymnasium.vector.AsyncVectorEnv([env_fn] * num_envs)
    vector.reset()
    return Stepped(vector.step, vector.close, num_envs)


def _pufferlib(env_fn: EnvFactory, num_envs: int, cores: int) -> Stepped:
    """Make pufferlib's vector; `overwork` lets its polling workers be as many as the cores."""
    from pufferlib.emulation import GymnasiumPufferEnv
    from pufferlib.vector import Multiprocessing

    creator = partial(GymnasiumPufferEnv, env_creator=env_fn)
    workers = min(cores, num_envs)
    vector = Multiprocessing(
        *([creator] * num_envs, [[]] * num_envs, [{}] * num_envs),
        num_envs=num_envs,
        num_workers=workers,
        overwork=True,
    )
    vector.reset()

    def close() -> None:  # its SIGTERM would meet the bench's handler, and tracebacks
        for process in vector.processes:
            process.kill()

    return Stepped(vector.step, close, num_envs)


_MAKERS: dict[str, Callable[[EnvFactory, int, int], Stepped]] = {
    "sb3_subproc": _sb3,
    "gymnasium_async": _gymnasium,
    "pufferlib": _pufferlib,
}


def limit_math_threads() -> None:
    """Limit arithmetic to one thread per process; called once, before contenders are made."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
