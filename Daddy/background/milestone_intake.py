"""A job publishes the run's milestones for laptops, and checks the milestones that laptops submit.

One job at a time does both, under a lease; if two ever do, a claim is replayed twice and the same
state is archived. A claim is a list of inputs: a child process replays them, is killed after
REPLAY_LIMIT_S seconds, and only the state that the child itself reached is archived. After a
refused claim a laptop waits twice as long until its next claim is checked.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from Daddy.background.background_task import BackgroundTask, PrintLine, open_archive
from Daddy.core.clock import Clock
from Daddy.core.errors import FileError
from Daddy.core.lease import Lease
from Daddy.core.load_config import shared_paths
from Daddy.learning.attempt_context import JobAttempt
from Daddy.pokemon.archive import claim_format
from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.archive_store import Archive
from Daddy.pokemon.archive.claim_format import Claim
from Daddy.pokemon.archive.claim_replay import ReplayGame, replay_claim
from Daddy.pokemon.archive.state_claims import ClaimStore
from Daddy.weights import laptop_attachments
from Daddy.weights.laptop_attachments import MOST_BYTES, Attachment
from Daddy.weights.merge.contributions import plain_reason
from Daddy.weights.store.heartbeats import StallTimer
from Daddy.weights.store.weight_store import Store

POLL_S = 5.0
PUBLISH_S = 30.0
REPLAY_LIMIT_S = 300.0
"""Seconds after which the replay of a claim is killed."""
SILENCE_S = 2 * REPLAY_LIMIT_S
FIRST_WAIT_S, LONGEST_WAIT_S = 10.0, 3_600.0


@contextmanager
def run_job_tasks(attempt: JobAttempt, peer: str) -> Iterator[None]:
    """Publish milestones for laptops and check theirs during the `with` block, as job ``peer``."""
    config, report = attempt.config, partial(print, flush=True)
    intake = MilestoneIntake(
        Store(shared_paths(config)), *open_archive(config), peer, attempt.clock, report
    )
    try:
        with closing(BackgroundTask(intake.run_cycle, POLL_S, attempt.clock, report)):
            yield
    finally:
        intake.release_lease()


@dataclass
class JudgingTurns:
    """Holds the monotonic time in seconds at which each laptop's next claim may be checked."""

    due: dict[str, float] = field(default_factory=dict)
    waits: dict[str, float] = field(default_factory=dict)

    def next_peer(self, peers: Iterable[str], now: float) -> str | None:
        """Return the peer whose claim has been due longest, or None if no claim is due."""
        ready = [peer for peer in peers if self.due.get(peer, 0.0) <= now]
        return min(ready, key=lambda peer: (self.due.get(peer, 0.0), peer), default=None)

    def record_result(self, peer: str, now: float, *, accepted: bool) -> None:
        """Set the peer's next wait: 10 s after an accepted claim, or twice the last wait."""
        waited = self.waits.get(peer, FIRST_WAIT_S / 2)
        wait = FIRST_WAIT_S if accepted else min(LONGEST_WAIT_S, 2 * waited)
        self.waits[peer], self.due[peer] = wait, now + wait


class MilestoneIntake:
    """Publishes and checks milestones for the job `name`; for use on one thread only."""

    def __init__(
        self,
        store: Store,
        archive: Archive,
        game: ReplayGame,
        name: str,
        clock: Clock,
        report: PrintLine,
    ) -> None:
        self._store, self._archive, self._name = store, archive, name
        self._game = replace(game, seconds=REPLAY_LIMIT_S)
        self._clock, self._report = clock, report
        self._claims = ClaimStore(archive.folder)
        self._watch, self._turns = StallTimer(clock), JudgingTurns()
        self._lease: Lease | None = None
        self._published_at = -PUBLISH_S

    def run_cycle(self) -> None:
        """Publish milestones and check a claim, if this job has the lease. OSError, DaddyError."""
        if not self._hold_lease():
            return
        now = self._clock.monotonic()
        if now - self._published_at >= PUBLISH_S:
            self._published_at = now
            laptop_attachments.publish_attachments(self._store, self._claims_to_publish())
        waiting = laptop_attachments.pending_attachments(self._store)
        peer = self._turns.next_peer(waiting, now)
        if peer is not None:
            self._check(waiting[peer][0])

    def release_lease(self) -> None:
        if self._lease is not None:
            self._lease.release("left")

    def _claims_to_publish(self) -> Mapping[str, bytes]:
        """Remove unused claims; return the encoded claims to publish for laptops, by hash."""
        entries = self._archive.list_states().entries
        claim_of = {state: ident for ident, state in self._claims.claim_state_pairs()}
        self._claims.remove_unused(entry.sha256 for entry in entries)
        find, ranked = self._claims.find_claim, claim_format.claims_by_rank(entries, claim_of)
        chosen = claim_format.distinct_claims(ranked, find)
        claims = {i: find(i) for i in claim_format.claims_to_publish(chosen, find, _fits)}
        return {i: claim_format.encode_claim(claim) for i, claim in claims.items() if claim}

    def _check(self, parcel: Attachment) -> None:
        accepted = False
        try:
            claim = claim_format.decode_claim(parcel.data)
            verdict = replay_claim(claim, self._archive, self._game, parcel.peer)
            accepted, reason = verdict.entry is not None, verdict.reason
        except FileError as error:
            reason = error.message
        if accepted:
            milestones = len(keys.milestones(claim.held))
            reason = f"{milestones} milestones after {len(claim.inputs):,} steps"
        reason = plain_reason(reason)
        laptop_attachments.answer_attachment(self._store, parcel, reason, accepted=accepted)
        self._turns.record_result(parcel.peer, self._clock.monotonic(), accepted=accepted)
        self._report(f"milestone of {parcel.peer} {'kept' if accepted else 'refused'}: {reason}")

    def _hold_lease(self) -> bool:
        folder = self._store.paths.post
        if self._lease is not None and self._lease.held():
            self._lease.beat()
            return True
        self._lease = self._watch.claim_lease(folder, {"peer": self._name}, SILENCE_S)
        return self._lease is not None


def _fits(claim: Claim) -> bool:
    return len(claim_format.encode_claim(claim)) <= MOST_BYTES
