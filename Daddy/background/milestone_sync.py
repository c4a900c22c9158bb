"""A laptop plays the run's milestones into its own archive, and hands in its own.

What is pulled are claims; each is played again here, on this machine's own game, in the killable
child, so that the environments can go on from where the run is. With `contributes`, what they reach
beyond the run goes into the outbox as claims, and what became of those is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from Daddy.background.background_task import ClaimSender
from Daddy.core.clock import Clock
from Daddy.core.errors import FileError
from Daddy.pokemon.archive import claim_format
from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.archive_store import Archive
from Daddy.pokemon.archive.claim_format import Claim
from Daddy.pokemon.archive.claim_replay import ReplayGame, replay_claim
from Daddy.pokemon.archive.claim_store import ClaimStore
from Daddy.weights import attachments
from Daddy.weights.store.weight_records import AttachmentReceipt

HAND_IN_S = 20.0
"""Shortest time between two claims."""
UNANSWERED_LIMIT = 8
"""Claims that may wait for an answer."""

Tell = Callable[[Mapping[str, object]], None]


class MilestoneSync:
    """Between a laptop's folder of shared weights and its archive. Not for several threads."""

    def __init__(
        self, local: Path, archive: Archive, game: ReplayGame,
        sender: ClaimSender | None, clock: Clock, tell: Tell,
    ) -> None:  # fmt: skip
        self._local, self._archive, self._game = local, archive, game
        self._sender, self._clock, self._tell = sender, clock, tell
        self._book = ClaimStore(archive.folder)
        self._shown: dict[str, Claim | None] = {}
        self._tried: set[str] = set()
        self._handed_at, self._sequence = -HAND_IN_S, 0
        self._answered = {receipt.sha256 for receipt in self._receipts()}

    def run_cycle(self) -> None:
        """Play one of the run's milestones, hand in one of ours. OSError, DaddyError."""
        shown = self._look()
        wanted = claim_format.claims_to_replay(shown, {*self._tried, *self._living()})
        if wanted:
            self._play(wanted[0], shown)
        if self._sender is not None:
            self._hand_in(self._sender, shown, self._tell_answers())

    def _look(self) -> dict[str, Claim]:
        """What the run shows, each read once."""
        for ident, path in attachments.list_published(self._local).items():
            if ident not in self._shown:
                self._shown[ident] = _read(path)
        return {ident: claim for ident, claim in self._shown.items() if claim is not None}

    def _living(self) -> set[str]:
        """Claims whose states are here."""
        here = self._archive.list_states().hashes
        return {ident for ident, state in self._book.claim_state_pairs() if state in here}

    def _play(self, ident: str, shown: Mapping[str, Claim]) -> None:
        def find_claim(ident: str) -> Claim | None:
            return shown.get(ident) or self._book.find_claim(ident)

        # Later claims of our own will go back to the ancestors.
        for step in claim_format.claim_lineage(shown[ident].parent, find_claim):
            if self._book.find_claim(step) is None:
                self._book.keep_claim(shown[step])
        verdict = replay_claim(shown[ident], self._archive, self._game, "the run", find_claim)
        self._tried.add(ident)
        if verdict.entry is not None:
            self._tell_of("played", shown[ident])

    def _tell_of(self, what: str, claim: Claim) -> None:
        held = sorted(keys.milestones(claim.held))
        self._tell({"state": "milestone", "what": what, "milestones": held[:40]})

    def _hand_in(self, sender: ClaimSender, shown: Mapping[str, Claim], accepted: set[str]) -> None:
        now, handed = self._clock.monotonic(), attachments.queued_hashes(self._local, sender.peer)
        unanswered = handed - self._answered
        if now - self._handed_at < HAND_IN_S or len(unanswered) >= UNANSWERED_LIMIT:
            return
        names = self._names({*shown, *(handed & accepted)})
        for ident in self._new(shown, handed):
            if self._send(sender, ident, names):
                self._handed_at = now
                return

    def _new(self, shown: Mapping[str, Claim], handed: set[str]) -> list[str]:
        """Claims of our own that hold more than the run is known to, most milestones first."""
        pairs = self._book.claim_state_pairs()
        sent = {state for ident, state in pairs if ident in handed}
        ways = {state: ident for ident, state in pairs if state not in sent}
        own = claim_format.claims_by_rank(self._archive.list_states().entries, ways)
        known = [*shown.values(), *filter(None, map(self._book.find_claim, handed))]
        own = [ident for ident in own if ident not in shown and ident not in self._tried]
        return claim_format.claims_to_submit(own, self._book.find_claim, known)

    def _send(self, sender: ClaimSender, ident: str, names: Mapping[str, str]) -> bool:
        """False for a claim that cannot be sent."""
        claim = self._book.find_claim(ident)
        assert claim is not None
        try:
            claim = claim_format.rebase_for_run(claim, self._book.find_claim, names)
            data = claim_format.encode_claim(claim)
        except FileError:
            data = b""
        if not 0 < len(data) <= attachments.MOST_BYTES:
            self._tried.add(ident)
            return False
        self._book.keep_claim(claim, dict(self._book.claim_state_pairs())[ident])
        self._sequence += 1
        attachments.queue_attachment(
            self._local, sender.peer, sender.incarnation, self._sequence, data
        )
        self._tell_of("handed in", claim)
        return True

    def _names(self, there: set[str]) -> dict[str, str]:
        """What the run calls our claims: those it has, and others that lead to the same state."""
        pairs = self._book.claim_state_pairs()
        called = {state: ident for ident, state in pairs if ident in there}
        names = {ident: called[state] for ident, state in pairs if state in called}
        return names | {ident: ident for ident in there}

    def _receipts(self) -> list[AttachmentReceipt]:
        peer = self._sender.peer if self._sender else ""
        return attachments.read_attachment_receipts(self._local, peer) if peer else []

    def _tell_answers(self) -> set[str]:
        """Tell of new answers; the hashes of all claims that were accepted."""
        receipts = self._receipts()
        for receipt in receipts:
            if receipt.sha256 not in self._answered:
                self._answered.add(receipt.sha256)
                what = "accepted" if receipt.accepted else "refused"
                self._tell({"state": "milestone", "what": what, "reason": receipt.reason})
        return {receipt.sha256 for receipt in receipts if receipt.accepted}


def _read(path: Path) -> Claim | None:
    data = attachments.read_published(path)
    try:
        return None if data is None else claim_format.decode_claim(data)
    except FileError:
        return None
