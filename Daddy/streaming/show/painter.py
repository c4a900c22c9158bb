"""Door to pygame: paints what ``drawing.py`` lists, on a window's surface or into a PNG file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from Daddy.core.vocabulary import SCREEN_HEIGHT, SCREEN_WIDTH
from Daddy.streaming.show.drawing import (
    Box,
    Colour,
    Curve,
    Draw,
    Picture,
    Text,
    changed,
    extent,
    unpacked,
)
from Daddy.streaming.show.font import GAP, glyph
from Daddy.streaming.show.layout import Rect

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
import pygame

_LETTERS_KEPT = 4096


class Painter:
    """Keeps a surface up to date. Most of a window stays as it is, and is not touched."""

    def __init__(self) -> None:
        self._shown: Sequence[Draw] = ()
        self._extents: list[pygame.Rect] = []

    def update(self, surface: Any, things: Sequence[Draw]) -> list[Rect]:
        """Bring ``surface`` from what it was brought to last to ``things``, back to front; returns
        where it changed.
        """
        places = changed(self._shown, things)
        if not places:
            return []
        self._shown, self._extents = things, self._extents_of(things)
        for place in places:
            surface.set_clip(place)
            there = pygame.Rect(place).collidelistall(self._extents)
            paint(surface, [things[one] for one in there])
        surface.set_clip(None)
        return list(places)

    def forget(self) -> None:
        """The next surface has nothing on it."""
        self._shown, self._extents = (), []

    def _extents_of(self, things: Sequence[Draw]) -> list[pygame.Rect]:
        """The extents of ``things``; those of things that stayed are taken over.

        As pygame has them: tuples are made into these anew at every look.
        """
        if len(things) != len(self._extents):
            return [pygame.Rect(extent(one)) for one in things]
        before = zip(things, self._shown, self._extents, strict=True)
        return [at if one is same else pygame.Rect(extent(one)) for one, same, at in before]


def paint(surface: Any, things: Iterable[Draw]) -> None:
    """Paint ``things`` in their order. What a clip leaves of them is as without it."""
    for thing in things:
        if isinstance(thing, Box):
            _box(surface, thing)
        elif isinstance(thing, Text):
            _text(surface, thing)
        elif isinstance(thing, Picture):
            _picture(surface, thing)
        else:
            _curve(surface, thing)


def save(surface: Any, path: Path) -> None:
    """Write a PNG file; one that is there is replaced whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".tmp-{path.stem}.png")
    pygame.image.save(surface, str(temp))
    temp.replace(path)


def _box(surface: Any, what: Box) -> None:
    """In fills: pygame's outlines come out otherwise where a clip cuts them."""
    x, y, wide, tall = what.rect
    surface.fill(what.border, what.rect)
    surface.fill(what.fill, (x + 1, y + 1, max(0, wide - 2), max(0, tall - 2)))


def _text(surface: Any, what: Text) -> None:
    x = what.x
    for char in what.text:
        letter = _letter(char, what.colour, what.scale)
        surface.blit(letter, (x, what.y))
        x += letter.get_width() + GAP * what.scale


@lru_cache(_LETTERS_KEPT)
def _letter(char: str, colour: Colour, scale: int) -> Any:
    rows = glyph(char)
    size = (len(rows[0]) * scale, len(rows) * scale)
    surface = pygame.Surface(size, pygame.SRCALPHA)
    for y, row in enumerate(rows):
        for x, ink in enumerate(row):
            if ink == "#":
                surface.fill(colour, (x * scale, y * scale, scale, scale))
    return surface


def _picture(surface: Any, what: Picture) -> None:
    size = (SCREEN_WIDTH, SCREEN_HEIGHT)
    image = pygame.image.frombuffer(unpacked(what.pixels), size, "P")
    image.set_palette([*what.shades, *[(0, 0, 0)] * (256 - len(what.shades))])
    surface.blit(pygame.transform.scale(image, what.rect[2:]), what.rect[:2])


def _curve(surface: Any, what: Curve) -> None:
    """On a sheet of its own first: a line that a clip cuts has other pixels."""
    left, top, *size = extent(what)
    sheet = pygame.Surface(size, pygame.SRCALPHA)
    points = [(x - left, y - top) for x, y in what.points]
    area = [*points, (points[-1][0], what.floor - top), (points[0][0], what.floor - top)]
    pygame.draw.polygon(sheet, what.area, area)
    pygame.draw.lines(sheet, what.colour, closed=False, points=points, width=what.width)
    surface.blit(sheet, (left, top))
