"""The newest complete, verified version in a folder that was pulled (or shared). No torch.

A version is complete when its head names it and its file has the promised size and hash; the file
is read once, hashed in memory, and those bytes are what is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.assists import strange
from Daddy.core.errors import FileError, WeightsError
from Daddy.core.files import read_bounded, sha256_hex
from Daddy.weights.store.records import Keyframe, parse
from Daddy.weights.store.strict_json import LIMIT

PREVIOUS = "HEAD.previous.json"
"""The head before the newest: what is used when the newest file turns out to be damaged."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A version whose bytes have been checked, and where they come from."""

    version: int
    sha256: str
    data: bytes
    frame: Keyframe
    warning: str = ""


def newest_verified(shared_dir: Path) -> Verified | None:
    """The newest version below ``shared_dir``; None when nothing was pulled yet.

    A damaged newest version falls back to the one before, with a ``warning``; WeightsError when
    neither can be used.
    """
    frame = read_frame(shared_dir / "wan" / "HEAD.json")
    if frame is None:
        return None
    try:
        return read_version(shared_dir, frame)
    except WeightsError as damage:
        older = read_frame(shared_dir / "wan" / PREVIOUS)
        if older is None or older.name == frame.name:
            raise
        found = read_version(shared_dir, older)
        said = f"{damage.message}; using v{older.version} instead"
        return Verified(found.version, found.sha256, found.data, older, said)


def refuse_strange(frame: Keyframe, assists: Iterable[str]) -> None:
    """WeightsError for a version learnt with scripted helps that are not in use here."""
    if foreign := strange(frame.assists, assists):
        raise WeightsError(
            f"v{frame.version} of run {frame.run!r} was learnt with the assists {foreign}, which "
            "are not in use here",
            f"say --assists {','.join(frame.assists)}, or take the weights of a run without them",
        )


def read_frame(path: Path) -> Keyframe | None:
    """A head, None when there is none; WeightsError when it is damaged."""
    try:
        return parse(Keyframe, read_bounded(path, LIMIT), str(path))
    except FileNotFoundError:
        return None
    except FileError as error:
        raise WeightsError(error.message, error.fix) from error


def read_version(shared_dir: Path, frame: Keyframe, path: Path | None = None) -> Verified:
    """The bytes that ``frame`` names (or those in ``path``), verified.

    WeightsError when missing, truncated or damaged.
    """
    path = path or shared_dir / "wan" / frame.name
    fix = "run sync_weights.sh pull again: it fetches only what verifies"
    try:
        data = read_bounded(path, frame.size)
    except FileNotFoundError as error:
        raise WeightsError(f"{path} is missing", fix) from error
    except FileError as error:
        raise WeightsError(error.message, fix) from error
    if len(data) != frame.size:
        raise WeightsError(f"{path} has {len(data)} of {frame.size} bytes", fix)
    if sha256_hex(data) != frame.sha256:
        raise WeightsError(f"{path} does not have the hash its head promises", fix)
    return Verified(frame.version, frame.sha256, data, frame)
