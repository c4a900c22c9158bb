"""Makes a vector: N environments of a workload that are stepped together (`make_vector`).

The backends give the same trajectories for the same seeds:
pufferlib  processes with shared memory, where it installs (Linux on x86-64)
threads    threads of this process, for environments that release the interpreter's lock
serial     one environment after the other, for tests and very fast environments
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from Daddy.core.errors import UsageError
from Daddy.core.host_and_processes import usable_cores
from Daddy.learning.vector_rows import EnvFactory
from Daddy.learning.vector_threads import SerialVector, ThreadVector

if TYPE_CHECKING:
    from Daddy.learning.vector_rows import VectorEnv

Backend = Literal["auto", "pufferlib", "threads", "serial"]
_SMALLEST_GROUP = 4


def make_vector(
    env_fn: EnvFactory, num_envs: int, backend: Backend = "auto", cores: int = 0, groups: int = 0
) -> VectorEnv:
    """Make `num_envs` environments with `env_fn` (picklable) on `cores` cores (0: all usable).

    The environments form up to `groups` groups of equal size (0: `groups_for`), for every backend.
    UsageError for less than one environment or a backend that is not installed.
    """
    if num_envs < 1:
        raise UsageError(f"{num_envs} environments cannot be played", "make at least one")
    cores = min(cores or usable_cores(), num_envs)
    groups = groups or groups_for(num_envs)
    chosen = _default_backend(num_envs) if backend == "auto" else backend
    if chosen == "pufferlib":
        return _puffer(env_fn, num_envs, cores, groups)
    if chosen == "threads":
        return ThreadVector(env_fn, num_envs, cores, groups)
    return SerialVector(env_fn, num_envs, groups)


def groups_for(num_envs: int) -> int:
    """Return 2 groups from 8 environments on, or 1: smaller inference batches save no time."""
    return 2 if num_envs >= 2 * _SMALLEST_GROUP else 1


def puffer_installed() -> bool:
    """Return True if pufferlib is installed and this machine runs Linux."""
    return sys.platform == "linux" and find_spec("pufferlib") is not None


def is_forking(backend: Backend, num_envs: int) -> bool:
    """Return True if the backend forks processes: then make its vector before starting threads."""
    return (_default_backend(num_envs) if backend == "auto" else backend) == "pufferlib"


def _default_backend(num_envs: int) -> Backend:
    if num_envs == 1:
        return "serial"
    return "pufferlib" if puffer_installed() else "threads"


def _puffer(env_fn: EnvFactory, num_envs: int, cores: int, groups: int) -> VectorEnv:
    if not puffer_installed():
        raise UsageError(
            "pufferlib is not installed here (its wheels: Linux on x86-64, Python 3.10 and 3.11)",
            "use the backend threads: the same results, slower on many cores",
        )
    from Daddy.learning.vector_pufferlib import PufferVector

    return PufferVector(env_fn, num_envs, cores, groups)
