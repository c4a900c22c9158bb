"""Adapter for pyboy: one Game Boy without a window.

Equal inputs give equal games. Nothing is written to disk, and no key is down after a state was
loaded. One step of the environment is one `press`: a key is held for 8 frames, 24 frames are
played, and the last one is drawn.
"""

from __future__ import annotations

import io
import sys
import warnings
from array import array
from collections.abc import Callable, Collection, Iterable
from importlib.metadata import version
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from Daddy.core.errors import RomError
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.inputs.emulator_operations import IDLE, OperationKind, encode_operation
from Daddy.pokemon.inputs.input_recorder import InputRecorder
from Daddy.pokemon.memory_decoding import Image

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pysdl2 warns about the SDL that it uses
    previous = sys.modules.get("sdl2")
    sys.modules["sdl2"] = None  # type: ignore[assignment]  # no window is opened: 0.2 s less
    from pyboy import PyBoy
    from pyboy.api import screen as pyboy_screen
    from pyboy.core import ram as pyboy_ram
    from pyboy.utils import STATE_VERSION

    sys.modules.pop("sdl2")
    if previous is not None:
        sys.modules["sdl2"] = previous

BUTTONS: Final = ("down", "left", "right", "up", "a", "b", "start")
FRAMES_PER_STEP: Final = 24
"""A walk of one cell takes 16 frames; the game reads the keys once a frame."""
_HELD_FRAMES: Final = 8
FRAMES_PER_PICTURE: Final = 4
"""Frames from one picture to the next while play is streamed or filmed: 15 pictures a second."""
FRAMES_PER_SECOND: Final = 59.7275
_PRIMING_FRAMES: Final = 16
"""Frames until a whole one was drawn. Before, pyboy 2.7.0 does not know the window's first line,
which its save states lack: the first picture of a loaded state would differ."""
PYBOY_VERSION: Final = version("pyboy")
"""Version of pyboy; a save state of ours is loaded only by the version that wrote it."""
STATE_FORMAT: Final = int(STATE_VERSION)
"""First byte of a save state of this pyboy; it reads most older formats as well."""


_LOWEST_TWO = np.uint32(0x03030303)
_SIDE_BY_SIDE = np.uint32(1 << 30 | 1 << 20 | 1 << 10 | 1)
"""Factor that packs four pixels, one byte each with a value of 0 to 3, into the top byte: the
leftmost pixel into its highest two bits. The bits below the top byte cause no carry."""


