"""Pure: a scene as one message to a browser, which says what it has and gets only what is new.

A message is a u32 (little-endian), so many bytes of JSON, and then pictures of ``SCREEN_BYTES``
each, as the game has them: row-major, 2 bits a pixel, four a byte. The JSON:

- ``tags`` name the ``facts`` and the ``world`` (maps, course), each there only when the browser's
  differs;
- ``live``: for each panel the tag of its picture (``""`` for none), its age and silence in seconds;
- ``new``: tags of the pictures that follow, in their order.

A tag is a hash of what it names. So the server remembers nothing of any browser, and an answer that
was lost or never drawn costs nothing.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Collection
from functools import lru_cache
from typing import Any, NamedTuple

from Daddy.streaming.home.history import Place, World
from Daddy.streaming.home.scene import Panel, Scene
from Daddy.streaming.show.drawing import THEMES, Colour, Theme
from Daddy.streaming.show.font import BADGES, glyph
from Daddy.streaming.show.window import Waiting
from Daddy.streaming.wire.auth import copy_line

LENGTH = struct.Struct("<I")
TAG_BYTES = 8
MAPS = 4
"""Maps on a page, as many as in the window."""


class Had(NamedTuple):
    """What a browser has: the tags of its facts, of its world, and those of its pictures."""

    facts: str = ""
    world: str = ""
    pictures: Collection[str] = ()


def tag(data: bytes) -> str:
    """16 hexadecimal digits that name ``data``."""
    return hashlib.blake2b(data, digest_size=TAG_BYTES).hexdigest()


def pack(scene: Scene, top_k: int, waiting: Waiting, had: Had) -> tuple[bytes, bool]:
    """The message for a browser that has ``had``, and whether it holds anything but ages."""
    facts, world = to_json(_facts(scene, top_k, waiting)), _world(scene.world)
    tags = {"facts": tag(facts), "world": tag(world)}
    pictures = {tag(one.pixels): one.pixels for one in scene.panels if one.pixels}
    new = [name for name in pictures if name not in had.pictures]
    head: dict[str, Any] = {
        "tags": tags,
        "live": [_live(panel) for panel in scene.panels],
        "new": new,
    }
    if tags["facts"] != had.facts:
        head["facts"] = json.loads(facts)
    if tags["world"] != had.world:
        head["world"] = json.loads(world)
    body = to_json(head)
    message = LENGTH.pack(len(body)) + body + b"".join(pictures[name] for name in new)
    return message, bool(new) or "facts" in head or "world" in head


def to_json(value: object) -> bytes:
    """Compact JSON; ``<`` and ``&`` never stand in it as such, whatever a name holds."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return text.replace("<", "\\u003c").replace("&", "\\u0026").encode()


def style() -> bytes:
    """What the page looks like, as JSON: the window's palettes and the shapes of its badges."""
    themes = [_theme(one) for one in THEMES]
    return to_json({"themes": themes, "badges": [glyph(icon) for icon in BADGES]})


def _theme(theme: Theme) -> dict[str, Any]:
    return {
        "name": theme.name,
        "shades": theme.shades,
        "back": _css(theme.back),
        "panel": _css(theme.panel),
        "accent": _css(theme.accent),
        "alarm": _css(theme.alarm),
    }


def _css(colour: Colour) -> str:
    return "#" + bytes(colour).hex()


def _facts(scene: Scene, top_k: int, waiting: Waiting) -> dict[str, Any]:
    """All that a page shows but pictures and ages, so that equal facts need no telling again."""
    return {
        "top_k": top_k,
        "connected": scene.connected,
        "transport": scene.transport,
        "trouble": scene.trouble,
        "port": waiting.port,
        "ssh_line": waiting.ssh_line,
        "token_line": copy_line(waiting.login) if "token" in scene.trouble else "",
        "runs": [one.run for one in scene.statuses],
        "jobs": sum(len(one.peers) for one in scene.statuses),
        "agents": sum(one.agents for one in scene.statuses),
        "steps": sum(one.steps for one in scene.statuses),
        "steps_per_s": round(sum(one.steps_per_s for one in scene.statuses)),
        "best": max((one.best for one in scene.statuses), default=0),
        "way": scene.way,
        "panels": [_panel(one) for one in scene.panels],
        "next_up": scene.next_up,
        "notes": scene.notes[::-1],
    }


def _panel(panel: Panel) -> dict[str, Any]:
    row = panel.row
    return {
        "name": panel.name,
        "host": panel.peer.host,
        "job": panel.peer.job,
        "map": panel.map_name,
        "score": row.score,
        "badges": row.badges,
        "flags": row.story_flags,
        "level": row.level,
        "return": round(row.episode_return, 1),
        "step": row.step,
        "stale": panel.stale,
        "returns": [round(value, 1) for value in panel.returns],
    }


@lru_cache(maxsize=4)
def _world(world: World) -> bytes:
    """Where everybody is and how the run goes. A page asks sixty times between two of them."""
    return to_json({"places": [_place(one) for one in world.places[:MAPS]], "course": world.course})


def _place(place: Place) -> dict[str, Any]:
    return {
        "name": place.name,
        "dots": [(dot.x, dot.y, dot.place) for dot in place.dots],
        "trails": place.trails,
        "heat": [(*cell, round(share, 2)) for cell, share in place.heat],
    }


def _live(panel: Panel) -> tuple[str, float, float]:
    picture = tag(panel.pixels) if panel.pixels else ""
    return picture, round(panel.age_s, 2), round(panel.silent_s, 1)
