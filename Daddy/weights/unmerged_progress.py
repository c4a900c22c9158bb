"""Book-keeping of one peer relative to the shared weights, and its own weights after a version.

Own weights = base + deltas offered but not merged + progress since. ``anchor`` is the sum of the
first two; an offer is own - anchor, so every bit of progress is offered exactly once. When the peer
takes over a new version, the unmerged part is added to it. Under the rule "polyak" an offer is own
- base (absolute weights), and only progress since the last offer is added.
"""

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
from Daddy.weights.store.weight_records import Contribution, Version, is_reverted
from Daddy.weights.store.weight_store import Store

Key = tuple[str, int]
"""Incarnation and sequence of a peer's contribution."""

FORMAT = 1

_DROPPED = ("values", "reverted")
"""Faults after which an author drops its progress."""

_FURTHEST = 255
"""Newest records that are read: a peer further behind has no offer that could still count."""


@dataclass(frozen=True, slots=True)
class OfferOutcome:
    """Highest judged sequence of one process, and (fault, reason) of its refused offers. Reverted
    offers count as refused. ``base_reverted``: the reason for which the peer's base version was
    reverted; empty when it was not.
    """

    judged: int
    refused: Mapping[int, tuple[str, str]]
    base_reverted: str = ""


def find_outcome(
    store: Store, peer: str, incarnation: str, base: int, newest: Version
) -> OfferOutcome:
    """Return the outcome of a process's offers in versions after ``base``, to ``newest``."""
    author = f"{peer}/{incarnation}"
    refused: dict[int, tuple[str, str]] = {}
    for record in store.records(max(base + 1, newest.version - _FURTHEST), newest.version):
        own = (refusal for refusal in record.refused if refusal.author == author)
        refused |= {refusal.sequence: (refusal.fault, refusal.reason) for refusal in own}
        reverted = is_reverted(record.version, newest.reverted)
        for merged in (*record.replayed, *record.inputs):
            if merged.author == author and reverted:
                reason = f"v{record.version} was taken back with it"
                refused[merged.sequence] = ("reverted", reason)
            elif merged.author == author:  # merged after an earlier refusal
                refused.pop(merged.sequence, None)
    base_reverted = f"v{base} was taken back" if is_reverted(base, newest.reverted) else ""
    return OfferOutcome(newest.judged(author), refused, base_reverted)


@dataclass(frozen=True, slots=True)
class BaseVersion:
    """A version that a peer continues from: its number, the hash of its state, its weights."""

    version: int
    state: str
    weights: StateDict


