"""One environment as one row of shared arrays, and rows in groups.

Owns all that every backend does alike, so that they cannot differ: where an environment's numbers
stand, how it is stepped, restarted, counted, saved and loaded, how many groups there are, and a
step of all made of the steps of each. The backends only decide who calls.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict as DictSpace
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from Daddy.core.errors import FileError
from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.learning.interfaces import EpisodeEnd, Transition

if TYPE_CHECKING:
    from Daddy.learning.interfaces import Observations


def split(num_envs: int, wanted: int) -> tuple[slice, ...]:
    """`num_envs` environments in up to `wanted` groups of equal size, as many as divide them."""
    groups = next(n for n in range(min(wanted, num_envs), 0, -1) if num_envs % n == 0)
    size = num_envs // groups
    return tuple(slice(first, first + size) for first in range(0, num_envs, size))


def join(parts: list[Transition]) -> Transition:
    """The groups' transitions, in order, as one."""
    if len(parts) == 1:
        return parts[0]
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
"""Every field begins at a multiple of so many bytes, as numpy likes it."""
_COUNTERS = struct.Struct("<4sdQ")
_MAGIC = b"ROW1"


@dataclass(frozen=True)
class Layout:
    """What an environment looks like and where its numbers stand in a row of `size` bytes.

    `fields` maps a name to (offset, dtype, shape); observation keys are prefixed with ``obs/``.
    """

    observation_space: DictSpace
    action_space: Discrete
    telemetry_names: tuple[str, ...]
    fields: Mapping[str, tuple[int, np.dtype[Any], tuple[int, ...]]]
    size: int


