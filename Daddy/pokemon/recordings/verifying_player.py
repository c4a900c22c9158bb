"""Plays a recording in an emulator, compares its digests, and reports what was reached.

The first digest that differs is a RomError that says at which step; the player goes no further.
Milestones are read from the game's memory as it is played, never believed. `ReadAhead` plays ahead
of a viewer and keeps places to rewind to: one after every 256 steps, in a long recording fewer.
"""

from __future__ import annotations

import threading
import zlib
from bisect import bisect_right
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace

from Daddy.core.errors import DaddyError, RomError
from Daddy.core.rom_identity import Rom
from Daddy.pokemon import story_milestones
from Daddy.pokemon.emulator import (
    BUTTONS,
    FRAMES_PER_SECOND,
    FRAMES_PER_STEP,
    PYBOY_VERSION,
    Emulator,
)
from Daddy.pokemon.game_progress import read_progress
from Daddy.pokemon.inputs import emulator_operations, recording_format
from Daddy.pokemon.inputs.emulator_operations import Operation, OperationKind
from Daddy.pokemon.inputs.recording_format import DIGEST_BYTES, DIGEST_FRAMES, Recording
from Daddy.pokemon.ram_map import RANDOM, WHOLE
from Daddy.pokemon.read_memory import Image

_MOST_PLACES = 512


def check_recorded_game(recording: Recording, rom: Rom) -> None:
    """RomError unless it was recorded with this game and this pyboy."""
    if recording.rom_sha1 != rom.sha1:
        raise RomError(
            f"this is a recording of {recording.rom} (SHA-1 {recording.rom_sha1}), and the game "
            f"here is {rom.name} (SHA-1 {rom.sha1})",
            "name the game that was recorded: --rom FILE, or --cartridge",
        )
    if recording.pyboy != PYBOY_VERSION:
        raise RomError(
            f"recorded with pyboy {recording.pyboy}, and here is {PYBOY_VERSION}: games go other "
            "ways",
            f"play it where pyboy {recording.pyboy} is: pip install pyboy=={recording.pyboy}",
        )


def check_recorded_start(recording: Recording, state: bytes) -> None:
    """RomError unless the recording begins at this state."""
    if recording_format.state_id(recording.rom_sha1, recording.pyboy, state) != recording.start:
        name = recording.start_name or "this"
        raise RomError(
            f"the recording begins at another state than {name!r} is here",
            "ask who recorded it for one that begins at power-on, or name the state: --start FILE",
        )


def format_time(frames: int) -> str:
    """A moment for people: the step, and the time of the game."""
    seconds = int(frames / FRAMES_PER_SECOND)
    minutes, seconds = divmod(seconds, 60)
    return f"step {frames // FRAMES_PER_STEP:,} ({minutes // 60}:{minutes % 60:02d}:{seconds:02d})"


@dataclass(frozen=True)
class PlayPosition:
    """A point between two operations: offset of the next one, frames and digests so far."""

    offset: int = 0
    frames: int = 0
    since: int = 0
    """Frames since the last digest."""
    digests: int = 0
    state: bytes = field(default=b"", repr=False)
    """The emulator's, deflated."""
    saved_states: tuple[bytes, ...] = field(default=(), repr=False)
    """States that the recording had kept by then, deflated."""
    due: bool = False
    """True while an operation that changes memory awaits its digest."""


