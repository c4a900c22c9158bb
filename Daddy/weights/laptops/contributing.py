"""A laptop that learns: the WeightExchange port over pulled versions and an outbox.

``sync_weights.sh`` moves the files: contributions wait in ``outbox/<peer>/`` (the ``.st`` first,
the ``.json`` last), receipts come back below ``receipts/``. Deltas are int8 where the run reads
that, else bfloat16; what rounding left over stays progress and is in the next one, also in that of
the next process (``owed``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.files import sha256_hex, write_atomic
from Daddy.core.names import check_peer
from Daddy.weights.fate import Fate
from Daddy.weights.laptops.owed import keep_owed, read_owed
from Daddy.weights.laptops.pulled import PulledVersions
from Daddy.weights.laptops.receipts import read_receipts
from Daddy.weights.offers import box_name
from Daddy.weights.polyak import StateDict, add, copy, difference, is_finite
from Daddy.weights.progress import Adoption
from Daddy.weights.records.manifest import INT8, PLAIN, Contribution
from Daddy.weights.records.notices import Receipt
from Daddy.weights.wire.codec import encode
from Daddy.weights.wire.quantise import decode_delta, quantise

CONTRIBUTE_S = 60.0
"""Shortest time between two contributions: 2 MB a minute is 2 % of a home's uplink."""

UNMERGED_LIMIT = 8
"""Contributions that may wait for a receipt; with more, nobody is pushing."""


class LaptopExchange(PulledVersions):
    """One laptop process's view of ``local_dir`` (usually ``~/shared_weights``).

    ``incarnation`` is new for every process (``core.names.new_incarnation``).
    """

    def __init__(
        self,
        local_dir: Path,
        peer: str,
        incarnation: str,
        clock: Clock,
        min_seconds: float = CONTRIBUTE_S,
        assists: tuple[str, ...] = (),
    ) -> None:
        super().__init__(local_dir, assists)
        self._peer, self._incarnation = check_peer(peer), incarnation
        self._clock = clock
        self._min_seconds = min_seconds
        self._last_publish: float | None = None

    def begin(self, initial: Callable[[], StateDict], resumed: bytes | None) -> Adoption:
        """The newest version and, on top, what rounding left over from the last process."""
        adoption = super().begin(initial, resumed)
        assert self.newest is not None
        rest = read_owed(self._folder, self._peer, self.newest.frame.run_id, self._schema)
        if rest is None:
            return adoption
        own = add(self._at.base.weights, rest)
        return Adoption(adoption.version, own, f"{adoption.reason} and what was still owed to it")

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Put the progress since the last contribution into the outbox; says what happened."""
        at, own = self._at, copy(weights)
        steps, updates = env_steps - at.env_steps, optimizer_steps - at.optimizer_steps
        why_not = self._why_not(own, steps, updates)
        if why_not:
            return why_not
        form = self._form()
        delta = at.to_offer(own)
        data = quantise(delta) if form == INT8 else encode(delta, half=True)
        offer = self._offer(data, form, steps, updates)
        self._put(offer, data)
        sent = decode_delta(data, form, self._schema)
        at.offered(add(at.anchor, sent), sent, offer.blob)
        at.count(env_steps, optimizer_steps)
        self._last_publish = self._clock.monotonic()
        keep_owed(self._folder, offer, difference(own, at.anchor))
        return (
            f"contribution {offer.sequence} on v{offer.base_version}, {steps} steps: in the outbox"
        )

    def receipts(self) -> list[Receipt]:
        """What became of this process's contributions so far."""
        found = read_receipts(self._folder, self._peer)
        return [one for one in found if one.incarnation == self._incarnation]

    def _why_not(self, own: StateDict, steps: int, updates: int) -> str:
        """Why nothing is contributed now; empty when something is."""
        if steps <= 0 or updates <= 0:
            return "nothing to contribute: no step since the last contribution"
        if not is_finite(own):
            return "not contributed: the weights are not finite"
        since = self._min_seconds
        if self._last_publish is not None:
            since = self._clock.monotonic() - self._last_publish
        if since < self._min_seconds:
            return f"not yet: the next contribution is due in {self._min_seconds - since:.0f} s"
        if len(self._at.unmerged) >= UNMERGED_LIMIT:
            return f"not contributed: {UNMERGED_LIMIT} wait for a receipt; is push running?"
        return ""

    def _form(self) -> str:
        """The smallest form that the run reads."""
        assert self.newest is not None
        return INT8 if INT8 in self.newest.frame.accepts else PLAIN

    def _offer(self, data: bytes, form: str, steps: int, updates: int) -> Contribution:
        at = self._at
        assert self.newest is not None
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

    def _put(self, offer: Contribution, data: bytes) -> None:
        folder = self._folder / "outbox" / self._peer
        write_atomic(folder / f"{box_name(offer)}.st", data)
        write_atomic(folder / f"{box_name(offer)}.json", offer.to_bytes())

    def _fate(self, version: int) -> Fate:
        """Receipts tell; what has none yet is on its way. A later receipt takes one back."""
        told = [one for one in self.receipts() if one.version <= version]
        refused = {one.sequence: (one.fault, one.reason) for one in told if not one.accepted}
        judged = max((one.sequence for one in told), default=0)
        return Fate(judged, refused, fallen=super()._fate(version).fallen)
