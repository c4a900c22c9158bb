"""A laptop replays the run's milestones into its own archive, and submits its own milestones.

A laptop pulls claims, which are lists of inputs. A child process replays each on the laptop's own
game, so that the laptop's environments can start from the run's best states. With a ``sender``, a
milestone that the run does not have goes into the outbox as a claim, and the run's answer is
reported.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.errors import FileError
from Daddy.core.name_validation import new_incarnation
from Daddy.pokemon.archive import claim_format
from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.archive_store import Archive
from Daddy.pokemon.archive.claim_format import Claim
from Daddy.pokemon.archive.claim_replay import ReplayGame, replay_claim
from Daddy.pokemon.archive.state_claims import ClaimStore
from Daddy.weights import laptop_attachments
from Daddy.weights.store.weight_records import AttachmentReceipt

SUBMIT_S = 20.0
"""Shortest time in seconds between two submitted claims."""
UNANSWERED_LIMIT = 8
"""Most claims that may wait for an answer."""

LogState = Callable[[Mapping[str, object]], None]


class MilestoneSync:
    """Exchanges milestones between a laptop's pulled folder and its archive, on one thread only."""

    def __init__(
        self, local: Path, archive: Archive, game: ReplayGame,
        sender: str, clock: Clock, log_state: LogState,
    ) -> None:  # fmt: skip
        self._local, self._archive, self._game = local, archive, game
        self._sender, self._clock, self._log_state = sender, clock, log_state
        self._incarnation = new_incarnation()
        self._claims = ClaimStore(archive.folder)
        self._shown: dict[str, Claim | None] = {}
        self._done: set[str] = set()
        self._submitted_at, self._sequence = -SUBMIT_S, 0
        self._answered = {receipt.sha256 for receipt in self._receipts()}

    def run_cycle(self) -> None:
        """Replay one of the run's claims and submit one of ours, if any. OSError, DaddyError."""
        shown = self._published_claims()
        wanted = claim_format.claims_to_replay(shown, {*self._done, *self._archived_claims()})
        if wanted:
            self._replay(wanted[0], shown)
        if self._sender:
            self._submit(shown, self._log_answers())

    def _published_claims(self) -> dict[str, Claim]:
        """Return the valid claims that the run publishes, by hash; read each file only once."""
        for ident, path in laptop_attachments.list_published(self._local).items():
            if ident not in self._shown:
                self._shown[ident] = _read(path)
        return {ident: claim for ident, claim in self._shown.items() if claim is not None}

    def _archived_claims(self) -> set[str]:
        """Return the hashes of the claims whose states are in this laptop's archive."""
        here = self._archive.list_states().hashes
        return {ident for ident, state in self._claims.claim_state_pairs() if state in here}

    def _replay(self, ident: str, shown: Mapping[str, Claim]) -> None:
        def find_claim(ident: str) -> Claim | None:
            return shown.get(ident) or self._claims.find_claim(ident)

        # Our own later claims will refer to the ancestors.
        for step in claim_format.claim_lineage(shown[ident].parent, find_claim):
            if self._claims.find_claim(step) is None:
                self._claims.keep_claim(shown[step])
        verdict = replay_claim(shown[ident], self._archive, self._game, "the run", find_claim)
        self._done.add(ident)
        if verdict.entry is not None:
            self._log_claim("played", shown[ident])

    def _log_claim(self, result: str, claim: Claim) -> None:
        held = sorted(keys.milestones(claim.held))
        self._log_state({"state": "milestone", "what": result, "milestones": held[:40]})

    def _submit(self, shown: Mapping[str, Claim], accepted: set[str]) -> None:
        now = self._clock.monotonic()
        handed = laptop_attachments.queued_hashes(self._local, self._sender)
        unanswered = handed - self._answered
        if now - self._submitted_at < SUBMIT_S or len(unanswered) >= UNANSWERED_LIMIT:
            return
        names = self._names({*shown, *(handed & accepted)})
        for ident in self._unknown_to_run(shown, handed):
            if self._send(ident, names):
                self._submitted_at = now
                return

    def _unknown_to_run(self, shown: Mapping[str, Claim], handed: set[str]) -> list[str]:
        """Return the hashes of our claims for milestones that the run lacks, most first."""
        pairs = self._claims.claim_state_pairs()
        sent = {state for ident, state in pairs if ident in handed}
        claim_of = {state: ident for ident, state in pairs if state not in sent}
        own = claim_format.claims_by_rank(self._archive.list_states().entries, claim_of)
        run_has = [*shown.values(), *filter(None, map(self._claims.find_claim, handed))]
        own = [ident for ident in own if ident not in shown and ident not in self._done]
        return claim_format.claims_to_submit(own, self._claims.find_claim, run_has)

    def _send(self, ident: str, names: Mapping[str, str]) -> bool:
        """Write a claim to the outbox; return False if the claim is too large or not encodable."""
        claim = self._claims.find_claim(ident)
        assert claim is not None
        try:
            claim = claim_format.rebase_for_run(claim, self._claims.find_claim, names)
            data = claim_format.encode_claim(claim)
        except FileError:
            data = b""
        if not 0 < len(data) <= laptop_attachments.MOST_BYTES:
            self._done.add(ident)
            return False
        self._claims.keep_claim(claim, dict(self._claims.claim_state_pairs())[ident])
        self._sequence += 1
        mine = (self._sender, self._incarnation, self._sequence)
        laptop_attachments.queue_attachment(self._local, *mine, data)
        self._log_claim("handed in", claim)
        return True

    def _names(self, run_has: set[str]) -> dict[str, str]:
        """Map the hash of each claim here to that of the run's claim for the same state."""
        pairs = self._claims.claim_state_pairs()
        by_state = {state: ident for ident, state in pairs if ident in run_has}
        names = {ident: by_state[state] for ident, state in pairs if state in by_state}
        return names | {ident: ident for ident in run_has}

    def _receipts(self) -> list[AttachmentReceipt]:
        peer = self._sender
        return laptop_attachments.read_attachment_receipts(self._local, peer) if peer else []

    def _log_answers(self) -> set[str]:
        """Log the run's new answers to our claims; return the hashes of all accepted claims."""
        receipts = self._receipts()
        for receipt in receipts:
            if receipt.sha256 not in self._answered:
                self._answered.add(receipt.sha256)
                result = "accepted" if receipt.accepted else "refused"
                self._log_state({"state": "milestone", "what": result, "reason": receipt.reason})
        return {receipt.sha256 for receipt in receipts if receipt.accepted}


def _read(path: Path) -> Claim | None:
    data = laptop_attachments.read_published(path)
    try:
        return None if data is None else claim_format.decode_claim(data)
    except FileError:
        return None
