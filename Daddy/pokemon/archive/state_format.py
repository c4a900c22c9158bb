"""Pure. Encodes a state with its provenance as bytes and decodes it.

The format: a magic, the length of a JSON header, the header, and the bytes of an environment's
state (`Daddy.pokemon.env_state_format`). Nothing is executed when it is read; a state that is
damaged, foreign or made with assists that are not in use is refused by name.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass
from typing import Final

from pydantic import ConfigDict, TypeAdapter

from Daddy.core.assist_rules import missing_assists
from Daddy.core.errors import FileError
from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.file_names import StateEntry

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
    then, and so its parents' too. `claim`: the one that leads here (`claim_format.ident`), ""
    without one: reached from a state without one.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

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

    def entry(self, sha256: str) -> StateEntry:
        """The entry of its state."""
        place = keys.place_hash(self.held)
        return StateEntry(
            keys.rank(self.held), keys.key_hash(self.held), place, self.hp, self.step, sha256
        )


_PROVENANCE = TypeAdapter(Provenance)


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Game, emulator and assists that a state must have been made with to be loaded here."""

    rom_sha1: str
    pyboy: str
    assists: tuple[str, ...] = ()


def encode_state(provenance: Provenance, state: bytes) -> bytes:
    """One record. The same provenance and state have the same bytes."""
    header = json.dumps({"format": FORMAT, **asdict(provenance)}, sort_keys=True).encode()
    return _LENGTHS.pack(MAGIC, len(header)) + header + state


def decode_state(data: bytes, kin: Compatibility, name: str) -> tuple[Provenance, bytes]:
    """Provenance and state in `data`; FileError naming `name` when it is damaged or foreign."""
    try:
        magic, length = _LENGTHS.unpack_from(data)
        header, state = data[_LENGTHS.size :][:length], data[_LENGTHS.size + length :]
        if magic != MAGIC or len(header) != length or not state:
            raise ValueError(f"{len(data)} bytes that begin with {data[:8]!r}")
        facts = json.loads(header)
        if facts.pop("format") != FORMAT:
            raise ValueError(f"another format than {FORMAT}")
        provenance = _PROVENANCE.validate_python(facts)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise FileError(f"{name} is damaged: {error}", _REFUSED) from error
    if foreign := _difference(provenance, kin):
        raise FileError(f"{name} is not for this run: {foreign}", _REFUSED)
    return provenance, state


def _difference(provenance: Provenance, kin: Compatibility) -> str:
    """Reason why this kind of run cannot load a state; "" when it can."""
    for name in ("rom_sha1", "pyboy"):
        theirs, ours = getattr(provenance, name), getattr(kin, name)
        if theirs != ours:
            return f"{name} {theirs}, here it is {ours}"
    foreign = missing_assists(provenance.assists, kin.assists)
    return f"it was reached with the assists {foreign}" if foreign else ""
