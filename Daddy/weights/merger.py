"""One merge: from pending contributions to the next version, its heads and its housekeeping.

Whoever finds a merge due and holds the merge lease does it. The lease only saves work: safety is
the exclusive creation of the commit record, and equal inputs give equal bytes, so a second merger
loses nothing but its time. Steps are announced to the store's hook: C8 merging, C9 state written,
C10 committed, C11 head moved, C12 laptops served and old files going.
"""

from __future__ import annotations

from collections.abc import Sequence

from Daddy.core.clock import Clock
from Daddy.core.errors import WeightsError
from Daddy.core.lease import Lease
from Daddy.weights import beats, offers, retention
from Daddy.weights.beats import Pulse
from Daddy.weights.encoding.state_codec import decode, encode
from Daddy.weights.gate.hearing import judge_all
from Daddy.weights.gate.judging import Judge, Judged
from Daddy.weights.laptop.delivery import serve
from Daddy.weights.merge.admission import Fault, remember
from Daddy.weights.offers import Found
from Daddy.weights.polyak import StateDict, is_finite, move
from Daddy.weights.replay import candidates, factors, pull, repair
from Daddy.weights.reverting import revert_receipts
from Daddy.weights.settings import ExchangeSettings
from Daddy.weights.store.records import Input, Version
from Daddy.weights.store.store import Store
from Daddy.weights.watch import LEASE_SILENCE_S, Watch
from Daddy.weights.weighting import Due, Shares, complete_set, is_due, own_lag, share_out

INPUTS_LIMIT = 48
"""Contributions judged in one merge, so that a commit record stays small; others wait."""

LAPTOP_INPUTS_LIMIT = 16
"""Of which so many from laptops: what lies in their boxes never crowds out the jobs' own."""

FRIENDS_INPUTS_LIMIT = 16
"""Of which so many from friends' jobs: a round of four jobs of four friends."""


