"""Merges pending contributions into the next version, then updates its heads and cleans up.

Any job merges that finds a merge due and takes the merge lease. The lease only saves work: the
commit record is created exclusively, so of two mergers one wins; with equal inputs the other would
have written equal bytes. A test can stop the merger at the hook's points: C8 merging, C9 state
written, C10 committed, C11 head moved, C12 version offered to laptops.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from Daddy.core.clock import Clock
from Daddy.core.lease import Lease, remove_term
from Daddy.weights.encoding.state_arithmetic import StateDict
from Daddy.weights.encoding.state_codec import encode
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.merge.averaging_shares import is_due
from Daddy.weights.merge.cleanup import KEEP_TERMS, Sweeper
from Daddy.weights.merge.compute_version import JudgedOffer, Peers, judge_all, make_version
from Daddy.weights.merge.contributions import write_receipts
from Daddy.weights.merge.merge_inputs import PeerReader, choose_offers, read_inputs
from Daddy.weights.store.heartbeats import LEASE_SILENCE_S, StallTimer
from Daddy.weights.store.laptop_downloads import offer_version
from Daddy.weights.store.weight_records import OfferKey, Version
from Daddy.weights.store.weight_store import Store


class Merger:
    """Merges on behalf of one process, whose ``name`` is peer/incarnation."""

    def __init__(self, store: Store, settings: ExchangeSettings, clock: Clock, name: str) -> None:
        self._timer = StallTimer(clock)
        self.reader = PeerReader(store, clock)
        self.sweeper = Sweeper(store, settings.keep_versions, self._timer, self.reader)
        self._store = store
        self._settings = settings
        self._clock = clock
        self._name = name
        self._refused: set[OfferKey] = set()

    def try_merge(self, period_s: float) -> Version | None:
        """Merge if one is due and no other process merges; return the new version or None."""
        newest = self._store.newest()
        if newest is None:
            return None
        head = self._store.version(newest)
        if not self._is_due(head, self.reader.read_peers(head), period_s):
            return None
        lease = self._claim()
        if lease is None:
            return None
        try:
            return self._merge(head)
        finally:
            lease.release("done")
            with contextlib.suppress(OSError):  # a lease file left behind does no harm
                remove_term(self._store.paths.lease, lease.term - KEEP_TERMS)

    def no_live_job(self) -> bool:
        """Return True if no job of our own account, which alone may merge, is live."""
        newest = self._store.newest()
        if newest is None:
            return True
        pulses = self.reader.read_peers(self._store.version(newest)).heartbeats
        live = self._timer.live_processes(pulses, self._settings.silence_s)
        return not any(pulse.uid is None for pulse in live)

    def _is_due(self, head: Version, peers: Peers, period_s: float) -> bool:
        pending = choose_offers(peers, head, self._refused)
        waiting = [offer for offer in pending if offer.key not in self._refused]
        ages = [self._timer.unchanged_s(("offer", offer.key)) for offer in waiting]
        jobs = {offer.offer.peer for offer in waiting if not offer.is_capped}
        live = self._timer.live_processes(peers.heartbeats, self._settings.silence_s)
        return is_due(
            waiting_jobs=len(jobs),
            waiting_others=sum(offer.is_capped for offer in waiting),
            live_jobs=len({pulse.peer for pulse in live if pulse.uid is None} | jobs),
            oldest_s=max(ages, default=0.0),
            period_s=period_s,
        )

    def _claim(self) -> Lease | None:
        holder = {"merger": self._name}
        return self._timer.claim_lease(self._store.paths.lease, holder, LEASE_SILENCE_S)

    def _merge(self, head: Version) -> Version | None:
        store = self._store
        if store.newest() != head.version:
            return None  # another process merged between our read and our lease
        store.writer.hook("C8")
        peers = self.reader.read_peers(head)
        chosen = choose_offers(peers, head, self._refused)
        if self.reader.relist({offer.offer.peer for offer in chosen if not offer.is_capped}):
            peers = self.reader.read_peers(head)
            chosen = choose_offers(peers, head, self._refused)
        inputs = read_inputs(store, self._settings, self._timer, head, peers, chosen)
        judged = judge_all(inputs)
        if all(offer.pending.is_capped and not offer.verdict.admitted for offer in judged):
            pending = {offer.key for offer in peers.pending}  # what left its box is forgotten
            self._refused = (self._refused & pending) | {offer.pending.key for offer in judged}
            return None  # a version is not made for refusals of laptops and friends alone
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
        self.sweeper.after_merge(record, [offer.pending for offer in judged], peers)
        return record

    def _write(self, judged: Sequence[JudgedOffer], data: bytes) -> str:
        """Write the new state and copies of others' files as blobs; return the state's hash."""
        for offer in judged:
            if offer.verdict.admitted and offer.data:  # its author can still change the file
                self._store.put_blob(offer.data, "input")
        sha = self._store.put_blob(data, "state")
        self._store.writer.hook("C9")
        return sha

    def _finish(self, record: Version, state: StateDict) -> None:
        """Write ``HEAD.json``, laptops' files and receipts; after a crash the next merger does."""
        store, settings = self._store, self._settings
        store.write_head(record.version)
        store.writer.hook("C11")
        if settings.wan:
            facts = (settings.laptop_terms, settings.release)
            offer_version(store, record.version, encode(state, half=True), *facts)
        store.writer.hook("C12")
        for version in store.records(record.version - 1, record.version):
            write_receipts(store, version)
