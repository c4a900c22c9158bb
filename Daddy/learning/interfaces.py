"""Pure. Defines the interfaces that the loop needs from other packages, and their null objects.

`weights.weight_exchange`, `streaming.tunnel_client`, `core.stop_conditions` and `core.event_log`
fit these interfaces without importing them: sibling packages never import each other, and the entry
point connects them. The null objects serve a learner without collaboration or streaming.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from Daddy.core.shared_types import Adoption

if TYPE_CHECKING:
    import gymnasium
    import numpy as np
    import torch
    from gymnasium.spaces import Dict as DictSpace
    from gymnasium.spaces import Discrete
    from numpy.typing import NDArray

    from Daddy.core.settings import Config, TrainingSettings
    from Daddy.core.shared_types import AgentReport
    from Daddy.learning.policy import ActorCritic
    from Daddy.learning.vector_rows import VectorEnv

    StateDict = dict[str, torch.Tensor]
    """Tensors on the CPU, contiguous, float32 unless an integer counter."""

    Observations = dict[str, NDArray[Any]]
    """One array (N, *shape) per key of the single environment's observation space."""


class WeightExchange(Protocol):
    """Gives one peer access to the shared weights; is called between PPO iterations only."""

    def join_fleet(
        self,
        initial: Callable[[], StateDict],
        resumed: bytes | None,
        env_steps: int,
        optimizer_steps: int,
    ) -> Adoption:
        """Return, as an Adoption, the weights to start from.

        A fresh peer gets the newest version; the first peer of a run writes `initial()` as version
        0. A peer that resumes with `resumed`, the checkpointed `resume_state()`, keeps its own
        weights, `initial()`, rebased on a newer version if there is one. `env_steps` and
        `optimizer_steps` are the checkpoint's totals.
        """
        ...

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Publish the change since the adopted version as a contribution; return a message.

        `env_steps` and `optimizer_steps` are this peer's totals since its run began.
        """
        ...

    def adopt(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> Adoption | None:
        """Merge if it is this peer's turn; return a newer version rebased on `weights`, or None.

        The totals are those of `publish`: they go with progress that the adoption drops.
        """
        ...

    def restart_from_newest(self, env_steps: int) -> Adoption | None:
        """Drop this peer's progress and return the newest version; None without shared weights.

        `env_steps` of this peer, and none of its optimizer steps, count as published.
        """
        ...

    def beat(self) -> None:
        """Write a heartbeat; `join_fleet` and `adopt` do so too."""
        ...

    def fleet_steps(self) -> int:
        """Return the environment steps of all contributors, from the newest commit record."""
        ...

    def resume_state(self) -> bytes:
        """Return the exchange's own state (base, sequence, …) as bytes for the checkpoint."""
        ...


class FrameSink(Protocol):
    """Receives pictures and reports for viewers; never blocks or raises because of a viewer."""

    @property
    def request_counter(self) -> Sequence[int]:
        """One byte, always the same object, that changes when a viewer requests anything."""
        ...

    def poll_requests(self) -> tuple[bool, frozenset[int]]:
        """Return True if reports are due, and the agents whose pictures are due; reset both."""
        ...

    def send_reports(self, reports: Sequence[AgentReport]) -> None: ...
    def send_picture(self, agent: int, picture: bytes) -> None:
        """Send a requested picture (SCREEN_BYTES), in place of an older picture not yet sent."""
        ...


class Stopper(Protocol):
    """Returns the reason for which the learner shall stop, if any."""

    def stop_reason(self) -> str | None: ...


@dataclass(frozen=True)
class EpisodeEnd:
    """Holds the return, length in steps and last info of a finished episode of `env`."""

    env: int
    episode_return: float
    length: int
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Transition:
    """Holds the result of one step of N environments.

    After a done, `observations` holds the first observation of the next episode. A jump to another
    game state (info ``jumped``) counts as truncated but ends no episode.

    observations {key: (N, *shape)}; rewards (N,) float32; terminated, truncated (N,) bool.
    """

    observations: Observations
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    episodes: list[EpisodeEnd]


