"""Pure. Encodes a milestone for another machine: a parent claim and the keys pressed since.

A save state is a program and is never taken from another user or device; a claim is data: a hash,
a list of buttons, names. The module also selects the claims that a run shows to its laptops and
that a laptop hands in.
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
from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.file_names import StateEntry
from Daddy.pokemon.size_limits import inflate, matching_text

FORMAT: Final = 1
MAX_INPUTS: Final = 200_000
"""Buttons of the longest log: some minutes of emulation."""
CLAIM_LIMIT: Final = 1 << 20
"""Bytes of a claim."""
MAX_PUBLISHED: Final = 256
"""Claims that a laptop gets, ancestors included."""
MAX_REPLAYED: Final = 16
"""Moments that a laptop plays again."""
_LOOKED_AT = 256
"""States with the most milestones, among which the moments are chosen."""
_BUTTONS = 7
_HASH = re.compile(r"([0-9a-f]{64})?")
_WORD = re.compile(r"[a-z0-9_.:' -]{1,60}")
_MOST_WORDS = 400
_START_LIMIT = 1_024


@dataclass(frozen=True)
class Claim:
    """`inputs`, an action each byte, lead from `parent` to a moment that holds `held`.

    `parent` is the `ident` of the claim to go on from, or "" for the start of the game. Then
    `start` is {"seed": n}, or the state of the random generator that the episode began with.
    States name their slot, so their bytes differ between machines; those of a claim do not.
    """

    parent: str
    start: Mapping[str, Any]
    inputs: bytes
    held: frozenset[str]


FindClaim = Callable[[str], Claim | None]


@dataclass(frozen=True)
class InputLog:
    """Keys pressed since a claim, or the start; given up beyond MOST_INPUTS."""

    parent: str
    start: Mapping[str, Any] = field(default_factory=dict)
    inputs: bytearray = field(default_factory=bytearray)

    def append_key(self, action: int) -> InputLog | None:
        """Append a key; None when the log has become too long to be played again."""
        if len(self.inputs) >= MAX_INPUTS:
            return None
        self.inputs.append(action)
        return self

    def make_claim(self, held: Iterable[str]) -> Claim:
        """Make the claim that these milestones are held now."""
        return Claim(self.parent, self.start, bytes(self.inputs), frozenset(held))


def input_log_from(facts: object) -> InputLog | None:
    """Restore the log of a saved environment; None without a usable one."""
    try:
        parent, start, inputs = _way(facts)
        return InputLog(parent, start, bytearray(inputs))
    except (ValueError, KeyError, TypeError, binascii.Error, zlib.error):
        return None


def claim_hash(claim: Claim) -> str:
    """SHA-256 that names a claim, equal on every machine."""
    return hashlib.sha256(encode_claim(claim)).hexdigest()


def join_ancestors(claim: Claim, find: FindClaim, known: Container[str]) -> Claim:
    """Prepend the ancestors' keys, back to a claim in `known` or to the start of the game.

    FileError when an ancestor is missing, or the whole is too long to be played again.
    """
    while claim.parent and claim.parent not in known:
        before = find(claim.parent)
        if before is None:
            raise FileError(
                f"its parent {claim.parent[:12]} is not known here", "claim from a newer state"
            )
        inputs = before.inputs + claim.inputs
        if len(inputs) > MAX_INPUTS:
            raise FileError(f"from what is known it takes over {MAX_INPUTS} inputs", "it is late")
        claim = replace(claim, parent=before.parent, start=before.start, inputs=inputs)
    return claim


def encode_claim(claim: Claim) -> bytes:
    """One JSON object; equal claims have equal bytes."""
    facts = {"format": FORMAT, "held": sorted(claim.held), **log_facts(claim)}
    return json.dumps(facts, sort_keys=True).encode()


def decode_claim(data: bytes) -> Claim:
    """Decode a claim; FileError when it is damaged, hostile or larger than the bounds."""
    try:
        if len(data) > CLAIM_LIMIT:
            raise ValueError(f"{len(data)} bytes")
        facts = json.loads(data)
        if facts["format"] != FORMAT:
            raise ValueError(f"format {facts['format']!r}")
        return Claim(*_way(facts), _held(facts["held"]))
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error, zlib.error) as error:
        raise FileError(f"this claim cannot be read: {error!r}", "it is refused") from error


def log_facts(way: Claim | InputLog) -> dict[str, Any]:
    """JSON that `log_from` reads."""
    inputs = base64.b64encode(zlib.compress(way.inputs, 9)).decode()
    return {"parent": way.parent, "start": dict(way.start), "inputs": inputs}


def _way(facts: Any) -> tuple[str, dict[str, Any], bytes]:
    return matching_text(facts["parent"], _HASH), _start(facts["start"]), _inputs(facts["inputs"])


def _start(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or len(json.dumps(value)) > _START_LIMIT:
        raise TypeError("no start")
    return value


def _inputs(value: object) -> bytes:
    packed = base64.b64decode(matching_text(value, re.compile(r"[A-Za-z0-9+/=]*")), validate=True)
    inputs = inflate(packed, MAX_INPUTS)
    if inputs and max(inputs) >= _BUTTONS:
        raise ValueError(f"there is no button {max(inputs)}")
    return inputs


def _held(value: object) -> frozenset[str]:
    if not isinstance(value, list) or len(value) > _MOST_WORDS:
        raise TypeError("no list of milestones")
    return frozenset(matching_text(word, _WORD) for word in value)


# -- selection of claims to exchange


def claims_by_rank(entries: Iterable[StateEntry], claim_of: Mapping[str, str]) -> list[str]:
    """Claims of the states with the most milestones; `claim_of` maps a state's hash to a claim."""
    most = sorted(entries, key=lambda entry: (-entry.rank, entry.age, entry.sha256))[:_LOOKED_AT]
    return [claim_of[entry.sha256] for entry in most if entry.sha256 in claim_of]


