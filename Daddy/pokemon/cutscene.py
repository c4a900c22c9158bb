"""Waits in place of the agent while a script has control of the game.

While no button works, no key is pressed; while only A and B work (a text), A is pressed. The wait
stops at a question, which the agent answers, and is bounded; the caller counts its steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.memory_decoding import Image, byte

if TYPE_CHECKING:
    from Daddy.pokemon.emulator import Emulator

MAX_WAIT_STEPS: Final = 20
"""Steps of 24 frames that a wait may last: 8 s of the game. Another wait follows if need be."""
_ONE_OF_TWO: Final = 1


def wait_for_control(console: Emulator) -> tuple[Image, int]:
    """Wait for the script's end or question; return the memory, and the steps waited (0 to 20)."""
    image = console.ram()
    for waited in range(MAX_WAIT_STEPS):
        if not has_control(image):
            return image, waited
        if _ignores_a(image):
            console.idle()
        elif _asks_question(console.ram(ram.ANSWERS)):
            return image, waited
        else:
            console.press("a")
        image = console.ram()
    return image, MAX_WAIT_STEPS


def has_control(image: Image) -> bool:
    """Return True if a script has control: all buttons are off, or direction keys are ignored."""
    off = byte(image, ram.STATUS_FLAGS_5) & ram.BUTTONS_OFF
    return bool(off) or byte(image, ram.JOY_IGNORE) & ram.DIRECTIONS == ram.DIRECTIONS


def _ignores_a(image: Image) -> bool:
    off = byte(image, ram.STATUS_FLAGS_5) & ram.BUTTONS_OFF
    return bool(off) or bool(byte(image, ram.JOY_IGNORE) & ram.BUTTON_A)


def _asks_question(image: Image) -> bool:
    """Return True if the game shows a box with two answers (a question)."""
    question = byte(image, ram.TEXT_BOX) == ram.QUESTION
    return question and byte(image, ram.MENU_LAST) == _ONE_OF_TWO
