"""From the inputs of a merge to the version that it makes: verdicts, shares, the new state.

Nothing here reads a file or a clock: equal inputs give equal bytes. A contribution's record is
judged first, then its file, then its values beside the other jobs'. Jobs come before laptops, whose
norm is judged by the jobs' norms, these included.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING

from Daddy.core.errors import WeightsError
from Daddy.core.files import sha256_hex
from Daddy.weights.encoding.arithmetic import StateDict, is_finite, move, norm
from Daddy.weights.encoding.quantise import decode_delta
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.encoding.tensor_layout import INT8, PLAIN
from Daddy.weights.merge.admission import (
    ADMITTED,
    Believed,
    Fault,
    Standing,
    Told,
    Usual,
    Verdict,
    believe,
    judge_file,
    judge_record,
    judge_values,
    remember,
    usual_beside,
)
from Daddy.weights.merge.contributions import Found, counts_as_job
from Daddy.weights.merge.fencing import fences_of, judge_term
from Daddy.weights.merge.weighting import Offer, Shares, complete_set, own_lag, share_out
from Daddy.weights.store.rebuild import factors, pull
from Daddy.weights.store.records import Input, Refusal, Version

if TYPE_CHECKING:
    from Daddy.weights.settings import ExchangeSettings
    from Daddy.weights.store.heartbeats import Pulse

BLOB_PATIENCE_S = 90.0
"""A file may be invisible for 60 s after its record on NFS; later it will not come."""


@dataclass(frozen=True, slots=True)
class File:
    """A contribution's file as read: its bytes, the trouble on the way to them, or a refusal.

    ``waited_s``: for how long that trouble has lasted.
    """

    data: bytes = b""
    trouble: str = ""
    refusal: str = ""
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MergeInputs:
    """Everything one merge is made of.

    ``late`` are the last versions whose contributions are still there, oldest first, ``records``
    these and the bases of the ``chosen`` contributions by number. ``live`` names the jobs whose
    heart beats, ``authors`` every process that has a folder. ``shared`` are the bytes of the state
    of version ``base``; ``states`` those of the contributions' bases, under "polyak" alone.
    """

    head: Version
    parent: str
    late: tuple[Version, ...]
    records: Mapping[int, Version]
    chosen: tuple[Found, ...]
    pulses: tuple[Pulse, ...]
    live: frozenset[str]
    authors: frozenset[str]
    base: int
    shared: bytes
    files: Mapping[tuple[str, str, int], File] = dataclasses.field(default_factory=dict)
    states: Mapping[int, bytes] = dataclasses.field(default_factory=dict)


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
    """The file, where it lies in a folder of another account or a laptop's box."""
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


def inputs_of_jobs(versions: Iterable[Version]) -> list[Input]:
    """Contributions of jobs in these versions, in order."""
    return [one for v in versions for one in v.inputs if counts_as_job(one)]


# -- verdicts


def judge_all(inputs: MergeInputs, settings: ExchangeSettings) -> list[Judged]:
    """A verdict on each, in order; without those awaited and their authors' later ones."""
    head = inputs.head
    opened = [_open(inputs, one, settings) for one in inputs.chosen]
    jobs = [one for one in _without_awaited(opened) if not one.found.laptop]
    told = [
        Told(one.peer, one.norm * one.clip, one.optimizer_steps, one.env_steps)
        for one in inputs_of_jobs(inputs.late)
    ] + [
        Told(one.peer, one.norm, one.found.offer.optimizer_steps, one.found.offer.env_steps)
        for one in jobs
        if one.verdict.admitted and isfinite(one.norm)
    ]
    jobs = [_job(one, usual_beside(one.peer, told), head) for one in jobs]
    norms = [*head.norms, *(one.as_norm() for one in jobs if one.verdict.admitted)]
    laptops = [_laptop(one, norms) for one in opened if one.found.laptop]
    return _without_awaited([*jobs, *laptops])


def judge_record_of(inputs: MergeInputs, one: Found, settings: ExchangeSettings) -> Verdict:
    """The verdict on a contribution's record: its author, its slot's term, then the record."""
    boxed = one.laptop and one.uid is None  # a friend on the owner's list needs no other list
    if boxed and settings.allowed and one.offer.peer not in settings.allowed:
        return Verdict(
            admitted=False,
            reason=f"{one.offer.peer!r} is not among collaboration.allowed_user_ids",
            fault=Fault.VALUES,
        )
    late = "" if one.laptop else judge_term(one.offer, fences_of(inputs.pulses, one.offer.peer))
    if late:
        return Verdict(admitted=False, reason=late)
    return judge_record(one.offer, _standing(inputs, one, settings))


