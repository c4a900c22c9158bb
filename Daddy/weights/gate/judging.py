"""The gate at work on one contribution: its record, then its file, cheapest first.

What its values are worth is said in ``hearing``, beside the others'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from Daddy.core.errors import FileError, WeightsError
from Daddy.core.files import sha256_hex
from Daddy.weights import offers
from Daddy.weights.encoding.quantise import decode_delta
from Daddy.weights.gate.fences import judge_term, read_fences
from Daddy.weights.merge.admission import (
    ADMITTED,
    Believed,
    Fault,
    Standing,
    Verdict,
    judge_file,
    judge_record,
)
from Daddy.weights.offers import Found
from Daddy.weights.polyak import StateDict, norm
from Daddy.weights.settings import ExchangeSettings
from Daddy.weights.store.records import INT8, PLAIN, Input, Refusal, Version
from Daddy.weights.store.store import Store
from Daddy.weights.watch import Watch
from Daddy.weights.weighting import Offer, own_lag

BLOB_PATIENCE_S = 90.0
"""A file may be invisible for 60 s after its record on NFS; later it will not come."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A contribution with its verdict and, when admitted, its delta, the delta's norm and the steps
    believed of it (None: all). ``lag`` is how many versions its base is behind, a laptop's in its
    own rhythm.
    """

    found: Found
    verdict: Verdict
    delta: StateDict | None = None
    norm: float = 0.0
    data: bytes = b""
    """What was judged, where it lies in somebody else's hands."""
    believed: Believed | None = None
    lag: int = 0

    @property
    def peer(self) -> str:
        """Its author's name."""
        return self.found.offer.peer

    @property
    def is_capped(self) -> bool:
        """Whether what it may move a version is bounded: a laptop's, or of a friend's account."""
        return self.found.laptop or self.found.uid is not None

    def but(self, verdict: Verdict) -> Judged:
        """The same with another verdict."""
        return replace(self, verdict=verdict, delta=self.delta if verdict.admitted else None)

    def as_norm(self) -> tuple[float, float]:
        """What the history remembers of it."""
        return self.norm * self.verdict.scale, self.found.offer.optimizer_steps

    def as_offer(self) -> Offer:
        """What the weighting sees."""
        offer = self.found.offer
        steps = offer.env_steps if self.believed is None else self.believed.env_steps
        return Offer(offer.peer, steps, self.lag, self.found.laptop, self.found.uid is not None)

    def as_input(self, newest: int, share: float) -> Input:
        """What the commit record says of it when admitted."""
        offer = self.found.offer
        return Input(
            peer=offer.peer,
            incarnation=offer.incarnation,
            sequence=offer.sequence,
            blob=offer.blob,
            base_version=offer.base_version,
            staleness=newest - offer.base_version,
            share=share,
            clip=self.verdict.scale,
            norm=self.norm,
            env_steps=offer.env_steps,
            new_steps=offer.new_steps if self.believed is None else self.believed.new_steps,
            optimizer_steps=offer.optimizer_steps,
            form=offer.form,
            laptop=self.found.laptop,
        )

    def as_refusal(self) -> Refusal:
        """What the commit record says of it when refused."""
        offer = self.found.offer
        return Refusal(
            peer=offer.peer,
            incarnation=offer.incarnation,
            sequence=offer.sequence,
            fault=self.verdict.fault.value,
            reason=self.verdict.reason[:300],
        )