class VerifyingPlayer:
    """Plays one recording; `start` is the state of one that does not begin at power-on."""

    def __init__(self, rom: Rom, recording: Recording, start: bytes = b"") -> None:
        """RomError when game, pyboy or start are not the recording's."""
        check_recorded_game(recording, rom)
        if not recording.from_power_on:
            check_recorded_start(recording, start)
        self._emulator, self._recording = Emulator(rom.data), recording
        if start:
            self._emulator.restore_state(start)
        self._moments: list[bytes] = []
        self._now = PlayPosition()
        self._failure: RomError | None = None
        self.first = self.save_position()
        """The place where the recording begins."""

    @property
    def frames(self) -> int:
        """Frames played."""
        return self._now.frames

    @property
    def finished(self) -> bool:
        """True once all was played, and no digest differed."""
        return self._failure is None and self._now.offset >= len(self._recording.operations)

    def play_to(self, frames: int) -> int:
        """Play until so many frames are over, or all is played; returns the frames played."""
        while not self.finished and self.frames < frames:
            self.step()
        return self.frames

    def step(self) -> Operation:
        """Do the next operation, and compare the digest that is due after it; RomError."""
        if self._failure is not None:
            raise self._failure
        operation = emulator_operations.decode_operation(
            self._recording.operations, self._now.offset
        )
        self._do(operation)
        frames, since = self.frames + operation.frames, self._now.since + operation.frames
        due = self._now.due or recording_format.changes_memory(operation)
        self._now = PlayPosition(operation.end, frames, since, self._now.digests, due=due)
        if since >= DIGEST_FRAMES or (self.finished and due):
            self._compare()
        return operation

    def _compare(self) -> None:
        now = self._now
        first = now.digests * DIGEST_BYTES
        expected = self._recording.digests[first : first + DIGEST_BYTES]
        if recording_format.memory_digest(self.memory()) != expected:
            self._failure = RomError(
                "the game went another way than was recorded, between "
                f"{format_time(now.frames - now.since)} and {format_time(now.frames)}",
                "what came before is verified; the rest was played otherwise, or was changed since",
            )
            raise self._failure
        self._now = PlayPosition(now.offset, now.frames, 0, now.digests + 1)

    def _do(self, operation: Operation) -> None:
        emulator, kind = self._emulator, operation.kind
        if kind == OperationKind.KEEP:
            self._moments.append(zlib.compress(emulator.dump_state(), 1))
        elif kind == OperationKind.LOAD:
            emulator.restore_state(zlib.decompress(self._moments[operation.first]))
        elif kind < OperationKind.IDLE:
            emulator.press(BUTTONS[kind])
        elif kind == OperationKind.IDLE:
            emulator.idle()
        elif kind == OperationKind.WAIT:
            emulator.wait(operation.frames, watched=True)
        elif kind == OperationKind.HOLD:
            down = {name for bit, name in enumerate(BUTTONS) if operation.first >> bit & 1}
            emulator.hold(down, operation.frames)
        else:
            emulator.write(operation.first, operation.second)

    def save_position(self) -> PlayPosition:
        """The present place, for `go`."""
        state = zlib.compress(self._emulator.dump_state(), 1)
        return replace(self._now, state=state, saved_states=tuple(self._moments))

    def load_position(self, place: PlayPosition) -> None:
        """Go to a place that this or another player of the same recording kept."""
        self._emulator.restore_state(zlib.decompress(place.state))
        self._now, self._moments = place, list(place.saved_states)

    def memory(self) -> Image:
        """The work RAM of this moment."""
        return self._emulator.ram(WHOLE)

    def packed_screen(self) -> bytes:
        """The screen, as `Emulator.picture`."""
        return self._emulator.packed_screen()

    def set_watcher(self, watcher: Callable[[], None] | None, every: int) -> None:
        """Have `watcher` called after so many frames (a divisor of 24) of all that is played."""
        self._emulator.watcher, self._emulator.frames_per_picture = watcher, every

    def close(self) -> None:
        """End the emulator."""
        self._emulator.close()


@dataclass
class VerificationReport:
    """Facts verified so far. `reached`: milestone → frames, in order; `held`: those before.

    `dice`: bytes written to the game's random generator; `writes`: other bytes written, by scripted
    helps; `cuts`: frames at which it went back to an earlier moment.
    """

    frames: int = 0
    held: frozenset[str] = frozenset()
    reached: dict[str, int] = field(default_factory=dict)
    dice: int = 0
    writes: int = 0
    cuts: list[int] = field(default_factory=list)


class ReadAhead:
    """Verifies one recording part by part, ahead of the player that shows it."""

    def __init__(self, rom: Rom, recording: Recording, start: bytes = b"") -> None:
        """RomError when game, pyboy or start are not the recording's."""
        self.report = VerificationReport()
        self.failure: DaddyError | None = None
        """The error that ended it before the recording's end."""
        self._player = VerifyingPlayer(rom, recording, start)
        self._real, self._begins = rom.real, recording_format.frames_before_play(recording)
        self._places: list[PlayPosition] = [self._player.first]
        self._spacing, self._stop = DIGEST_FRAMES, threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def finished(self) -> bool:
        """True once all is verified."""
        return self._player.finished

    def verify_next_part(self) -> None:
        """Verify the next part, up to a digest; RomError where the game goes another way."""
        found = deepcopy(self.report)
        until = self._player.frames + DIGEST_FRAMES
        while not self._player.finished and self._player.frames < until:
            self._note(self._player.step(), found)
        found.frames = self._player.frames
        self._keep()
        self.report = found

    def _note(self, done: Operation, found: VerificationReport) -> None:
        if done.kind == OperationKind.WRITE:
            found.dice += done.first in RANDOM
            found.writes += done.first not in RANDOM
        if done.kind == OperationKind.LOAD and self._player.frames > self._begins:
            found.cuts.append(self._player.frames)
        if done.frames or done.kind == OperationKind.LOAD:
            now = story_milestones.reached_milestones(
                read_progress(self._player.memory()), self._real
            )
            if self._player.frames <= self._begins:
                found.held = now
            for name in sorted(now - found.held - found.reached.keys()):
                found.reached[name] = self._player.frames

    def _keep(self) -> None:
        if self._player.frames - self._places[-1].frames < self._spacing:
            return
        self._places.append(self._player.save_position())
        if len(self._places) > _MOST_PLACES:
            self._places = self._places[::2]
            self._spacing *= 2

    def seek_player(self, player: VerifyingPlayer, frames: int) -> None:
        """Have another player of the recording go to the last kept place that is no later."""
        places = self._places
        after = bisect_right([place.frames for place in places], frames)
        player.load_position(places[max(0, after - 1)])

    def start(self) -> None:
        """Verify on a thread of its own until the end, a failure, or `close`."""
        self._thread = threading.Thread(target=self._run, name="read-ahead", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._player.finished and not self._stop.is_set():
                self.verify_next_part()
        except DaddyError as error:
            self.failure = error

    def close(self) -> None:
        """Stop and end the emulator."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._player.close()