def _standing(inputs: MergeInputs, one: Found, settings: ExchangeSettings) -> Standing:
    head, base = inputs.head, one.offer.base_version
    limit = settings.laptop_max_staleness if one.laptop else settings.max_staleness
    if _lag(inputs, one) <= limit:
        limit = max(limit, head.version - base)
    return Standing(
        run_id=head.run_id,
        schema=head.schema,
        newest=head.version,
        states={number: record.state for number, record in inputs.records.items()},
        consumed={author: pair[0] for author, pair in head.consumed.items()},
        sizes=_sizes(head.size),
        max_staleness=limit,
        assists=head.assists,
        reverted=head.reverted,
    )


def _lag(inputs: MergeInputs, one: Found) -> int:
    """Versions that a contribution's base is behind; a laptop's in its own rhythm."""
    versions = inputs.head.version - one.offer.base_version
    base = inputs.records.get(one.offer.base_version)
    return own_lag(versions, inputs.head.ts - base.ts) if one.laptop and base else versions


def _open(inputs: MergeInputs, one: Found, settings: ExchangeSettings) -> Judged:
    """Record and file judged; the delta and its norm where both are in order."""
    verdict = judge_record_of(inputs, one, settings)
    if not verdict.admitted:
        return Judged(one, verdict)
    file = inputs.files[one.key]
    if file.trouble:
        return Judged(one, _patience(file))
    if file.refusal:
        return Judged(one, Verdict(admitted=False, reason=file.refusal, fault=Fault.VALUES))
    verdict = judge_file(one.offer, len(file.data), sha256_hex(file.data))
    if not verdict.admitted:
        return Judged(one, verdict)
    try:
        delta = decode_delta(file.data, one.offer.form, inputs.head.schema)
    except WeightsError as error:
        return Judged(one, Verdict(admitted=False, reason=error.message, fault=Fault.VALUES))
    kept = file.data if one.laptop or one.uid is not None else b""
    return Judged(one, ADMITTED, delta, norm(delta), kept, lag=_lag(inputs, one))


def _patience(file: File) -> Verdict:
    """Trouble with our own view or disk is no author's fault: it is waited for, then "late"."""
    reason = f"{file.trouble} within {file.waited_s:.0f} s"
    return Verdict(admitted=False, reason=reason, wait=file.waited_s < BLOB_PATIENCE_S)


def _job(one: Judged, usual: Usual | None, head: Version) -> Judged:
    """A job's values judged, and its claimed steps as far as they are believed."""
    if not one.verdict.admitted:
        return one
    offer = one.found.offer
    verdict = judge_values(one.norm, offer.optimizer_steps, head.norms, strict=False, beside=usual)
    before = [at for who, (_, at) in head.consumed.items() if who.split("/")[0] == offer.peer]
    passed = head.version + 1 - max(before, default=0)
    believed = believe(offer.env_steps, offer.new_steps, usual, passed)
    return replace(one.but(verdict), believed=believed)


def _laptop(one: Judged, norms: Sequence[tuple[float, float]]) -> Judged:
    if not one.verdict.admitted:
        return one
    steps = one.found.offer.optimizer_steps
    return one.but(judge_values(one.norm, steps, norms, strict=True))


def _without_awaited(judged: Sequence[Judged]) -> list[Judged]:
    """In order; no contribution of an author after the first that has to wait."""
    waiting: set[str] = set()
    kept = []
    for one in sorted(judged, key=lambda one: one.found.key):
        if one.verdict.wait:
            waiting.add(one.found.offer.author)
        if one.found.offer.author not in waiting:
            kept.append(one)
    return kept


# -- the version


@dataclass(frozen=True, slots=True)
class Made:
    """The next version: its state, and what its record says of contributions."""

    state: StateDict
    shares: Shares
    admitted: tuple[Judged, ...]
    refused: tuple[Judged, ...]


