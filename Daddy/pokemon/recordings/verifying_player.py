"""Plays a recording in an emulator, compares its digests, and reports the milestones reached.

The first digest that differs is a RomError that names the step; the player stops there. Milestones
are read from the game's memory during play, not from the recording. `ReadAhead` plays ahead of the
visible player and saves positions for seeking: every 256 steps, or fewer in a long recording.
"""

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
from Daddy.pokemon.memory_decoding import Image
from Daddy.pokemon.ram_map import RANDOM, WHOLE

_MAX_POSITIONS = 512


def check_recorded_game(recording: Recording, rom: Rom) -> None:
    """Raise RomError unless the recording was made with this game and this pyboy."""
    if recording.rom_sha1 != rom.sha1:
        raise RomError(
            f"this is a recording of {recording.rom} (SHA-1 {recording.rom_sha1}), and the game "
            f"here is {rom.name} (SHA-1 {rom.sha1})",
            "name the game that was recorded: --rom FILE, or --cartridge",
        )
    if recording.pyboy != PYBOY_VERSION:
        raise RomError(
            f"recorded with pyboy {recording.pyboy}, and here is {PYBOY_VERSION}, in which the "
            "same inputs play another game",
            f"play it where pyboy {recording.pyboy} is: pip install pyboy=={recording.pyboy}",
        )


def check_recorded_start(recording: Recording, state: bytes) -> None:
    """Raise RomError unless the recording begins at this state."""
    if recording_format.state_id(recording.rom_sha1, recording.pyboy, state) != recording.start:
        name = recording.start_name or "this"
        raise RomError(
            f"the recording begins at another state than {name!r} is here",
            "get a recording that begins at power-on, or name the state: --start FILE",
        )


def format_time(frames: int) -> str:
    """Format a number of frames as step and time of play, for people."""
    seconds = int(frames / FRAMES_PER_SECOND)
    minutes, seconds = divmod(seconds, 60)
    return f"step {frames // FRAMES_PER_STEP:,} ({minutes // 60}:{minutes % 60:02d}:{seconds:02d})"


@dataclass(frozen=True)
class PlayPosition:
    """Holds a position in a recording: offset of the next operation, frames and digests so far."""

    offset: int = 0
    frames: int = 0
    since: int = 0
    """Frames since the last digest."""
    digests: int = 0
    state: bytes = field(default=b"", repr=False)
    """The emulator's state, deflated."""
    saved_states: tuple[bytes, ...] = field(default=(), repr=False)
    """States that the recording had saved by then, deflated."""
    due: bool = False
    """True after an operation that changed memory, until its digest."""


class VerifyingPlayer:
    """Plays one recording; `start` is its start state, if it does not begin at power-on."""

    def __init__(self, rom: Rom, recording: Recording, start: bytes = b"") -> None:
        """RomError when game, pyboy or start are not the recording's."""
        check_recorded_game(recording, rom)
        if not recording.from_power_on:
            check_recorded_start(recording, start)
        self._emulator, self._recording = Emulator(rom.data), recording
        if start:
            self._emulator.restore_state(start)
        self._saved_states: list[bytes] = []
        self._now = PlayPosition()
        self._failure: RomError | None = None
        self.first = self.save_position()
        """The position of the recording's beginning."""

    @property
    def frames(self) -> int:
        return self._now.frames

    @property
    def finished(self) -> bool:
        """True once all operations were played and all digests matched."""
        return self._failure is None and self._now.offset >= len(self._recording.operations)

    def play_to(self, frames: int) -> int:
        """Play up to `frames` frames in all, or to the end; return the frames played."""
        while not self.finished and self.frames < frames:
            self.step()
        return self.frames

    def step(self) -> Operation:
        """Play the next operation; if a digest follows, compare it: RomError if it differs."""
        if self._failure is not None:
            raise self._failure
        operations = self._recording.operations
        operation = emulator_operations.decode_operation(operations, self._now.offset)
        self._do(operation)
        frames, since = self.frames + operation.frames, self._now.since + operation.frames
        due = self._now.due or recording_format.changes_memory(operation)
        self._now = PlayPosition(operation.end, frames, since, self._now.digests, due=due)
        if since >= DIGEST_FRAMES or (self.finished and due):
            self._compare()
        return operation

    def _compare(self) -> None:
        now = self._now
        begin = now.digests * DIGEST_BYTES
        expected = self._recording.digests[begin : begin + DIGEST_BYTES]
        if recording_format.memory_digest(self.memory()) != expected:
            self._failure = RomError(
                "the game differs from the recording, between "
                f"{format_time(now.frames - now.since)} and {format_time(now.frames)}",
                "the part before is verified; the rest is from another game, or was changed",
            )
            raise self._failure
        self._now = PlayPosition(now.offset, now.frames, 0, now.digests + 1)

    def _do(self, operation: Operation) -> None:
        emulator, kind = self._emulator, operation.kind
        if kind == OperationKind.KEEP:
            self._saved_states.append(zlib.compress(emulator.dump_state(), 1))
        elif kind == OperationKind.LOAD:
            emulator.restore_state(zlib.decompress(self._saved_states[operation.first]))
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
        """Return the present position, with the emulator's state, for `load_position`."""
        state = zlib.compress(self._emulator.dump_state(), 1)
        return replace(self._now, state=state, saved_states=tuple(self._saved_states))

    def load_position(self, position: PlayPosition) -> None:
        """Go to a position that a player of the same recording saved."""
        self._emulator.restore_state(zlib.decompress(position.state))
        self._now, self._saved_states = position, list(position.saved_states)

    def memory(self) -> Image:
        """Return the present work RAM."""
        return self._emulator.ram(WHOLE)

    def packed_screen(self) -> bytes:
        """Return the screen as `Emulator.packed_screen` does."""
        return self._emulator.packed_screen()

    def set_watcher(self, watcher: Callable[[], None] | None, every: int) -> None:
        """Call `watcher` every `every` frames of play (a divisor of 24); None: never call it."""
        self._emulator.watcher, self._emulator.frames_per_picture = watcher, every

    def close(self) -> None:
        self._emulator.close()


