"""Waits in the player's place while a script has control of the game.

It presses nothing while no button works, A while only A and B do (a text), and stops at a question,
which is the player's to answer. A wait is bounded; the caller counts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.read_memory import Image, byte

if TYPE_CHECKING:
    from Daddy.pokemon.emulator import Emulator

MAX_WAIT_STEPS: Final = 20
"""Steps of 24 frames that a wait may last: 8 s of the game; a longer script is waited for again."""
_ONE_OF_TWO: Final = 1


def wait_for_control(console: Emulator) -> tuple[Image, int]:
    """Wait until the player has control again or is asked: the memory then, and 0 to 20 steps."""
    image = console.ram()
    for waited in range(MAX_WAIT_STEPS):
        if not has_control(image):
            return image, waited
        if _is_deaf(image):
            console.idle()
        elif _asks(console.ram(ram.ANSWERS)):
            return image, waited
        else:
            console.press("a")
        image = console.ram()
    return image, MAX_WAIT_STEPS


def has_control(image: Image) -> bool:
    """Return True if a script plays: the buttons are off, or no direction does anything."""
    off = byte(image, ram.STATUS_FLAGS_5) & ram.BUTTONS_OFF
    return bool(off) or byte(image, ram.JOY_IGNORE) & ram.DIRECTIONS == ram.DIRECTIONS


def _is_deaf(image: Image) -> bool:
    off = byte(image, ram.STATUS_FLAGS_5) & ram.BUTTONS_OFF
    return bool(off) or bool(byte(image, ram.JOY_IGNORE) & ram.BUTTON_A)


def _asks(image: Image) -> bool:
    """Return True if a box with two answers is open."""
    question = byte(image, ram.TEXT_BOX) == ram.QUESTION
    return question and byte(image, ram.MENU_LAST) == _ONE_OF_TWO
