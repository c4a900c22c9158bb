"""WeightExchange of a laptop, over versions that were pulled: play only, or learn too.

``sync_weights.sh`` moves the files: contributions wait in ``outbox/<peer>/`` (the ``.st`` first,
the ``.json`` last), receipts come back below ``receipts/``. Only complete, verified versions are
taken; a damaged one is warned of, once, and passed over. Deltas are int8 where the run reads that,
else bfloat16; what rounding left over is in this process's next one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from Daddy.core.assist_rules import refuse_missing_assists
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
from Daddy.weights.peer_progress import BaseVersion, OfferOutcome, PeerProgress
from Daddy.weights.store.weight_records import Contribution, Receipt, is_reverted

ReportEvent = Callable[[str, Mapping[str, object]], None]
"""Writes an event down: its name and its data."""


def ignore_event(event: str, data: Mapping[str, object]) -> None:
    """Write nothing down."""


class PulledVersions:
    """The newest verified version below ``local_dir`` (usually ``~/shared_weights``).

    A version that was learnt with scripted helps beyond ``assists`` is not taken. ``newest`` is the
    version taken over last; ``tell`` hears of it, and of what could not be used.
    """

    def __init__(
        self, local_dir: Path, assists: tuple[str, ...] = (), tell: ReportEvent = ignore_event
    ) -> None:
        self._folder = local_dir
        self._assists = assists
        self._tell = tell
        self._schema = ""
        self._complaint = ""
        self._at: PeerProgress  # from join_fleet() on, as is ``newest``
        self.newest: VerifiedVersion

    def join_fleet(self, initial: Callable[[], StateDict], resumed: bytes | None) -> Adoption:
        """The newest version; WeightsError when none was pulled or it is not for us.

        A laptop always begins with the newest version: ``resumed`` is not used.
        """
        del resumed
        self._schema = schema_of(copy_state(initial()))
        found = newest_verified(self._folder)
        if found is None:
            raise WeightsError(
                f"{self._folder} holds no version yet",
                f'run: ./Daddy/cluster/sync_weights.sh pull "" {self._folder}',
            )
        base = self._take(found)
        self._at = PeerProgress(base=base, anchor=base.weights)
        return Adoption(base.version, copy_state(base.weights), f"began with v{base.version}")

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Nothing is offered."""
        del weights, env_steps, optimizer_steps
        return "nothing published: this laptop only plays"

    def adopt(self, weights: StateDict) -> Adoption | None:
        """A newer version, rebased on ``weights``, if one was pulled."""
        try:
            frame = read_laptop_head(self._folder / "wan" / "HEAD.json")
            if frame is None or frame.version == self._at.base.version:
                return None
            found = newest_verified(self._folder)
            if found is None or found.version == self._at.base.version:
                return None
            base = self._take(found)
        except WeightsError as error:
            self._warn(error.message)
            return None
        return self._at.rebase(base, copy_state(weights), self._fate(base.version))

    def beat(self) -> None:
        """Nobody waits for a laptop."""

    def fleet_steps(self) -> int:
        """Environment steps of all contributors in the version taken over last."""
        return self.newest.frame.fleet_steps

    def resume_state(self) -> bytes:
        """Nothing: a laptop begins with the newest version."""
        return b"{}"

    def _take(self, found: VerifiedVersion) -> BaseVersion:
        refuse_missing_assists(found.label, found.frame.assists, self._assists)
        if found.frame.schema != self._schema:
            release = found.frame.release or "that the run's owner names"
            raise WeightsError(
                f"v{found.version} of run {found.frame.run!r} is another policy than ours",
                f"install the release {release}: the run's owner has its code",
            )
        base = BaseVersion(found.version, found.frame.state, decode(found.data, self._schema))
        self.newest = found
        if found.warning:
            self._warn(found.warning)
        self._tell("state", {"state": "playing", "version": base.version, "sha": found.sha256})
        return base

    def _warn(self, text: str) -> None:
        if text != self._complaint:
            self._tell("error", {"text": text})
        self._complaint = text

    def _fate(self, version: int) -> OfferOutcome:
        """Of own contributions, what was judged up to ``version``: there are none."""
        del version
        base = self._at.base.version
        fallen = is_reverted(base, self.newest.frame.reverted)
        return OfferOutcome(0, {}, base_reverted=f"v{base} was taken back" if fallen else "")


