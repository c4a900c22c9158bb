"""WeightExchange of a laptop, over versions that were pulled: play only, or contribute too.

``sync_weights.sh`` moves the files: contributions wait in ``outbox/<peer>/`` (the ``.st`` first,
the ``.json`` last), receipts arrive below ``receipts/``. Only complete, verified versions are
taken; a damaged one is passed over with one warning. Deltas are int8 where the run reads that, else
bfloat16; the next delta includes the rounding error of the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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


class PulledVersions:
    """The newest verified version below ``local_dir`` (usually ``~/shared_weights``). A version
    that was learnt with scripted helps beyond ``assists`` is not taken. ``newest`` is the version
    adopted last; ``tell`` gets an event for it, and for versions that cannot be used.
    """

    def __init__(
        self, local_dir: Path, assists: tuple[str, ...] = (), tell: ReportEvent = ignore_event
    ) -> None:
        self._folder = local_dir
        self._assists = assists
        self._tell = tell
        self._schema = ""
        self._last_warning = ""
        self._progress: PeerProgress  # from join_fleet() on, as is ``newest``
        self.newest: VerifiedVersion

    def join_fleet(self, initial: Callable[[], StateDict], resumed: bytes | None) -> Adoption:
        """Return the newest version; ``resumed`` is not used. Raise WeightsError when none was
        pulled, or when it is of another policy.
        """
        del resumed
        self._schema = schema_of(copy_state(initial()))
        pulled = newest_verified(self._folder)
        if pulled is None:
            raise WeightsError(
                f"{self._folder} holds no version yet",
                f'run: ./Daddy/cluster/sync_weights.sh pull "" {self._folder}',
            )
        base = self._adopt_version(pulled)
        self._progress = PeerProgress(base=base, anchor=base.weights)
        return Adoption(base.version, copy_state(base.weights), f"began with v{base.version}")

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Offer nothing."""
        del weights, env_steps, optimizer_steps
        return "nothing published: this laptop only plays"

    def adopt(self, weights: StateDict) -> Adoption | None:
        """Return a newer version, rebased on ``weights``, or None if none was pulled."""
        try:
            head = read_laptop_head(self._folder / "wan" / "HEAD.json")
            if head is None or head.version == self._progress.base.version:
                return None
            pulled = newest_verified(self._folder)
            if pulled is None or pulled.version == self._progress.base.version:
                return None
            base = self._adopt_version(pulled)
        except WeightsError as error:
            self._warn(error.message)
            return None
        return self._progress.rebase(base, copy_state(weights), self._outcome(base.version))

    def beat(self) -> None:
        """Do nothing: no merge waits for a laptop."""

    def fleet_steps(self) -> int:
        """Return environment steps of all contributors in the version adopted last."""
        return self.newest.head.fleet_steps

    def resume_state(self) -> bytes:
        """Return an empty note: a laptop starts with the newest version."""
        return b"{}"

    def _adopt_version(self, pulled: VerifiedVersion) -> BaseVersion:
        refuse_missing_assists(pulled.label, pulled.head.assists, self._assists)
        if pulled.head.schema != self._schema:
            release = pulled.head.release or "that the run's owner names"
            raise WeightsError(
                f"v{pulled.version} of run {pulled.head.run!r} is another policy than ours",
                f"install the release {release}: the run's owner has its code",
            )
        base = BaseVersion(pulled.version, pulled.head.state, decode(pulled.data, self._schema))
        self.newest = pulled
        if pulled.warning:
            self._warn(pulled.warning)
        self._tell("state", {"state": "playing", "version": base.version, "sha": pulled.sha256})
        return base

    def _warn(self, text: str) -> None:
        if text != self._last_warning:
            self._tell("error", {"text": text})
        self._last_warning = text

    def _outcome(self, version: int) -> OfferOutcome:
        """Return the outcome of own offers up to ``version``: there are none."""
        del version
        base = self._progress.base.version
        fallen = is_reverted(base, self.newest.head.reverted)
        return OfferOutcome(0, {}, base_reverted=f"v{base} was taken back" if fallen else "")


CONTRIBUTE_S = 60.0
"""Least seconds between two contributions: 2 MB a minute is 2 % of a home's uplink."""

_TOLD = ("sequence", "accepted", "version", "share", "reason")
UNMERGED_LIMIT = 8
"""Contributions that may wait for a receipt; with more, push is probably not running."""


