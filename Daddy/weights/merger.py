"""One merge: from pending contributions to the next version, its heads and its housekeeping.

Whoever finds a merge due and holds the merge lease does it. The lease only saves work: safety is the
exclusive creation of the commit record, and equal inputs give equal bytes, so a second merger loses
nothing but its time. Steps are announced to the store's hook: C8 merging, C9 state written, C10
committed, C11 head moved, C12 laptops served and old files going.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from Daddy.core.clock import Clock
from Daddy.core.errors import WeightsError
from Daddy.core.files import sha256_hex
from Daddy.core.lease import Lease, end_term, read_lease
from Daddy.weights import offers, retention
from Daddy.weights.admission import (
    Fault,
    Standing,
    Verdict,
    judge_file,
    judge_record,
    judge_values,
    remember,
)
from Daddy.weights.codec import decode, encode
from Daddy.weights.manifest import Input, Receipt, Refusal, Version
from Daddy.weights.offers import Found
from Daddy.weights.polyak import StateDict, move, norm
from Daddy.weights.replay import pull, repair
from Daddy.weights.settings import ExchangeSettings
from Daddy.weights.store import Store
from Daddy.weights.watch import Watch
from Daddy.weights.weighting import Due, Offer, complete_set, is_due, share_out

INPUTS_LIMIT = 48
"""Contributions judged in one merge, so that a commit record stays small; others wait their turn."""

LEASE_SILENCE_S = 20.0
"""A merge takes seconds; a merger silent for longer is taken to be gone (safety does not hang on it)."""

BLOB_PATIENCE_S = 90.0
"""A file may be invisible for 60 s after its record on NFS; later it will not come."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A contribution with its verdict and, when admitted, its delta."""

    found: Found
    verdict: Verdict
    delta: StateDict | None = None
    norm: float = 0.0


