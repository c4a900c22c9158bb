"""Pure: live play as bytes: what a chain of stretches begins at, and each stretch.

Owns their form and their bounds. A stretch is what was done at the emulator's door during 256 steps
(or until the chain ends), deflated, after the digest of the memory at its end. Nothing in it keeps
a moment or goes back to one (whatever is loaded begins another chain), holds a key beyond its step,
or writes what no environment of ours writes: a byte of the game's program could hang the emulator.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import asdict, dataclass, fields
from typing import Final

from Daddy.core.piece import BEGINNING_BYTES
from Daddy.pokemon.inputs import operations
from Daddy.pokemon.inputs.operations import Kind, Operation
from Daddy.pokemon.inputs.tape import DIGEST_BYTES, DIGEST_FRAMES
from Daddy.pokemon.ram_map import WRITTEN

STRETCH_BYTES: Final = 2_048
"""Of operations; a step is one byte, and 256 of them close a stretch."""
MOST_FRAMES: Final = 2 * DIGEST_FRAMES
"""A stretch closes with the first operation that reaches DIGEST_FRAMES, which is no longer."""
_SHAPES = {
    "rom_sha1": re.compile(r"[0-9a-f]{40}"),
    "pyboy": re.compile(r"[0-9A-Za-z.+-]{1,24}"),
    "moment": re.compile(r"[0-9a-f]{64}"),
    "start": re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,40})?"),
    "proof": re.compile(r"[0-9a-f]{16}"),
    "title": re.compile(r"[ -~é]{0,60}"),
}


@dataclass(frozen=True)
class Beginning:
    """What a chain begins at: `moment` is its name (`tape.ident`), `start` the start state's.

    `start` is "" where the moment has a name that nobody can make anything of but who has it.
    `proof` is the digest of `recordings.proof`, in hexadecimal; `title` the game's name.
    """

    rom_sha1: str
    pyboy: str
    moment: str
    start: str
    proof: str
    title: str = ""

    def pack(self) -> bytes:
        """As JSON, within the bound of a piece's beginning."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()


def read_beginning(data: bytes) -> Beginning:
    """The beginning; ValueError for anything else."""
    if len(data) > BEGINNING_BYTES:
        raise ValueError(f"a beginning of {len(data)} bytes")
    try:
        told = json.loads(data)
        facts = {one.name: str(told[one.name]) for one in fields(Beginning)}
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("a beginning lacks something") from error
    for name, value in facts.items():
        if _SHAPES[name].fullmatch(value) is None:
            raise ValueError(f"{name} of a beginning cannot be {value[:80]!r}")
    return Beginning(**facts)


@dataclass(frozen=True)
class Stretch:
    """Operations, how many frames they last, and the digest of the memory after them."""

    operations: bytes
    frames: int
    digest: bytes


def pack(done: bytes, digest: bytes) -> bytes:
    """A stretch of these operations."""
    deflater = zlib.compressobj(9, wbits=-15, strategy=zlib.Z_FILTERED)
    return digest + deflater.compress(done) + deflater.flush()


def read(data: bytes) -> Stretch:
    """The stretch; ValueError when it is torn, too long, or does what no stretch may."""
    inflater = zlib.decompressobj(wbits=-15)
    try:
        done = inflater.decompress(data[DIGEST_BYTES:], STRETCH_BYTES + 1)
    except zlib.error as error:
        raise ValueError("a stretch is damaged") from error
    if not inflater.eof or inflater.unused_data or not 1 <= len(done) <= STRETCH_BYTES:
        raise ValueError("a stretch is torn, empty or too long")
    found = list(operations.each(done))
    frames = sum(one.frames for one in found)
    if not all(_allowed(one) for one in found) or frames > MOST_FRAMES:
        raise ValueError("a stretch does what no stretch may")
    return Stretch(done, frames, data[:DIGEST_BYTES])


def _allowed(one: Operation) -> bool:
    if one.kind == Kind.WRITE:
        return any(first <= one.first < end for first, end in WRITTEN)
    return one.kind <= Kind.WAIT
