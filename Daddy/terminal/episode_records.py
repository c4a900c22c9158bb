"""Writes the records of an episode: trajectory.jsonl, terminal.cast (asciicast v2), result.json.

Text from the terminal keeps its line ends; other control characters become ``?``, so that showing
a record can do nothing to the terminal of the person who reads it.
"""

import json
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import append_line, write_atomic
from Daddy.core.clock import Clock

_CLEAR = "\x1b[H\x1b[2J"


def make_harmless(text: str) -> str:
    """Return the text with ``?`` for each control or unprintable character but line ends."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


class EpisodeRecords:
    """The records of one episode in the new folder `folder`."""

    def __init__(self, folder: Path, task: str, width: int, height: int, clock: Clock) -> None:
        self.folder, self._clock, self._began = folder, clock, clock.monotonic()
        self.steps = 0
        header = {"version": 2, "width": width, "height": height, "title": task}
        self._write("terminal.cast", {**header, "timestamp": int(clock.now())})

    def add_screen(self, screen: str) -> None:
        """Add the whole screen to the asciicast."""
        shown = make_harmless(screen).replace("\n", "\r\n")
        append_line(
            self.folder / "terminal.cast", json.dumps([self._seconds(), "o", _CLEAR + shown])
        )

    def add_step(self, action: dict[str, Any], obs: str, **more: Any) -> None:
        """Add a step to the trajectory, and its screen to the asciicast."""
        step = {"step": self.steps, "seconds": self._seconds(), **action}
        self._write("trajectory.jsonl", {**step, "obs": make_harmless(obs), **more})
        self.add_screen(obs)
        self.steps += 1

    def write_result(self, **result: Any) -> None:
        """Write the result."""
        whole = {**result, "steps": self.steps, "seconds": self._seconds()}
        write_atomic(self.folder / "result.json", (json.dumps(whole, indent=2) + "\n").encode())

    def _seconds(self) -> float:
        return round(self._clock.monotonic() - self._began, 3)

    def _write(self, name: str, line: dict[str, Any]) -> None:
        append_line(self.folder / name, json.dumps(line))