@dataclass(slots=True, kw_only=True)
class ProgressNote:
    """The book-keeping of one process, as it is stored in a checkpoint.

    Totals are the peer's since its run began; -1: unknown, of the release before. ``blobs``: hashes
    of its offers that no version had judged. ``before``: the last sequence of each older process of
    the peer that the totals contain. ``inherited``: offers of older processes that no version had
    judged, part of the anchor until the next rebase.
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
    """Hash of weights that a learner of the release before left out of its last adoption."""
    contained: int = 0
    """The last offer since the last rebase, which set the anchor to own weights; 0: none."""
    before: Mapping[str, int] = field(default_factory=dict)
    inherited: Mapping[Key, str] = field(default_factory=dict)

    @property
    def known(self) -> dict[str, int]:
        """Last sequence of each process of the peer that the totals contain."""
        return {**self.before, self.incarnation: self.sequence}

    @property
    def pending(self) -> dict[Key, str]:
        """Blobs of offers not judged yet, of this process or of older ones of the peer."""
        own = {(self.incarnation, number): sha for number, sha in self.blobs.items()}
        return {**self.inherited, **own}

    def to_json_bytes(self) -> bytes:
        """Return the note as JSON with a format number."""
        body: dict[str, Any] = {key.name: getattr(self, key.name) for key in fields(ProgressNote)}
        body["format"], body["unmerged"] = FORMAT, body.pop("blobs")
        body["before"] = list(self.before.items())  # their order counts
        body["inherited"] = [[*key, sha] for key, sha in self.inherited.items()]
        return json.dumps(body, sort_keys=True).encode()


def read_progress_note(data: bytes) -> ProgressNote | None:
    """Parse the note in a checkpoint; None for other bytes, as of a learner without a run."""
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
    """The book-keeping of a running process, with the weights that it refers to."""

    base: BaseVersion
    anchor: StateDict
    absolute: bool = False
    unmerged: dict[int, StateDict] = field(default_factory=dict)
    claims: dict[int, Contribution] = field(default_factory=dict)
    """Records of the offers in ``unmerged``: their steps are offered again with a late one."""

    def delta_to_offer(self, own: StateDict) -> StateDict:
        """Return the delta to offer when the peer's weights are ``own``."""
        return difference(own, self.base.weights if self.absolute else self.anchor)

    def record_offer(self, own: StateDict, delta: StateDict, offer: Contribution) -> None:
        """Record that ``delta`` was offered as ``offer`` when the weights were ``own``."""
        self.sequence += 1
        self.unmerged[self.sequence], self.blobs[self.sequence] = delta, offer.blob
        self.claims[self.sequence] = offer
        self.anchor, self.contained = own, self.sequence

    def count_steps(self, env_steps: int, optimizer_steps: int) -> None:
        """Record ``env_steps`` and ``optimizer_steps`` as the totals offered so far."""
        self.env_steps, self.optimizer_steps = env_steps, optimizer_steps
        self.counted_steps = max(self.counted_steps, env_steps)

    def restart(self, env_steps: int) -> Adoption:
        """Drop all progress, with the steps up to ``env_steps``; return the base's weights."""
        self.count_steps(env_steps, 0)
        return self.rebase(
            self.base, self.base.weights, OfferOutcome(0, {}, "the policy had collapsed")
        )

    def rebase(
        self,
        base: BaseVersion,
        own: StateDict,
        outcome: OfferOutcome,
        env_steps: int = 0,
        optimizer_steps: int = 0,
    ) -> Adoption:
        """Move to ``base``; return the weights to continue with. Offers not judged yet are added to
        them; offers refused as late become progress again. A refusal for values, a revert, or
        progress that is not finite drops all progress: the new version is taken unchanged. Steps
        go with their progress: those of late offers are offered again, those dropped, never.
        """
        since = difference(own, self.anchor)
        faults = {n: outcome.refused[n] for n in self.unmerged if n in outcome.refused}
        lost = [outcome.base_reverted] if outcome.base_reverted else []
        lost += [f"contribution {n} was refused: {reason}"
                for n, (fault, reason) in faults.items() if fault in _DROPPED]  # fmt: skip
        late = [n for n, (fault, _) in faults.items() if fault == "late" and not self.absolute]
        carried = [self.unmerged[n] for n in late]
        again = [self.claims[n] for n in late]
        kept = {n: delta for n, delta in self.unmerged.items() if n > outcome.judged and not lost}
        self.unmerged, self.blobs = kept, {n: self.blobs[n] for n in kept}
        self.claims = {n: self.claims[n] for n in kept}
        self.base, self.version, self.inherited, self.contained = base, base.version, {}, 0
        self.anchor = base.weights if self.absolute else add_deltas(base.weights, *kept.values())
        if lost or not is_finite(since):
            if env_steps > self.env_steps:
                self.count_steps(env_steps, optimizer_steps)
            reason = f"took v{base.version}: {lost[0] if lost else 'own weights are not finite'}"
            return Adoption(base.version, copy_state(self.anchor), reason, refused=bool(lost))
        self.env_steps -= sum(offer.env_steps for offer in again)
        self.counted_steps -= sum(offer.new_steps for offer in again)
        self.optimizer_steps -= sum(offer.optimizer_steps for offer in again)
        weights = add_deltas(self.anchor, since, *carried)
        return Adoption(base.version, weights, f"adopted v{base.version}, rebased")
