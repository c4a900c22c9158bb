"""A laptop plays the run's milestones into its own archive, and hands in its own.

What is pulled are claims; each is played again here, on this machine's own game, in the killable
child, so that the environments can go on from where the run is. With `contributes`, what they reach
beyond the run goes into the outbox as claims, and what became of those is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from Daddy.background.background_task import Sender
from Daddy.core.clock import Clock
from Daddy.core.errors import FileError
from Daddy.pokemon.archive import archive_keys as keys
from Daddy.pokemon.archive import claims
from Daddy.pokemon.archive.claim_replay import Game, judge
from Daddy.pokemon.archive.claim_store import ClaimStore
from Daddy.pokemon.archive.claims import Claim
from Daddy.pokemon.archive.store import Archive
from Daddy.weights import parcels
from Daddy.weights.store.records import ParcelReceipt

HAND_IN_S = 20.0
"""Shortest time between two claims."""
UNANSWERED_LIMIT = 8
"""Claims that may wait for an answer."""

Tell = Callable[[Mapping[str, object]], None]


class MilestoneSync:
    """Between a laptop's folder of shared weights and its archive. Not for several threads."""

    def __init__(
        self, local: Path, archive: Archive, game: Game, sender: Sender | None, clock: Clock,
        tell: Tell,
    ) -> None:  # fmt: skip
        self._local, self._archive, self._game = local, archive, game
        self._sender, self._clock, self._tell = sender, clock, tell
        self._book = ClaimStore(archive.folder)
        self._shown: dict[str, Claim | None] = {}
        self._tried: dict[str, str] = {}
        self._handed_at, self._sequence = -HAND_IN_S, 0
        self._answered = {one.sha256 for one in self._receipts()}

    def once(self) -> None:
        """Play one of the run's milestones, hand in one of ours. OSError, DaddyError."""
        shown = self._look()
        wanted = claims.to_play(shown, {*self._tried, *self._living()})
        if wanted:
            self._play(wanted[0], shown)
        if self._sender is not None:
            self._tell_answers()
            self._hand_in(self._sender, shown)

    def _look(self) -> dict[str, Claim]:
        """What the run shows, each read once."""
        for ident, path in parcels.shown_here(self._local).items():
            if ident not in self._shown:
                self._shown[ident] = _read(path)
        return {ident: claim for ident, claim in self._shown.items() if claim is not None}

    def _living(self) -> set[str]:
        """Claims whose states are here."""
        here = self._archive.look().hashes
        return {ident for ident, state in self._book.pairs() if state in here}

    def _play(self, ident: str, shown: Mapping[str, Claim]) -> None:
        def find(one: str) -> Claim | None:
            return shown.get(one) or self._book.find(one)

        for step in _line(ident, find):  # later claims of our own will go back to them
            if self._book.find(step) is None:
                self._book.write(shown[step])
        verdict = judge(shown[ident], self._archive, self._game, "the run", find)
        self._tried[ident] = verdict.reason
        if verdict.entry is not None:
            held = sorted(keys.milestones(shown[ident].held))
            self._tell({"state": "milestone", "what": "played", "milestones": held[:40]})

    def _hand_in(self, sender: Sender, shown: Mapping[str, Claim]) -> None:
        now, handed = self._clock.monotonic(), parcels.handed_in(self._local, sender.peer)
        unanswered = handed - self._answered
        if now - self._handed_at < HAND_IN_S or len(unanswered) >= UNANSWERED_LIMIT:
            return
        for ident in self._new(shown, handed):
            if self._send(sender, ident, shown, handed):
                self._handed_at = now
                return

    def _new(self, shown: Mapping[str, Claim], handed: set[str]) -> list[str]:
        """Claims of our own that hold more than the run is known to, most milestones first."""
        pairs = self._book.pairs()
        sent = {state for ident, state in pairs if ident in handed}
        ways = {state: ident for ident, state in pairs if state not in sent}
        own = claims.best_first(self._archive.look().entries, ways)
        known = [*shown.values(), *filter(None, map(self._book.find, handed))]
        own = [ident for ident in own if ident not in shown and ident not in self._tried]
        return claims.to_hand_in(own, self._book.find, known)

    def _send(
        self, sender: Sender, ident: str, shown: Mapping[str, Claim], handed: set[str]
    ) -> bool:
        claim = self._book.find(ident)
        assert claim is not None
        there = {*shown, *(handed & self._accepted())}
        try:
            claim = claims.as_the_run_knows_it(claim, self._book.find, self._names(there))
        except FileError as error:
            self._tried[ident] = error.message
            return False
        data = claims.to_bytes(claim)
        if len(data) > parcels.MOST_BYTES:
            self._tried[ident] = f"{len(data)} bytes are too many to send"
            return False
        self._book.write(claim, dict(self._book.pairs())[ident])
        self._sequence += 1
        parcels.hand_in(self._local, sender.peer, sender.incarnation, self._sequence, data)
        held = sorted(keys.milestones(claim.held))
        self._tell({"state": "milestone", "what": "handed in", "milestones": held[:40]})
        return True

    def _names(self, there: set[str]) -> dict[str, str]:
        """What the run calls our claims: those it has, and others that lead to the same state."""
        pairs = self._book.pairs()
        called = {state: ident for ident, state in pairs if ident in there}
        return {one: called[state] for one, state in pairs if state in called} | {
            one: one for one in there
        }

    def _receipts(self) -> list[ParcelReceipt]:
        return [] if self._sender is None else parcels.read_parcel_receipts(
            self._local, self._sender.peer)  # fmt: skip

    def _accepted(self) -> set[str]:
        return {one.sha256 for one in self._receipts() if one.accepted}

    def _tell_answers(self) -> None:
        for one in self._receipts():
            if one.sha256 not in self._answered:
                self._answered.add(one.sha256)
                what = "accepted" if one.accepted else "refused"
                self._tell({"state": "milestone", "what": what, "reason": one.reason})


def _read(path: Path) -> Claim | None:
    data = parcels.read_shown(path)
    try:
        return None if data is None else claims.from_bytes(data)
    except FileError:
        return None


def _line(ident: str, find: Callable[[str], Claim | None]) -> list[str]:
    """A claim's ancestors, without those that cannot be found."""
    line, claim = list[str](), find(ident)
    while claim is not None and claim.parent and claim.parent not in line:
        line.append(claim.parent)
        claim = find(claim.parent)
    return [one for one in line if find(one) is not None]
