"""Pure. Encodes a state with its provenance as bytes and decodes it.

The format: a magic, the length of a JSON header, the header, and the bytes of an environment's
state (`Daddy.pokemon.save_state`). Nothing is executed when it is read; a state that is damaged,
foreign or made with assists that are not in use is refused by name.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from Daddy.core.assists import strange
from Daddy.core.errors import FileError
from Daddy.pokemon.archive import archive_keys as keys
from Daddy.pokemon.archive.file_names import UNTOLD, Entry

MAGIC: Final = b"DADDYARC"
FORMAT: Final = 1
STATE_LIMIT: Final = 1 << 20
"""Bytes of the largest record that is read: fifty times a usual one."""
_LENGTHS = struct.Struct("<8sI")
_REFUSED = "it is passed over; remove it when you like"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of a state. `held`: its milestones and its place, sorted.

    `parent`: hash of the state it was reached from, "" from the start of the game. `step`: steps
    its environment had lived. `origin`: "played", or the claim that was played again. `slot` is
    None for a learner started by hand. `hp`: of the whole party, added up. `assists`: those in use
    then, and so its parents' too. `claim`: the one that leads here (`claims.ident`), "" without
    one: of an older release, or reached from such a state.
    """

    held: tuple[str, ...]
    parent: str
    origin: str
    slot: int | None
    step: int
    seed: int | None
    release: str
    rom_sha1: str
    pyboy: str
    assists: tuple[str, ...] = ()
    hp: int = 0
    claim: str = ""

    @property
    def rank(self) -> int:
        """Number of required milestones."""
        return keys.rank(self.held)

    @property
    def key(self) -> str:
        """The name of its milestones and place."""
        return keys.ident(self.held)

    def entry(self, sha256: str, *, told: bool = True) -> Entry:
        """The entry of its state; `told`: its name says the place and the HP."""
        place, hp = (keys.place(self.held), self.hp) if told else ("", UNTOLD)
        return Entry(self.rank, self.key, place, hp, self.step, sha256)


@dataclass(frozen=True, slots=True)
class Kin:
    """Game, emulator and assists that a state must have been made with to be loaded here."""

    rom_sha1: str
    pyboy: str
    assists: tuple[str, ...] = ()


def to_bytes(provenance: Provenance, state: bytes) -> bytes:
    """One record. The same provenance and state have the same bytes."""
    header = json.dumps({"format": FORMAT, **asdict(provenance)}, sort_keys=True).encode()
    return _LENGTHS.pack(MAGIC, len(header)) + header + state


def from_bytes(data: bytes, kin: Kin, name: str) -> tuple[Provenance, bytes]:
    """Provenance and state in `data`; FileError naming `name` when it is damaged or foreign."""
    try:
        magic, length = _LENGTHS.unpack_from(data)
        header, state = data[_LENGTHS.size :][:length], data[_LENGTHS.size + length :]
        if magic != MAGIC or len(header) != length or not state:
            raise ValueError(f"{len(data)} bytes that begin with {data[:8]!r}")
        provenance = _provenance(json.loads(header))
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise FileError(f"{name} is damaged: {error}", _REFUSED) from error
    if foreign := _difference(provenance, kin):
        raise FileError(f"{name} is not for this run: {foreign}", _REFUSED)
    return provenance, state


def _provenance(facts: Mapping[str, Any]) -> Provenance:
    fields = dict(facts)
    if fields.pop("format") != FORMAT:
        raise ValueError(f"format {facts['format']}, here it is {FORMAT}")
    for name in ("held", "assists"):
        fields[name] = tuple(_words(fields[name]))
    for name in ("parent", "origin", "release", "rom_sha1", "pyboy"):
        if not isinstance(fields[name], str):
            raise TypeError(f"{name} is {fields[name]!r}")
    for name in ("slot", "step", "seed"):
        if not isinstance(fields[name], int | None):
            raise TypeError(f"{name} is {fields[name]!r}")
    if not isinstance(fields.get("claim", ""), str):
        raise TypeError(f"claim is {fields['claim']!r}")
    if not isinstance(fields.get("hp", 0), int):
        raise TypeError(f"hp is {fields['hp']!r}")
    return Provenance(**fields)


def _words(value: object) -> Iterable[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise TypeError(f"{value!r} is no list of words")
    return value


def _difference(provenance: Provenance, kin: Kin) -> str:
    """Reason why this kind of run cannot load a state; "" when it can."""
    for name in ("rom_sha1", "pyboy"):
        theirs, ours = getattr(provenance, name), getattr(kin, name)
        if theirs != ours:
            return f"{name} {theirs}, here it is {ours}"
    foreign = strange(provenance.assists, kin.assists)
    return f"it was reached with the assists {foreign}" if foreign else ""
