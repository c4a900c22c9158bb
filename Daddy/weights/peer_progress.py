"""Book-keeping of one peer relative to the shared weights, and its own weights after a version.

In one line: own weights = base + deltas offered but not yet merged + progress since. ``anchor`` is
the first two; an offer is own - anchor, so every bit of progress is offered exactly once, and on
adoption what has not been merged is carried over to the new version instead of being dropped.

Under the rule "polyak" an offer is own - base (absolute weights), and only progress since is
carried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from Daddy.core.shared_types import Adoption
from Daddy.weights.encoding.state_arithmetic import (
    StateDict,
    add_deltas,
    copy_state,
    difference,
    is_finite,
)
from Daddy.weights.store.weight_records import Version, is_reverted
from Daddy.weights.store.weight_store import Store

Key = tuple[str, int]
"""A contribution of a peer: incarnation and sequence."""

FORMAT = 1

_DROPPED = ("values", "reverted")
"""Faults after which an author goes on without what it had learnt."""


_FURTHEST = 255
"""Records that are read at most: whoever is further behind has nothing left that could count."""


@dataclass(frozen=True, slots=True)
class OfferOutcome:
    """Highest sequence judged of one process, and [fault, reason] of those refused or taken back.

    ``fallen``: why the version that the peer stands on was taken back; empty when it was not.
    """

    judged: int
    refused: Mapping[int, tuple[str, str]]
    base_reverted: str = ""


def find_outcome(
    store: Store, peer: str, incarnation: str, base: int, newest: Version
) -> OfferOutcome:
    """The fate of an author's offers between the version ``base`` and ``newest``."""
    author = f"{peer}/{incarnation}"
    refused: dict[int, tuple[str, str]] = {}
    for record in store.records(max(base + 1, newest.version - _FURTHEST), newest.version):
        theirs = (one for one in record.refused if one.author == author)
        refused |= {one.sequence: (one.fault, one.reason) for one in theirs}
        gone = is_reverted(record.version, newest.reverted)
        for taken in (*record.replayed, *record.inputs):
            if taken.author == author and gone:
                why = f"v{record.version} was taken back with it"
                refused[taken.sequence] = ("reverted", why)
            elif taken.author == author:  # the last word counts
                refused.pop(taken.sequence, None)
    fallen = f"v{base} was taken back" if is_reverted(base, newest.reverted) else ""
    return OfferOutcome(newest.judged(author), refused, fallen)


@dataclass(frozen=True, slots=True)
class BaseVersion:
    """A version to stand on: its number, the hash of its state, its weights."""

    version: int
    state: str
    weights: StateDict


@dataclass(slots=True, kw_only=True)
class ProgressNote:
    """The book-keeping of one process, as it travels in a checkpoint.

    Totals are the peer's since its run began; -1: not known yet. ``blobs`` are of what it offered
    and no version had judged. ``before``: up to which sequence each older process of the peer is
    contained in the totals. ``inherited``: what older processes offered and no version had judged,
    part of the anchor until the next rebase.
    """

    run_id: str = ""
    incarnation: str = ""
    version: int = 0
    sequence: int = 0
    blobs: dict[int, str] = field(default_factory=dict)
    env_steps: int = 0
    counted_steps: int = 0
    optimizer_steps: int = 0
    held_back: str = ""
    """Hash of the part of the last adoption that a learner of the release before did not take."""
    contained: int = 0
    """The last offer since the last rebase: the anchor is what own weights were then; 0: none."""
    before: Mapping[str, int] = field(default_factory=dict)
    inherited: Mapping[Key, str] = field(default_factory=dict)

    @property
    def known(self) -> dict[str, int]:
        """Up to which sequence each process of the peer is contained in the totals."""
        return {**self.before, self.incarnation: self.sequence}

    @property
    def pending(self) -> dict[Key, str]:
        """Blobs of what was offered and not judged, by this process or those before it."""
        own = {(self.incarnation, number): sha for number, sha in self.blobs.items()}
        return {**self.inherited, **own}

    def to_json_bytes(self) -> bytes:
        """JSON with a format number."""
        body: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(ProgressNote)}
        body["format"], body["unmerged"] = FORMAT, body.pop("blobs")
        body["before"] = list(self.before.items())  # their order counts
        body["inherited"] = [[*key, sha] for key, sha in self.inherited.items()]
        return json.dumps(body, sort_keys=True).encode()


