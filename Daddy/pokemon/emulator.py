"""Adapter for pyboy: one Game Boy without a window.

Equal keys give equal games, nothing is written beside the ROM, and no key is down after a state was
loaded. One step of the environment is one `press`: a key held for 8 frames, 24 frames played, one
drawn.
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
from Daddy.pokemon.inputs import emulator_operations
from Daddy.pokemon.inputs.input_recorder import InputRecorder
from Daddy.pokemon.read_memory import Image

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pysdl2 tells which SDL it brings
    kept = sys.modules.get("sdl2")
    sys.modules["sdl2"] = None  # type: ignore[assignment]  # no window is opened: 0.2 s less
    from pyboy import PyBoy
    from pyboy.core import ram as pyboy_ram
    from pyboy.utils import STATE_VERSION

    sys.modules.pop("sdl2")
    if kept is not None:
        sys.modules["sdl2"] = kept

BUTTONS: Final = ("down", "left", "right", "up", "a", "b", "start")
FRAMES_PER_STEP: Final = 24
"""A walk of one cell takes 16 frames and the game looks at the keys once a frame."""
_HELD_FRAMES: Final = 8
FRAMES_PER_PICTURE: Final = 4
"""Frames between two pictures while somebody watches: 15 pictures a second."""
FRAMES_PER_SECOND: Final = 59.7275
_PRIMING_FRAMES: Final = 16
"""Frames after power-on until one was drawn whole. Only then does pyboy 2.7.0 know which line of
the window comes first, which its save states lack: a state's first picture would differ."""
PYBOY_VERSION: Final = version("pyboy")
"""Our own save states are read by the very version that wrote them only."""
STATE_FORMAT: Final = int(STATE_VERSION)
"""What its save states begin with; most older formats are read as well."""


_LOWEST_TWO = np.uint32(0x03030303)
_SIDE_BY_SIDE = np.uint32(1 << 30 | 1 << 20 | 1 << 10 | 1)
"""Four pixels are one number: times this, the leftmost's two bits come to stand highest (0x80 and
0x40 of the top byte), the next ones' below, and what falls under the top byte never carries."""