def layout_of(env: gymnasium.Env[Any, Any]) -> Layout:
    """The layout of environments like `env`, which needs a Dict space and Discrete actions."""
    space, actions = env.observation_space, env.action_space
    if not isinstance(space, DictSpace) or not isinstance(actions, Discrete):
        raise TypeError(f"a workload needs Dict observations and Discrete actions, not {env}")
    names = tuple(getattr(env.unwrapped, "telemetry_names", ()))
    wanted = {f"obs/{key}": (box.dtype, box.shape) for key, box in space.spaces.items()}
    wanted["telemetry"] = (np.dtype(np.float32), (len(names),))
    wanted["picture"] = (np.dtype(np.uint8), (SCREEN_BYTES,))
    fields, offset = {}, 0
    for name, (dtype, shape) in wanted.items():
        fields[name] = (offset, np.dtype(dtype), tuple(shape or ()))
        offset += -(-np.dtype(dtype).itemsize * math.prod(shape or ()) // _ALIGNED) * _ALIGNED
    return Layout(space, actions, names, fields, offset)


class VectorEnv(ABC):
    """N environments of one workload behind one call.

    They form `groups`: consecutive, of equal size, all of them. While one group's next actions are
    thought about, the others play: `send` and `recv` know no step of all. `step` is both, for a
    caller that wants all of them at once. Between a group's `send` and its `recv` nothing else is
    asked of it. The spaces are those of a single environment.
    """

    def __init__(self, layout: Layout, num_envs: int, groups: int) -> None:
        """In up to `groups` groups, as many as divide them."""
        self._layout, self.num_envs = layout, num_envs
        self.groups = split(num_envs, groups)
        self.observation_space, self.action_space = layout.observation_space, layout.action_space
        self.telemetry_names = layout.telemetry_names

    @abstractmethod
    def reset(self, seeds: Sequence[int]) -> Observations:
        """Begin afresh, environment i with seeds[i]."""

    @abstractmethod
    def send(self, group: int, actions: NDArray[np.integer[Any]]) -> None:
        """Begin a step of one group: an action for each of its environments."""

    @abstractmethod
    def recv(self) -> tuple[int, Transition]:
        """The next group whose step is over, with the rows of its environments alone.

        Raises what one of its environments raised; EnvProcessError when no step ever will be over.
        """

    def step(self, actions: NDArray[np.integer[Any]]) -> Transition:
        """Step every group once; actions (N,), the transition of all environments in order."""
        for group, members in enumerate(self.groups):
            self.send(group, actions[members])
        found = dict(self.recv() for _ in self.groups)
        return join([found[group] for group in range(len(found))])

    @abstractmethod
    def telemetry(self) -> NDArray[np.float32]:
        """(N, len(telemetry_names)) float32, the newest of each environment."""

    @abstractmethod
    def watch(self, agents: frozenset[int]) -> None:
        """Draw pictures of these environments from the next step on."""

    @abstractmethod
    def frames(self) -> dict[int, bytes]:
        """The newest picture (SCREEN_BYTES) of each watched environment."""

    @abstractmethod
    def save_states(self) -> list[bytes]:
        """Everything a new process needs to go on exactly, incl. generators and counters."""

    @abstractmethod
    def load_states(self, states: list[bytes]) -> Observations:
        """Go on exactly from `save_states`."""

    @abstractmethod
    def close(self) -> None:
        """End all environments."""


class Rows:
    """Views into a (n, layout.size) uint8 buffer: `observations`, `telemetry`, `pictures`."""

    def __init__(self, layout: Layout, buffer: NDArray[np.uint8]) -> None:
        views = {
            name: _column(buffer, offset, dtype, shape)
            for name, (offset, dtype, shape) in layout.fields.items()
        }
        self.telemetry, self.pictures = views.pop("telemetry"), views.pop("picture")
        self.observations = {name.removeprefix("obs/"): view for name, view in views.items()}


def _column(
    buffer: NDArray[np.uint8], offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> NDArray[Any]:
    """The field at `offset` of every row as one array (n, *shape), without a copy."""
    inner = np.empty(shape, dtype).strides
    flat = buffer.reshape(-1)
    return np.ndarray(
        (buffer.shape[0], *shape), dtype, flat.data, offset, (buffer.strides[0], *inner)
    )


@dataclass(frozen=True)
class Outcome:
    """What one row's step gave; its observation already stands in the row."""

    reward: float
    terminated: bool
    truncated: bool
    episode: EpisodeEnd | None


class EnvRow:
    """One environment, its place in `rows` and its episode's counters."""

    def __init__(self, env: gymnasium.Env[Any, Any], rows: Rows, place: int, number: int) -> None:
        """`place` is the index in `rows`, `number` the environment's index in the whole vector."""
        self._env: Any = env
        self._rows, self._place, self._number = rows, place, number
        self._has_halves = env is env.unwrapped and hasattr(env, "finish_step")
        self._action, self._return, self._length = 0, 0.0, 0
        self._telemetry: Callable[[], Sequence[float]] | None
        self._telemetry = getattr(env.unwrapped, "telemetry", None)
        self._picture: Callable[[], bytes] | None = getattr(env.unwrapped, "picture", None)

    def reset(self, seed: int) -> None:
        """Begin the first episode of the random sequence `seed`."""
        self._begin(seed)
        self._report(watched=False)

    def step(self, action: int, watched: bool) -> Outcome:
        """One step; after a done the row holds the first observation of the next episode."""
        self.begin(action)
        return self.finish(watched)

    def begin(self, action: int) -> None:
        """The first half of a step, of an environment whose steps have halves; else nothing yet."""
        self._action = action
        if self._has_halves:
            self._env.start_step(action)

    def finish(self, watched: bool) -> Outcome:
        """The rest of the step that was begun."""
        told = self._env.finish_step() if self._has_halves else self._env.step(self._action)
        observation, reward, terminated, truncated, info = told
        self._return += float(reward)
        self._length += 1
        episode = None
        if terminated or truncated:
            episode = EpisodeEnd(self._number, self._return, self._length, info)
            self._begin(None)
        else:
            self._put(observation)
        self._report(watched)
        cut = bool(truncated or info.get("jumped"))
        return Outcome(float(reward), bool(terminated), cut, episode)

    def save(self) -> bytes:
        """The environment's own state and the row's counters."""
        state: bytes = self._inner.save_state()
        return _COUNTERS.pack(_MAGIC, self._return, self._length) + state

    def load(self, data: bytes) -> None:
        """Go on from what `save` gave; FileError when the bytes are none of ours."""
        if data[:4] != _MAGIC or len(data) < _COUNTERS.size:
            raise FileError("this is no environment state", "go back to an older checkpoint")
        _, self._return, self._length = _COUNTERS.unpack_from(data)
        self._put(self._inner.load_state(data[_COUNTERS.size :]))
        self._report(watched=False)

    def close(self) -> None:
        """End the environment."""
        self._env.close()

    @property
    def _inner(self) -> Any:
        """The environment below gymnasium's wrappers, which has our own methods."""
        return self._env.unwrapped

    def _begin(self, seed: int | None) -> None:
        self._return, self._length = 0.0, 0
        self._put(self._env.reset(seed=seed)[0])

    def _put(self, observation: Mapping[str, Any]) -> None:
        for key, column in self._rows.observations.items():
            column[self._place] = observation[key]

    def _report(self, watched: bool) -> None:
        if self._telemetry is not None:
            self._rows.telemetry[self._place] = self._telemetry()
        if watched and self._picture is not None:
            self._rows.pictures[self._place] = np.frombuffer(self._picture(), np.uint8)
