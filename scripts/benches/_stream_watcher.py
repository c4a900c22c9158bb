"""A viewer at home as a process of its own, which notes how old each picture is as it is shown.

It looks as often as the window does. Every picture carries the moment at which it was taken, in its
own last pixels and by this machine's monotonic clock: no offset is guessed. It writes its port into
``OUT.port`` and, after its time, what it saw into ``OUT``.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.clock import SystemClock
from Daddy.core.machine_info import die_with_parent
from Daddy.streaming.protocol.framing import HEADER, MAC_BYTES
from Daddy.streaming.protocol.handshake import load_tokens
from Daddy.streaming.protocol.messages import Subscription
from Daddy.streaming.viewer.receiver import Receiver
from Daddy.streaming.viewer.view_model import Panel

AGENTS = 2
LOOK_S = 1 / 30
"""The window's own pace."""
STAMP = struct.Struct("<Q")
MOST_WAIT_S = 60.0


def stamped(picture: bytes, now: float) -> bytes:
    """The picture with the moment at which it was taken (monotonic seconds) in its last pixels."""
    return picture[: -STAMP.size] + STAMP.pack(round(now * 1e6))


def taken(picture: bytes) -> float:
    """The moment that :func:`stamped` put there."""
    return int(STAMP.unpack(picture[-STAMP.size :])[0]) / 1e6


class Notes:
    """Each picture once: when it was first shown, of whom, how old it was; and all bytes."""

    def __init__(self) -> None:
        self.shown: list[tuple[float, str, float]] = []
        self._last: dict[str, bytes] = {}
        self._sizes: dict[str, tuple[int, float]] = {}

    def look(self, panels: Sequence[Panel], now: float) -> None:
        """Note what is new."""
        for one in panels:
            if one.pixels and one.pixels != self._last.get(one.name):
                self._last[one.name] = one.pixels
                self.shown.append((now, one.name, now - taken(one.pixels)))
            self._sizes[one.name] = (one.frames, one.frames * one.bytes_per_frame)

    def totals(self) -> tuple[int, float]:
        """Pictures received so far and their bytes, envelopes included."""
        count = sum(frames for frames, _ in self._sizes.values())
        body = sum(size for _, size in self._sizes.values())
        return count, body + count * (HEADER.size + MAC_BYTES)


def main(argv: Sequence[str]) -> int:
    """``OUT TOKEN FPS WARM SECONDS``: warm up so long, then watch so long."""
    die_with_parent()
    out, token = Path(argv[0]), Path(argv[1])
    fps, warm_s, seconds = map(float, argv[2:5])
    receiver = Receiver(0, lambda: load_tokens([token]), Subscription(AGENTS, fps), SystemClock())
    out.with_suffix(".port").write_text(str(receiver.port))
    try:
        _watch(receiver, Notes(), MOST_WAIT_S, until_both=True)
        _watch(receiver, Notes(), warm_s)
        notes = Notes()
        notes.look(receiver.current_scene(AGENTS).panels, time.monotonic())
        before, began = notes.totals(), time.monotonic()
        notes.shown.clear()
        _watch(receiver, notes, seconds)
        took, after = time.monotonic() - began, notes.totals()
    finally:
        receiver.close()
    told = {"shown": notes.shown, "began": began, "seconds": took,
            "frames": after[0] - before[0], "bytes": after[1] - before[1]}  # fmt: skip
    out.write_text(json.dumps(told))
    return 0


def _watch(receiver: Receiver, notes: Notes, seconds: float, *, until_both: bool = False) -> None:
    give_up = time.monotonic() + seconds
    while (now := time.monotonic()) < give_up:
        scene = receiver.current_scene(AGENTS)
        notes.look(scene.panels, now)
        if until_both and len(scene.frames) == AGENTS:
            return
        time.sleep(LOOK_S)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