def make_version(inputs: MergeInputs, judged: Sequence[Judged], settings: ExchangeSettings) -> Made:
    """The state to which the ``judged`` contributions move the shared one.

    WeightsError when it would not be finite.
    """
    admitted = tuple(one for one in judged if one.verdict.admitted)
    refused = tuple(one for one in judged if not one.verdict.admitted)
    shares = _shares(inputs, admitted, refused, settings)
    shared = decode(inputs.shared, inputs.head.schema)
    bases = {number: decode(data) for number, data in inputs.states.items()}
    pulls = [
        pull(settings.rule, one.delta, bases.get(one.found.offer.base_version, {}), shared)
        for one in admitted
        if one.delta is not None
    ]
    clips = [one.verdict.scale for one in admitted]
    state = move(shared, pulls, factors(settings.rule, shares.shares, clips))
    if not is_finite(state):
        raise WeightsError(f"version {inputs.head.version + 1} would not be finite", "report this")
    return Made(state, shares, admitted, refused)


def _shares(
    inputs: MergeInputs,
    admitted: Sequence[Judged],
    refused: Sequence[Judged],
    settings: ExchangeSettings,
) -> Shares:
    """Each admitted contribution's share of the version."""
    head, seen = inputs.head, [one.as_offer() for one in admitted]
    here = {one.peer for one in admitted if not one.found.laptop}
    bad = {one.peer for one in refused if one.verdict.fault is Fault.VALUES}
    bad |= {one.peer for one in head.refused if one.fault == Fault.VALUES.value}
    counted = here | (inputs.live - bad)  # the rest go the full way
    shares = share_out(seen, complete_set(seen, len(counted), head.denominator), settings.limits)
    if settings.rule != "polyak":
        return shares
    alpha = settings.alpha
    each = zip(admitted, shares.shares, strict=True)
    given = tuple(min(alpha, own) if one.is_capped else alpha for one, own in each)
    return Shares(given, shares.denominator)


def make_record(inputs: MergeInputs, made: Made, settings: ExchangeSettings) -> Version:
    """The commit record, but for its state, size, merger and time."""
    head = inputs.head
    taken = tuple(
        one.as_input(head.version, share)
        for one, share in zip(made.admitted, made.shares.shares, strict=True)
    )
    totals = dict(head.contributors)
    for put in taken:
        totals[put.peer] = totals.get(put.peer, 0) + put.new_steps
    jobs = [one for one in made.admitted if not one.found.laptop]  # the yardstick
    return replace(
        head,
        version=head.version + 1,
        parent=inputs.parent,
        base=inputs.base,
        rule=settings.rule,
        denominator=made.shares.denominator or head.denominator,
        inputs=taken,
        refused=tuple(one.as_refusal() for one in made.refused),
        consumed=_consumed(inputs, [*made.admitted, *made.refused], settings),
        contributors=dict(sorted(totals.items())),
        norms=remember(head.norms, [one.as_norm() for one in jobs]),
        fleet_steps=sum(totals.values()),
        restored=False,
        reverts=(),
        replayed=(),
    )


def _consumed(
    inputs: MergeInputs, judged: Sequence[Judged], settings: ExchangeSettings
) -> dict[str, tuple[int, int]]:
    """Highest judged sequence per author; forgotten once anything as old would be too stale."""
    head = inputs.head
    kept = {
        author: pair
        for author, pair in head.consumed.items()
        if author in inputs.authors or _may_come_again(inputs, pair[1], settings)
    }
    for one in sorted(judged, key=lambda one: one.found.key):  # the highest is noted last
        kept[one.found.offer.author] = (one.found.offer.sequence, head.version + 1)
    return kept


def _may_come_again(inputs: MergeInputs, number: int, settings: ExchangeSettings) -> bool:
    """Whether a contribution that came with a version may still be offered a second time."""
    lag, record = inputs.head.version + 1 - number, inputs.records.get(number)
    if record is not None:
        lag = own_lag(lag, inputs.head.ts - record.ts)
    return lag < forgotten_after(settings)


def forgotten_after(settings: ExchangeSettings) -> int:
    """Versions, or minutes, until a contribution of an author that is gone cannot come again."""
    return 2 * settings.laptop_max_staleness


def _sizes(state: int) -> dict[str, tuple[int, int]]:
    """Bytes that a delta can have, by form, where a state has so many.

    Compressed int8 may be nearly nothing, and of a small policy is mostly the list of its tensors.
    """
    return {PLAIN: (state // 3, state + state // 2), INT8: (64, state + 4096)}
