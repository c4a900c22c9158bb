"""Shows agents without a window: prints lines or JSON, and records frame counts as events.

All strings were shortened and cleaned when they were received: a JSON line has at most 2 KiB.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.errors import ExitCode, NetworkError
from Daddy.core.event_log import EventWriter
from Daddy.core.host_and_processes import host_name
from Daddy.core.humanize import kept_columns
from Daddy.core.name_validation import to_peer
from Daddy.core.terminal import output_width
from Daddy.streaming.protocol.framing import pack_json
from Daddy.streaming.viewer.view_model import Panel, Scene, TunnelInfo, line_to_copy, waiting_steps


class NoRelayError(NetworkError):
    """Reports that no relay connected within the seconds given with ``--wait``."""

    exit_code = ExitCode.NO_RELAY


class RefusedError(NetworkError):
    """Reports that relays connected but shared no token or no protocol version with this viewer."""

    exit_code = ExitCode.REFUSED


def agent_json(panel: Panel, frames: int, now: float) -> str:
    """Return one agent as JSON; ``frames``: since the last line; ``now``: wall time (s)."""
    stream = {
        "from": "pictures",
        "frames": frames,
        "bytes_per_frame": round(panel.bytes_per_frame),
        "age_s": round(panel.age_s, 3),
        "silent_s": round(panel.silent_s, 3),
    }
    return pack_json({"what": "agent", "time": round(now, 3), **panel.fields(), **stream}).decode()


def waiting_json(tunnel: TunnelInfo, scene: Scene, now: float) -> str:
    """Return JSON for a scene without agents: no relay is connected, or no job plays."""
    state = {"port": tunnel.port, "connected": scene.connected, "trouble": scene.trouble[:200]}
    return pack_json({"what": "waiting", "time": round(now, 3), **state}).decode()


def check_patience(wait_s: float | None, waited_s: float, served: int, refused: str) -> None:
    """Raise NoRelayError or RefusedError if no relay proved the token within ``wait_s``."""
    if wait_s is None or served or waited_s < wait_s:
        return
    if refused:
        raise RefusedError(
            f"no relay was accepted within {wait_s:g} s: {refused}",
            "copy the token (the viewer prints the command), or use one release on both sides",
        )
    raise NoRelayError(
        f"no relay connected within {wait_s:g} s",
        "is the ssh line running, and did it say that forwarding failed? does the run live "
        "(run_controller status), with training.stream on, on the login node that ssh reached?",
    )


@dataclass
class FrameCountRecorder:
    """Records the frames of each agent in an event file, named for the watched run."""

    folder: Path | None
    clock: Clock
    _events: EventWriter | None = None
    _before: Mapping[str, int] | None = None

    def write_counts(self, scene: Scene) -> None:
        """Append each agent's frames since the last call, once a relay has sent a STATUS."""
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
            "age_s": {panel.name: round(panel.age_s, 3) for panel in scene.panels},
            "bytes_per_frame": {p.name: round(p.bytes_per_frame) for p in scene.panels},
        }
        self._events.write("metric", max(status.steps for status in scene.statuses), data)


def agent_text(panel: Panel, frames: int, width: int) -> str:
    """Return one agent as one line of text, without its last facts where ``width`` is short."""
    row = panel.row
    facts = {
        "name": f"{panel.name:<12}",
        "score": f"score {row.score:3d}",
        "sum": f"= badges {row.badges} + flags {row.story_flags:2d}",
        "map": f"{panel.map_name:<18} L{row.level:<3d}",
        "return": f"return {row.episode_return:8.1f}",
        "step": f"step {row.step:9,d}",
        "frames": f"stale {panel.silent_s:.0f} s" if panel.stale else f"{frames:2d} frames",
        "size": f"{panel.bytes_per_frame:4.0f} B/frame",
        "age": f"age {panel.age_s:4.1f} s",
        "job": f"{panel.peer.host} job {panel.peer.job or '-'}",
    }
    names, widths = [*facts], [len(text) for text in facts.values()]
    kept = kept_columns(
        names, widths, width, ("size", "age", "job", "map", "step", "frames", "sum")
    )
    return "  ".join(facts[names[place]] for place in kept)


def waiting_text(tunnel: TunnelInfo, scene: Scene) -> list[str]:
    """Return lines of text for a scene without agents, with the command to copy."""
    if scene.connect_lines:  # connect prints its own lines
        return [f"last trouble: {scene.trouble}"] * bool(scene.trouble)
    caption, copy = line_to_copy(scene, tunnel)
    remarks = [text for state, text in waiting_steps(scene, tunnel) if state in {"alarm", ""}]
    heading = f"waiting for the tunnel on 127.0.0.1:{tunnel.port}"
    return [*([] if scene.connected else [heading]), *remarks, caption, f"  {copy}"]


class LinePrinter:
    """Prints a line per agent; without agents the connection's state, when it changes."""

    def __init__(self, tunnel: TunnelInfo, clock: Clock, *, json: bool) -> None:
        self._tunnel = tunnel
        self._clock = clock
        self._json = json
        self._frames: Mapping[str, int] = {}
        self._printed: list[str] = []

    def print_scene(self, scene: Scene) -> None:
        """Print each agent; without agents print the state if it changed since the last call."""
        now = self._clock.now()
        if not scene.panels:
            self._print_state(scene, now)
        for panel in scene.panels:
            frames = scene.frames.get(panel.name, 0) - self._frames.get(panel.name, 0)
            print(
                agent_json(panel, frames, now)
                if self._json
                else agent_text(panel, frames, output_width())
            )
        self._frames = dict(scene.frames)
        sys.stdout.flush()

    def _print_state(self, scene: Scene, now: float) -> None:
        if self._json:
            state = [scene.trouble, str(scene.connected)]
            lines = [] if state == self._printed else [waiting_json(self._tunnel, scene, now)]
        else:
            state = waiting_text(self._tunnel, scene)
            lines = [line for line in state if line not in self._printed]
        self._printed = state
        for line in lines:
            print(line)