def distinct_claims(idents: Iterable[str], find: FindClaim) -> list[str]:
    """The first claim of each set of milestones, in the order given; at most MOST_MOMENTS."""
    first: dict[frozenset[str], str] = {}
    for name in idents:
        if (claim := find(name)) is not None:
            first.setdefault(keys.milestones(claim.held), name)
    return list(first.values())[:MAX_REPLAYED]


def claim_lineage(ident: str, find: FindClaim) -> list[str]:
    """The claim and its ancestors as far as they are found, the oldest first."""
    found: list[str] = []
    while ident and ident not in found and (claim := find(ident)) is not None:
        found.insert(0, ident)
        ident = claim.parent
    return found


def claims_to_publish(
    wanted: Iterable[str], find: FindClaim, fits: Callable[[Claim], bool]
) -> list[str]:
    """The wanted claims that can be reached from the start by claims that fit, with those."""
    shown: dict[str, None] = {}
    for name in wanted:
        steps = {
            part: claim for part in claim_lineage(name, find) if (claim := find(part)) is not None
        }
        rooted = bool(steps) and not next(iter(steps.values())).parent
        if rooted and all(map(fits, steps.values())) and len(shown.keys() | steps) <= MAX_PUBLISHED:
            shown.update(dict.fromkeys(steps))
    return list(shown)


def claims_to_replay(shown: Mapping[str, Claim], done: Container[str]) -> list[str]:
    """Moments that are not here yet, those with the fewest milestones first."""
    ranked = sorted(shown, key=lambda name: (-keys.rank(shown[name].held), name))
    return [name for name in reversed(distinct_claims(ranked, shown.get)) if name not in done]


def claims_to_submit(own: Iterable[str], find: FindClaim, known: Iterable[Claim]) -> list[str]:
    """Own claims with a milestone more than any claim that the run is known to have."""
    held = {keys.milestones(claim.held) for claim in known}
    found = []
    for name in distinct_claims(own, find):
        claim = find(name)
        if claim is not None and not any(keys.milestones(claim.held) <= theirs for theirs in held):
            found.append(name)
    return found


def rebase_for_run(claim: Claim, find: FindClaim, same: Mapping[str, str]) -> Claim:
    """The claim from an ancestor that the run has, under its name there (`same`). FileError."""
    whole = join_ancestors(claim, find, same)
    return Claim(same.get(whole.parent, ""), whole.start, whole.inputs, whole.held)
