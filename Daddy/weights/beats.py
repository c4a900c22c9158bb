"""Signs of life: each process's heartbeat in a folder of its own; friends' are only read.

A heartbeat is a counter that moves. No torch.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Daddy.core.errors import FileError
from Daddy.core.files import JSON_LIMIT, parse_json, read_bounded, to_json
from Daddy.core.friend_accounts import Outbox
from Daddy.core.names import WRITER
from Daddy.weights.store.store import Store
from Daddy.weights.store.strict_json import INCARNATION


@dataclass(frozen=True, slots=True)
class Pulse:
    """One process's heartbeat: a counter that moves, the version it stands on, whether it left.

    As read: ``path``, the ``notes`` beside, whether the process counts as a laptop, and the ``uid``
    of its account where that is not ours.
    """

    peer: str
    incarnation: str
    counter: int
    version: int
    left: bool
    path: Path = Path()
    notes: Mapping[str, Any] = field(default_factory=dict, compare=False)
    laptop: bool = False
    uid: int | None = None


def beat(store: Store, pulse: Pulse, notes: Mapping[str, object]) -> None:
    """Prove life in the process's own folder."""
    body = {
        **notes,
        "counter": pulse.counter,
        "version": pulse.version,
        "left": pulse.left,
    }
    folder = store.paths.peer(pulse.peer, pulse.incarnation)
    store.durable.replace(folder / "hb.json", to_json(body), "beat", sync=False)


def pulses(store: Store) -> list[Pulse]:
    """Every readable heartbeat, those of other accounts included."""
    found = (_read(folder, box) for box, folder in _incarnations(store))
    return [pulse for pulse in found if pulse is not None]


def authors(store: Store) -> set[str]:
    """Every process that has a folder: its sequence numbers must not be forgotten."""
    return {f"{folder.parent.name}/{folder.name}" for _, folder in _incarnations(store)}


def own_incarnations(store: Store) -> Iterator[Path]:
    """The folder of every process of our own account."""
    for peer in folders(store.paths.peers, WRITER):
        yield from folders(peer, INCARNATION)


def _incarnations(store: Store) -> Iterator[tuple[Outbox | None, Path]]:
    """Every process's folder, and whose it is; None: our own account's."""
    yield from ((None, folder) for folder in own_incarnations(store))
    for box in store.visible():
        yield from ((box, folder) for folder in box.incarnations())


def folders(parent: Path, form: re.Pattern[str]) -> list[Path]:
    """What is a folder in ``parent``, and no link to one, under a name of that form."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return sorted(
            path
            for path in parent.iterdir()
            if form.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
        )
    return []


def _read(folder: Path, box: Outbox | None) -> Pulse | None:
    path, uid = folder / "hb.json", box.uid if box else None
    try:
        body = parse_json(read_bounded(path, JSON_LIMIT, uid), str(path))
        return Pulse(
            folder.parent.name,
            folder.name,
            int(body["counter"]),
            int(body["version"]),
            bool(body["left"]),
            path,
            body,
            laptop=box is not None and box.laptop,
            uid=uid,
        )
    except (FileNotFoundError, FileError, KeyError, TypeError, ValueError, OverflowError):
        return None
