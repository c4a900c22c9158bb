"""Runs a viewer as a process that notes the age of each picture when it is shown.

It polls as often as the window does. Every picture holds its time of capture in its last pixels, by
this machine's monotonic clock, so no clock offset is estimated. It writes its port into
``OUT.port`` and at its end the ages into ``OUT``.
"""

import json
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.clock import SystemClock
from Daddy.core.host_and_processes import die_with_parent
from Daddy.streaming.protocol.framing import HEADER, MAC_BYTES
from Daddy.streaming.protocol.handshake import load_tokens
from Daddy.streaming.protocol.messages import Subscription
from Daddy.streaming.viewer.receiver import Receiver
from Daddy.streaming.viewer.view_model import Panel

AGENTS = 2
LOOK_S = 1 / 30
"""Seconds between two polls, as in the window."""
STAMP = struct.Struct("<Q")
MOST_WAIT_S = 60.0


def stamped(picture: bytes, now: float) -> bytes:
    """Return the picture with ``now`` (monotonic seconds) written over its last pixels."""
    return picture[: -STAMP.size] + STAMP.pack(round(now * 1e6))


def taken(picture: bytes) -> float:
    """Return the time that :func:`stamped` wrote."""
    return int(STAMP.unpack(picture[-STAMP.size :])[0]) / 1e6


class Notes:
    """Each picture's first time on screen, agent and age; and the bytes received."""

    def __init__(self) -> None:
        self.shown: list[tuple[float, str, float]] = []
        self._last: dict[str, bytes] = {}
        self._sizes: dict[str, tuple[int, float]] = {}

    def add(self, panels: Sequence[Panel], now: float) -> None:
        """Add pictures that are new on screen."""
        for panel in panels:
            if panel.pixels and panel.pixels != self._last.get(panel.name):
                self._last[panel.name] = panel.pixels
                self.shown.append((now, panel.name, now - taken(panel.pixels)))
            self._sizes[panel.name] = (panel.frames, panel.frames * panel.bytes_per_frame)

    def totals(self) -> tuple[int, float]:
        """Return the number of pictures received so far and their bytes, with envelopes."""
        count = sum(frames for frames, _ in self._sizes.values())
        body = sum(size for _, size in self._sizes.values())
        return count, body + count * (HEADER.size + MAC_BYTES)


def main(argv: Sequence[str]) -> int:
    """``OUT TOKEN FPS WARM SECONDS``: warm up for ``WARM`` seconds, then watch for ``SECONDS``."""
    die_with_parent()
    out, token = Path(argv[0]), Path(argv[1])
    fps, warm_s, seconds = map(float, argv[2:5])
    receiver = Receiver(0, lambda: load_tokens([token]), Subscription(AGENTS, fps), SystemClock())
    out.with_suffix(".port").write_text(str(receiver.port))
    try:
        _watch(receiver, Notes(), MOST_WAIT_S, until_both=True)
        _watch(receiver, Notes(), warm_s)
        notes = Notes()
        notes.add(receiver.current_scene(AGENTS).panels, time.monotonic())
        before, began = notes.totals(), time.monotonic()
        notes.shown.clear()
        _watch(receiver, notes, seconds)
        took, after = time.monotonic() - began, notes.totals()
    finally:
        receiver.close()
    facts = {"shown": notes.shown, "began": began, "seconds": took,
            "frames": after[0] - before[0], "bytes": after[1] - before[1]}  # fmt: skip
    out.write_text(json.dumps(facts))
    return 0


def _watch(receiver: Receiver, notes: Notes, seconds: float, *, until_both: bool = False) -> None:
    give_up = time.monotonic() + seconds
    while (now := time.monotonic()) < give_up:
        scene = receiver.current_scene(AGENTS)
        notes.add(scene.panels, now)
        if until_both and len(scene.frames) == AGENTS:
            return
        time.sleep(LOOK_S)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
