"""Whether an emulator hangs. Inputs can lead a game where its program never comes back from.

An emulator that hangs cannot be ended from within its process: whoever finds one here ends that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

LOOKS: Final = 30
"""So many looks in a row at one and the same operation, and it hangs: the longest takes seconds."""


@dataclass(eq=False)
class Pulse:
    """Of one emulator: how often it began to play, and whether it is playing now."""

    beats: int = 0
    busy: bool = False

    def begin(self) -> None:
        """It plays, until `rest`."""
        self.beats += 1
        self.busy = True

    def rest(self) -> None:
        """Nothing is asked of it."""
        self.busy = False

    @contextmanager
    def playing(self) -> Iterator[None]:
        """It plays within this."""
        self.begin()
        try:
            yield
        finally:
            self.rest()


class Vigil:
    """Looks are counted, and no time: while the whole process is stopped nothing hangs."""

    def __init__(self, looks: int = LOOKS) -> None:
        self._looks = looks
        self._lock = threading.Lock()
        self._seen: dict[Pulse, tuple[int, int]] = {}
        """Of each pulse its beats at the last look, and how many looks in a row found these."""

    def begin(self) -> Pulse:
        """The pulse of one more emulator."""
        pulse = Pulse()
        with self._lock:
            self._seen[pulse] = (0, 0)
        return pulse

    def end(self, pulse: Pulse) -> None:
        """That emulator was closed."""
        with self._lock:
            self._seen.pop(pulse, None)

    def look(self) -> bool:
        """Whether one hangs; to be asked about once a second."""
        with self._lock:
            for pulse, (beats, looks) in self._seen.items():
                same = pulse.busy and pulse.beats == beats
                self._seen[pulse] = (pulse.beats, looks + 1 if same else 0)
            return any(looks >= self._looks for _, looks in self._seen.values())
