"""WeightExchange of a laptop: of one that only plays, and of one that contributes.

Nothing here uses the network: ``sync_weights.sh`` pulls versions and receipts into a folder, and
pushes the contributions in its ``outbox/<peer>/``. A version that does not verify is not adopted.
To save uplink, deltas are rounded to int8 if the run reads that, else to bfloat16; the next delta
includes the rounding error.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from Daddy.core.assist_compatibility import refuse_missing_assists
from Daddy.core.atomic_files import sha256_hex, write_atomic
from Daddy.core.clock import Clock
from Daddy.core.errors import WeightsError
from Daddy.core.name_validation import check_peer
from Daddy.core.shared_types import Adoption
from Daddy.weights.encoding.quantise import decode_delta, quantise
from Daddy.weights.encoding.state_arithmetic import StateDict, add_deltas, copy_state, is_finite
from Daddy.weights.encoding.state_codec import decode, encode, schema_of
from Daddy.weights.encoding.tensor_layout import INT8, PLAIN
from Daddy.weights.laptop.pulled_folder import (
    VerifiedVersion,
    newest_verified,
    read_laptop_head,
    read_receipts,
)
from Daddy.weights.merge.contributions import box_name
from Daddy.weights.store.weight_records import Contribution, Receipt, is_reverted
from Daddy.weights.unmerged_progress import BaseVersion, OfferOutcome, PeerProgress

ReportEvent = Callable[[str, Mapping[str, object]], None]
"""Writes an event: its name and its data."""


def ignore_event(event: str, data: Mapping[str, object]) -> None:
    """Write no event."""


class PlayOnlyExchange:
    """Plays with the newest verified version in ``pulled_dir`` (usually ``~/shared_weights``) and
    contributes nothing. Refuses a version learnt with assists that are not in ``assists``.
    ``adopted`` is the version in use; ``report`` gets an event for it and for refused ones.
    """

    def __init__(
        self, pulled_dir: Path, assists: tuple[str, ...] = (), report: ReportEvent = ignore_event
    ) -> None:
        self._pulled_dir = pulled_dir
        self._assists = assists
        self._report = report
        self._schema = ""
        self._last_warning = ""
        self._progress: PeerProgress  # set by join_fleet(), as is ``adopted``
        self.adopted: VerifiedVersion

    def join_fleet(
        self,
        initial: Callable[[], StateDict],
        resumed: bytes | None,
        env_steps: int = 0,
        optimizer_steps: int = 0,
    ) -> Adoption:
        """Return the newest version; ``resumed`` is not used. Raise WeightsError when none was
        pulled, or when it is of another policy.
        """
        del resumed
        self._schema = schema_of(copy_state(initial()))
        pulled = newest_verified(self._pulled_dir)
        if pulled is None:
            raise WeightsError(
                f"{self._pulled_dir} holds no version yet",
                f'run: ./Daddy/cluster/sync_weights.sh pull "" {self._pulled_dir}',
            )
        base = self._decode_compatible(pulled)
        self._record_adopted(pulled)
        self._progress = PeerProgress(base=base, anchor=base.weights)
        self._progress.count_steps(env_steps, optimizer_steps)
        return Adoption(base.version, copy_state(base.weights), f"began with v{base.version}")

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Offer nothing."""
        del weights, env_steps, optimizer_steps
        return "nothing published: this laptop only plays"

    def adopt(
        self, weights: StateDict, env_steps: int = 0, optimizer_steps: int = 0
    ) -> Adoption | None:
        """Return a newer version, rebased on ``weights``, or None if none was pulled."""
        try:
            # The head is small, the version's file is large: it is read only for a new head.
            head = read_laptop_head(self._pulled_dir / "wan" / "HEAD.json")
            if head is None or head.version == self._progress.base.version:
                return None
            pulled = newest_verified(self._pulled_dir)  # the one before, if the new is damaged
            if pulled is None or pulled.version == self._progress.base.version:
                return None
            base = self._decode_compatible(pulled)
        except WeightsError as error:
            self._warn_once(error.message)
            return None
        self._record_adopted(pulled)
        outcome, own = self._offer_outcome(base.version), copy_state(weights)
        return self._progress.rebase(base, own, outcome, env_steps, optimizer_steps)

    def restart_from_newest(self, env_steps: int) -> Adoption:
        """Drop own progress; return the newest version that was pulled."""
        self.adopt(self._progress.base.weights)
        return self._progress.restart(env_steps)

    def beat(self) -> None:
        """Do nothing: no merge waits for a laptop."""

    def fleet_steps(self) -> int:
        """Return environment steps of all contributors in the version adopted last."""
        return self.adopted.head.fleet_steps

    def resume_state(self) -> bytes:
        """Return an empty note: a laptop starts with the newest version."""
        return b"{}"

    def _decode_compatible(self, pulled: VerifiedVersion) -> BaseVersion:
        """Return the decoded version. Raise WeightsError for other assists or another policy."""
        refuse_missing_assists(pulled.label, pulled.head.assists, self._assists)
        if pulled.head.schema != self._schema:
            release = pulled.head.release or "that the run's owner names"
            raise WeightsError(
                f"v{pulled.version} of run {pulled.head.run!r} is another policy than ours",
                f"install the release {release}: the run's owner has its code",
            )
        return BaseVersion(pulled.version, pulled.head.state, decode(pulled.data, self._schema))

    def _record_adopted(self, pulled: VerifiedVersion) -> None:
        self.adopted = pulled
        if pulled.warning:
            self._warn_once(pulled.warning)
        self._report("state", {"state": "playing", "version": pulled.version, "sha": pulled.sha256})

    def _warn_once(self, text: str) -> None:
        if text != self._last_warning:
            self._report("error", {"text": text})
        self._last_warning = text

    def _offer_outcome(self, version: int) -> OfferOutcome:
        """Return the outcome of own offers up to ``version``: there are none."""
        del version
        base = self._progress.base.version
        reverted = is_reverted(base, self.adopted.head.reverted)
        return OfferOutcome(0, {}, base_reverted=f"v{base} was taken back" if reverted else "")


