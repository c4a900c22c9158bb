"""The viewer without a window: lines for a person, JSON for a script, counts as events.

Every string was bounded and cleaned where it came from the wire: a JSON line has at most 2 KiB.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.errors import ExitCode, NetworkError
from Daddy.core.events import EventWriter
from Daddy.core.machine import host_name
from Daddy.core.names import to_peer
from Daddy.streaming.protocol.framing import copy_line, to_json
from Daddy.streaming.viewer.receiver import Receiver
from Daddy.streaming.viewer.view_model import Panel, Scene, Waiting, remarks

LINE_BYTES = 2048


class NoRelayError(NetworkError):
    """No relay came within the time that a script would wait."""

    exit_code = ExitCode.NO_RELAY


class RefusedError(NetworkError):
    """Relays came, and none had a token or a version in common with this viewer."""

    exit_code = ExitCode.REFUSED


def agent_line(panel: Panel, frames: int, now: float) -> str:
    """One agent at ``now`` (wall time, seconds); ``frames`` came since the line before."""
    row = panel.row
    return to_json(
        {
            "what": "agent",
            "time": round(now, 3),
            "agent": panel.name,
            "place": row.place,
            "host": panel.peer.host,
            "job": panel.peer.job,
            "score": row.score,
            "badges": row.badges,
            "story_flags": row.story_flags,
            "level": row.level,
            "map": panel.map_name,
            "return": round(row.episode_return, 3),
            "episode": row.episode,
            "step": row.step,
            "from": "pictures",
            "frames": frames,
            "bytes_per_frame": round(panel.bytes_per_frame),
            "age_s": round(panel.age_s, 3),
            "silent_s": round(panel.silent_s, 3),
            "stale": panel.stale,
        }
    ).decode()


def waiting_line(waiting: Waiting, scene: Scene, now: float) -> str:
    """The state while no agent is shown: nobody is connected, or nothing plays."""
    return to_json(
        {
            "what": "waiting",
            "time": round(now, 3),
            "port": waiting.port,
            "connected": scene.connected,
            "trouble": scene.trouble[:200],
        }
    ).decode()


@dataclass(frozen=True, slots=True)
class Patience:
    """The time that a script waits for the first relay (None: for ever). Seconds, monotonic."""

    wait_s: float | None
    began: float

    def check(self, now: float, served: int, refused: str) -> None:
        """Raise when the time is over and no relay has proved itself: refused, or none came."""
        if self.wait_s is None or served or now - self.began < self.wait_s:
            return
        if refused:
            raise RefusedError(
                f"no relay was let in within {self.wait_s:g} s: {refused}",
                "copy the token (the viewer shows the line), or update the older of the two",
            )
        raise NoRelayError(
            f"no relay came within {self.wait_s:g} s",
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


class Form(Enum):
    """The form of the lines."""

    NONE, WORDS, JSON = range(3)


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
    """Words for a person without a picture, with the lines to copy."""
    trouble = scene.trouble
    if scene.carrier:  # it opens the tunnel itself, and says how that goes
        return [f"last trouble: {trouble}"] * bool(trouble)
    lines = [f"waiting for the tunnel on 127.0.0.1:{waiting.port}; in another terminal:"]
    lines += [f"  {waiting.ssh_line}"]
    if "token" in trouble:
        lines += [f"a relay was refused: {trouble}", "  once, on this machine:"]
        lines += [f"  {copy_line(waiting.login)}"]
    elif trouble:
        lines += [f"last trouble: {trouble}"]
    return lines + list(remarks(scene, waiting))


def print_scenes(
    receiver: Receiver,
    top_k: int,
    waiting: Waiting,
    each_second: Callable[[Scene], None],
    clock: Clock,
    stop: threading.Event,
    form: Form,
) -> None:
    """Print until ``stop``: a line per agent and second, and the state when that changes."""
    before, told = dict[str, int](), list[str]()
    while True:
        scene = receiver.scene(top_k)
        each_second(scene)
        if form is not Form.NONE:
            told = _tell_waiting(waiting, scene, told, form, clock.now())
            for panel in scene.panels:
                frames = scene.frames.get(panel.name, 0) - before.get(panel.name, 0)
                in_words = form is Form.WORDS
                print(line(panel, frames) if in_words else agent_line(panel, frames, clock.now()))
            sys.stdout.flush()
        before = dict(scene.frames)
        if clock.wait(stop, 1.0):
            return


def _tell_waiting(
    waiting: Waiting, scene: Scene, told: list[str], form: Form, now: float
) -> list[str]:
    """Print news of the state while nobody is shown; returns what is known now."""
    if scene.panels:
        return told
    if form is Form.JSON:
        state = [scene.trouble, str(scene.connected)]
        if state != told:
            print(waiting_line(waiting, scene, now))
        return state
    lines = waiting_lines(waiting, scene)
    for one in lines:
        if one not in told:
            print(one)
    return lines