@dataclass
class VerificationReport:
    """Holds facts verified so far. `reached`: frame by milestone; `held`: milestones at the start.

    `dice`: bytes written to the game's random generator; `writes`: other bytes written, by assists;
    `cuts`: frames at which an earlier state was loaded.
    """

    frames: int = 0
    held: frozenset[str] = frozenset()
    reached: dict[str, int] = field(default_factory=dict)
    dice: int = 0
    writes: int = 0
    cuts: list[int] = field(default_factory=list)


class ReadAhead:
    """Verifies one recording part by part, ahead of the visible player."""

    def __init__(self, rom: Rom, recording: Recording, start: bytes = b"") -> None:
        """RomError when game, pyboy or start are not the recording's."""
        self.report = VerificationReport()
        self.failure: DaddyError | None = None
        """The error that stopped the verification, if any."""
        self._player = VerifyingPlayer(rom, recording, start)
        self._real, self._begins = rom.real, recording_format.frames_before_play(recording)
        self._positions: list[PlayPosition] = [self._player.first]
        self._spacing, self._stop = DIGEST_FRAMES, threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def finished(self) -> bool:
        """True once the whole recording is verified."""
        return self._player.finished

    def verify_next_part(self) -> None:
        """Verify the next part, up to a digest; RomError if the game differs from the recording."""
        report = deepcopy(self.report)
        until = self._player.frames + DIGEST_FRAMES
        while not self._player.finished and self._player.frames < until:
            self._note(self._player.step(), report)
        report.frames = self._player.frames
        self._keep()
        self.report = report

    def _note(self, operation: Operation, report: VerificationReport) -> None:
        if operation.kind == OperationKind.WRITE:
            report.dice += operation.first in RANDOM
            report.writes += operation.first not in RANDOM
        if operation.kind == OperationKind.LOAD and self._player.frames > self._begins:
            report.cuts.append(self._player.frames)
        if operation.frames or operation.kind == OperationKind.LOAD:
            progress = read_progress(self._player.memory())
            now = story_milestones.reached_milestones(progress, self._real)
            if self._player.frames <= self._begins:
                report.held = now
            for name in sorted(now - report.held - report.reached.keys()):
                report.reached[name] = self._player.frames

    def _keep(self) -> None:
        if self._player.frames - self._positions[-1].frames < self._spacing:
            return
        self._positions.append(self._player.save_position())
        if len(self._positions) > _MAX_POSITIONS:
            self._positions = self._positions[::2]
            self._spacing *= 2

    def seek_player(self, player: VerifyingPlayer, frames: int) -> None:
        """Move `player` to the last saved position at or before frame `frames`."""
        positions = self._positions
        after = bisect_right([position.frames for position in positions], frames)
        player.load_position(positions[max(0, after - 1)])

    def start(self) -> None:
        """Verify in a new thread until the end, a failure, or `close`."""
        self._thread = threading.Thread(target=self._run, name="read-ahead", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._player.finished and not self._stop.is_set():
                self.verify_next_part()
        except DaddyError as error:
            self.failure = error

    def close(self) -> None:
        """Stop the verifying thread and the emulator."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._player.close()
