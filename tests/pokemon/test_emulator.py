import signal
from collections.abc import Iterator

import numpy as np
import pytest

from Daddy.core.errors import RomError
from Daddy.core.rom_identity import load_rom
from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import BUTTONS, Emulator
from Daddy.pokemon.find_rom import find_rom
from Daddy.pokemon.game_progress import read_progress
from Daddy.pokemon.starts.find_start_state import beginning_state

KEYS = ["down", "left", "a", "up", "right", "b", "start", "a"] * 6
ROM = load_rom(find_rom(None, environ={}))


def run(emulator: Emulator, keys: list[str]) -> list[tuple[bytes, bytes]]:
    moments = []
    for key in keys:
        emulator.press(key)
        moments.append((bytes(emulator.ram()), emulator.packed_screen()))
    return moments


def test_the_start_state_is_a_game_in_which_the_player_can_walk(emulator: Emulator) -> None:
    before = read_progress(emulator.ram())
    assert before.placed
    places = set()
    for key in BUTTONS[:4] * 2:
        emulator.press(key)
        now = read_progress(emulator.ram())
        places.add((now.map_id, now.y, now.x))
    assert len(places) > 1


def test_equal_keys_give_equal_games(emulator: Emulator) -> None:
    other = Emulator(ROM.data)
    other.restore_state(beginning_state(ROM))
    assert run(emulator, KEYS) == run(other, KEYS)
    other.close()


def test_a_save_state_goes_on_exactly_in_another_emulator(emulator: Emulator) -> None:
    run(emulator, KEYS)
    state, picture = emulator.dump_state(), emulator.packed_screen()
    expected = run(emulator, KEYS)
    other = Emulator(ROM.data)
    other.restore_state(state)
    assert other.packed_screen() == picture
    assert run(other, KEYS) == expected
    other.close()


def test_a_picture_packs_four_pixels_a_byte_the_leftmost_highest_and_white_is_zero(
    emulator: Emulator,
) -> None:
    packed = np.frombuffer(emulator.packed_screen(), np.uint8)
    grey = emulator.full_screen()
    assert len(packed) == SCREEN_BYTES
    assert len(np.unique(grey)) > 1
    pixels = np.stack([packed >> shift & 3 for shift in (6, 4, 2, 0)], axis=1).reshape(144, 160)
    assert np.array_equal(np.array([255, 153, 85, 0], np.uint8)[pixels], grey)


def test_the_half_screen_is_every_second_pixel(emulator: Emulator) -> None:
    assert np.array_equal(emulator.half_screen(), emulator.full_screen()[::2, ::2])


def test_a_step_plays_24_frames(emulator: Emulator) -> None:
    """Read the frames of the game's clock."""

    def frames() -> int:
        image = emulator.ram()
        _, _, minutes, seconds, frames = image[ram.PLAY_TIME - ram.RAM_START :][:5]
        return int((minutes * 60 + seconds) * 60 + frames)

    start = frames()
    for _ in range(10):
        emulator.press("b")
    assert frames() - start == 240


def test_no_key_is_down_when_a_step_ends(emulator: Emulator) -> None:
    """A key that stayed down would act in the next step and in a save state."""
    held = 0xFFB4
    emulator._boy.button_press("left")
    emulator.wait(2)
    assert emulator._boy.memory[held]
    emulator._boy.button_release("left")
    emulator.press("left")
    assert emulator._boy.memory[held] == 0


def test_a_state_that_is_none_is_refused(emulator: Emulator) -> None:
    with pytest.raises(RomError, match="cannot read this save state"):
        emulator.restore_state(b"\x0f" + bytes(100))


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """Numbers of the handled signals; SIGALRM's handler raises KeyboardInterrupt."""
    numbers: list[int] = []

    def handle(number: int, _frame: object) -> None:
        numbers.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handle)
    yield numbers
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_an_interrupt_during_any_operation_is_raised(
    emulator: Emulator, handled: list[int]
) -> None:
    state = emulator.dump_state()

    def play_until_handled(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while not handled:
            emulator.press("a")
            emulator.hold(("up",), 2)
            emulator.wait(3)
            emulator.restore_state(state)
            emulator.dump_state()

    for number in range(1, 201):
        handled.clear()
        with pytest.raises(KeyboardInterrupt):
            play_until_handled(number / 10_000)
