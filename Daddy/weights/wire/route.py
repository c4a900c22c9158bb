"""Pure: which frames a laptop fetches to come to the version that is offered."""

from __future__ import annotations

from dataclasses import dataclass

from Daddy.weights.records.notices import Keyframe, Part


@dataclass(frozen=True, slots=True)
class Route:
    """Frames in the order in which they are decoded, their bytes together, and why these.

    Without frames the plain file is fetched.
    """

    parts: tuple[Part, ...]
    size: int
    reason: str


def cheapest(frame: Keyframe, held: str) -> Route:
    """The fewest bytes to the version of ``frame`` for whoever holds the state with hash ``held``.

    ``held`` is empty where there is none. Ways of equal size: the first found, the plain file last.
    """
    best: dict[str, tuple[Part, ...]] = {held: (), "": ()}
    for part in sorted(frame.parts, key=lambda one: (one.version, bool(one.base_sha256))):
        if part.base_sha256 in best:
            way = (*best[part.base_sha256], part)
            known = best.get(part.sha256)
            if known is None or _size(way) < _size(known):
                best[part.sha256] = way
    way = best.get(frame.sha256, ())
    if not way or _size(way) >= frame.size:
        return plain(frame, "nothing smaller leads there")
    if way[0].base_sha256:
        return Route(way, _size(way), f"{len(way)} step(s) from what is here")
    return Route(way, _size(way), "whole: what is here is too far away" if held else "whole")


def plain(frame: Keyframe, reason: str) -> Route:
    """The file that every laptop understands."""
    return Route((), frame.size, reason)


def _size(way: tuple[Part, ...]) -> int:
    return sum(part.size for part in way)
