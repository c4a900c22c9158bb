"""One environment's play as pieces, while somebody wants it.

Promises to cost an environment nothing that nobody watches, and to keep none waiting: what a name
and a proof take (seconds of emulation) is done once per process on a thread of low priority, and
recording begins with the first state that is loaded after that.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import lru_cache

from Daddy.core.errors import DaddyError
from Daddy.core.machine import lower_thread_priority
from Daddy.core.rom import Rom
from Daddy.pokemon.emulator import PYBOY_VERSION, Emulator
from Daddy.pokemon.inputs.live import LiveRecorder
from Daddy.pokemon.inputs.stretch import Beginning
from Daddy.pokemon.recordings.proof import STEPS, proof
from Daddy.pokemon.recordings.way import moment_at

_PREPARING = threading.Lock()
_NICENESS = 5
"""A quarter of the time that others get who want the same core; at 19 it would take minutes."""


class Feed:
    """Records one emulator on demand."""

    def __init__(
        self, emulator: Emulator, rom: Rom, start: bytes, *where: str, steps: int = STEPS
    ) -> None:
        """`start` is the state that episodes begin from; `where` as `way.moment_at` has it.

        `steps`: of the proof.
        """
        self._emulator, self._rom, self._start, self._where = emulator, rom, start, where
        self._steps = steps
        self._recorder: LiveRecorder | None = None
        self._thread: threading.Thread | None = None
        self._records = False

    def take(self, wanted: bool) -> bytes:
        """The next piece of what was played; empty when there is none, or none is wanted."""
        if not wanted:
            self._stop()
            return b""
        if self._recorder is None:
            self._prepare()
            return b""
        if not self._records:
            self._emulator.record(self._recorder)
            self._records = True
        return self._recorder.take()

    def _stop(self) -> None:
        if self._records and self._recorder is not None:
            self._emulator.record(None)
            self._recorder.forget()
            self._records = False

    def _prepare(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._make, name="live-names", daemon=True)
            self._thread.start()

    def _make(self) -> None:
        lower_thread_priority(_NICENESS)
        with suppress(DaddyError):  # then there is nothing to offer, and pictures go on
            begins = beginning(self._rom, self._start, *self._where, steps=self._steps)
            self._recorder = LiveRecorder(self._start, begins)


def beginning(rom: Rom, state: bytes, *where: str, steps: int = STEPS) -> Beginning:
    """What a chain begins at that begins at this start state; RomError.

    `where`: start, states_dir and cache_dir, as for `way.moment_at`; `steps` of the proof.
    """
    with _PREPARING:  # environments of one process ask at once
        return _beginning(rom, state, steps, *where)


@lru_cache(maxsize=4)
def _beginning(rom: Rom, state: bytes, steps: int, *where: str) -> Beginning:
    moment, name = moment_at(rom, state, *where)
    return Beginning(rom.sha1, PYBOY_VERSION, moment, name, proof(rom, steps), rom.name[:60])