class LearnerLease(Protocol):
    """Guards a learner's writes by a slot's lease, or by a laptop's limits."""

    @property
    def term(self) -> int:
        """Number that grows with every holder; orders checkpoints."""
        ...

    def held(self) -> bool:
        """Return True while this process holds the lease; without the lease, write nothing."""
        ...

    def beat(self, data: Mapping[str, object]) -> None:
        """Write a heartbeat with `data`, the loop's progress."""
        ...


NamesFromFacts = Callable[[Mapping[str, Any]], Sequence[str]]
"""Names that one environment's facts (telemetry or episode summary) show: milestones, assists."""


class StatefulEnv(Protocol):
    """Declares the methods of a workload's environment beyond gymnasium's, below all wrappers.

    `telemetry` returns a number per name, `picture` the screen at 2 bits a pixel (SCREEN_BYTES). A
    state holds everything on which later steps and episodes depend; `load_state` returns its
    observation. ``start_step(action)`` and ``finish_step()``, two halves of a step, are optional.
    """

    telemetry_names: tuple[str, ...]

    def telemetry(self) -> Sequence[float]: ...
    def picture(self) -> bytes: ...
    def save_state(self) -> bytes: ...
    def load_state(self, data: bytes) -> Mapping[str, NDArray[Any]]: ...


@dataclass(frozen=True, kw_only=True)
class EnvWorkload:
    """Describes a task that is learnt in environments, by its functions.

    ``check(config)`` is called once per job, before anything is made, and raises if the task
    cannot be trained. ``facts(config)`` returns the facts of the task that all learners must share
    and no setting holds (`core.agreed_settings`), ``make_env(config)`` a picklable factory of one
    environment, ``make_policy`` the network with initial weights, ``reports(vector)`` the progress
    of each agent. From one agent's telemetry or episode summary ``milestones_reached(facts)`` names
    its milestones, ``assists_used(facts)`` the assists that acted before the milestones, and
    ``assists_given_up(facts)`` the assists that are disabled after failures.
    """

    name: str
    check: Callable[[Config], None] = lambda _: None
    facts: Callable[[Config], Mapping[str, str]] = lambda _: {}
    make_env: Callable[[Config], Callable[[], gymnasium.Env[Any, Any]]]
    make_policy: Callable[[TrainingSettings, DictSpace, Discrete], ActorCritic]
    reports: Callable[[VectorEnv], Sequence[AgentReport]] = lambda _: ()
    milestones_reached: NamesFromFacts = lambda _: ()
    assists_used: NamesFromFacts = lambda _: ()
    assists_given_up: NamesFromFacts = lambda _: ()


class ProcessGroup(Protocol):
    """Connects the ranks of one learner (DDP); every rank calls the same methods in turn."""

    size: int

    def broadcast(self, tensor: torch.Tensor) -> None:
        """Overwrite `tensor` in place by that of rank 0."""
        ...

    def average(self, tensor: torch.Tensor) -> None:
        """Replace `tensor` in place by the mean over all ranks, the same bits on each."""
        ...


class SingleProcess:
    """Is the group of a learner that trains alone."""

    size = 1

    def broadcast(self, tensor: torch.Tensor) -> None:
        """Leave the tensor unchanged."""

    def average(self, tensor: torch.Tensor) -> None:
        """Leave the tensor unchanged."""


class NoExchange:
    """Shares weights with no other learner: collaboration is off."""

    def join_fleet(self, initial: Callable[[], StateDict], *_: object) -> Adoption:
        return Adoption(0, initial(), "own weights: collaboration is off")

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:  # noqa: ARG002
        return "nothing published: collaboration is off"

    def adopt(self, *_: object) -> Adoption | None:
        return None

    def restart_from_newest(self, env_steps: int) -> Adoption | None:  # noqa: ARG002
        return None

    def beat(self) -> None:
        """Do nothing."""

    def fleet_steps(self) -> int:
        return 0

    def resume_state(self) -> bytes:
        return b""

    def leave_fleet(self, reason: str) -> None:
        """Do nothing."""


class NoFrames:
    """Sends no reports and no pictures: streaming is off."""

    request_counter: Sequence[int] = b"\0"

    def poll_requests(self) -> tuple[bool, frozenset[int]]:
        return False, frozenset()

    def send_reports(self, reports: Sequence[AgentReport]) -> None:
        """Drop the reports."""

    def send_picture(self, agent: int, picture: bytes) -> None:
        """Drop the picture."""

    def close(self) -> None:
        """Do nothing."""
