"""Pure: the viewer for scripts: a JSON line per agent and second, and when to stop waiting.

Every string was bounded and cleaned where it came from the wire, so a line has at most 2 KiB.
"""

from __future__ import annotations

from dataclasses import dataclass

from Daddy.core.errors import ExitCode, NetworkError
from Daddy.streaming.home.scene import Panel, Scene
from Daddy.streaming.show.window import Waiting
from Daddy.streaming.wire.protocol import to_json

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
    return _line(
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
    )


def waiting_line(waiting: Waiting, scene: Scene, now: float) -> str:
    """Why there is no agent to tell of: nobody is connected, or nothing plays."""
    return _line(
        {
            "what": "waiting",
            "time": round(now, 3),
            "port": waiting.port,
            "connected": scene.connected,
            "trouble": scene.trouble[:200],
        }
    )


def _line(facts: dict[str, object]) -> str:
    return to_json(facts).decode()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a script waits for the first relay; None: for ever. Seconds, monotonic."""

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
