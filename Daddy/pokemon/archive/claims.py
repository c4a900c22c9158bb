"""Pure: a milestone as it travels between machines: a parent claim and the keys pressed since.

A save state is a program and is never taken from another user or device; a claim is data: a hash,
a list of buttons, names. Owns its format and its bounds, and how a line of claims becomes one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from Daddy.core.errors import FileError

FORMAT: Final = 1
MOST_INPUTS: Final = 200_000
"""Buttons of the longest log: some minutes to play again."""
CLAIM_LIMIT: Final = 1 << 20
"""Bytes of a claim."""
_BUTTONS = 7
_HASH = re.compile(r"([0-9a-f]{64})?")
_WORD = re.compile(r"[a-z0-9_.:' -]{1,60}")
_MOST_WORDS = 400


@dataclass(frozen=True)
class Claim:
    """`inputs`, an action each byte, lead from `parent` to a moment that holds `held`.

    `parent` is the `ident` of the claim to go on from, or "": then `start` is {"seed": n}, or the
    state of the random generator that the episode began with. No state has the same bytes on two
    machines, for it tells who reached it; a claim has.
    """

    parent: str
    start: Mapping[str, Any]
    inputs: bytes
    held: frozenset[str]


@dataclass(frozen=True)
class Log:
    """What was pressed since a claim, or the start. Beyond MOST_INPUTS it is no longer kept."""

    parent: str
    start: Mapping[str, Any] = field(default_factory=dict)
    inputs: bytearray = field(default_factory=bytearray)

    def pressed(self, action: int) -> Log | None:
        """The log with one more; None when it has become too long to be played again."""
        if len(self.inputs) >= MOST_INPUTS:
            return None
        self.inputs.append(action)
        return self

    def claim(self, held: Iterable[str]) -> Claim:
        """That these milestones are held now."""
        return Claim(self.parent, self.start, bytes(self.inputs), frozenset(held))

    def to_facts(self) -> dict[str, Any]:
        """JSON that `log_from` reads."""
        return {"parent": self.parent, "start": dict(self.start), "inputs": _packed(self.inputs)}


def log_from(facts: object) -> Log | None:
    """The log that a saved environment had; None where it had none that can be used."""
    try:
        told = dict(facts)  # type: ignore[call-overload]
        parent = _matching(told["parent"], _HASH)
        return Log(parent, _start(told["start"]), bytearray(_inputs(told["inputs"])))
    except (ValueError, KeyError, TypeError, binascii.Error, zlib.error):
        return None


def ident(claim: Claim) -> str:
    """The hash that names a claim: equal on every machine."""
    return hashlib.sha256(to_bytes(claim)).hexdigest()


def joined(claim: Claim, find: Callable[[str], Claim | None], known: Container[str]) -> Claim:
    """The claim with its ancestors' keys before its own, back to one that is `known` or the start.

    FileError when an ancestor cannot be found, or all of it is too long to be played again.
    """
    while claim.parent and claim.parent not in known:
        before = find(claim.parent)
        if before is None:
            raise FileError(
                f"its parent {claim.parent[:12]} is not known here", "claim from a newer state"
            )
        inputs = before.inputs + claim.inputs
        if len(inputs) > MOST_INPUTS:
            raise FileError(f"from what is known it takes over {MOST_INPUTS} inputs", "it is late")
        claim = replace(claim, parent=before.parent, start=before.start, inputs=inputs)
    return claim


def to_bytes(claim: Claim) -> bytes:
    """One JSON object; equal claims have equal bytes."""
    return json.dumps(
        {
            "format": FORMAT,
            "parent": claim.parent,
            "start": dict(claim.start),
            "inputs": _packed(claim.inputs),
            "held": sorted(claim.held),
        },
        sort_keys=True,
    ).encode()


def from_bytes(data: bytes) -> Claim:
    """The claim in `data`; FileError when it is damaged, hostile or larger than the bounds."""
    try:
        if len(data) > CLAIM_LIMIT:
            raise ValueError(f"{len(data)} bytes")
        facts = json.loads(data)
        if facts["format"] != FORMAT:
            raise ValueError(f"format {facts['format']!r}")
        return Claim(
            parent=_matching(facts["parent"], _HASH),
            start=_start(facts["start"]),
            inputs=_inputs(facts["inputs"]),
            held=_held(facts["held"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error, zlib.error) as error:
        raise FileError(f"this claim cannot be read: {error!r}", "it is refused") from error


def _packed(inputs: bytes | bytearray) -> str:
    return base64.b64encode(zlib.compress(inputs, 9)).decode()


def _matching(value: object, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        raise ValueError(f"{str(value)[:80]!r} has no such shape as {pattern.pattern}")
    return value


def _start(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or len(json.dumps(value)) > 1024:  # noqa: PLR2004 - bounded
        raise TypeError("no start")
    return value


def _inputs(value: object) -> bytes:
    packed = base64.b64decode(_matching(value, re.compile(r"[A-Za-z0-9+/=]*")), validate=True)
    inflater = zlib.decompressobj()
    inputs = inflater.decompress(packed, MOST_INPUTS + 1)
    if not inflater.eof or len(inputs) > MOST_INPUTS:
        raise ValueError(f"more than {MOST_INPUTS} inputs, or a torn log")
    if inputs and max(inputs) >= _BUTTONS:
        raise ValueError(f"there is no button {max(inputs)}")
    return inputs


def _held(value: object) -> frozenset[str]:
    if not isinstance(value, list) or len(value) > _MOST_WORDS:
        raise TypeError("no list of milestones")
    return frozenset(_matching(word, _WORD) for word in value)