class LaptopExchange(PulledVersions):
    """One laptop process's access to ``local_dir`` (usually ``~/shared_weights``). ``incarnation``
    is new for every process (``core.name_validation.new_incarnation``).
    """

    def __init__(
        self,
        local_dir: Path,
        peer: str,
        incarnation: str,
        clock: Clock,
        min_seconds: float = CONTRIBUTE_S,
        assists: tuple[str, ...] = (),
        tell: ReportEvent = ignore_event,
    ) -> None:
        super().__init__(local_dir, assists, tell)
        self._peer, self._incarnation = check_peer(peer), incarnation
        self._clock = clock
        self._min_seconds = min_seconds
        self._due_at = -math.inf
        self._answered: set[int] = set()

    def adopt(self, weights: StateDict) -> Adoption | None:
        """Return a newer version, rebased on ``weights``, or None; report new receipts."""
        adoption = super().adopt(weights)
        for receipt in self.receipts():
            if receipt.sequence not in self._answered:
                self._answered.add(receipt.sequence)
                facts = {name: getattr(receipt, name) for name in _TOLD}
                self._tell("state", {"state": "receipt", **facts})
        return adoption

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Put the progress since the last contribution into the outbox; return a message."""
        at, own = self._progress, copy_state(weights)
        steps, updates = env_steps - at.env_steps, optimizer_steps - at.optimizer_steps
        reason = self._reason_to_wait(own, steps, updates)
        if reason:
            return reason
        form = INT8 if INT8 in self.newest.head.accepts else PLAIN  # smallest
        delta = at.delta_to_offer(own)
        data = quantise(delta) if form == INT8 else encode(delta, half=True)
        offer = self._offer(data, form, steps, updates)
        box = self._folder / "outbox" / self._peer
        write_atomic(box / f"{box_name(offer)}.st", data)
        write_atomic(box / f"{box_name(offer)}.json", offer.to_json_bytes())
        sent = decode_delta(data, form, self._schema)
        at.record_offer(add_deltas(at.anchor, sent), sent, offer.blob)
        at.count_steps(env_steps, optimizer_steps)
        self._due_at = self._clock.monotonic() + self._min_seconds
        return (
            f"contribution {offer.sequence} on v{offer.base_version}, {steps} steps: in the outbox"
        )

    def receipts(self) -> list[Receipt]:
        """Return receipts of this process's contributions so far."""
        receipts = read_receipts(self._folder, self._peer)
        return [receipt for receipt in receipts if receipt.incarnation == self._incarnation]

    def _reason_to_wait(self, own: StateDict, steps: int, updates: int) -> str:
        """Return the reason for which nothing is contributed now; empty when something is."""
        if steps <= 0 or updates <= 0:
            return "nothing to contribute: no step since the last contribution"
        if not is_finite(own):
            return "not contributed: the weights are not finite"
        left_s = self._due_at - self._clock.monotonic()
        if left_s > 0:
            return f"not yet: the next contribution is due in {left_s:.0f} s"
        if len(self._progress.unmerged) >= UNMERGED_LIMIT:
            return f"not contributed: {UNMERGED_LIMIT} wait for a receipt; is push running?"
        return ""

    def _offer(self, data: bytes, form: str, steps: int, updates: int) -> Contribution:
        at = self._progress
        return Contribution(
            run_id=self.newest.head.run_id,
            schema=self._schema,
            peer=self._peer,
            incarnation=self._incarnation,
            sequence=at.sequence + 1,
            blob=sha256_hex(data),
            size=len(data),
            base_version=at.base.version,
            base_state=at.base.state,
            env_steps=steps,
            new_steps=steps,
            optimizer_steps=updates,
            assists=self._assists,
            form=form,
        )

    def _outcome(self, version: int) -> OfferOutcome:
        """Return the outcome by receipts up to ``version``; a later receipt replaces an earlier
        one.
        """
        receipts = [receipt for receipt in self.receipts() if receipt.version <= version]
        bad = (receipt for receipt in receipts if not receipt.accepted)
        refused = {receipt.sequence: (receipt.fault, receipt.reason) for receipt in bad}
        judged = max((receipt.sequence for receipt in receipts), default=0)
        return OfferOutcome(judged, refused, base_reverted=super()._outcome(version).base_reverted)