CONTRIBUTE_S = 60.0
"""Least seconds between two contributions: 2 MB a minute is 2 % of a home's uplink."""

_RECEIPT_FIELDS = ("sequence", "accepted", "version", "share", "reason")
UNMERGED_LIMIT = 8
"""Contributions that may wait for a receipt; with more, push is probably not running."""


class LaptopExchange(PlayOnlyExchange):
    """Also contributes, as ``peer``, every ``min_seconds`` at most; while ``stop_reason`` returns
    one, at once.

    ``incarnation`` is a new name for every process (``core.name_validation.new_incarnation``).
    """

    def __init__(
        self,
        pulled_dir: Path,
        peer: str,
        incarnation: str,
        clock: Clock,
        min_seconds: float = CONTRIBUTE_S,
        assists: tuple[str, ...] = (),
        report: ReportEvent = ignore_event,
        stop_reason: Callable[[], str | None] = lambda: None,
    ) -> None:
        super().__init__(pulled_dir, assists, report)
        self._stop_reason = stop_reason
        self._peer, self._incarnation = check_peer(peer), incarnation
        self._clock = clock
        self._min_seconds = min_seconds
        self._next_due_s = -math.inf
        self._reported_receipts: set[int] = set()

    def adopt(
        self, weights: StateDict, env_steps: int = 0, optimizer_steps: int = 0
    ) -> Adoption | None:
        """Return a newer version, rebased on ``weights``, or None; report new receipts."""
        adoption = super().adopt(weights, env_steps, optimizer_steps)
        for receipt in self.receipts():
            if receipt.sequence not in self._reported_receipts:
                self._reported_receipts.add(receipt.sequence)
                values = {name: getattr(receipt, name) for name in _RECEIPT_FIELDS}
                self._report("state", {"state": "receipt", **values})
        return adoption

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Put the progress since the last contribution into the outbox; return a message."""
        progress, weights = self._progress, copy_state(weights)
        steps = env_steps - progress.env_steps
        updates = optimizer_steps - progress.optimizer_steps
        reason = self._reason_to_wait(weights, steps, updates)
        if reason:
            return reason
        form = INT8 if INT8 in self.adopted.head.accepts else PLAIN
        delta = progress.delta_to_offer(weights)
        data = quantise(delta) if form == INT8 else encode(delta, half=True)
        offer = self._make_contribution(data, form, steps, updates)
        outbox = self._pulled_dir / "outbox" / self._peer
        # push looks for .json records: with the .st written first, it never sends half a pair.
        write_atomic(outbox / f"{box_name(offer)}.st", data)
        write_atomic(outbox / f"{box_name(offer)}.json", offer.to_json_bytes())
        # The run adds the rounded delta, so the rounding error remains to be published.
        rounded = decode_delta(data, form, self._schema)
        progress.record_offer(add_deltas(progress.anchor, rounded), rounded, offer)
        progress.count_steps(env_steps, optimizer_steps)
        self._next_due_s = self._clock.monotonic() + self._min_seconds
        return (
            f"contribution {offer.sequence} on v{offer.base_version}, {steps} steps: in the outbox"
        )

    def receipts(self) -> list[Receipt]:
        """Return receipts of this process's contributions so far."""
        receipts = read_receipts(self._pulled_dir, self._peer)
        return [receipt for receipt in receipts if receipt.incarnation == self._incarnation]

    def _reason_to_wait(self, weights: StateDict, steps: int, updates: int) -> str:
        """Return the reason for which nothing is contributed now; empty when something is."""
        if steps <= 0 or updates <= 0:
            return "nothing to contribute: no step since the last contribution"
        if not is_finite(weights):
            return "not contributed: the weights are not finite"
        left_s = self._next_due_s - self._clock.monotonic()
        if left_s > 0 and not self._stop_reason():
            return f"not yet: the next contribution is due in {left_s:.0f} s"
        if len(self._progress.unmerged) >= UNMERGED_LIMIT:
            return f"not contributed: {UNMERGED_LIMIT} wait for a receipt; is push running?"
        return ""

    def _make_contribution(self, data: bytes, form: str, steps: int, updates: int) -> Contribution:
        progress = self._progress
        return Contribution(
            run_id=self.adopted.head.run_id,
            schema=self._schema,
            assists=self._assists,
            peer=self._peer,
            incarnation=self._incarnation,
            sequence=progress.sequence + 1,
            blob=sha256_hex(data),
            size=len(data),
            form=form,
            base_version=progress.base.version,
            base_state=progress.base.state,
            env_steps=steps,
            new_steps=steps,
            optimizer_steps=updates,
        )

    def _offer_outcome(self, version: int) -> OfferOutcome:
        """Return the outcome by receipts up to ``version``; a later receipt replaces an earlier."""
        receipts = [receipt for receipt in self.receipts() if receipt.version <= version]
        refusals = (receipt for receipt in receipts if not receipt.accepted)
        refused = {receipt.sequence: (receipt.fault, receipt.reason) for receipt in refusals}
        judged = max((receipt.sequence for receipt in receipts), default=0)
        return replace(super()._offer_outcome(version), judged=judged, refused=refused)
