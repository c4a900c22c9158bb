"""Defines the base class of vectors: environments as rows of shared arrays, in groups.

Contains all that the backends have in common: the layout of a row, an environment's step, reset,
counters and states, and the groups. A backend only chooses the thread or process of a call.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Dict as DictSpace
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from Daddy.core.errors import DaddyError, FileError
from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.learning.interfaces import EpisodeEnd, Transition

if TYPE_CHECKING:
    from Daddy.learning.interfaces import Observations, StatefulEnv


def split_into_groups(num_envs: int, wanted: int) -> tuple[slice, ...]:
    """Split N environments into equal groups: the largest divisor of N up to `wanted`."""
    groups = next(n for n in range(min(wanted, num_envs), 0, -1) if num_envs % n == 0)
    size = num_envs // groups
    return tuple(slice(first, first + size) for first in range(0, num_envs, size))


def concatenate(parts: list[Transition]) -> Transition:
    """Concatenate the groups' transitions in the order given."""
    keys = parts[0].observations
    return Transition(
        {key: np.concatenate([part.observations[key] for part in parts]) for key in keys},
        np.concatenate([part.rewards for part in parts]),
        np.concatenate([part.terminated for part in parts]),
        np.concatenate([part.truncated for part in parts]),
        [episode for part in parts for episode in part.episodes],
    )


EnvFactory = Callable[[], "gymnasium.Env[Any, Any]"]
_ALIGNED = 8
"""Alignment of every field in bytes, for numpy's speed."""
_COUNTERS = struct.Struct("<4sdQ")
_MAGIC = b"ROW1"


@dataclass(frozen=True)
class RowLayout:
    """Holds the spaces of an environment, and the layout of its row of `size` bytes.

    `fields` maps a name to (offset, dtype, shape); observation keys are prefixed with ``obs/``.
    """

    observation_space: DictSpace
    action_space: Discrete
    telemetry_names: tuple[str, ...]
    fields: Mapping[str, tuple[int, np.dtype[Any], tuple[int, ...]]]
    size: int


