"""Pure. Encodes a state with its provenance as bytes and decodes it.

The format: a magic, the length of a JSON header, the header, and the bytes of an environment's
state (`Daddy.pokemon.env_state_format`). Decoding executes nothing, and refuses a state that is
damaged, of another game or emulator, or made with assists that are not in use.
"""

import json
import struct
from dataclasses import asdict, dataclass
from typing import Final

from pydantic import ConfigDict, TypeAdapter

from Daddy.core.assist_compatibility import missing_assists
from Daddy.core.errors import FileError
from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.file_names import StateEntry

MAGIC: Final = b"DADDYARC"
FORMAT: Final = 1
STATE_LIMIT: Final = 1 << 20
"""Bytes of the largest file that is read: fifty times a usual one."""
_LENGTHS = struct.Struct("<8sI")
_REFUSED = "the state is not loaded; remove it when you like"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Holds the origin of a state. `held`: its milestones and its place, sorted.

    `parent`: hash of the state it was reached from, "" for the start of the game. `step`: steps
    that its environment had played. `origin`: "played", or the replayed claim. `slot`: None for a
    learner started by hand. `hp`: the party's HP added up. `assists`: in use when it was kept, its
    ancestors' included. `claim`: hash of the claim that leads to it, "" if its ancestors have none.
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
        """Return the catalogue entry of the state with this hash."""
        place = keys.place_hash(self.held)
        key = keys.key_hash(self.held)
        return StateEntry(keys.rank(self.held), key, place, self.hp, self.step, sha256)


_PROVENANCE = TypeAdapter(Provenance)


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Names the game, emulator and assists that a state must have been made with to be loaded."""

    rom_sha1: str
    pyboy: str
    assists: tuple[str, ...] = ()


def encode_state(provenance: Provenance, state: bytes) -> bytes:
    """Encode provenance and state as one file; equal inputs give equal bytes."""
    header = json.dumps({"format": FORMAT, **asdict(provenance)}, sort_keys=True).encode()
    return _LENGTHS.pack(MAGIC, len(header)) + header + state


def decode_state(data: bytes, required: Compatibility, name: str) -> tuple[Provenance, bytes]:
    """Decode provenance and state; FileError naming `name` if damaged or unfit for `required`."""
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
    if difference := _difference(provenance, required):
        raise FileError(f"{name} cannot be loaded in this run: {difference}", _REFUSED)
    return provenance, state


def _difference(provenance: Provenance, required: Compatibility) -> str:
    """Return the reason for which this run cannot load the state; "" if it can."""
    for name in ("rom_sha1", "pyboy"):
        actual, expected = getattr(provenance, name), getattr(required, name)
        if actual != expected:
            return f"{name} {actual}, here it is {expected}"
    difference = missing_assists(provenance.assists, required.assists)
    return f"it was reached with the assists {difference}" if difference else ""
