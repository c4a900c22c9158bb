"""Measures the speed of environments with random keys, and chooses the vector backend by it.

All backends give the same trajectories, so each machine may choose the fastest. The number of
groups changes the last bits of the network's results; the number of environments determines it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.clock import Clock
from Daddy.core.errors import FileError
from Daddy.core.host_and_processes import usable_cores
from Daddy.learning.make_vector import Backend, groups_for, make_vector, puffer_installed
from Daddy.learning.vector_rows import EnvFactory

if TYPE_CHECKING:
    from Daddy.learning.vector_rows import VectorEnv

SECONDS = 0.5
"""Measuring time of each backend: hundreds of steps per core, at little delay of a first start."""
FORMAT = 1
"""Version of the record; a record of another version is measured again."""
MIN_SPEEDUP = 1.25
"""Speed-up that replaces the default backend: jobs that start together disturb measurements."""
_MOST_PER_CORE = 2
"""Environments measured per core and group at most: ninety-six would take seconds to make."""


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


@dataclass(frozen=True)
class BackendChoice:
    """Holds the chosen backend and the steps/s of each measured backend, default first."""

    backend: Backend
    rates: Mapping[str, float]

    @property
    def reason(self) -> str:
        """The measured rates as a sentence."""
        rates = ", ".join(f"{name} {rate:.0f}" for name, rate in self.rates.items())
        return f"{self.backend} (measured, steps/s with random keys: {rates})"


def pick_backend(rates: Mapping[str, float]) -> Backend:
    """Return the first backend, or the fastest if over 1.25 times as fast; ValueError if empty."""
    if not rates:
        raise ValueError("nothing was measured")
    default, best = next(iter(rates)), max(rates, key=rates.__getitem__)
    return cast("Backend", best if rates[best] > MIN_SPEEDUP * rates[default] else default)


def choose_backend(env_fn: EnvFactory, num_envs: int, record: Path, clock: Clock) -> BackendChoice:
    """Return the backend for the run's environments; measure all unless `record` has rates.

    The rates in the file `record` count for this kind of machine only; a failure to write them is
    ignored. The measurement starts processes, so call the function before any thread is started.
    """
    cores, groups = usable_cores(), groups_for(num_envs)
    backends = _candidates()
    machine = {"v": FORMAT, "cores": cores, "num_envs": num_envs, "groups": groups}
    rates = _read_record(record, machine, backends)
    if rates is None:
        count = min(num_envs, groups * cores * _MOST_PER_CORE)
        rates = {name: round(_rate(env_fn, count, name, groups, clock), 1) for name in backends}
        with suppress(OSError):
            write_json(record, {**machine, "rates": rates})
    return BackendChoice(pick_backend(rates), rates)


def _read_record(
    path: Path, machine: Mapping[str, object], backends: Sequence[str]
) -> dict[str, float] | None:
    """Return the steps/s of `backends` in the record at `path`; None if not for `machine`."""
    try:
        record = read_json(path)
        if any(record.get(name) != value for name, value in machine.items()):
            return None
        return {name: float(record["rates"][name]) for name in backends}
    except (OSError, FileError, KeyError, TypeError, ValueError):
        return None


def _candidates() -> tuple[Backend, ...]:
    """Return the backends to measure; `serial` is left out, as it wins on a busy machine."""
    return ("pufferlib", "threads") if puffer_installed() else ("threads",)


def _rate(env_fn: EnvFactory, num_envs: int, backend: Backend, groups: int, clock: Clock) -> float:
    with closing(make_vector(env_fn, num_envs, backend, groups=groups)) as vector:
        vector.reset(range(num_envs))
        random_rate(vector, SECONDS / 4, clock)
        return random_rate(vector, SECONDS, clock)