def read_progress_note(data: bytes) -> ProgressNote | None:
    """The note in a checkpoint; None when it is not one of ours (a learner that was on its own)."""
    try:
        body = json.loads(data)
        return ProgressNote(
            run_id=str(body["run_id"]),
            incarnation=str(body["incarnation"]),
            version=int(body["version"]),
            sequence=int(body["sequence"]),
            blobs={int(number): str(sha) for number, sha in body["unmerged"].items()},
            env_steps=int(body["env_steps"]),
            counted_steps=int(body["counted_steps"]),
            optimizer_steps=int(body["optimizer_steps"]),
            held_back=str(body.get("held_back", "")),
            contained=int(body.get("contained", 0)),
            before={str(name): int(last) for name, last in body.get("before", [])},
            inherited={(str(a), int(n)): str(sha) for a, n, sha in body.get("inherited", [])},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


@dataclass(slots=True, kw_only=True)
class PeerProgress(ProgressNote):
    """The book-keeping of this process, with the weights that it speaks of."""

    base: BaseVersion
    anchor: StateDict
    absolute: bool = False
    unmerged: dict[int, StateDict] = field(default_factory=dict)

    def delta_to_offer(self, own: StateDict) -> StateDict:
        """The delta that an offer of ``own`` consists of."""
        return difference(own, self.base.weights if self.absolute else self.anchor)

    def offered(self, own: StateDict, delta: StateDict, blob: str) -> None:
        """Note that ``delta`` was offered when the weights were ``own``."""
        self.sequence += 1
        self.unmerged[self.sequence], self.blobs[self.sequence] = delta, blob
        self.anchor, self.contained = own, self.sequence

    def count(self, env_steps: int, optimizer_steps: int) -> None:
        """Note the totals up to which steps have been offered."""
        self.env_steps, self.optimizer_steps = env_steps, optimizer_steps
        self.counted_steps = max(self.counted_steps, env_steps)

    def rebase(self, base: BaseVersion, own: StateDict, fate: OfferOutcome) -> Adoption:
        """Move to ``base``; return the weights to go on with.

        Offers not judged yet stay on top, late ones become progress again, and a refusal for values
        or a revert (or progress that is not finite) drops all progress: the new version is taken as
        it is.
        """
        since = difference(own, self.anchor)
        faults = {n: fate.refused[n] for n in self.unmerged if n in fate.refused}
        bad = [fate.base_reverted] if fate.base_reverted else []
        bad += [f"contribution {n} was refused: {reason}"
                for n, (fault, reason) in faults.items() if fault in _DROPPED]  # fmt: skip
        late = [self.unmerged[n] for n, (fault, _) in faults.items() if fault == "late"]
        kept = {n: delta for n, delta in self.unmerged.items() if n > fate.judged and not bad}
        self.unmerged, self.blobs = kept, {n: self.blobs[n] for n in kept}
        self.base, self.version, self.inherited, self.contained = base, base.version, {}, 0
        self.anchor = base.weights if self.absolute else add_deltas(base.weights, *kept.values())
        if bad or not is_finite(since):
            reason = f"took v{base.version}: {bad[0] if bad else 'own weights are not finite'}"
            return Adoption(base.version, copy_state(self.anchor), reason, refused=bool(bad))
        carried = [] if self.absolute else late
        weights = add_deltas(self.anchor, since, *carried)
        return Adoption(base.version, weights, f"adopted v{base.version}, rebased")
