"""N environments of one workload behind one call: `make_vector`.

Owns the choice of the backend. All give the same trajectories for the same seeds:
pufferlib  processes with shared memory, where it installs (Linux on x86-64)
threads    one process; right where the environment leaves the interpreter's lock alone
serial     one after the other, for tests and tiny environments
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from Daddy.core.errors import UsageError
from Daddy.core.machine_info import usable_cores
from Daddy.learning.vector_rows import EnvFactory
from Daddy.learning.vector_threads import SerialVector, ThreadVector

if TYPE_CHECKING:
    from Daddy.learning.vector_rows import VectorEnv

Backend = Literal["auto", "pufferlib", "threads", "serial"]
_SMALLEST_GROUP = 4


def make_vector(
    env_fn: EnvFactory, num_envs: int, backend: Backend = "auto", cores: int = 0, groups: int = 0
) -> VectorEnv:
    """`num_envs` environments made by `env_fn` (picklable), on `cores` cores (0: all usable).

    In up to `groups` groups of equal size (0: `groups_for`), as many as divide them, whatever the
    backend: what the network computes depends on them. Raises UsageError for less
    than one environment or a backend that is not installed.
    """
    if num_envs < 1:
        raise UsageError(f"{num_envs} environments cannot be played", "ask for at least one")
    cores = min(cores or usable_cores(), num_envs)
    groups = groups or groups_for(num_envs)
    chosen = _automatic(num_envs) if backend == "auto" else backend
    if chosen == "pufferlib":
        return _puffer(env_fn, num_envs, cores, groups)
    if chosen == "threads":
        return ThreadVector(env_fn, num_envs, cores, groups)
    return SerialVector(env_fn, num_envs, groups)


def groups_for(num_envs: int) -> int:
    """Two where each is large enough: to judge few environments costs hardly less than many."""
    return 2 if num_envs >= 2 * _SMALLEST_GROUP else 1


def puffer_installed() -> bool:
    """Whether pufferlib can be imported here."""
    return sys.platform == "linux" and find_spec("pufferlib") is not None


def is_forking(backend: Backend, num_envs: int) -> bool:
    """Whether that backend starts processes: then it must be made before there are threads."""
    return (_automatic(num_envs) if backend == "auto" else backend) == "pufferlib"


def _automatic(num_envs: int) -> Backend:
    if num_envs == 1:
        return "serial"
    return "pufferlib" if puffer_installed() else "threads"


def _puffer(env_fn: EnvFactory, num_envs: int, cores: int, groups: int) -> VectorEnv:
    if not puffer_installed():
        raise UsageError(
            "pufferlib is not installed here (its wheels: Linux on x86-64, Python 3.10 and 3.11)",
            "use the backend threads, which plays the same, on few cores",
        )
    from Daddy.learning.vector_pufferlib import PufferVector

    return PufferVector(env_fn, num_envs, cores, groups)
