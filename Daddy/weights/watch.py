"""Judging silence and age on one's own clock: how long has a value stood still while I looked?

Clocks of two machines are never compared: what others write is a counter, not a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.lease import Lease, end_term, read_lease
from Daddy.weights.beats import Pulse

LEASE_SILENCE_S = 20.0
"""A merge takes seconds; a merger silent for longer counts as gone (safety does not need it)."""


class Watch:
    """Remembers when each value was first seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[Hashable, tuple[Hashable, float]] = {}
        self._looked: dict[Hashable, float] = {}

    def still_s(self, key: Hashable, value: Hashable = None) -> float:
        """Seconds for which ``key`` has had ``value`` since it was first looked at; 0 at first."""
        now = self._clock.monotonic()
        known = self._since.get(key)
        if known is None or known[0] != value:
            self._since[key] = (value, now)
            return 0.0
        return now - known[1]

    def watched_s(self, key: Hashable, gap_s: float, value: Hashable = None) -> float:
        """Like :meth:`still_s`, but between two looks ``gap_s`` pass at most.

        While the file system hung nobody could look, and nobody could finish what he had begun.
        """
        now = self._clock.monotonic()
        missed = now - self._looked.get(key, now) - gap_s
        self._looked[key] = now
        if missed > 0 and (known := self._since.get(key)) is not None:
            self._since[key] = (known[0], known[1] + missed)
        return self.still_s(key, value)

    def claim(self, folder: Path, holder: Mapping[str, str], silence_s: float) -> Lease | None:
        """The lease in ``folder``; a holder whose beat stood still for ``silence_s`` loses it."""
        lease = Lease.claim(folder, holder)
        if lease is None and (view := read_lease(folder)) is not None and view.ended is None:
            silent = self.still_s(("lease", folder), (view.term, view.beat.get("counter")))
            if silent > silence_s:
                end_term(folder, view.term, f"silent for {silent:.0f} s")
                lease = Lease.claim(folder, holder)
        return lease

    def live(self, pulses: Iterable[Pulse], silence_s: float) -> list[Pulse]:
        """Pulses whose process has not left and whose counter moved within ``silence_s``."""
        return [
            pulse
            for pulse in pulses
            if not pulse.left
            and self.still_s((pulse.peer, pulse.incarnation), pulse.counter) < silence_s
        ]
