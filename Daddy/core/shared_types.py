"""Pure. Types that two packages exchange, so that neither imports the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

SCREEN_WIDTH = 160
SCREEN_HEIGHT = 144
SCREEN_BYTES = SCREEN_WIDTH * SCREEN_HEIGHT // 4
"""One Game Boy picture at 2 bits a pixel: row-major, four pixels a byte, leftmost in the highest
bits, 0 is the lightest shade and 3 the darkest."""

TUNNEL_PORT = 9999
"""TCP port on the login node at which the ssh tunnel to the viewer begins."""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The progress of one environment, by which the stream selects the agents that it features.

    ``agent`` is the environment's index in its process, ``step`` the process's environment steps,
    ``x`` and ``y`` its position on the map in cells, -1 where that is not known.
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
    """A version of the shared weights that a learner adopts: number, tensors, and the reason.

    ``refused``: the run refused the learner's own progress, so the learner drops it and does not
    fit its critic to steps that were played with it.
    """

    version: int
    weights: dict[str, Any]
    reason: str
    refused: bool = False


class EventSink(Protocol):
    """Interface of an event log, such as `core.event_log.EventWriter`."""

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None: ...
