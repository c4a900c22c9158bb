"""Counts of what a viewer got, as events of the run it watched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.events import EventWriter
from Daddy.core.machine import host_name
from Daddy.core.names import to_peer
from Daddy.streaming.home.scene import Scene


@dataclass
class Recorder:
    """Writes how many frames of which agent came, once a second; lazily, so that the file names
    the run that was really watched.
    """

    folder: Path | None
    clock: Clock
    _events: EventWriter | None = None
    _before: Mapping[str, int] | None = None

    def write(self, scene: Scene, *, drawn: Mapping[str, int] | None = None) -> None:
        """Append the frames since the last call; nothing before anything came."""
        if self.folder is None or not scene.statuses:
            return
        if self._events is None:
            status, ident = scene.statuses[0], to_peer(host_name())
            self._events = EventWriter(
                self.folder, status.run, status.workload, "viewer", ident, self.clock
            )
        before = self._before or {}
        self._before = dict(scene.frames)
        data: dict[str, object] = {
            "transport": scene.transport,
            "frames": {name: n - before.get(name, 0) for name, n in scene.frames.items()},
            "frames_total": sum(scene.frames.values()),
            "agents_total": len(scene.frames),
            "age_s": {one.name: round(one.age_s, 3) for one in scene.panels},
            "bytes_per_frame": {one.name: round(one.bytes_per_frame) for one in scene.panels},
        }
        if drawn is not None:
            data["drawn_total"] = sum(drawn.values())
        self._events.write("metric", max((one.steps for one in scene.statuses), default=0), data)
