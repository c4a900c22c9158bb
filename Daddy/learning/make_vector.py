"""Makes a vector: N environments of a workload that are stepped together (`make_vector`).

The backends give the same trajectories for the same seeds:
processes  processes of our own, which share memory
serial     one environment after the other, for tests and very fast environments
pufferlib  pufferlib's processes, where it is installed
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from Daddy.core.errors import UsageError
from Daddy.core.host_and_processes import usable_cores
from Daddy.learning.vector_processes import ProcessVector, start_method
from Daddy.learning.vector_rows import EnvFactory
from Daddy.learning.vector_serial import SerialVector

if TYPE_CHECKING:
    from Daddy.learning.vector_rows import VectorEnv

Backend = Literal["processes", "pufferlib", "serial"]
_SMALLEST_GROUP = 4
"""Environments of a group: smaller inference batches save no time."""
_FEW_CORES = 4


def make_vector(
    env_fn: EnvFactory,
    num_envs: int,
    backend: Backend = "processes",
    cores: int = 0,
    groups: int = 0,
    context: str | None = None,
) -> VectorEnv:
    """Make `num_envs` environments with `env_fn` (picklable) on `cores` cores (0: all usable).

    The environments form up to `groups` groups of equal size (0: `groups_for`), for every backend.
    A single environment needs no process. `context` is the start method of `processes`.
    UsageError for less than one environment or a backend that is not installed.
    """
    if num_envs < 1:
        raise UsageError(f"{num_envs} environments cannot be played", "make at least one")
    cores = min(cores or usable_cores(), num_envs)
    groups = groups or groups_for(num_envs, cores)
    if backend == "pufferlib":
        from Daddy.learning.vector_pufferlib import PufferVector

        return PufferVector(env_fn, num_envs, cores, groups)
    if backend == "serial" or (num_envs == 1 and not context):
        return SerialVector(env_fn, num_envs, groups)
    return ProcessVector(env_fn, num_envs, cores, groups, context)


def groups_for(num_envs: int, cores: int) -> int:
    """Return how many groups play fastest.

    On few cores a group for each, if they are of equal size: none waits for another core, and while
    a group waits for its actions the policy needs the core that it leaves. On many, one inference
    has to serve several cores, and two groups take turns; so on one, where a GPU may infer.
    """
    if 1 < cores <= _FEW_CORES and num_envs % cores == 0 and num_envs >= _SMALLEST_GROUP * cores:
        return cores
    return 2 if num_envs >= 2 * _SMALLEST_GROUP else 1


def is_forking(backend: Backend) -> bool:
    """Return True if the backend forks processes: then make its vector before starting threads."""
    return backend == "pufferlib" or (backend == "processes" and start_method() == "fork")
