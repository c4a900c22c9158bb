"""Pure. Interfaces that the loop needs from the outside, and the null object of each.

Owns the seams between the learner and its neighbours: weights.exchange, streaming.tunnel_client,
core.stopping and core.events fit these shapes without importing them (siblings
never import each other; the entry puts them together). The null objects serve where collaboration
or streaming is switched off, and a learner on its own.
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

    from Daddy.core.settings import Config
    from Daddy.core.shared_types import AgentReport
    from Daddy.learning.policy import ActorCritic
    from Daddy.learning.vector_rows import VectorEnv

    StateDict = dict[str, torch.Tensor]
    """Tensors on the CPU, contiguous, float32 unless an integer counter."""

    Observations = dict[str, NDArray[Any]]
    """One array (N, *shape) per key of the single environment's observation space."""


class WeightExchange(Protocol):
    """One peer's view of the shared weights. Called between PPO iterations only."""

    def join_fleet(self, initial: Callable[[], StateDict], resumed: bytes | None) -> Adoption:
        """The weights to start from.

        A fresh peer gets the newest version; the first caller of all writes `initial()` as version
        0. `resumed` is what `resume_state()` returned when the checkpoint was written, None for a
        fresh peer; a resumed peer keeps its own weights, `initial()`, rebased if there is newer.
        """
        ...

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Offer the progress since the adopted base as a contribution; says what happened.

        `env_steps` and `optimizer_steps` are this peer's totals since its run began.
        """
        ...

    def adopt(self, weights: StateDict) -> Adoption | None:
        """Merge if it is our turn; a newer version, rebased on `weights`, if there is one."""
        ...

    def beat(self) -> None:
        """Prove life; part of `begin` and `adopt`."""
        ...

    def fleet_steps(self) -> int:
        """Environment steps of all contributors, from the newest commit record."""
        ...

    def resume_state(self) -> bytes:
        """What the next process needs besides the weights to go on: base, sequence, ..."""
        ...


class FrameSink(Protocol):
    """Where pictures and reports go. Never blocks, never raises for a viewer's sake."""

    @property
    def request_counter(self) -> Sequence[int]:
        """One byte, the same object always, that changes when anything is asked for."""
        ...

    def poll_requests(self) -> tuple[bool, frozenset[int]]:
        """Whether reports are due, and the agents whose pictures are; each is told once."""
        ...

    def send_reports(self, reports: Sequence[AgentReport]) -> None: ...
    def send_picture(self, agent: int, picture: bytes) -> None:
        """One picture of SCREEN_BYTES that was asked for; the newest wins."""
        ...


class Stopper(Protocol):
    """Says when to stop, and why."""

    def stop_reason(self) -> str | None: ...


@dataclass(frozen=True)
class EpisodeEnd:
    """One finished episode of environment `env`."""

    env: int
    episode_return: float
    length: int
    info: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Transition:
    """What one step of N environments gave. After a done, `observations` is the next one's first.

    Who goes on elsewhere, without an episode's end (its info says ``jumped``), counts as truncated.

    observations {key: (N, *shape)}; rewards (N,) float32; terminated, truncated (N,) bool.
    """

    observations: Observations
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    episodes: list[EpisodeEnd]


class LearnerLease(Protocol):
    """The place this learner fills: a slot of the run, or a laptop."""

    @property
    def term(self) -> int:
        """Grows with every holder; orders checkpoints."""
        ...

    def held(self) -> bool:
        """Whether the place is still ours; once it is not, nothing may be written any more."""
        ...

    def beat(self, data: Mapping[str, object]) -> None:
        """Prove that the loop goes round."""
        ...


NamesFromFacts = Callable[[Mapping[str, Any]], Sequence[str]]
"""Names that one environment's facts (telemetry or episode info) show: milestones, assists."""


@dataclass(frozen=True, kw_only=True)
class EnvWorkload:
    """A task that is learnt in environments.

    ``check(config)`` is called once per job, before anything is made, and raises where the task
    cannot be trained. ``facts(config)`` returns the facts of the task that all learners must share
    and no setting holds (`core.run_contract`), ``make_env(config)`` a picklable factory of one
    environment, ``make_policy`` the network with initial weights, ``reports(vector)`` the progress
    of each agent. From one agent's telemetry or episode info ``milestones_reached(facts)`` names
    its milestones, ``assists_used(facts)`` the scripted helps that acted before them, and
    ``assists_given_up(facts)`` the helps that failed for good.
    """

    name: str
    check: Callable[[Config], None] = lambda _: None
    facts: Callable[[Config], Mapping[str, str]] = lambda _: {}
    make_env: Callable[[Config], Callable[[], gymnasium.Env[Any, Any]]]
    make_policy: Callable[[DictSpace, Discrete], ActorCritic]
    reports: Callable[[VectorEnv], Sequence[AgentReport]] = lambda _: ()
    milestones_reached: NamesFromFacts = lambda _: ()
    assists_used: NamesFromFacts = lambda _: ()
    assists_given_up: NamesFromFacts = lambda _: ()


class NoExchange:
    """Shares with nobody; the fleet is this learner."""

    def join_fleet(self, initial: Callable[[], StateDict], resumed: bytes | None) -> Adoption:  # noqa: ARG002
        return Adoption(0, initial(), "own weights: collaboration is off")

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:  # noqa: ARG002
        return "nothing published: collaboration is off"

    def adopt(self, weights: StateDict) -> Adoption | None:  # noqa: ARG002
        return None

    def beat(self) -> None:
        """Nobody waits."""

    def fleet_steps(self) -> int:
        return 0

    def resume_state(self) -> bytes:
        return b""

    def leave_fleet(self, reason: str) -> None:
        """Nobody waits."""


class NoFrames:
    """Nobody watches."""

    request_counter: Sequence[int] = b"\0"

    def poll_requests(self) -> tuple[bool, frozenset[int]]:
        return False, frozenset()

    def send_reports(self, reports: Sequence[AgentReport]) -> None:
        """Says nothing to nobody."""

    def send_picture(self, agent: int, picture: bytes) -> None:
        """Shows nothing to nobody."""

    def close(self) -> None:
        """Nothing was opened."""
