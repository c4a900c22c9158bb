"""Pure. Encodes an environment's whole state as bytes and decodes it.

The format: a magic, three lengths, a JSON header (counters, records, random generator, versions),
the visited cells and the emulator's state, both deflated. Decoding executes nothing, and refuses a
damaged state and one of another game or another pyboy.
"""

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from Daddy.core.errors import RomError
from Daddy.pokemon.bounded_decoding import inflate
from Daddy.pokemon.reward import Records, records_from

MAGIC = b"DADDYENV"
FORMAT = 2
_LENGTHS = struct.Struct("<8sIII")
_LARGEST = 1 << 20
"""Largest inflated part in bytes: an emulator's state has about 170,000."""


@dataclass(frozen=True, slots=True)
class EnvState:
    """Holds everything on which the rest of the episode and all later ones depend."""

    rom_sha1: str
    pyboy: str
    steps: int
    episode: int
    episode_return: float
    parts: Mapping[str, float]
    records: Records
    generator: Mapping[str, Any]
    """State of a numpy bit generator."""
    visited: bytes = field(repr=False)
    emulator: bytes = field(repr=False)
    memory: Mapping[str, Any]
    """The exploration memory without its cells (`RewardTracker.to_facts`)."""
    waits: int = 0
    """Extra steps waited in the episode while a script had control."""
    journal: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the caller, such as the archive's history."""
    assists: Mapping[str, Any] = field(default_factory=dict)
    """History of the assists (`AssistState.to_facts`)."""


def encode_env_state(state: EnvState) -> bytes:
    """Encode `state` as some kB of bytes."""
    facts = {item.name: getattr(state, item.name) for item in fields(state)}
    blobs = [zlib.compress(facts.pop(name), 1) for name in ("visited", "emulator")]
    facts["records"] = state.records.to_facts()
    header = json.dumps({"format": FORMAT, **facts}).encode()
    return _LENGTHS.pack(MAGIC, len(header), *map(len, blobs)) + header + b"".join(blobs)


def decode_env_state(data: bytes, rom_sha1: str, pyboy: str) -> EnvState:
    """Decode `data`; RomError when it is damaged or of another format, game or pyboy."""
    try:
        header, visited, emulator = _parts(data)
        facts = json.loads(header)
        _refuse_foreign(facts, {"format": FORMAT, "rom_sha1": rom_sha1, "pyboy": pyboy})
        del facts["format"]
        facts["records"] = records_from(facts["records"])
        return EnvState(
            **facts, visited=inflate(visited, _LARGEST), emulator=inflate(emulator, _LARGEST)
        )
    except (ValueError, KeyError, TypeError, struct.error, zlib.error) as error:
        raise RomError(
            f"this environment state is damaged: {error}", "go back to an older checkpoint"
        ) from error


def generator_from(state: Mapping[str, Any]) -> np.random.Generator:
    """Make a numpy generator that continues from `state`; ValueError for an unknown kind."""
    if state["bit_generator"] != "PCG64":
        raise ValueError(f"unknown random generator {state['bit_generator']}")
    generator = np.random.Generator(np.random.PCG64())
    generator.bit_generator.state = state
    return generator


def _parts(data: bytes) -> tuple[bytes, bytes, bytes]:
    magic, *lengths = _LENGTHS.unpack_from(data)
    if magic != MAGIC or len(data) != _LENGTHS.size + sum(lengths):
        raise ValueError(f"{len(data)} bytes that begin with {data[:8]!r}")
    first, second = _LENGTHS.size + lengths[0], _LENGTHS.size + lengths[0] + lengths[1]
    return data[_LENGTHS.size : first], data[first:second], data[second:]


def _refuse_foreign(facts: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    for name, value in expected.items():
        if facts[name] != value:
            raise RomError(
                f"this environment state was written with {name} {facts[name]}, here it is {value}",
                "use that game and that pyboy version, or another state",
            )