class Emulator:
    """One running game. Not to be shared between threads; `press` releases the GIL."""

    def __init__(self, rom: bytes, recorder: InputRecorder | None = None) -> None:
        """Start the game in `rom` at power-on; RomError when pyboy cannot.

        `recorder` is told what is done here: one that begins at power-on, or at a state that it
        knows and that is loaded before anything else is done.
        """
        self._recorder = recorder
        self.watcher: Callable[[], None] | None = None
        """Called every `film_frames` frames of a step; the game is the same with and without."""
        self.frames_per_picture = FRAMES_PER_PICTURE
        """A divisor of FRAMES_PER_STEP."""
        self._boy, self._work_ram = _power_on(rom)
        self._boy.tick(_PRIMING_FRAMES, True, False)
        self._screen: NDArray[np.uint8] = self._boy.screen.ndarray

    def press(self, button: str) -> None:
        """Play one step with `button` (one of BUTTONS) and draw its last frame."""
        self._boy.button(button, _HELD_FRAMES)
        self._play(FRAMES_PER_STEP)
        if self._recorder is not None:
            self._tell(emulator_operations.encode_press(BUTTONS.index(button)), FRAMES_PER_STEP)

    def idle(self) -> None:
        """Play one step with no further key."""
        self._play(FRAMES_PER_STEP)
        self._tell(emulator_operations.IDLE, FRAMES_PER_STEP)

    def hold(self, buttons: Collection[str], frames: int) -> None:
        """Play `frames` frames with exactly `buttons` down, as a person's fingers do."""
        for button in BUTTONS:
            turn = self._boy.button_press if button in buttons else self._boy.button_release
            turn(button)
        self._play(frames)
        bits = sum(1 << number for number, button in enumerate(BUTTONS) if button in buttons)
        self._tell(emulator_operations.encode_hold(bits, frames), frames)

    def wait(self, frames: int, *, watched: bool = False) -> None:
        """Play `frames` frames with no key down and draw the last one."""
        if frames:
            if watched:
                self._play(frames)
            else:
                self._boy.tick(frames, True, False)
            self._tell(emulator_operations.encode_wait(frames), frames)

    def _play(self, frames: int) -> None:
        if self.watcher is None:
            self._boy.tick(frames, True, False)
            return
        for done in range(0, frames, self.frames_per_picture):
            self._boy.tick(min(self.frames_per_picture, frames - done), True, False)
            self.watcher()

    def _tell(self, operation: bytes, frames: int) -> None:
        if self._recorder is not None:
            self._recorder.record_operation(operation, frames, self._memory)

    def _memory(self) -> Image:
        return self.ram(ram.WHOLE)

    def ram(self, blocks: Iterable[tuple[int, int]] = ram.BLOCKS) -> Image:
        """Image of the work RAM (8,192 bytes) in which `blocks`, at least, are of this moment."""
        if self._work_ram is not None:
            return self._work_ram.tobytes()
        memory, image = self._boy.memory, bytearray(ram.RAM_SIZE)
        for first, end in blocks:
            image[first - ram.RAM_START : end - ram.RAM_START] = bytes(memory[first:end])
        return image

    def write(self, address: int, value: int) -> None:
        """Put one byte into the game's RAM (a cartridge's seed; facts in tests)."""
        self._boy.memory[address] = value
        self._tell(emulator_operations.encode_write(address, value), 0)

    def half_screen(self) -> NDArray[np.uint8]:
        """The picture at half size: (72, 80) uint8 of 0, 85, 153 or 255 (white), a copy."""
        return self._screen[::2, ::2, 0].copy()

    def full_screen(self) -> NDArray[np.uint8]:
        """The picture: (144, 160) uint8 of 0, 85, 153 or 255 (white), a copy."""
        return self._screen[:, :, 0].copy()

    def packed_screen(self) -> bytes:
        """The picture at 2 bits a pixel, `core.shared_types.SCREEN_BYTES` bytes."""
        red = np.ascontiguousarray(self._screen[:, :, 0]).reshape(-1).view("<u4")
        shades = red >> 6 & _LOWEST_TWO
        packed: NDArray[np.uint8] = ~(shades * _SIDE_BY_SIDE >> 24).astype(np.uint8)
        return packed.tobytes()

    def dump_state(self) -> bytes:
        """Everything the console remembers, about 170 kB. Save between steps: no key is down."""
        buffer = io.BytesIO()
        self._boy.save_state(buffer)
        state = buffer.getvalue()
        if self._recorder is not None:
            self._recorder.record_save(state, self._memory)
        return state

    def restore_state(self, state: bytes) -> int:
        """Go on exactly from `state`; how many of its bytes were not read.

        RomError when this pyboy cannot read it.
        """
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
        """End the console; nothing is written."""
        self._boy.stop(save=False)


_CONSTRUCTION = Lock()
"""Held while pyboy's arrays are being watched for: environments are made on several threads."""


def _power_on(rom: bytes) -> tuple[PyBoy, array[int] | None]:
    """The console, and its work RAM itself where it can be had.

    pyboy has no way to read memory but byte by byte into a list, which costs a tenth of a step. The
    RAM is an array that it makes first of all with the name `array` of its module.
    """
    options = {"window": "null", "sound_emulated": False, "no_input": True, "log_level": "ERROR"}
    made: list[array[int]] = []

    def make(*arguments: Any) -> array[int]:
        made.append(array(*arguments))
        return made[-1]

    with _CONSTRUCTION:
        pyboy_ram.array = make
        try:
            boy = PyBoy(io.BytesIO(rom), **options)
        except Exception as error:  # pyboy raises what its reading of the header trips over
            raise RomError(
                f"pyboy {PYBOY_VERSION} cannot start this game: {error}",
                "check that the file is a complete Game Boy game",
            ) from error
        finally:
            pyboy_ram.array = array
    return boy, next((one for one in made if _is_work_ram(one, boy)), None)


def _is_work_ram(candidate: array[int], boy: PyBoy) -> bool:
    """Whether what is written to the console's first byte of work RAM arrives in `candidate`."""
    if len(candidate) != ram.RAM_SIZE:
        return False
    kept = boy.memory[ram.RAM_START]
    boy.memory[ram.RAM_START] = kept ^ 0xFF
    arrived: bool = candidate[0] == kept ^ 0xFF
    boy.memory[ram.RAM_START] = kept
    return arrived
