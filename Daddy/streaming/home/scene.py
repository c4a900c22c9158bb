"""Pure: what there is to see at one moment: panels, fleet, and why there may be none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from Daddy.streaming.home.history import NOWHERE, World
from Daddy.streaming.wire.messages import Row
from Daddy.streaming.wire.status import Peer, Status

STALE_S = 5.0
"""A picture older than this is dimmed and says so."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One agent as it is to be drawn; ``age_s`` is the picture's, ``silent_s`` since it
    came, or since it was taken where it was old by then.
    """

    name: str
    peer: Peer
    row: Row
    map_name: str
    pixels: bytes | None
    frames: int
    bytes_per_frame: float
    age_s: float
    silent_s: float
    returns: tuple[float, ...]
    per_second: float = 0.0

    @property
    def stale(self) -> bool:
        """Whether the picture is too old to be shown as live."""
        return self.silent_s > STALE_S


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to see at one moment."""

    panels: tuple[Panel, ...]
    statuses: tuple[Status, ...]
    transport: str
    notes: tuple[str, ...]
    trouble: str
    frames: Mapping[str, int]
    next_up: tuple[tuple[str, int], ...] = ()
    agents: tuple[str, ...] = ()
    world: World = NOWHERE
    carrier: tuple[str, ...] = ()
    """What ``connect`` is doing, while it is the one who brings a relay here."""
    alone_s: float = 0.0
    """Seconds without any relay."""

    @property
    def way(self) -> str:
        """How what is shown reaches the relay: from the jobs themselves, or later by the spool."""
        direct = {name for status in self.statuses for name in status.direct}
        if all(panel.peer.name in direct for panel in self.panels):
            return "direct"
        delay_s = max((status.delay_s for status in self.statuses), default=0.0)
        return f"delayed {delay_s:.1f} s (spool)"

    @property
    def connected(self) -> bool:
        """Whether any relay has proved itself."""
        return bool(self.transport)
