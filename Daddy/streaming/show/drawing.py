"""Pure: what can be drawn, and in which colours.

The window is a list of these; whoever draws (``painter.py``) needs no idea of agents, and equal
lists need no drawing at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from Daddy.streaming.show.font import DEPTH, HEIGHT, fit, measure
from Daddy.streaming.show.layout import Rect

Colour = tuple[int, int, int]


class Box(NamedTuple):
    """A filled rectangle with a border."""

    rect: Rect
    fill: Colour
    border: Colour


class Text(NamedTuple):
    """One line of text; ``x, y`` is the top left of its letters."""

    x: int
    y: int
    text: str
    colour: Colour
    scale: int


class Picture(NamedTuple):
    """A game picture (row-major, 2 bits a pixel) in four shades, lightest first."""

    rect: Rect
    pixels: bytes
    shades: tuple[Colour, ...]


class Curve(NamedTuple):
    """A line through points, and the area below it down to ``floor``."""

    points: tuple[tuple[int, int], ...]
    colour: Colour
    area: Colour
    floor: int
    width: int


Draw = Box | Text | Picture | Curve
MOST_PLACES = 32
"""All things are gone through for each place; of more, the whole window is painted instead."""


def unpacked(pixels: bytes, shades: tuple[int, ...] = (0, 1, 2, 3)) -> bytes:
    """A game picture at a byte a pixel: which of ``shades`` it has, lightest first."""
    apart = bytearray(4 * len(pixels))
    for place, of_byte in enumerate(_of_bytes(shades)):
        apart[place::4] = pixels.translate(of_byte)
    return bytes(apart)


@lru_cache
def _of_bytes(shades: tuple[int, ...]) -> list[bytes]:
    """For each of the four pixels of a byte: its shade by the byte."""
    return [bytes(shades[byte >> bits & 3] for byte in range(256)) for bits in (6, 4, 2, 0)]


def extent(thing: Draw) -> Rect:
    """A rectangle with all of it inside."""
    if isinstance(thing, Text):
        tall = (HEIGHT + DEPTH) * thing.scale
        return Rect(thing.x, thing.y, measure(thing.text, thing.scale), tall)
    if isinstance(thing, Curve):
        xs, ys = [x for x, _ in thing.points], [y for _, y in thing.points]
        left, top = min(xs) - thing.width, min(*ys, thing.floor) - thing.width
        right, bottom = max(xs) + thing.width + 1, max(*ys, thing.floor) + thing.width + 1
        return Rect(left, top, right - left, bottom - top)
    return thing.rect


def changed(before: Sequence[Draw], after: Sequence[Draw]) -> set[Rect]:
    """Where painting ``after`` (its first thing is the whole window) gives other pixels: at most
    ``MOST_PLACES`` places, and the whole window where there would be more, as when a map changes.

    What is not in its old place in the list counts as changed, as order is what hides what.
    """
    whole = {extent(one) for one in after[:1]}
    if len(before) != len(after):
        return whole
    both = zip(before, after, strict=True)
    apart = [pair for pair in both if pair[0] is not pair[1] and pair[0] != pair[1]]
    places = {extent(one) for pair in apart for one in pair}
    return places if len(places) <= MOST_PLACES else whole


@dataclass(frozen=True, slots=True)
class Theme:
    """Four shades of the game's screen, lightest first, and two colours that call."""

    name: str
    shades: tuple[Colour, Colour, Colour, Colour]
    back: Colour
    panel: Colour
    accent: Colour = (248, 200, 88)
    alarm: Colour = (240, 112, 88)

    @property
    def ink(self) -> Colour:
        """What is to be read first."""
        return self.shades[0]

    @property
    def soft(self) -> Colour:
        """What is to be read second."""
        return self.shades[1]

    @property
    def faint(self) -> Colour:
        """Borders, and what need not be read."""
        return self.shades[2]


THEMES = (
    Theme(
        "lagoon",
        ((224, 248, 208), (136, 192, 112), (52, 104, 86), (8, 24, 32)),
        (6, 17, 23),
        (11, 32, 41),
    ),
    Theme(
        "pea",
        ((202, 220, 159), (155, 188, 15), (48, 98, 48), (15, 56, 15)),
        (8, 28, 10),
        (14, 44, 16),
    ),
    Theme(
        "silver",
        ((255, 255, 255), (168, 168, 168), (84, 84, 84), (0, 0, 0)),
        (12, 12, 14),
        (26, 26, 30),
    ),
    Theme(
        "clear",
        ((255, 255, 255), (160, 160, 160), (84, 92, 100), (0, 0, 0)),
        (0, 0, 0),
        (20, 24, 28),
        accent=(86, 180, 233),
        alarm=(230, 159, 0),
    ),
)
"""The last one is for everybody: greys, and the blue and orange that no kind of colour blindness
makes alike (Okabe and Ito, 2008)."""


def mix(colour: Colour, towards: Colour) -> Colour:
    """A third of ``colour``, the rest ``towards``."""
    red, green, blue = ((one + 2 * other) // 3 for one, other in zip(colour, towards, strict=True))
    return red, green, blue


def between(
    rect: Rect, y: int, scale: int, left: tuple[str, Colour], right: tuple[str, Colour]
) -> Iterator[Draw]:
    """A text at each end of a line; the left one gives way."""
    wide = measure(right[0], scale)
    gap = 4 * scale if right[0] else 0
    yield Text(rect.x, y, fit(left[0], rect.width - wide - gap, scale), left[1], scale)
    yield Text(rect.right - wide, y, right[0], right[1], scale)


def label(what: str, rect: Rect, text: int, colour: Colour, theme: Theme) -> Iterator[Draw]:
    """A framed text in the middle of ``rect``."""
    fitted = fit(what, rect.width - 8 * text, text)
    wide, pad = measure(fitted, text), 4 * text
    x = rect.x + (rect.width - wide) // 2
    y = rect.y + (rect.height - HEIGHT * text) // 2
    box = Rect(x - pad, y - pad, wide + 2 * pad, HEIGHT * text + 2 * pad)
    yield Box(box, theme.back, theme.faint)
    yield Text(x, y, fitted, colour, text)


def short(number: float) -> str:
    """A count that fits: ``9,876``, ``123.4k``, ``1.23M``."""
    if number < 10_000:  # noqa: PLR2004 - five digits and more are cut
        return f"{number:,.0f}"
    return f"{number / 1e3:.1f}k" if number < 1e6 else f"{number / 1e6:.2f}M"  # noqa: PLR2004