class Emulator:
    """Runs one game. Not thread-safe; `press` releases the GIL."""

    def __init__(
        self, rom: bytes, recorder: InputRecorder | None = None, battery: bytes | None = None
    ) -> None:
        """Start the ROM image `rom` at power-on; RomError if pyboy cannot start it.

        `battery`: the cartridge's battery RAM. `recorder` receives every operation. A recording
        begins at power-on, or at a state the caller loads before any other operation.
        """
        self._recorder = recorder
        self.watcher: Callable[[], None] | None = None
        """Function called every `frames_per_picture` frames; it does not affect the game."""
        self.frames_per_picture = FRAMES_PER_PICTURE
        """Frames between two calls of `watcher`; must divide FRAMES_PER_STEP."""
        self._boy, self._work_ram = _power_on(rom, battery)
        self._boy.tick(_PRIMING_FRAMES, True, False)
        self._screen: NDArray[np.uint8] = self._boy.screen.ndarray
        self._half_screen: NDArray[np.uint8] = self._screen[::2, ::2, 0]

    def press(self, button: str) -> None:
        """Play one step with `button` (one of BUTTONS) and draw its last frame."""
        self._boy.button(button, _HELD_FRAMES)
        self._play(FRAMES_PER_STEP)
        if self._recorder is not None:
            self._record(bytes([BUTTONS.index(button)]), FRAMES_PER_STEP)

    def idle(self) -> None:
        """Play one step without pressing a key."""
        self._play(FRAMES_PER_STEP)
        self._record(IDLE, FRAMES_PER_STEP)

    def hold(self, buttons: Collection[str], frames: int) -> None:
        """Play `frames` frames while exactly `buttons` are down, as a person plays."""
        for button in BUTTONS:
            set_button = self._boy.button_press if button in buttons else self._boy.button_release
            set_button(button)
        self._play(frames)
        bits = sum(1 << number for number, button in enumerate(BUTTONS) if button in buttons)
        self._record(encode_operation(OperationKind.HOLD, bits, frames), frames)

    def wait(self, frames: int, *, watched: bool = False) -> None:
        """Play `frames` frames without a change of keys; call the watcher only if `watched`."""
        if frames:
            if watched:
                self._play(frames)
            else:
                self._boy.tick(frames, True, False)
            self._record(encode_operation(OperationKind.WAIT, frames), frames)

    def _play(self, frames: int) -> None:
        if self.watcher is None:
            self._boy.tick(frames, True, False)
            return
        for played in range(0, frames, self.frames_per_picture):
            self._boy.tick(min(self.frames_per_picture, frames - played), True, False)
            self.watcher()

    def _record(self, operation: bytes, frames: int) -> None:
        if self._recorder is not None:
            self._recorder.record_operation(operation, frames, self._memory)

    def _memory(self) -> Image:
        return self.ram(ram.WHOLE)

    def ram(self, blocks: Iterable[tuple[int, int]] = ram.BLOCKS) -> Image:
        """Return an image of the work RAM, 8,192 bytes; at least `blocks` are up to date."""
        if self._work_ram is not None:
            return self._work_ram.tobytes()
        memory, image = self._boy.memory, bytearray(ram.RAM_SIZE)
        for first, end in blocks:
            image[first - ram.RAM_START : end - ram.RAM_START] = bytes(memory[first:end])
        return image

    def write(self, address: int, value: int) -> None:
        self._boy.memory[address] = value
        self._record(encode_operation(OperationKind.WRITE, address, value), 0)

    def half_screen(self, out: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
        """Copy the screen at half size into `out` (None: a new array), and return that.

        (72, 80) uint8 of 0, 85, 153 or 255 (white).
        """
        if out is None:
            return self._half_screen.copy()
        out[...] = self._half_screen
        return out

    def full_screen(self) -> NDArray[np.uint8]:
        """Return a copy of the screen: (144, 160) uint8 of 0, 85, 153 or 255 (white)."""
        return self._screen[:, :, 0].copy()

    def packed_screen(self) -> bytes:
        """Return the screen at 2 bits a pixel, `core.shared_types.SCREEN_BYTES` bytes."""
        red = np.ascontiguousarray(self._screen[:, :, 0]).reshape(-1).view("<u4")
        shades = red >> 6 & _LOWEST_TWO
        packed: NDArray[np.uint8] = ~(shades * _SIDE_BY_SIDE >> 24).astype(np.uint8)
        return packed.tobytes()

    def dump_state(self) -> bytes:
        """Return the emulator's whole state, about 170 kB; call only while no key is down."""
        buffer = io.BytesIO()
        self._boy.save_state(buffer)
        state = buffer.getvalue()
        if self._recorder is not None:
            self._recorder.record_save(state, self._memory)
        return state

    def restore_state(self, state: bytes) -> int:
        """Load `state`; return the count of bytes that pyboy left unread. RomError if it cannot."""
        if self._recorder is not None:
            self._recorder.record_load(state, self._memory)
        stream = io.BytesIO(state)
        try:
            self._boy.load_state(stream)
        except Exception as error:  # pyboy has no common base for what a bad state raises
            raise RomError(
                f"pyboy {PYBOY_VERSION} cannot read this save state: {error}",
                "use a state that the same pyboy version wrote, of the same game",
            ) from error
        for button in BUTTONS:
            self._boy.button_release(button)
        return len(state) - stream.tell()

    def close(self) -> None:
        """End the emulator without writing a file."""
        self._boy.stop(save=False)


_CONSTRUCTION = Lock()
"""Held while names of pyboy are replaced: several threads may make emulators at once."""


def _power_on(rom: bytes, battery: bytes | None) -> tuple[PyBoy, array[int] | None]:
    """Start pyboy; return pyboy and the array of its work RAM (None if not found). RomError.

    pyboy's own interface copies memory byte by byte into a list, which takes a tenth of a step. So
    the name `array` of pyboy's module is replaced to catch the array that it makes for the RAM.

    The emulator gets no Pillow image. pyboy asks one for `readonly` in a C function that cannot
    raise; Pillow's is a Python property, so Python ran its signal handlers there, and Ctrl-C was
    printed and lost. Without one no Python code runs in a tick: handlers run after it.
    """
    options = {"window": "null", "sound_emulated": False, "no_input": True, "log_level": "ERROR"}
    arrays: list[array[int]] = []

    def make(*arguments: Any) -> array[int]:
        arrays.append(array(*arguments))
        return arrays[-1]

    with _CONSTRUCTION:
        pillow = pyboy_screen.Image
        pyboy_ram.array, pyboy_screen.Image = make, None
        try:
            boy = PyBoy(io.BytesIO(rom), ram_file=battery and io.BytesIO(battery), **options)
        except Exception as error:  # pyboy has no common base for errors of a damaged ROM
            raise RomError(
                f"pyboy {PYBOY_VERSION} cannot start this game: {error}",
                "check that the file is a complete Game Boy game",
            ) from error
        finally:
            pyboy_ram.array, pyboy_screen.Image = array, pillow
    return boy, next((candidate for candidate in arrays if _is_work_ram(candidate, boy)), None)


def _is_work_ram(candidate: array[int], boy: PyBoy) -> bool:
    """Return True if a byte written to the start of the work RAM appears in `candidate`."""
    if len(candidate) != ram.RAM_SIZE:
        return False
    previous = boy.memory[ram.RAM_START]
    boy.memory[ram.RAM_START] = previous ^ 0xFF
    arrived: bool = candidate[0] == previous ^ 0xFF
    boy.memory[ram.RAM_START] = previous
    return arrived
