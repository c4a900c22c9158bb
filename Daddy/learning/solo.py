"""The neighbours of a learner that is on its own: no sharing, no viewer, no beat.

Used where collaboration or streaming is switched off, and by everything that needs a learner only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from Daddy.core.vocabulary import AgentReport
    from Daddy.learning.ports import StateDict


@dataclass(frozen=True)
class OwnWeights:
    """An adoption of what one had already."""

    version: int
    weights: StateDict
    reason: str


class NoExchange:
    """Shares with nobody; the fleet is this learner."""

    def begin(self, initial: Callable[[], StateDict], resumed: bytes | None) -> OwnWeights:  # noqa: ARG002
        return OwnWeights(0, initial(), "own weights: collaboration is off")

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:  # noqa: ARG002
        return "nothing published: collaboration is off"

    def adopt(self, weights: StateDict) -> OwnWeights | None:  # noqa: ARG002
        return None

    def beat(self) -> None:
        """Nobody waits."""

    def fleet_steps(self) -> int:
        return 0

    def bookkeeping(self) -> bytes:
        return b""

    def leave(self, reason: str) -> None:
        """Nobody waits."""


class NoFrames:
    """Nobody watches."""

    asks: Sequence[int] = b"\0"

    def due(self) -> tuple[bool, frozenset[int]]:
        return False, frozenset()

    def report(self, reports: Sequence[AgentReport]) -> None:
        """Says nothing to nobody."""

    def offer(self, agent: int, picture: bytes) -> None:
        """Shows nothing to nobody."""

    def close(self) -> None:
        """Nothing was opened."""
