"""A job shows the run's milestones to laptops, and judges those that laptops hand in.

One job at a time does it, under a lease; if two ever do, a claim is played twice and the same state
is kept. Nothing a laptop sends is loaded or run: it is played again in a child that is killed after
MOST_S seconds, and only the state that the child itself reached is kept. A laptop whose claim leads
nowhere waits twice as long for its next turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from Daddy.background.background_task import BackgroundTask, PrintLine, open_archive
from Daddy.core.clock import Clock
from Daddy.core.errors import FileError
from Daddy.core.lease import Lease
from Daddy.core.load_config import shared_paths
from Daddy.learning.job_attempt import JobAttempt
from Daddy.pokemon.archive import claim_format
from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.archive_store import Archive
from Daddy.pokemon.archive.claim_format import Claim
from Daddy.pokemon.archive.claim_replay import ReplayGame, replay_claim
from Daddy.pokemon.archive.claim_store import ClaimStore
from Daddy.weights import attachments
from Daddy.weights.attachments import MOST_BYTES, Attachment
from Daddy.weights.store.heartbeats import StallTimer
from Daddy.weights.store.weight_store import Store

LOOK_S = 5.0
SHOW_S = 30.0
MOST_S = 300.0
"""Seconds that playing one claim again may take."""
SILENCE_S = 2 * MOST_S
FIRST_WAIT_S, LONGEST_WAIT_S = 10.0, 3_600.0


@contextmanager
def run_job_tasks(attempt: JobAttempt, peer: str) -> Iterator[None]:
    """Milestones go to the run's laptops and come from them while the body learns as ``peer``."""
    config, say = attempt.config, partial(print, flush=True)
    intake = MilestoneIntake(
        Store(shared_paths(config)), *open_archive(config), peer, attempt.clock, say
    )
    try:
        with closing(BackgroundTask(intake.run_cycle, LOOK_S, attempt.clock, say)):
            yield
    finally:
        intake.release_lease()


@dataclass
class JudgingTurns:
    """When each laptop's next claim is judged, in monotonic seconds."""

    due: dict[str, float] = field(default_factory=dict)
    waits: dict[str, float] = field(default_factory=dict)

    def next_peer(self, peers: Iterable[str], now: float) -> str | None:
        """The peer that has waited longest, of those that may; None when no peer may yet."""
        ready = [peer for peer in peers if self.due.get(peer, 0.0) <= now]
        return min(ready, key=lambda peer: (self.due.get(peer, 0.0), peer), default=None)

    def record_result(self, peer: str, now: float, *, earned: bool) -> None:
        """A claim that led nowhere doubles the wait, one that counted makes it short."""
        waited = self.waits.get(peer, FIRST_WAIT_S / 2)
        wait = FIRST_WAIT_S if earned else min(LONGEST_WAIT_S, 2 * waited)
        self.waits[peer], self.due[peer] = wait, now + wait


class MilestoneIntake:
    """On behalf of the job `name`. Not for use by several threads."""

    def __init__(
        self,
        store: Store,
        archive: Archive,
        game: ReplayGame,
        name: str,
        clock: Clock,
        say: PrintLine,
    ) -> None:
        self._store, self._archive, self._name = store, archive, name
        self._game = replace(game, seconds=MOST_S)
        self._clock, self._say = clock, say
        self._book = ClaimStore(archive.folder)
        self._watch, self._turns = StallTimer(clock), JudgingTurns()
        self._lease: Lease | None = None
        self._shown_at = -SHOW_S

    def run_cycle(self) -> None:
        """Show what is new and judge one claim, if we hold the lease. OSError, DaddyError."""
        if not self._holds_the_lease():
            return
        now = self._clock.monotonic()
        if now - self._shown_at >= SHOW_S:
            self._shown_at = now
            attachments.publish_attachments(self._store, self._to_show())
        waiting = attachments.pending_attachments(self._store)
        peer = self._turns.next_peer(waiting, now)
        if peer is not None:
            self._judge(waiting[peer][0])

    def release_lease(self) -> None:
        """Let another job do it."""
        if self._lease is not None:
            self._lease.release("left")

    def _to_show(self) -> Mapping[str, bytes]:
        """The claims that laptops get, by their hashes."""
        entries = self._archive.list_states().entries
        ways = {state: ident for ident, state in self._book.claim_state_pairs()}
        self._book.remove_unused(entry.sha256 for entry in entries)
        wanted = claim_format.distinct_claims(
            claim_format.claims_by_rank(entries, ways), self._book.find_claim
        )
        shown = claim_format.claims_to_publish(wanted, self._book.find_claim, _fits)
        found = {ident: self._book.find_claim(ident) for ident in shown}
        return {
            ident: claim_format.encode_claim(one) for ident, one in found.items() if one is not None
        }

    def _judge(self, parcel: Attachment) -> None:
        earned = False
        try:
            claim = claim_format.decode_claim(parcel.data)
            verdict = replay_claim(claim, self._archive, self._game, parcel.peer)
            earned, reason = verdict.entry is not None, verdict.reason
        except FileError as error:
            reason = error.message
        if earned:
            milestones = len(keys.milestones(claim.held))
            reason = f"{milestones} milestones after {len(claim.inputs):,} steps"
        attachments.answer_attachment(self._store, parcel, reason, accepted=earned)
        self._turns.record_result(parcel.peer, self._clock.monotonic(), earned=earned)
        self._say(f"milestone of {parcel.peer} {'kept' if earned else 'refused'}: {reason}")

    def _holds_the_lease(self) -> bool:
        folder = self._store.paths.post
        if self._lease is not None and self._lease.held():
            self._lease.beat()
            return True
        self._lease = self._watch.claim_lease(folder, {"peer": self._name}, SILENCE_S)
        return self._lease is not None


def _fits(claim: Claim) -> bool:
    return len(claim_format.encode_claim(claim)) <= MOST_BYTES
