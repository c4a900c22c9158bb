"""Pure. Shapes, colours and letters: the window is a list of these, painted by ``window.Painter``.

Every letter is as wide as the others, so that a text is laid out without its font. Equal lists need
no painting at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

LINE = 11
"""Rows from one line of text to the next, in letter pixels."""
PAD = 4


class Style(Enum):
    """A place for a panel's words, and their width and height in letter pixels."""

    BELOW = (2 * PAD, 8 * LINE)
    BESIDE = (3 * PAD + 120, 2 * PAD + 2)
    COMPACT = (2 * PAD, 4 * LINE + PAD)
    BARE = (2 * PAD, LINE + PAD + 2)


class Rect(NamedTuple):
    """A rectangle in window pixels."""

    x: int
    y: int
    width: int
    height: int

    @property
    def right(self) -> int:
        return self.x + self.width

    @property
    def bottom(self) -> int:
        return self.y + self.height


class PanelLayout(NamedTuple):
    """One agent's place: its frame, the picture in it, the words, and how they stand."""

    frame: Rect
    picture: Rect
    words: Rect
    style: Style


HEIGHT = 7
DEPTH = 3
ADVANCE = 6
"""Pixels of a letter at scale 1: above the line, below it, and from one to the next."""
ELLIPSIS = "…"
BADGES = "●▼★✿♥◆▲■"
"""Eight signs, one a badge: told apart by shape, not by colour."""


def measure(text: str, scale: int) -> int:
    """Width of ``text`` in pixels."""
    return len(text) * ADVANCE * scale


def fit(text: str, width: int, scale: int) -> str:
    """``text``, shortened with an ellipsis until it is at most ``width`` pixels wide."""
    room = max(0, width // (ADVANCE * scale))
    if len(text) <= room:
        return text
    return text[: room - 1].rstrip() + ELLIPSIS if room > 1 else ""


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
    """Places with other pixels in ``after`` (its first thing is the whole window): at most
    ``MOST_PLACES`` places, and the whole window where there would be more, as when a map changes.

    A thing that moved in the list counts as changed, as a later thing hides an earlier one.
    """
    whole = {extent(one) for one in after[:1]}
    if len(before) != len(after):
        return whole
    both = zip(before, after, strict=True)
    apart = [pair for pair in both if pair[0] is not pair[1] and pair[0] != pair[1]]
    places = {extent(one) for pair in apart for one in pair}
    return places if len(places) <= MOST_PLACES else whole


class Theme(NamedTuple):
    """Four shades of the game's screen, lightest first, and two colours that call."""

    name: str
    shades: tuple[Colour, Colour, Colour, Colour]
    back: Colour
    panel: Colour
    accent: Colour = (248, 200, 88)
    alarm: Colour = (240, 112, 88)

    @property
    def ink(self) -> Colour:
        return self.shades[0]

    @property
    def soft(self) -> Colour:
        return self.shades[1]

    @property
    def faint(self) -> Colour:
        return self.shades[2]


THEMES = (
    Theme(
        "lagoon",
        ((224, 248, 208), (136, 192, 112), (52, 104, 86), (8, 24, 32)),
        (6, 17, 23),
        (11, 32, 41),
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


def mix(colour: Colour, towards: Colour, part: float = 1 / 3) -> Colour:
    """Mix ``part`` of ``colour`` (a third) with the rest of ``towards``."""
    pairs = zip(colour, towards, strict=True)
    red, green, blue = (int(other + part * (one - other)) for one, other in pairs)
    return red, green, blue


def between(
    rect: Rect, y: int, scale: int, left: tuple[str, Colour], right: tuple[str, Colour]
) -> Iterator[Draw]:
    """A text at each end of a line; the left one gives way."""
    wide = measure(right[0], scale)
    gap = 4 * scale if right[0] else 0
    yield Text(rect.x, y, fit(left[0], rect.width - wide - gap, scale), left[1], scale)
    yield Text(rect.right - wide, y, right[0], right[1], scale)


def label(
    what: str, rect: Rect, text: int, colour: Colour, theme: Theme, *, corner: bool = False
) -> Iterator[Draw]:
    """A framed text in the middle of ``rect``, or in its upper right corner."""
    pad = 4 * text
    fitted = fit(what, rect.width - 2 * pad, text)
    wide, tall = measure(fitted, text), HEIGHT * text
    x = rect.right - wide - pad if corner else rect.x + (rect.width - wide) // 2
    y = rect.y + pad if corner else rect.y + (rect.height - tall) // 2
    yield Box(Rect(x - pad, y - pad, wide + 2 * pad, tall + 2 * pad), theme.back, theme.faint)
    yield Text(x, y, fitted, colour, text)
