"""Pure: the few nouns that two siblings exchange, so that neither imports the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

SCREEN_WIDTH = 160
SCREEN_HEIGHT = 144
SCREEN_BYTES = SCREEN_WIDTH * SCREEN_HEIGHT // 4
"""One Game Boy picture at 2 bits a pixel: row-major, four pixels a byte, leftmost in the highest
bits, 0 is the lightest shade and 3 the darkest."""

TUNNEL_PORT = 9999
"""The login node's end of the tunnel: where the relay looks for a viewer."""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """How far one environment of a learner is; what featuring is decided on.

    ``agent`` is the environment's index in its process, ``step`` the process's environment steps,
    ``x`` and ``y`` where on its map it stands, in cells, -1 where that is not known.
    """

    agent: int
    badges: int
    story_flags: int
    episode_return: float
    episode: int
    map_id: int
    map_name: str
    level: int
    step: int
    x: int = -1
    y: int = -1


@dataclass(frozen=True, slots=True)
class Adoption:
    """A version of the shared weights taken over: its number, the tensors to go on with, and why.

    ``refused``: own progress is dropped; nothing that was learnt with it comes back, and no critic
    is fitted to what was played with it.
    """

    version: int
    weights: dict[str, Any]
    reason: str
    refused: bool = False


class EventSink(Protocol):
    """A log of facts."""

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None: ...
