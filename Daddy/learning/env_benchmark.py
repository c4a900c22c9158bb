"""How fast environments are here: random keys, no network. What chooses a learner's backend.

All backends give the same trajectories, so that which one is faster may be found out anew on any
machine, and changes nothing of what is learnt. The number of groups does change the last bits of
what the network computes: it follows from the number of environments.
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
from Daddy.core.machine_info import usable_cores
from Daddy.learning.make_vector import Backend, groups_for, make_vector, puffer_installed
from Daddy.learning.vector_rows import EnvFactory

if TYPE_CHECKING:
    from Daddy.learning.vector_rows import VectorEnv

SECONDS = 0.5
"""Of each backend: hundreds of steps of each core, and a first start that is little longer."""
FORMAT = 1
"""Of the record; another one is measured anew."""
WORTH_IT = 1.25
"""Times as fast as the usual one: jobs that start beside each other disturb what they measure."""
_EACH = 2
"""Environments tried for each core and group at most: ninety-six take seconds to make."""


def random_rate(vector: VectorEnv, seconds: float, clock: Clock, seed: int = 0) -> float:
    """Steps of single environments per second, over about `seconds`, each group at its own pace."""
    dice, keys = np.random.default_rng(seed), int(vector.action_space.n)
    begun, steps, playing = clock.monotonic(), 0, len(vector.groups)

    def send(group: int) -> None:
        members = vector.groups[group]
        vector.send(group, dice.integers(keys, size=members.stop - members.start))

    for group in range(playing):
        send(group)
    while playing:
        group, transition = vector.recv()
        steps += len(transition.rewards)
        if clock.monotonic() - begun < seconds:
            send(group)
        else:
            playing -= 1
    return steps / max(clock.monotonic() - begun, 1e-9)


@dataclass(frozen=True)
class Choice:
    """The backend to use, and why: steps per second of each that was tried, the usual one first."""

    backend: Backend
    rates: Mapping[str, float]

    @property
    def reason(self) -> str:
        """In words."""
        told = ", ".join(f"{name} {rate:.0f}" for name, rate in self.rates.items())
        return f"{self.backend} (measured, steps/s with random keys: {told})"


def choose(rates: Mapping[str, float]) -> Backend:
    """The first, unless another is faster by more than its moment explains; ValueError of none."""
    if not rates:
        raise ValueError("nothing was measured")
    usual, best = next(iter(rates)), max(rates, key=rates.__getitem__)
    return cast("Backend", best if rates[best] > WORTH_IT * rates[usual] else usual)


def chosen_backend(env_fn: EnvFactory, num_envs: int, record: Path, clock: Clock) -> Choice:
    """The backend for environments of this run, measured once for each shape of machine.

    `record` is where the run keeps what was found: advice, measured anew where it cannot be read
    and not missed where it cannot be written. Starts processes: to be asked before there are
    threads.
    """
    cores, groups = usable_cores(), groups_for(num_envs)
    backends = _candidates()
    shape = {"v": FORMAT, "cores": cores, "num_envs": num_envs, "groups": groups}
    rates = _known(record, shape, backends)
    if rates is None:
        tried = min(num_envs, groups * cores * _EACH)
        rates = {name: round(_rate(env_fn, tried, name, groups, clock), 1) for name in backends}
        with suppress(OSError):
            write_json(record, {**shape, "rates": rates})
    return Choice(choose(rates), rates)


def _known(
    record: Path, shape: Mapping[str, object], backends: Sequence[str]
) -> dict[str, float] | None:
    """Rates that were found before, the usual backend's first; None where none can be told."""
    try:
        known = read_json(record)
        if any(known.get(name) != value for name, value in shape.items()):
            return None
        return {name: float(known["rates"][name]) for name in backends}
    except (OSError, FileError, KeyError, TypeError, ValueError):
        return None


def _candidates() -> tuple[Backend, ...]:
    """Those that use all cores, the usual first: one core looks best where all are taken."""
    return ("pufferlib", "threads") if puffer_installed() else ("threads",)


def _rate(env_fn: EnvFactory, num_envs: int, backend: Backend, groups: int, clock: Clock) -> float:
    with closing(make_vector(env_fn, num_envs, backend, groups=groups)) as vector:
        vector.reset(range(num_envs))
        random_rate(vector, SECONDS / 4, clock)
        return random_rate(vector, SECONDS, clock)
