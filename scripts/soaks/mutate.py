"""Damages well-formed bytes and JSON, as a faulty link or disk or a hostile peer may."""

import json
import random
from typing import Any

NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e308, "", "x" * 300,
    "\x1b[2J\x07", "\ud800", "\u202egnp", "9" * 400, "NaN", [], {}, [[]], [[[[[1]]]]], {"a": {}},
)  # fmt: skip
"""Values that replace other values."""
RAW = ("1e999", "-1e999", "NaN", "Infinity", "1" * 400, "[" * 120 + "]" * 120, '"\\ud800"', "{,}")
"""Text that replaces JSON values and that ``json.dumps`` would not write."""
_EDGES = (0, 1, 0x7F, 0x80, 0xFF)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes with one to three changes: bits, edges, cuts, repeats, noise, numbers."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3))):
        _change(changed, chance)
    return bytes(changed)


def _change(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    some = chance.randrange(1, 24)
    kind = chance.randrange(7)
    if kind == 0 and at < len(data):
        data[at] ^= 1 << chance.randrange(8)
    elif kind == 1 and at < len(data):
        data[at] = chance.choice(_EDGES)
    elif kind == 2:
        del data[at:]
    elif kind == 3:
        del data[at : at + some]
    elif kind == 4:
        data[at:at] = data[at : at + some]
    elif kind == 5:
        data[at:at] = chance.randbytes(some)
    else:
        data[at : at + 4] = chance.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF)).to_bytes(4, "little")


def mutate_json(body: bytes, chance: random.Random) -> bytes:
    """Return the object with one of its values, at any depth, replaced."""
    value = json.loads(body)
    holder: Any = {"": value}
    key: Any = ""
    while isinstance(holder[key], (dict, list)) and holder[key] and chance.random() < 0.8:
        holder = holder[key]
        key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    if chance.random() < 0.3:
        holder[key] = "@raw@"
        return json.dumps(value).replace('"@raw@"', chance.choice(RAW)).encode()
    holder[key] = chance.choice(NASTY)
    return json.dumps(value).encode()


def changed(body: bytes, chance: random.Random) -> bytes:
    """Return the body unchanged, with other values, or with other bytes."""
    kind = chance.random()
    if kind < 0.15:
        return body
    if body[:2] == b'{"' and kind < 0.6:
        return mutate_json(body, chance)
    return mutate(body, chance)