class Merger:
    """Merges on behalf of one process."""

    def __init__(self, store: Store, settings: ExchangeSettings, clock: Clock, name: str) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._name = name
        self.watch = Watch(clock)
        self._refused: set[tuple[str, str, int]] = set()
        self._sweeper = retention.Sweeper(store, settings.keep_versions, self.watch)

    def try_merge(self, period_s: float) -> tuple[Version | None, str]:
        """The version just committed by us, or None and why not."""
        newest = self._store.newest()
        if newest is None:
            return None, "there is no version yet"
        head = self._store.version(newest)
        found = self._pending(head)
        due = self._due(found, period_s)
        if not due.now:
            return None, due.reason
        lease = self._claim()
        if lease is None:
            return None, "another peer is merging"
        try:
            return self._merge_newest(head, found), due.reason
        finally:
            lease.release("done")

    def live_jobs(self) -> int:
        """Jobs, other than laptops, whose heart beats."""
        pulses = self.watch.live(offers.pulses(self._store), self._settings.silence_s)
        return len({pulse.peer for pulse in pulses})

    def _pending(self, head: Version) -> list[Found]:
        consumed = {author: pair[0] for author, pair in head.consumed.items()}
        found = offers.pending(self._store, consumed)
        fresh = [one for one in found if one.offer.sequence > consumed.get(one.offer.author, 0)]
        return fresh[:INPUTS_LIMIT]

    def _due(self, found: Sequence[Found], period_s: float) -> Due:
        waiting = [one for one in found if one.key not in self._refused]
        ages = [self.watch.still_s(("offer", one.key)) for one in waiting]
        jobs: dict[str, int] = {}
        for one in waiting:
            if not one.laptop:
                jobs[one.offer.peer] = jobs.get(one.offer.peer, 0) + 1
        laptops = sum(one.laptop for one in waiting)
        return is_due(jobs, self.live_jobs(), max(ages, default=0.0), period_s, laptops)

    def _claim(self) -> Lease | None:
        folder = self._store.paths.lease
        lease = Lease.claim(folder, {"merger": self._name})
        if lease is None and (view := read_lease(folder)) is not None and view.ended is None:
            silent = self.watch.still_s("lease", view.term)
            if silent > LEASE_SILENCE_S:
                end_term(folder, view.term, f"silent for {silent:.0f} s")
                lease = Lease.claim(folder, {"merger": self._name})
        return lease

    def _merge_newest(self, head: Version, found: Sequence[Found]) -> Version | None:
        if self._store.newest() != head.version:
            return None  # someone merged between our look and our claim: look again next time
        self._store.durable.hook("C8")
        judged = self._judge_all(head, found)
        admitted = [one for one in judged if one.verdict.admitted]
        refused = [one for one in judged if not one.verdict.admitted]
        if not admitted and all(one.found.laptop for one in refused):
            self._refused |= {one.found.key for one in refused}
            return None  # refusals of laptops alone wait for the next version
        record, state = self._next_version(head, admitted, refused)
        if not self._store.commit(record):
            return None
        self._store.durable.hook("C10")
        self._finish(record, state, judged)
        return record

    # -- judging

    def _judge_all(self, head: Version, found: Sequence[Found]) -> list[Judged]:
        judged: list[Judged] = []
        waiting: set[str] = set()
        for one in found:
            if one.offer.author in waiting:
                continue
            result = self._judge(head, one)
            if result.verdict.wait:
                waiting.add(one.offer.author)
            else:
                judged.append(result)
        return judged

    def _judge(self, head: Version, one: Found) -> Judged:
        verdict = judge_record(one.offer, self._standing(head, one))
        if not verdict.admitted:
            return Judged(one, verdict)
        try:
            data = offers.read_blob(one)
            verdict = judge_file(one.offer, len(data), sha256_hex(data))
            if not verdict.admitted:
                return Judged(one, verdict)
            delta = decode(data, head.schema)
        except FileNotFoundError:
            return Judged(one, self._patience(one))
        except WeightsError as error:
            return Judged(one, Verdict(admitted=False, reason=error.message, fault=Fault.VALUES))
        size = norm(delta)
        verdict = judge_values(size, one.offer.optimizer_steps, head.norms, strict=one.laptop)
        return Judged(one, verdict, delta if verdict.admitted else None, size)

    def _patience(self, one: Found) -> Verdict:
        waited = self.watch.still_s(("blob", one.key))
        return Verdict(
            admitted=False,
            reason=f"its file did not appear within {waited:.0f} s",
            wait=waited < BLOB_PATIENCE_S,
        )

    def _standing(self, head: Version, one: Found) -> Standing:
        settings = self._settings
        limit = settings.laptop_max_staleness if one.laptop else settings.max_staleness
        first = max(0, head.version - limit)
        return Standing(
            run_id=head.run_id,
            schema=head.schema,
            newest=head.version,
            states={n: self._store.version(n).state for n in range(first, head.version + 1)},
            consumed={author: pair[0] for author, pair in head.consumed.items()},
            sizes=(head.size // 3, head.size + head.size // 2),
            max_staleness=limit,
        )

    # -- the next version

    def _next_version(
        self, head: Version, admitted: Sequence[Judged], refused: Sequence[Judged]
    ) -> tuple[Version, StateDict]:
        base, base_state = self._base(head)
        seen = [_as_offer(one, head.version) for one in admitted]
        full = complete_set(seen, self.live_jobs(), head.denominator)
        shares = share_out(seen, full, self._settings.limits)
        factors = [
            share * one.verdict.scale for share, one in zip(shares.shares, admitted, strict=True)
        ]
        state = move(base_state, self._pulls(admitted, base_state), factors)
        if not math.isfinite(norm(state)):
            raise WeightsError(f"version {head.version + 1} would not be finite", "report this")
        for one in admitted:
            if one.found.laptop:  # keep what a version was made of, for replay
                self._store.put_blob(offers.read_blob(one.found), "input")
        data = encode(state)
        sha = self._store.put_blob(data, "state")
        self._store.durable.hook("C9")
        inputs = tuple(
            _as_input(one, head.version, share)
            for share, one in zip(shares.shares, admitted, strict=True)
        )
        totals = _contributors(head, inputs)
        record = Version(
            version=head.version + 1,
            run_id=head.run_id,
            schema=head.schema,
            parent=self._store.record_hash(head.version),
            base=base,
            state=sha,
            size=len(data),
            rule=self._settings.rule,
            denominator=shares.denominator or head.denominator,
            inputs=inputs,
            refused=tuple(_as_refusal(one) for one in refused),
            consumed=self._consumed(head, [*admitted, *refused]),
            contributors=totals,
            norms=remember(
                head.norms,
                [(one.norm * one.verdict.scale, one.found.offer.optimizer_steps) for one in admitted],
            ),
            fleet_steps=sum(totals.values()),
            merger=self._name,
            ts=round(self._clock.now(), 3),
        )
        return record, state

    def _base(self, head: Version) -> tuple[int, StateDict]:
        """The newest state that verifies: the head's, or an older one when that is damaged."""
        number, error = head.version, None
        while number >= max(0, head.version - self._settings.keep_versions):
            try:
                record = self._store.version(number)
                return number, decode(repair(self._store, record), record.schema)
            except WeightsError as found:
                error = error or found
                number -= 1
        raise error or WeightsError("no version can be read", "restore the shared weights")

    def _pulls(self, admitted: Sequence[Judged], shared: StateDict) -> list[StateDict]:
        return [
            pull(self._store, self._settings.rule, one.delta, one.found.offer.base_version, shared)
            for one in admitted
            if one.delta is not None
        ]

    def _consumed(self, head: Version, judged: Sequence[Judged]) -> dict[str, list[int]]:
        """Highest judged sequence per author; forgotten once anything as old would be too stale."""
        number = head.version + 1
        horizon = number - 2 * self._settings.laptop_max_staleness
        here = offers.authors(self._store)
        kept = {
            author: pair
            for author, pair in head.consumed.items()
            if pair[1] > horizon or author in here
        }
        for one in judged:
            kept[one.found.offer.author] = [one.found.offer.sequence, number]
        return kept

    # -- afterwards; all of it is repeated by the next merger if we die here

    def _finish(self, record: Version, state: StateDict, judged: Sequence[Judged]) -> None:
        store = self._store
        store.write_head(record.version)
        store.durable.hook("C11")
        if self._settings.wan:
            store.write_keyframe(record.version, encode(state, half=True))
        store.durable.hook("C12")
        for receipt in receipts(record):
            offers.write_receipt(store, receipt)
        self._sweeper.after_merge(record, [one.found for one in judged])


def receipts(record: Version) -> list[Receipt]:
    """What each author gets to see of a version."""
    taken = [
        Receipt(
            peer=one.peer,
            incarnation=one.incarnation,
            sequence=one.sequence,
            accepted=True,
            version=record.version,
            share=one.share,
            fault="",
            reason="clipped" if one.clip < 1.0 else "",
        )
        for one in record.inputs
    ]
    refused = [
        Receipt(
            peer=one.peer,
            incarnation=one.incarnation,
            sequence=one.sequence,
            accepted=False,
            version=record.version,
            share=0.0,
            fault=one.fault,
            reason=one.reason,
        )
        for one in record.refused
    ]
    return [one for one in taken + refused if not offers.SLOT.fullmatch(one.peer)]


def _as_offer(one: Judged, newest: int) -> Offer:
    offer = one.found.offer
    return Offer(offer.peer, offer.env_steps, newest - offer.base_version, one.found.laptop)


def _as_input(one: Judged, newest: int, share: float) -> Input:
    offer = one.found.offer
    return Input(
        peer=offer.peer,
        incarnation=offer.incarnation,
        sequence=offer.sequence,
        blob=offer.blob,
        base_version=offer.base_version,
        staleness=newest - offer.base_version,
        share=share,
        clip=one.verdict.scale,
        norm=one.norm,
        env_steps=offer.env_steps,
        new_steps=offer.new_steps,
        optimizer_steps=offer.optimizer_steps,
    )


def _as_refusal(one: Judged) -> Refusal:
    offer = one.found.offer
    return Refusal(
        peer=offer.peer,
        incarnation=offer.incarnation,
        sequence=offer.sequence,
        fault=one.verdict.fault.value,
        reason=one.verdict.reason[:300],
    )


def _contributors(head: Version, inputs: Sequence[Input]) -> dict[str, int]:
    totals = dict(head.contributors)
    for one in inputs:
        totals[one.peer] = totals.get(one.peer, 0) + one.new_steps
    return dict(sorted(totals.items()))