class Merger:
    """Merges on behalf of one process."""

    def __init__(self, store: Store, settings: ExchangeSettings, clock: Clock, name: str) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._name = name
        self._watch = Watch(clock)
        self._judge = Judge(store, settings, self._watch)
        self._sweeper = retention.Sweeper(store, settings.keep_versions, self._watch)
        self._refused: set[tuple[str, str, int]] = set()

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
            return self._merge(head, found), due.reason
        finally:
            lease.release("done")

    def nobody_lives(self) -> bool:
        """Whether every job that merges has left or fallen silent: those of our own account."""
        return not any(pulse.uid is None for pulse in self._live())

    def _live_jobs(self, published: set[str]) -> set[str]:
        """Jobs whose heart beats, and those whose work is here although it does not."""
        return {pulse.peer for pulse in self._live() if not pulse.laptop} | published

    def _live(self) -> list[Pulse]:
        return self._watch.live(beats.pulses(self._store), self._settings.silence_s)

    def _pending(self, head: Version) -> list[Found]:
        consumed = {author: pair[0] for author, pair in head.consumed.items()}
        found = offers.pending(self._store, consumed)
        fresh = [one for one in found if one.offer.sequence > consumed.get(one.offer.author, 0)]
        fresh.sort(key=lambda one: one.key in self._refused)  # refused again, if at all
        jobs = [one for one in fresh if not one.laptop and one.uid is None]
        friends = offers.in_turn([one for one in fresh if not one.laptop and one.uid is not None])
        laptops = [one for one in fresh if one.laptop][:LAPTOP_INPUTS_LIMIT]
        found = [*jobs, *friends[:FRIENDS_INPUTS_LIMIT], *laptops]
        return sorted(found[:INPUTS_LIMIT], key=lambda one: one.key)

    def _due(self, found: Sequence[Found], period_s: float) -> Due:
        waiting = [one for one in found if one.key not in self._refused]
        ages = [self._watch.still_s(("offer", one.key)) for one in waiting]
        jobs = _jobs(waiting)
        live = self._live_jobs(jobs)
        laptops = sum(one.laptop for one in waiting)
        oldest_s = max(ages, default=0.0)
        return is_due(len(jobs), len(live), oldest_s, period_s, laptops)

    def _claim(self) -> Lease | None:
        holder = {"merger": self._name}
        return self._watch.claim(self._store.paths.lease, holder, LEASE_SILENCE_S)

    def _merge(self, head: Version, found: Sequence[Found]) -> Version | None:
        if self._store.newest() != head.version:
            return None  # someone merged between our look and our claim: look again next time
        self._store.durable.hook("C8")
        judged = judge_all(self._judge, self._late(head), found)
        admitted = [one for one in judged if one.verdict.admitted]
        refused = [one for one in judged if not one.verdict.admitted]
        if not admitted and all(one.found.laptop or one.found.uid is not None for one in refused):
            self._refused |= {one.found.key for one in refused}
            return None  # refusals of laptops and friends alone wait for the next version
        base, state, shares = self._moved(head, admitted, refused)
        record = self._record(head, base, encode(state), shares, admitted, refused)
        return self._committed(record, state, [one.found for one in judged])

    def _committed(
        self, record: Version, state: StateDict, judged: Sequence[Found]
    ) -> Version | None:
        """``record``, now a version, with what follows; None when another was faster."""
        if not self._store.commit(record):
            return None
        self._store.durable.hook("C10")
        self._finish(record, state, judged)
        return record

    def _late(self, head: Version) -> list[Version]:
        """The versions whose contributions are still there, oldest first."""
        first = max(0, head.version - self._settings.keep_versions + 1)
        return self._store.records(first, head.version)

    def _moved(
        self, head: Version, admitted: Sequence[Judged], refused: Sequence[Judged]
    ) -> tuple[int, StateDict, Shares]:
        """The version moved from, the new state, and each contribution's share in it."""
        base, shared = self._base(head)
        seen = [one.as_offer() for one in admitted]
        contributing = _jobs([one.found for one in admitted])
        live = self._live_jobs(contributing)
        full = complete_set(
            seen, len(live - (_bring_nothing(head, refused) - contributing)), head.denominator
        )
        shares = share_out(seen, full, self._settings.limits)
        rule = self._settings.rule
        pulls = [
            pull(self._store, rule, one.delta, one.found.offer.base_version, shared)
            for one in admitted
            if one.delta is not None
        ]
        if rule == "polyak":
            alpha = self._settings.alpha
            each = zip(admitted, shares.shares, strict=True)
            given = tuple(min(alpha, own) if one.is_capped else alpha for one, own in each)
            shares = Shares(given, shares.denominator)
        clips = [one.verdict.scale for one in admitted]
        state = move(shared, pulls, factors(rule, shares.shares, clips))
        if not is_finite(state):
            raise WeightsError(f"version {head.version + 1} would not be finite", "report this")
        return base, state, shares

    def _base(self, head: Version) -> tuple[int, StateDict]:
        """The newest state that verifies: the head's, or an older one when that is damaged."""
        error: WeightsError | None = None
        for number in candidates(self._store, head.version, self._settings.keep_versions - 1):
            try:
                record = self._store.version(number)
                return number, decode(repair(self._store, record), record.schema)
            except WeightsError as found:
                error = error or found
        raise error or WeightsError("no version can be read", "restore the shared weights")

    def _record(
        self,
        head: Version,
        base: int,
        data: bytes,
        shares: Shares,
        admitted: Sequence[Judged],
        refused: Sequence[Judged],
    ) -> Version:
        """The next version's commit record; everything it names has been written."""
        for one in admitted:
            if one.data:  # keep what a version was made of, for replay, as it was judged
                self._store.put_blob(one.data, "input")
        sha = self._store.put_blob(data, "state")
        self._store.durable.hook("C9")
        inputs = tuple(
            one.as_input(head.version, share)
            for one, share in zip(admitted, shares.shares, strict=True)
        )
        totals = _totals(head, inputs)
        jobs = [one for one in admitted if not one.found.laptop]  # what is usual, they say
        norms = [(one.norm * one.verdict.scale, one.found.offer.optimizer_steps) for one in jobs]
        return Version(
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
            refused=tuple(one.as_refusal() for one in refused),
            consumed=self._consumed(head, [*admitted, *refused]),
            contributors=totals,
            norms=remember(head.norms, norms),
            fleet_steps=sum(totals.values()),
            merger=self._name,
            ts=round(self._clock.now(), 3),
            assists=head.assists,
            reverted=head.reverted,
        )

    def _consumed(self, head: Version, judged: Sequence[Judged]) -> dict[str, tuple[int, int]]:
        """Highest judged sequence per author; forgotten once anything as old would be too stale."""
        number, here = head.version + 1, beats.authors(self._store)
        kept = {
            author: pair
            for author, pair in head.consumed.items()
            if author in here or self._may_come_again(head, pair[1])
        }
        for one in sorted(judged, key=lambda one: one.found.key):  # the highest is noted last
            kept[one.found.offer.author] = (one.found.offer.sequence, number)
        return kept

    def _may_come_again(self, head: Version, number: int) -> bool:
        """Whether what came with a version may still be offered a second time."""
        lag, records = head.version + 1 - number, self._store.records(number, number)
        if records:
            lag = own_lag(lag, head.ts - records[0].ts)
        return lag < 2 * self._settings.laptop_max_staleness

    def _finish(self, record: Version, state: StateDict, judged: Sequence[Found]) -> None:
        """What follows a commit; the next merger or reader repeats it if we die here."""
        store = self._store
        store.write_head(record.version)
        store.durable.hook("C11")
        if self._settings.wan:
            asked = self._settings
            data = encode(state, half=True)
            serve(store, record.version, data, asked.told, asked.release)
        store.durable.hook("C12")
        late = store.records(record.version - 1, record.version)  # its merger may have died here
        for one in late:
            for receipt in (*offers.receipts(one), *revert_receipts(store, one)):
                offers.write_receipt(store, receipt)
        self._sweeper.after_merge(record, judged)


def _jobs(found: Sequence[Found]) -> set[str]:
    return {one.offer.peer for one in found if not one.laptop}


def _bring_nothing(head: Version, refused: Sequence[Judged]) -> set[str]:
    """Jobs whose last contribution was refused for its values: the rest go the full way."""
    now = {one.peer for one in refused if one.verdict.fault is Fault.VALUES}
    return now | {one.peer for one in head.refused if one.fault == Fault.VALUES.value}


def _totals(head: Version, inputs: Sequence[Input]) -> dict[str, int]:
    totals = dict(head.contributors)
    for one in inputs:
        totals[one.peer] = totals.get(one.peer, 0) + one.new_steps
    return dict(sorted(totals.items()))
