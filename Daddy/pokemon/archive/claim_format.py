"""Pure. Encodes a claim: the hash of a parent claim, and the inputs from there to a milestone.

A save state can make the emulator run any code, so no state of another user or device is loaded. A
claim is data (a hash, buttons, names); its receiver replays the inputs. The module also selects the
claims that a run publishes to its laptops and that a laptop submits to the run.
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
from Daddy.pokemon.bounded_decoding import inflate, matching_text

FORMAT: Final = 1
MAX_INPUTS: Final = 200_000
"""Inputs of the longest log: some minutes of emulation."""
CLAIM_LIMIT: Final = 1 << 20
"""Largest claim in bytes."""
MAX_PUBLISHED: Final = 256
"""Claims that a run publishes at most, ancestors included."""
MAX_REPLAYED: Final = 16
"""Claims, one per set of milestones, that a laptop replays at most."""
_CONSIDERED = 256
"""States, those with the most milestones, whose claims are considered."""
_BUTTONS = 7
_HASH = re.compile(r"([0-9a-f]{64})?")
_MILESTONE = re.compile(r"[a-z0-9_.:' -]{1,60}")
_MAX_NAMES = 400
_START_LIMIT = 1_024


@dataclass(frozen=True)
class Claim:
    """Asserts that `inputs`, one action a byte, lead from `parent` to a state that holds `held`.

    `parent` is the `claim_hash` of the claim to continue from, or "" for the start of the game;
    then `start` is {"seed": n}, or the state of the random generator at the episode's start.
    """

    parent: str
    start: Mapping[str, Any]
    inputs: bytes
    held: frozenset[str]


FindClaim = Callable[[str], Claim | None]


@dataclass(frozen=True)
class InputLog:
    """Holds the inputs since a claim or the start of the game, at most MAX_INPUTS."""

    parent: str
    start: Mapping[str, Any] = field(default_factory=dict)
    inputs: bytearray = field(default_factory=bytearray)

    def append_key(self, action: int) -> InputLog | None:
        """Append an action and return this log; None if the log has MAX_INPUTS already."""
        if len(self.inputs) >= MAX_INPUTS:
            return None
        self.inputs.append(action)
        return self

    def make_claim(self, held: Iterable[str]) -> Claim:
        return Claim(self.parent, self.start, bytes(self.inputs), frozenset(held))


def input_log_from(facts: object) -> InputLog | None:
    """Restore the log from an environment's saved facts; None if they hold no valid log."""
    try:
        parent, start, inputs = _decode_log(facts)
        return InputLog(parent, start, bytearray(inputs))
    except (ValueError, KeyError, TypeError, binascii.Error, zlib.error):
        return None


def claim_hash(claim: Claim) -> str:
    """Return the SHA-256 of a claim, equal on every machine."""
    return hashlib.sha256(encode_claim(claim)).hexdigest()


def join_ancestors(claim: Claim, find: FindClaim, bases: Container[str]) -> Claim:
    """Return `claim` with ancestors' inputs prepended, back to a claim in `bases` or the start.

    FileError when an ancestor is missing, or the inputs are too many to be replayed.
    """
    while claim.parent and claim.parent not in bases:
        before = find(claim.parent)
        if before is None:
            raise FileError(
                f"its parent {claim.parent[:12]} is not known here", "use a newer state"
            )
        inputs = before.inputs + claim.inputs
        if len(inputs) > MAX_INPUTS:
            raise FileError(f"the replay takes over {MAX_INPUTS} inputs", "use a newer state")
        claim = replace(claim, parent=before.parent, start=before.start, inputs=inputs)
    return claim


def encode_claim(claim: Claim) -> bytes:
    """Encode a claim as a JSON object; equal claims have equal bytes."""
    facts = {"format": FORMAT, "held": sorted(claim.held), **log_facts(claim)}
    return json.dumps(facts, sort_keys=True).encode()


