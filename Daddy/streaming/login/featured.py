"""The featured agents' last pictures as a file of the run, for reports made after the fact."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.errors import FileError
from Daddy.core.files import read_json, write_json
from Daddy.streaming.login.programme import Programme
from Daddy.streaming.wire import codec

_NAME = "featured.json"


@dataclass(frozen=True, slots=True)
class FeaturedPicture:
    """One featured agent: who, how far, and its last picture (row-major, ``SCREEN_BYTES``)."""

    peer: str
    agent: int
    host: str
    badges: int
    story_flags: int
    level: int
    map_name: str
    episode_return: float
    step: int
    pixels: bytes


def write_featured(stream: Path, pictures: Sequence[FeaturedPicture]) -> None:
    """Replace the record; one writer (the relay)."""
    agents = [
        {
            **{name: getattr(one, name) for name in FeaturedPicture.__slots__ if name != "pixels"},
            "picture": base64.b64encode(codec.encode(one.pixels)).decode(),
        }
        for one in pictures
    ]
    write_json(stream / _NAME, {"v": 1, "agents": agents})


def read_featured(stream: Path) -> list[FeaturedPicture]:
    """The last pictures, best place first; empty when there are none."""
    try:
        agents = read_json(stream / _NAME)["agents"]
        return [_read(dict(one)) for one in agents]
    except (OSError, FileError, KeyError, TypeError, ValueError):
        return []


def _read(raw: dict[str, object]) -> FeaturedPicture:
    pixels = codec.decode(base64.b64decode(str(raw.pop("picture"))))
    return FeaturedPicture(**raw, pixels=pixels)  # type: ignore[arg-type]


def last_pictures(programme: Programme, now: float) -> list[FeaturedPicture]:
    """The newest picture of everybody who is featured."""
    status, rows = programme.status(now), programme.rows(now)
    pictures = []
    for key, channel in programme.channels.items():
        row = next((one for one in rows if one.stream == channel.stream), None)
        if row and channel.last:
            pictures.append(
                FeaturedPicture(
                    key.peer,
                    key.agent,
                    status.peers[row.peer].host,
                    row.badges,
                    row.story_flags,
                    row.level,
                    status.maps.get(row.map_id, f"map {row.map_id}"),
                    row.episode_return,
                    row.step,
                    channel.last.pixels,
                )
            )
    return pictures