def row_layout(env: gymnasium.Env[Any, Any]) -> RowLayout:
    """Return the RowLayout of environments like `env`; TypeError unless its spaces fit."""
    space, actions = env.observation_space, env.action_space
    if not isinstance(space, DictSpace) or not isinstance(actions, Discrete):
        raise TypeError(f"a workload needs Dict observations and Discrete actions, not {env}")
    names = tuple(getattr(env.unwrapped, "telemetry_names", ()))
    contents = {f"obs/{key}": (box.dtype, box.shape) for key, box in space.spaces.items()}
    contents["telemetry"] = (np.dtype(np.float32), (len(names),))
    contents["picture"] = (np.dtype(np.uint8), (SCREEN_BYTES,))
    fields, offset = {}, 0
    for name, (dtype, shape) in contents.items():
        fields[name] = (offset, np.dtype(dtype), tuple(shape or ()))
        offset += -(-np.dtype(dtype).itemsize * math.prod(shape or ()) // _ALIGNED) * _ALIGNED
    return RowLayout(space, actions, names, fields, offset)


class EnvProcessError(DaddyError):
    """Reports that an env process died, failed or hangs; the learner has to end."""


class VectorEnv(ABC):
    """Steps N environments of one workload, in groups.

    `groups` are consecutive slices of equal size. `send` starts a step of one group and `recv`
    waits for any group, so that others play while the policy infers a group's actions; `step` does
    both for all groups. Between a group's `send` and its `recv` no other method may be called for
    it. The spaces are those of a single environment.
    """

    def __init__(self, layout: RowLayout, num_envs: int, groups: int) -> None:
        """Set the spaces, and split the environments into up to `groups` groups."""
        self._layout, self.num_envs = layout, num_envs
        self.groups = split_into_groups(num_envs, groups)
        self.observation_space, self.action_space = layout.observation_space, layout.action_space
        self.telemetry_names = layout.telemetry_names

    @abstractmethod
    def reset(self, seeds: Sequence[int]) -> Observations:
        """Start an episode in every environment, environment i with seeds[i]."""

    @abstractmethod
    def send(self, group: int, actions: NDArray[np.integer[Any]]) -> None:
        """Start a step of group number `group`, with an action for each of its environments."""

    @abstractmethod
    def recv(self) -> tuple[int, Transition]:
        """Wait for any group to finish its step; return its number and its transition.

        The observations are views, which the group's next step overwrites.
        Raises the error of an environment; EnvProcessError if an env process ended or hangs.
        """

    def step(self, actions: NDArray[np.integer[Any]]) -> Transition:
        """Step every group once with actions (N,); return the transition of all environments."""
        for group, members in enumerate(self.groups):
            self.send(group, actions[members])
        parts = dict(self.recv() for _ in self.groups)
        return concatenate([parts[group] for group in range(len(parts))])

    @abstractmethod
    def telemetry(self) -> NDArray[np.float32]:
        """Return the newest telemetry, (N, len(telemetry_names)) float32."""

    @abstractmethod
    def request_pictures(self, agents: frozenset[int]) -> None:
        """Draw pictures of the environments `agents`, and no others, from the next step on."""

    @abstractmethod
    def pictures(self) -> dict[int, bytes]:
        """Return pictures (SCREEN_BYTES) of the environments that were drawn in their last step."""

    @abstractmethod
    def save_states(self) -> list[bytes]:
        """Return each environment's full state, with its random generators and counters."""

    @abstractmethod
    def load_states(self, states: list[bytes]) -> Observations:
        """Restore the states that `save_states` returned; return their observations."""

    @abstractmethod
    def close(self) -> None:
        """End all environments."""


class Rows:
    """Holds views into a (n, layout.size) uint8 buffer: observations, telemetry, pictures."""

    def __init__(self, layout: RowLayout, buffer: NDArray[np.uint8]) -> None:
        views = {
            name: _column(buffer, offset, dtype, shape)
            for name, (offset, dtype, shape) in layout.fields.items()
        }
        self.telemetry, self.pictures = views.pop("telemetry"), views.pop("picture")
        self.observations = {name.removeprefix("obs/"): view for name, view in views.items()}


def _column(
    buffer: NDArray[np.uint8], offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> NDArray[Any]:
    """Return a field of all rows as one array (n, *shape), a view of `buffer`."""
    inner = np.empty(shape, dtype).strides
    flat = buffer.reshape(-1)
    return np.ndarray(
        (buffer.shape[0], *shape), dtype, flat.data, offset, (buffer.strides[0], *inner)
    )


class RowStep(NamedTuple):
    """Holds the result of one environment's step, except the observation, which is in the row."""

    reward: float
    terminated: bool
    truncated: bool
    episode: EpisodeEnd | None


class EnvRow:
    """Steps one environment, and writes observations and telemetry into its row."""

    def __init__(self, env: gymnasium.Env[Any, Any], rows: Rows, index: int, number: int) -> None:
        """Wrap an environment; `index` is its row, `number` its index in the whole vector."""
        self._env: Any = env
        self._rows, self._index, self._number = rows, index, number
        self._observation = {key: column[index, ...] for key, column in rows.observations.items()}
        if env is env.unwrapped and hasattr(env, "observe_into"):  # a wrapper may change them
            env.observe_into(self._observation)
        self._has_halves = env is env.unwrapped and hasattr(env, "finish_step")
        self._action, self._return, self._length = 0, 0.0, 0
        self._telemetry: Callable[[], Sequence[float]] | None
        self._telemetry = getattr(env.unwrapped, "telemetry", None)
        self._columns = rows.telemetry[index]
        self._pack = struct.Struct(f"{len(self._columns)}f").pack_into
        self._picture: Callable[[], bytes] | None = getattr(env.unwrapped, "picture", None)

    def reset(self, seed: int) -> None:
        """Start an episode with the random seed `seed`."""
        self._start_episode(seed)
        self._write_telemetry(draw=False)

    def step(self, action: int, draw: bool) -> RowStep:
        """Take one step; if it ended an episode, the row gets the next episode's observation."""
        self.start_step(action)
        return self.finish_step(draw)

    def start_step(self, action: int) -> None:
        """Take the first half of a step; only store `action` if the environment has no halves."""
        self._action = action
        if self._has_halves:
            self._env.start_step(action)

    def finish_step(self, draw: bool) -> RowStep:
        """Take the second half of a step and write the row; `draw` also writes a picture."""
        result = self._env.finish_step() if self._has_halves else self._env.step(self._action)
        observation, reward, terminated, truncated, info = result
        self._return += float(reward)
        self._length += 1
        episode = None
        if terminated or truncated:
            episode = EpisodeEnd(self._number, self._return, self._length, info)
            self._start_episode(None)
        else:
            self._write_observation(observation)
        self._write_telemetry(draw)
        cut = bool(truncated or info.get("jumped"))
        return RowStep(float(reward), bool(terminated), cut, episode)

    def save(self) -> bytes:
        """Return the environment's state and the episode's counters as bytes."""
        state: bytes = self._inner.save_state()
        return _COUNTERS.pack(_MAGIC, self._return, self._length) + state

    def restore(self, data: bytes) -> None:
        """Restore a result of `save`; FileError if `data` is not one."""
        if data[:4] != _MAGIC or len(data) < _COUNTERS.size:
            raise FileError(
                "these bytes are no environment state", "resume from an older checkpoint"
            )
        _, self._return, self._length = _COUNTERS.unpack_from(data)
        self._write_observation(self._inner.load_state(data[_COUNTERS.size :]))
        self._write_telemetry(draw=False)

    def close(self) -> None:
        """End the environment."""
        self._env.close()

    @property
    def _inner(self) -> StatefulEnv:
        """The environment below gymnasium's wrappers."""
        inner: StatefulEnv = self._env.unwrapped
        return inner

    def _start_episode(self, seed: int | None) -> None:
        self._return, self._length = 0.0, 0
        self._write_observation(self._env.reset(seed=seed)[0])

    def _write_observation(self, observation: Mapping[str, Any]) -> None:
        if observation is not self._observation:
            for key, array in self._observation.items():
                array[...] = observation[key]

    def _write_telemetry(self, draw: bool) -> None:
        if self._telemetry is not None:
            self._pack(self._columns, 0, *self._telemetry())  # numpy would take 3 us
        if draw and self._picture is not None:
            self._rows.pictures[self._index] = np.frombuffer(self._picture(), np.uint8)