class Judge:
    """Judges on behalf of one merger, whose watch tells how long a file has been awaited."""

    def __init__(self, store: Store, settings: ExchangeSettings, watch: Watch) -> None:
        self._store = store
        self._settings = settings
        self._watch = watch

    def open_all(self, head: Version, found: Sequence[Found]) -> list[Judged]:
        """Record and file of each judged, up to the first of an author that is waited for."""
        judged: list[Judged] = []
        waiting: set[str] = set()
        for one in found:
            if one.offer.author in waiting:
                continue
            result = self._open(head, one)
            if result.verdict.wait:
                waiting.add(one.offer.author)
            else:
                judged.append(result)
        return judged

    def _open(self, head: Version, one: Found) -> Judged:
        """Record and file judged; the delta and its norm where both are in order."""
        verdict = self._judge_author(one)
        if verdict.admitted and not one.laptop:
            verdict = self._judge_term(one)
        if verdict.admitted:
            verdict = judge_record(one.offer, self._standing(head, one))
        if not verdict.admitted:
            return Judged(one, verdict)
        if not self._has_base(one):
            return Judged(one, self._patience(one, "its base's state did not appear"))
        try:
            data = offers.read_blob(one)
            verdict = judge_file(one.offer, len(data), sha256_hex(data))
            if not verdict.admitted:
                return Judged(one, verdict)
            delta = decode_delta(data, one.offer.form, head.schema)
        except (FileNotFoundError, FileError) as error:
            what = "be read" if isinstance(error, FileError) else "appear"
            return Judged(one, self._patience(one, f"its file did not {what}"))
        except WeightsError as error:
            return Judged(one, Verdict(admitted=False, reason=error.message, fault=Fault.VALUES))
        kept = data if one.laptop or one.uid is not None else b""
        return Judged(one, ADMITTED, delta, norm(delta), kept, lag=self._lag(head, one))

    def _judge_author(self, one: Found) -> Verdict:
        allowed = self._settings.allowed
        boxed = one.laptop and one.uid is None  # who is on the list of friends needs no other
        if not boxed or not allowed or one.offer.peer in allowed:
            return ADMITTED
        return Verdict(
            admitted=False,
            reason=f"{one.offer.peer!r} is not among collaboration.allowed_user_ids",
            fault=Fault.VALUES,
        )

    def _judge_term(self, one: Found) -> Verdict:
        late = judge_term(one.offer, read_fences(self._store, one.offer.peer))
        return Verdict(admitted=False, reason=late) if late else ADMITTED

    def _has_base(self, one: Found) -> bool:
        """Whether the weights it began with are here; only the rule "polyak" asks for them."""
        if self._settings.rule != "polyak":
            return True
        state = self._store.version(one.offer.base_version).state
        return self._store.paths.blob(state).exists()

    def _patience(self, one: Found, what: str) -> Verdict:
        """Trouble with our own view or disk is nobody's fault: it is waited for, then "late"."""
        waited = self._watch.still_s(("blob", one.key))
        reason = f"{what} within {waited:.0f} s"
        return Verdict(admitted=False, reason=reason, wait=waited < BLOB_PATIENCE_S)

    def _lag(self, head: Version, one: Found) -> int:
        versions = head.version - one.offer.base_version
        known = self._store.records(one.offer.base_version, one.offer.base_version)
        return own_lag(versions, head.ts - known[0].ts) if one.laptop and known else versions

    def _standing(self, head: Version, one: Found) -> Standing:
        settings, base = self._settings, one.offer.base_version
        limit = settings.laptop_max_staleness if one.laptop else settings.max_staleness
        if self._lag(head, one) <= limit:
            limit = max(limit, head.version - base)
        known = self._store.records(base, min(base, head.version))
        return Standing(
            run_id=head.run_id,
            schema=head.schema,
            newest=head.version,
            states={one.version: one.state for one in known},
            consumed={author: pair[0] for author, pair in head.consumed.items()},
            sizes=_sizes(head.size),
            max_staleness=limit,
            assists=head.assists,
            reverted=head.reverted,
        )


def _sizes(state: int) -> dict[str, tuple[int, int]]:
    """Bytes that a delta can have, by form, where a state has so many.

    Compressed int8 may be nearly nothing, and of a small policy is mostly the list of its tensors.
    """
    return {PLAIN: (state // 3, state + state // 2), INT8: (64, state + 4096)}
