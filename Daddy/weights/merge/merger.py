"""One merge: from pending contributions to the next version, its heads and its housekeeping.

Any job that finds a merge due and holds the merge lease does it. The lease only saves work: safety
is the exclusive creation of the commit record, and equal inputs give equal bytes, so a second
merger loses nothing but its time. Steps are announced to the store's hook: C8 merging, C9 state
written, C10 committed, C11 head moved, C12 laptops served and old files going.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from Daddy.core.clock import Clock
from Daddy.core.lease import Lease, remove_term
from Daddy.weights.encoding.state_arithmetic import StateDict
from Daddy.weights.encoding.state_codec import encode
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.merge.averaging import is_merge_due
from Daddy.weights.merge.cleanup import KEEP_TERMS, Sweeper
from Daddy.weights.merge.contributions import write_receipts
from Daddy.weights.merge.make_version import (
    JudgedOffer,
    PeerSnapshot,
    judge_all,
    make_version,
)
from Daddy.weights.merge.merge_inputs import PeerReader, choose_contributions, read_inputs
from Daddy.weights.store.heartbeats import LEASE_SILENCE_S, StallTimer
from Daddy.weights.store.laptop_delivery import offer_to_laptops
from Daddy.weights.store.weight_records import ContributionKey, Version
from Daddy.weights.store.weight_store import Store


class Merger:
    """Merges on behalf of one process, ``name`` as peer/incarnation."""

    def __init__(self, store: Store, settings: ExchangeSettings, clock: Clock, name: str) -> None:
        self._timer = StallTimer(clock)
        self.reader = PeerReader(store, clock)
        self.sweeper = Sweeper(store, settings.keep_versions, self._timer, self.reader)
        self._store = store
        self._settings = settings
        self._clock = clock
        self._name = name
        self._refused: set[ContributionKey] = set()

    def try_merge(self, period_s: float) -> Version | None:
        """The version just committed by us; None when none is due or somebody else is merging."""
        newest = self._store.newest()
        if newest is None:
            return None
        head = self._store.version(newest)
        if not self._is_due(head, self.reader.read(head), period_s):
            return None
        lease = self._claim()
        if lease is None:
            return None
        try:
            return self._merge(head)
        finally:
            lease.release("done")
            with contextlib.suppress(OSError):  # an old term left behind harms nobody
                remove_term(self._store.paths.lease, lease.term - KEEP_TERMS)

    def no_live_job(self) -> bool:
        """True if every job of our own account has left or fallen silent: those merge."""
        newest = self._store.newest()
        if newest is None:
            return True
        pulses = self.reader.read(self._store.version(newest)).heartbeats
        live = self._timer.live_processes(pulses, self._settings.silence_s)
        return not any(pulse.uid is None for pulse in live)

    def _is_due(self, head: Version, peers: PeerSnapshot, period_s: float) -> bool:
        found = choose_contributions(peers, head, self._refused)
        waiting = [one for one in found if one.key not in self._refused]
        ages = [self._timer.unchanged_s(("offer", one.key)) for one in waiting]
        jobs = {one.offer.peer for one in waiting if not one.laptop}
        live = self._timer.live_processes(peers.heartbeats, self._settings.silence_s)
        there = {pulse.peer for pulse in live if not pulse.laptop} | jobs
        laptops = sum(one.laptop for one in waiting)
        return is_merge_due(len(jobs), len(there), max(ages, default=0.0), period_s, laptops)

    def _claim(self) -> Lease | None:
        holder = {"merger": self._name}
        return self._timer.claim(self._store.paths.lease, holder, LEASE_SILENCE_S)

    def _merge(self, head: Version) -> Version | None:
        store = self._store
        if store.newest() != head.version:
            return None  # another merge came between our look and our claim: look again next time
        store.writer.hook("C8")
        peers = self.reader.read(head)
        chosen = choose_contributions(peers, head, self._refused)
        if self.reader.relist_processes({one.offer.peer for one in chosen if not one.is_capped}):
            peers = self.reader.read(head)
            chosen = choose_contributions(peers, head, self._refused)
        inputs = read_inputs(store, self._settings, self._timer, head, peers, chosen)
        judged = judge_all(inputs)
        if all(one.found.is_capped and not one.verdict.admitted for one in judged):
            self._refused |= {one.found.key for one in judged}
            return None  # refusals of laptops and friends alone wait for the next version
        state, record = make_version(inputs, judged)
        data = encode(state)
        record = replace(
            record,
            state=self._write(judged, data),
            size=len(data),
            merger=self._name,
            ts=round(self._clock.now(), 3),
        )
        if not store.commit(record):
            return None
        store.writer.hook("C10")
        self._finish(record, state)
        self.sweeper.clean_after_merge(record, [one.found for one in judged], peers)
        return record

    def _write(self, judged: Sequence[JudgedOffer], data: bytes) -> str:
        """Put down everything that the record names; the hash of the state."""
        for one in judged:
            if one.verdict.admitted and one.data:  # as judged: the file is in somebody else's hands
                self._store.put_blob(one.data, "input")
        sha = self._store.put_blob(data, "state")
        self._store.writer.hook("C9")
        return sha

    def _finish(self, record: Version, state: StateDict) -> None:
        """Effects of a commit; the next merger or reader repeats them if we die here."""
        store, asked = self._store, self._settings
        store.write_head(record.version)
        store.writer.hook("C11")
        if asked.wan:
            offer_to_laptops(
                store, record.version, encode(state, half=True), asked.told, asked.release
            )
        store.writer.hook("C12")
        for late in store.records(record.version - 1, record.version):  # its merger may have died
            write_receipts(store, late)