def decode_claim(data: bytes) -> Claim:
    """Decode a claim; FileError when it is damaged, invalid or beyond the limits."""
    try:
        if len(data) > CLAIM_LIMIT:
            raise ValueError(f"{len(data)} bytes")
        facts = json.loads(data)
        if facts["format"] != FORMAT:
            raise ValueError(f"format {facts['format']!r}")
        return Claim(*_decode_log(facts), _held(facts["held"]))
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error, zlib.error) as error:
        raise FileError(f"this claim cannot be read: {error!r}", "the claim is refused") from error


def log_facts(log: Claim | InputLog) -> dict[str, Any]:
    """Return the JSON object that `input_log_from` reads."""
    inputs = base64.b64encode(zlib.compress(log.inputs, 9)).decode()
    return {"parent": log.parent, "start": dict(log.start), "inputs": inputs}


def _decode_log(facts: Any) -> tuple[str, dict[str, Any], bytes]:
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
    if not isinstance(value, list) or len(value) > _MAX_NAMES:
        raise TypeError("no list of milestones")
    return frozenset(matching_text(name, _MILESTONE) for name in value)


# -- selection of claims to exchange


def claims_by_rank(entries: Iterable[StateEntry], claim_of: Mapping[str, str]) -> list[str]:
    """List the hashes of the states' claims, most milestones first; `claim_of`: state to claim."""
    ranked = sorted(entries, key=lambda entry: (-entry.rank, entry.age, entry.sha256))[:_CONSIDERED]
    return [claim_of[entry.sha256] for entry in ranked if entry.sha256 in claim_of]


def distinct_claims(idents: Iterable[str], find: FindClaim) -> list[str]:
    """Return the hashes of the first claim of each set of milestones, at most MAX_REPLAYED."""
    first: dict[frozenset[str], str] = {}
    for name in idents:
        if (claim := find(name)) is not None:
            first.setdefault(keys.milestones(claim.held), name)
    return list(first.values())[:MAX_REPLAYED]


def claim_lineage(ident: str, find: FindClaim) -> list[str]:
    """List the hashes of a claim and of its ancestors that `find` knows, oldest first."""
    lineage: list[str] = []
    while ident and ident not in lineage and (claim := find(ident)) is not None:
        lineage.insert(0, ident)
        ident = claim.parent
    return lineage


def claims_to_publish(
    wanted: Iterable[str], find: FindClaim, fits: Callable[[Claim], bool]
) -> list[str]:
    """List each wanted claim with its ancestors, if all are here and `fits` accepts each."""
    shown: dict[str, None] = {}
    for name in wanted:
        lineage = {part: claim for part in claim_lineage(name, find) if (claim := find(part))}
        complete = bool(lineage) and not next(iter(lineage.values())).parent
        small = len(shown.keys() | lineage) <= MAX_PUBLISHED
        if complete and small and all(map(fits, lineage.values())):
            shown.update(dict.fromkeys(lineage))
    return list(shown)


def claims_to_replay(shown: Mapping[str, Claim], replayed: Container[str]) -> list[str]:
    """List published claims to replay: one per set of milestones, fewest first, not `replayed`."""
    ranked = sorted(shown, key=lambda name: (-keys.rank(shown[name].held), name))
    return [name for name in reversed(distinct_claims(ranked, shown.get)) if name not in replayed]


def claims_to_submit(own: Iterable[str], find: FindClaim, published: Iterable[Claim]) -> list[str]:
    """List the laptop's claims whose milestones no published claim includes."""
    held = {keys.milestones(claim.held) for claim in published}
    new = []
    for name in distinct_claims(own, find):
        claim = find(name)
        if claim is not None and not any(
            keys.milestones(claim.held) <= published_set for published_set in held
        ):
            new.append(name)
    return new


def rebase_for_run(claim: Claim, find: FindClaim, run_hashes: Mapping[str, str]) -> Claim:
    """Rewrite a claim to continue from a claim of the run (`run_hashes`: our hash to the run's)."""
    whole = join_ancestors(claim, find, run_hashes)
    return Claim(run_hashes.get(whole.parent, ""), whole.start, whole.inputs, whole.held)
