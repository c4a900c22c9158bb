"""Pure. Defines the items that a window is drawn from; ``pygame_window.Painter`` paints them.

All letters have one width, so text is laid out without a font. Equal item lists are not painted.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

LINE = 11
"""Rows from one line of text to the next, in letter pixels."""
PAD = 4


class TextPosition(Enum):
    """Lists positions of a panel's text, with the width and height needed in letter pixels."""

    BELOW = (2 * PAD, 8 * LINE)
    BESIDE = (3 * PAD + 120, 2 * PAD + 2)
    COMPACT = (2 * PAD, 4 * LINE + PAD)
    BARE = (2 * PAD, LINE + PAD + 2)


class Rect(NamedTuple):
    """Describes a rectangle in window pixels."""

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
    """Holds the rectangles of one agent's panel: frame, picture, text, and the text's position."""

    frame: Rect
    picture: Rect
    words: Rect
    position: TextPosition


HEIGHT = 7
DEPTH = 3
ADVANCE = 6
"""Pixels of a letter at scale 1: above the baseline, below it, and to the next letter."""
ELLIPSIS = "…"
BADGES = "●▼★✿♥◆▲■"
"""Eight signs, one per badge, that differ in shape and not in colour only."""


def text_width(text: str, scale: int) -> int:
    """Return the width of ``text`` in pixels."""
    return len(text) * ADVANCE * scale


def fit_text(text: str, width: int, scale: int) -> str:
    """Return ``text``, shortened with an ellipsis to at most ``width`` pixels."""
    room = max(0, width // (ADVANCE * scale))
    if len(text) <= room:
        return text
    return text[: room - 1].rstrip() + ELLIPSIS if room > 1 else ""


Colour = tuple[int, int, int]


class Box(NamedTuple):
    """Draws a filled rectangle with a border."""

    rect: Rect
    fill: Colour
    border: Colour


class Text(NamedTuple):
    """Draws one line of text; ``x, y`` is the top left of its letters."""

    x: int
    y: int
    text: str
    colour: Colour
    scale: int


class GamePicture(NamedTuple):
    """Draws a game picture (row-major, 2 bits a pixel) in four shades, lightest first."""

    rect: Rect
    pixels: bytes
    shades: tuple[Colour, ...]


class Curve(NamedTuple):
    """Draws a line through points, and fills the area from it down to row ``floor``."""

    points: tuple[tuple[int, int], ...]
    colour: Colour
    area: Colour
    floor: int
    width: int


Item = Box | Text | GamePicture | Curve
MOST_PLACES = 32
"""Most areas repainted one by one, as each needs a pass over all items; above, the window is."""


def unpack_pixels(pixels: bytes, shades: tuple[int, ...] = (0, 1, 2, 3)) -> bytes:
    """Return one byte per pixel of a game picture: the entry of ``shades`` for its shade."""
    apart = bytearray(4 * len(pixels))
    for place, of_byte in enumerate(_of_bytes(shades)):
        apart[place::4] = pixels.translate(of_byte)
    return bytes(apart)


@lru_cache
def _of_bytes(shades: tuple[int, ...]) -> list[bytes]:
    """Return translation tables from a byte to the shade of each of its four pixels."""
    return [bytes(shades[byte >> bits & 3] for byte in range(256)) for bits in (6, 4, 2, 0)]


def bounding_box(item: Item) -> Rect:
    """Return a rectangle that contains the whole ``item``, in window pixels."""
    if isinstance(item, Text):
        tall = (HEIGHT + DEPTH) * item.scale
        return Rect(item.x, item.y, text_width(item.text, item.scale), tall)
    if isinstance(item, Curve):
        xs, ys = [x for x, _ in item.points], [y for _, y in item.points]
        left, top = min(xs) - item.width, min(*ys, item.floor) - item.width
        right, bottom = max(xs) + item.width + 1, max(*ys, item.floor) + item.width + 1
        return Rect(left, top, right - left, bottom - top)
    return item.rect


def changed_areas(before: Sequence[Item], after: Sequence[Item]) -> set[Rect]:
    """Return the areas with other pixels in ``after``, whose first item is the whole window.

    Return the whole window if there are more than ``MOST_PLACES`` areas, as when a map changes. An
    item that moved in the list counts as changed, because later items hide earlier ones.
    """
    whole = {bounding_box(item) for item in after[:1]}
    if len(before) != len(after):
        return whole
    both = zip(before, after, strict=True)
    changed = [pair for pair in both if pair[0] is not pair[1] and pair[0] != pair[1]]
    areas = {bounding_box(item) for pair in changed for item in pair}
    return areas if len(areas) <= MOST_PLACES else whole


class Theme(NamedTuple):
    """Holds four shades of the game's screen, lightest first, and colours of window and alerts."""

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
"""The last theme is for colour-blind people: greys, and a blue and an orange that differ for every
kind of colour blindness (Okabe and Ito, 2008)."""


def mix_colours(colour: Colour, towards: Colour, part: float = 1 / 3) -> Colour:
    """Return ``part`` of ``colour`` (default a third) mixed with the rest of ``towards``."""
    pairs = zip(colour, towards, strict=True)
    red, green, blue = (int(theirs + part * (ours - theirs)) for ours, theirs in pairs)
    return red, green, blue


def draw_both_ends(
    rect: Rect, y: int, scale: int, left: tuple[str, Colour], right: tuple[str, Colour]
) -> Iterator[Item]:
    """Draw a text at each end of a line; shorten the left text to fit."""
    wide = text_width(right[0], scale)
    gap = 4 * scale if right[0] else 0
    yield Text(rect.x, y, fit_text(left[0], rect.width - wide - gap, scale), left[1], scale)
    yield Text(rect.right - wide, y, right[0], right[1], scale)


def draw_label(
    label: str, rect: Rect, text: int, colour: Colour, theme: Theme, *, corner: bool = False
) -> Iterator[Item]:
    """Draw a framed text in the middle of ``rect``, or in its upper right corner."""
    pad = 4 * text
    fitted = fit_text(label, rect.width - 2 * pad, text)
    wide, tall = text_width(fitted, text), HEIGHT * text
    x = rect.right - wide - pad if corner else rect.x + (rect.width - wide) // 2
    y = rect.y + pad if corner else rect.y + (rect.height - tall) // 2
    yield Box(Rect(x - pad, y - pad, wide + 2 * pad, tall + 2 * pad), theme.back, theme.faint)
    yield Text(x, y, fitted, colour, text)