CONTRIBUTE_S = 60.0
"""Shortest time between two contributions: 2 MB a minute is 2 % of a home's uplink."""

_TOLD = ("sequence", "accepted", "version", "share", "reason")
UNMERGED_LIMIT = 8
"""Contributions that may wait for a receipt; with more, nobody is pushing."""


class LaptopExchange(PulledVersions):
    """One laptop process's view of ``local_dir`` (usually ``~/shared_weights``).

    ``incarnation`` is new for every process (``core.name_validation.new_incarnation``).
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
        """A newer version, rebased on ``weights``, if one was pulled; tells of new receipts."""
        adoption = super().adopt(weights)
        for receipt in self.receipts():
            if receipt.sequence not in self._answered:
                self._answered.add(receipt.sequence)
                facts = {name: getattr(receipt, name) for name in _TOLD}
                self._tell("state", {"state": "receipt", **facts})
        return adoption

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Put the progress since the last contribution into the outbox; says what happened."""
        at, own = self._at, copy_state(weights)
        steps, updates = env_steps - at.env_steps, optimizer_steps - at.optimizer_steps
        why_not = self._why_not(own, steps, updates)
        if why_not:
            return why_not
        form = INT8 if INT8 in self.newest.frame.accepts else PLAIN  # the smallest that is read
        delta = at.delta_to_offer(own)
        data = quantise(delta) if form == INT8 else encode(delta, half=True)
        offer = self._offer(data, form, steps, updates)
        box = self._folder / "outbox" / self._peer
        write_atomic(box / f"{box_name(offer)}.st", data)
        write_atomic(box / f"{box_name(offer)}.json", offer.to_json_bytes())
        sent = decode_delta(data, form, self._schema)
        at.offered(add_deltas(at.anchor, sent), sent, offer.blob)
        at.count(env_steps, optimizer_steps)
        self._due_at = self._clock.monotonic() + self._min_seconds
        return (
            f"contribution {offer.sequence} on v{offer.base_version}, {steps} steps: in the outbox"
        )

    def receipts(self) -> list[Receipt]:
        """Receipts of this process's contributions so far."""
        found = read_receipts(self._folder, self._peer)
        return [one for one in found if one.incarnation == self._incarnation]

    def _why_not(self, own: StateDict, steps: int, updates: int) -> str:
        """Why nothing is contributed now; empty when something is."""
        if steps <= 0 or updates <= 0:
            return "nothing to contribute: no step since the last contribution"
        if not is_finite(own):
            return "not contributed: the weights are not finite"
        left_s = self._due_at - self._clock.monotonic()
        if left_s > 0:
            return f"not yet: the next contribution is due in {left_s:.0f} s"
        if len(self._at.unmerged) >= UNMERGED_LIMIT:
            return f"not contributed: {UNMERGED_LIMIT} wait for a receipt; is push running?"
        return ""

    def _offer(self, data: bytes, form: str, steps: int, updates: int) -> Contribution:
        at = self._at
        return Contribution(
            run_id=self.newest.frame.run_id,
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

    def _fate(self, version: int) -> OfferOutcome:
        """Receipts tell; what has none yet is on its way. A later receipt takes one back."""
        told = [one for one in self.receipts() if one.version <= version]
        refused = {one.sequence: (one.fault, one.reason) for one in told if not one.accepted}
        judged = max((one.sequence for one in told), default=0)
        return OfferOutcome(judged, refused, base_reverted=super()._fate(version).base_reverted)
