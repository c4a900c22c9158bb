"""How long a job takes from its start to its first optimizer step, phase by phase.

Begun by the launcher, handed on through the environment when it becomes the learner, told once
with the first update. A phase is what the learner was waiting for; what was loaded beside it is in
no phase.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping

from Daddy.core.clock import Clock
from Daddy.core.job import BOOT


class Boot:
    """A stop watch with names. ``started`` and stamps are wall seconds of this host."""

    def __init__(self, clock: Clock, started: float | None = None) -> None:
        self._clock = clock
        self.started = clock.now() if started is None else started
        self._last = self.started
        self._phases: dict[str, float] = {}
        self._moved = threading.Condition()

    @classmethod
    def resume(cls, environ: Mapping[str, str], clock: Clock) -> Boot:
        """The launcher's watch, going on; one that begins now where there is none."""
        try:
            told = json.loads(environ[BOOT])
            boot = cls(clock, float(told["started"]))
            boot._last = float(told["last"])
            boot._phases = {str(name): float(spent) for name, spent in told["phases"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            return cls(clock)
        return boot

    def mark(self, phase: str) -> None:
        """The time since the last mark went into ``phase``."""
        now = self._clock.now()
        with self._moved:
            self._phases[phase] = self._phases.get(phase, 0.0) + max(0.0, now - self._last)
            self._last = now
            self._moved.notify_all()

    def passed(self, phase: str) -> bool:
        """Whether that phase has been marked."""
        return phase in self._phases

    def wait(self, phase: str, seconds: float) -> bool:
        """Wait until that phase is marked, at most so long; whether it was."""
        with self._moved:
            return self._moved.wait_for(lambda: phase in self._phases, seconds)

    @property
    def seconds(self) -> float:
        """From the start to the last mark."""
        return round(max(0.0, self._last - self.started), 3)

    def facts(self) -> dict[str, object]:
        """``boot_s`` since the start and ``phases``, in seconds."""
        phases = {name: round(spent, 3) for name, spent in self._phases.items()}
        return {"boot_s": self.seconds, "phases": phases}

    def environment(self) -> dict[str, str]:
        """The variable that hands the watch to the next program of this process."""
        told = {"started": self.started, "last": self._last, "phases": self._phases}
        return {BOOT: json.dumps(told)}
