"""Pure: what a relay says about its run once a second, as JSON that is read field by field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from Daddy.streaming.wire.protocol import BODY_LIMIT, Kind, ProtocolError, clean, from_json, to_json


@dataclass(frozen=True, slots=True)
class Peer:
    """One process that plays: its name, host and job, and for how long it has been silent."""

    name: str
    host: str
    job: str
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Status:
    """What a relay says about its run once a second; the header of the window."""

    run: str
    workload: str
    host: str
    via: str
    agents: int
    steps: int
    steps_per_s: float
    best: int
    delay_s: float
    peers: tuple[Peer, ...]
    maps: Mapping[int, str]
    direct: tuple[str, ...] = ()
    """Peers that the relay is connected to; what the others say comes by the spool."""

    def pack(self) -> bytes:
        """The body of a STATUS; long lists are cut so that it always fits."""
        peers, maps = MAX_PEERS, MAX_MAPS
        while len(body := self._pack(peers, maps)) > BODY_LIMIT[Kind.STATUS]:
            peers, maps = (peers, maps // 2) if maps else (peers // 2, 0)
        return body

    def _pack(self, most_peers: int, most_maps: int) -> bytes:
        peers = [[p.name, p.host, p.job, round(p.silent_s, 1)] for p in self.peers[:most_peers]]
        return to_json(
            {
                "run": self.run,
                "workload": self.workload,
                "host": self.host,
                "via": self.via,
                "agents": self.agents,
                "steps": self.steps,
                "steps_per_s": round(self.steps_per_s, 1),
                "best": self.best,
                "delay_s": round(self.delay_s, 2),
                "peers": peers,
                "direct": list(self.direct[:most_peers]),
                "maps": {str(k): v for k, v in sorted(self.maps.items())[:most_maps]},
            }
        )


MAX_PEERS = 32
MAX_MAPS = 64


def read_status(body: bytes) -> Status:
    """A STATUS with every field typed, bounded and free of control characters."""
    raw = from_json(body)
    try:
        return Status(
            run=clean(raw.get("run", "")),
            workload=clean(raw.get("workload", "")),
            host=clean(raw.get("host", "")),
            via=clean(raw.get("via", "")),
            agents=_whole(raw.get("agents", 0)),
            steps=_whole(raw.get("steps", 0)),
            steps_per_s=number(raw.get("steps_per_s", 0)),
            best=_whole(raw.get("best", 0)),
            delay_s=number(raw.get("delay_s", 0)),
            peers=tuple(_peer(one) for one in list(raw.get("peers", []))[:MAX_PEERS]),
            maps=read_maps(raw.get("maps", {})),
            direct=tuple(clean(one, 31) for one in list(raw.get("direct", []))[:MAX_PEERS]),
        )
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ProtocolError(f"a STATUS has a wrong field: {error}") from error


def _whole(value: Any) -> int:
    """A count within 64 bits, whatever number it was."""
    return max(0, min(2**63 - 1, int(value)))


def _peer(raw: Any) -> Peer:
    name, host, job, silent = raw
    return Peer(clean(name, 31), clean(host), clean(job, 32), number(silent))


def read_maps(raw: Any) -> dict[int, str]:
    """Names of maps by number, at most ``MAX_MAPS``."""
    return {int(key): clean(name, 40) for key, name in list(raw.items())[:MAX_MAPS]}


def number(value: Any) -> float:
    """A finite number, or 0 for one that is not; ValueError for what is none."""
    number = float(value)
    return number if math.isfinite(number) else 0.0
