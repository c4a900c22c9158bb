"""Pure. The settings of a fan-out that decide its results, and each sandbox's part of them.

Rate and seed of a sandbox follow from the run's seed and the sandbox's index alone, so that a run
gives the same results on every engine, in every order, and after a resume.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from Daddy.core.errors import ConfigError

RATES = (0.001, 0.005, 0.01, 0.02, 0.05)
POLICIES = ("ppo", "sb3", "controller")
AUTO_STOP_S = 600.0
"""Seconds after which a sandbox's program is ended; more for a longer training."""
_USUAL_TIMESTEPS = 50_000


@dataclass(frozen=True, slots=True)
class FanoutSettings:
    """Holds the settings that decide the results, and the run's name; a resumed run keeps them."""

    sandboxes: int = 25
    episodes: int = 300
    timesteps: int = _USUAL_TIMESTEPS
    policy: str = "ppo"
    seed: int = 0
    program: str = ""
    """SHA-256 of the program."""
    own_program: bool = False
    """True for a program of --task, whose cost is unknown."""
    name: str = ""
    """Name of the run, which a vendor's sandboxes have as their label."""

    @property
    def indices(self) -> range:
        """The indices of all sandboxes: 1, 2, …"""
        return range(1, self.sandboxes + 1)

    @property
    def time_limit_s(self) -> float:
        return AUTO_STOP_S * max(1.0, self.timesteps / _USUAL_TIMESTEPS)

    def rate_of(self, index: int) -> float:
        """Return the sandbox's learning rate, drawn from `RATES`."""
        return RATES[_draw(f"rate {self.seed} {index}") % len(RATES)]

    def seed_of(self, index: int) -> int:
        """Return the seed of the sandbox's program, below 2**31."""
        return _draw(f"seed {self.seed} {index}") % (1 << 31)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _draw(name: str) -> int:
    """Return a number of 64 bits that looks random and follows from `name`."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def sandbox_id(index: int) -> str:
    """Return the sandbox's name on screens and in files: ``sb-00017``."""
    return f"sb-{index:05d}"


def settings_from(given: Mapping[str, Any], recorded: Mapping[str, Any] | None) -> FanoutSettings:
    """Return the recorded settings of a run that is resumed, else the given ones or defaults.

    Raises ConfigError if a given setting is not the recorded one.
    """
    if recorded is None:
        return FanoutSettings(**given)
    for name, value in given.items():
        if value != recorded.get(name):
            raise ConfigError(
                f"the run began with {name} {recorded.get(name)!r}, not {value!r}",
                "leave the option out, or begin another run in another --run-dir",
            )
    try:
        return FanoutSettings(**recorded)
    except TypeError as error:
        raise ConfigError(f"the run's settings are another release's: {error}") from error


def split_batches(indices: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """Split indices, in their order, into batches of at most `size`."""
    return [tuple(indices[first : first + size]) for first in range(0, len(indices), size)]
