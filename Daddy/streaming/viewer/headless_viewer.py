"""The viewer without a window: lines for a person, JSON for a script, counts as events.

Every string was bounded and cleaned where it came from the wire: a JSON line has at most 2 KiB.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.errors import ExitCode, NetworkError
from Daddy.core.event_log import EventWriter
from Daddy.core.machine_info import host_name
from Daddy.core.name_validation import to_peer
from Daddy.streaming.protocol.framing import to_json
from Daddy.streaming.viewer.view_model import Panel, Scene, Waiting, line_to_copy, waiting_steps


class NoRelayError(NetworkError):
    """No relay came within the time that a script would wait."""

    exit_code = ExitCode.NO_RELAY


class RefusedError(NetworkError):
    """Relays came, and none had a token or a version in common with this viewer."""

    exit_code = ExitCode.REFUSED


def agent_line(panel: Panel, frames: int, now: float) -> str:
    """One agent at ``now`` (wall time, seconds); ``frames`` came since the line before."""
    stream = {
        "from": "pictures",
        "frames": frames,
        "bytes_per_frame": round(panel.bytes_per_frame),
        "age_s": round(panel.age_s, 3),
        "silent_s": round(panel.silent_s, 3),
    }
    return to_json({"what": "agent", "time": round(now, 3), **panel.facts(), **stream}).decode()


def waiting_line(waiting: Waiting, scene: Scene, now: float) -> str:
    """The state while no agent is shown: nobody is connected, or nothing plays."""
    state = {"port": waiting.port, "connected": scene.connected, "trouble": scene.trouble[:200]}
    return to_json({"what": "waiting", "time": round(now, 3), **state}).decode()


def check_patience(wait_s: float | None, waited_s: float, served: int, refused: str) -> None:
    """Raise when a script has waited ``wait_s`` and no relay has proved itself."""
    if wait_s is None or served or waited_s < wait_s:
        return
    if refused:
        raise RefusedError(
            f"no relay was let in within {wait_s:g} s: {refused}",
            "copy the token (the viewer shows the line), or update the older of the two",
        )
    raise NoRelayError(
        f"no relay came within {wait_s:g} s",
        "is the ssh line running, and did it say that forwarding failed? does the run live "
        "(run_controller status), with training.stream on, on the login node that ssh reached?",
    )


@dataclass
class Recorder:
    """Counts frames of each agent in an event file, which is named for the run that is watched."""

    folder: Path | None
    clock: Clock
    _events: EventWriter | None = None
    _before: Mapping[str, int] | None = None

    def write(self, scene: Scene) -> None:
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
        self._events.write("metric", max((one.steps for one in scene.statuses), default=0), data)


def line(panel: Panel, frames: int) -> str:
    """One agent as one line of text."""
    row = panel.row
    state = f"{frames:2d} frames" if not panel.stale else f"stale {panel.silent_s:.0f} s"
    return (
        f"{panel.name:<12} score {row.score:3d} = {row.badges} badges + {row.story_flags} flags  "
        f"{panel.map_name:<18} L{row.level:<3d} return {row.episode_return:8.1f}  "
        f"step {row.step:9,d}  {state}  {panel.bytes_per_frame:4.0f} B/frame  "
        f"age {panel.age_s:4.1f} s  {panel.peer.host} job {panel.peer.job or '-'}"
    )


def waiting_lines(waiting: Waiting, scene: Scene) -> list[str]:
    """Words for a person without a picture, with the line to copy."""
    if scene.carrier:  # connect prints its own words
        return [f"last trouble: {scene.trouble}"] * bool(scene.trouble)
    steps = waiting_steps(scene, waiting)
    caption, copy = line_to_copy(scene, waiting)
    remarks = [what for state, what in steps if state in {"alarm", ""}]
    heading = f"waiting for the tunnel on 127.0.0.1:{waiting.port}"
    return [*([] if scene.connected else [heading]), *remarks, caption, f"  {copy}"]


class Printer:
    """Prints a line per agent, and the state when that changes."""

    def __init__(self, waiting: Waiting, clock: Clock, *, json: bool) -> None:
        self._waiting = waiting
        self._clock = clock
        self._json = json
        self._frames: Mapping[str, int] = {}
        self._told: list[str] = []

    def print(self, scene: Scene) -> None:
        """Print what is new since the last call."""
        now = self._clock.now()
        if not scene.panels:
            self._print_state(scene, now)
        for panel in scene.panels:
            frames = scene.frames.get(panel.name, 0) - self._frames.get(panel.name, 0)
            print(agent_line(panel, frames, now) if self._json else line(panel, frames))
        self._frames = dict(scene.frames)
        sys.stdout.flush()

    def _print_state(self, scene: Scene, now: float) -> None:
        if self._json:
            state = [scene.trouble, str(scene.connected)]
            lines = [] if state == self._told else [waiting_line(self._waiting, scene, now)]
        else:
            state = waiting_lines(self._waiting, scene)
            lines = [one for one in state if one not in self._told]
        self._told = state
        for one in lines:
            print(one)
