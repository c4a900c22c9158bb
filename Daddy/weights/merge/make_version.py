"""From the inputs of a merge to the version that it makes: verdicts, shares, the new state.

Nothing here reads a file or a clock: equal inputs give equal bytes. A contribution's record is
judged first, then its file, then its values beside the other jobs'. Jobs come before laptops, whose
norm is judged by the jobs' norms, these included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

from Daddy.core.atomic_files import sha256_hex
from Daddy.core.errors import WeightsError
from Daddy.weights.encoding.quantise import decode_delta
from Daddy.weights.encoding.state_arithmetic import StateDict, add_scaled, is_finite, norm
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.merge.admission import (
    AdmissionVerdict,
    Fault,
    TypicalOffer,
    cap_claimed_steps,
    extend_norm_history,
    judge_file,
    judge_record,
    judge_values,
    make_refusal,
    typical_of_others,
)
from Daddy.weights.merge.averaging import (
    WeightedOffer,
    compute_shares,
    full_round_weight,
    laptop_lag,
)
from Daddy.weights.merge.contributions import PendingOffer, is_job_name
from Daddy.weights.merge.fencing import judge_lease_term, read_fences
from Daddy.weights.store.heartbeats import Heartbeat
from Daddy.weights.store.rebuild_version import displacement, displacement_factors
from Daddy.weights.store.weight_records import Input, Refusal, Version


@dataclass(frozen=True, slots=True)
class PeerSnapshot:
    """Heartbeats and contributions that no version has judged, as read at one moment.

    ``authors`` are the processes that have a folder.
    """

    heartbeats: tuple[Heartbeat, ...] = ()
    pending: tuple[PendingOffer, ...] = ()
    authors: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class JudgedOffer:
    """A contribution with its verdict, its entry in the commit record, and its delta.

    ``data`` is the file, where it lies in another account's folder or a box; ``env_steps`` are the
    steps that its share stands for.
    """

    found: PendingOffer
    verdict: AdmissionVerdict
    entry: Input
    delta: StateDict
    data: bytes
    env_steps: int


@dataclass(frozen=True, slots=True)
class MergeInputs:
    """Everything one merge is made of.

    ``records`` are the last versions and the bases of the contributions, by number. ``live`` names
    the jobs whose heart beats. ``shared`` is the state of version ``base``; ``states`` are those of
    the contributions' bases, under "polyak" alone. ``opened`` are the contributions, their records
    and files judged.
    """

    settings: ExchangeSettings
    head: Version
    parent: str
    records: Mapping[int, Version]
    peers: PeerSnapshot
    live: frozenset[str]
    base: int
    shared: StateDict
    states: Mapping[int, StateDict] = field(default_factory=dict)
    opened: Sequence[JudgedOffer] = ()


# -- verdicts


def judge_all(inputs: MergeInputs) -> list[JudgedOffer]:
    """A verdict on each, in order; without those awaited and their authors' later ones."""
    jobs = [one for one in _without_awaited(inputs.opened) if not one.found.laptop]
    told = _told(inputs, jobs)
    jobs = [_judge_job(one, told, inputs.head) for one in jobs]
    norms = [*inputs.head.norms, *_norms(jobs)]
    laptops = [_judge_values(one, norms) for one in inputs.opened if one.found.laptop]
    return _without_awaited([*jobs, *laptops])


def judge_contribution_record(inputs: MergeInputs, one: PendingOffer) -> AdmissionVerdict:
    """The verdict on a contribution's record: its author, its slot's term, then the record."""
    settings, offer = inputs.settings, one.offer
    boxed = one.laptop and one.uid is None  # a friend on the owner's list needs no other list
    if boxed and settings.allowed and offer.peer not in settings.allowed:
        reason = f"{offer.peer!r} is not among collaboration.allowed_user_ids"
        return make_refusal(reason, Fault.VALUES)
    late = (
        ""
        if one.laptop
        else judge_lease_term(offer, read_fences(inputs.peers.heartbeats, offer.peer))
    )
    if late:
        return make_refusal(late)
    limit = settings.laptop_max_staleness if one.laptop else settings.max_staleness
    base = inputs.records.get(offer.base_version)
    return judge_record(offer, inputs.head, base, _lag(inputs, one), limit)


def _lag(inputs: MergeInputs, one: PendingOffer) -> int:
    """Versions that a contribution's base is behind; a laptop's in its own rhythm."""
    versions = inputs.head.version - one.offer.base_version
    base = inputs.records.get(one.offer.base_version)
    return laptop_lag(versions, inputs.head.ts - base.ts) if one.laptop and base else versions


def judge_contribution_file(inputs: MergeInputs, one: PendingOffer, data: bytes) -> JudgedOffer:
    """The verdict on a contribution's file; WeightsError when it holds no delta of this run."""
    verdict = judge_file(one.offer, len(data), sha256_hex(data))
    if not verdict.admitted:
        return make_judged(inputs, one, verdict)
    delta = decode_delta(data, one.offer.form, inputs.head.schema)
    return make_judged(inputs, one, verdict, delta, data)


def make_judged(
    inputs: MergeInputs,
    found: PendingOffer,
    verdict: AdmissionVerdict,
    delta: StateDict | None = None,
    data: bytes = b"",
) -> JudgedOffer:
    """A contribution so far: neither its values nor its claims have been judged, nor its share."""
    offer = found.offer
    entry = Input(
        *offer.key,
        blob=offer.blob,
        base_version=offer.base_version,
        staleness=inputs.head.version - offer.base_version,
        share=0.0,
        clip=1.0,
        norm=norm(delta) if delta else 0.0,
        env_steps=offer.env_steps,
        new_steps=offer.new_steps,
        optimizer_steps=offer.optimizer_steps,
        form=offer.form,
        laptop=found.laptop,
    )
    kept = data if found.is_capped else b""
    return JudgedOffer(found, verdict, entry, delta or {}, kept, offer.env_steps)


def _told(inputs: MergeInputs, jobs: Iterable[JudgedOffer]) -> list[Input]:
    """Contributions of jobs to the last versions, and those they offer now."""
    first = inputs.head.version - inputs.settings.keep_versions + 1
    before = [
        one
        for number, record in inputs.records.items()
        for one in record.inputs
        if number >= first and is_job_name(one.peer) and not one.laptop
    ]
    return before + [one.entry for one in jobs if one.verdict.admitted and isfinite(one.entry.norm)]


def _judge_job(one: JudgedOffer, told: Sequence[Input], head: Version) -> JudgedOffer:
    """A job's values judged, and its claimed steps as far as they are believed."""
    peer = one.entry.peer
    usual = typical_of_others(peer, told)
    before = [at for author, (_, at) in head.consumed.items() if author.split("/")[0] == peer]
    passed = head.version + 1 - max(before, default=0)
    env_steps, new_steps = cap_claimed_steps(one.env_steps, one.entry.new_steps, usual, passed)
    one = _judge_values(one, head.norms, usual)
    return replace(one, entry=replace(one.entry, new_steps=new_steps), env_steps=env_steps)


def _judge_values(
    one: JudgedOffer,
    norms: Sequence[tuple[float, float]],
    usual: TypicalOffer | None = None,
) -> JudgedOffer:
    if not one.verdict.admitted:
        return one
    entry, strict = one.entry, one.found.laptop
    verdict = judge_values(entry.norm, entry.optimizer_steps, norms, strict=strict, beside=usual)
    return replace(one, verdict=verdict, entry=replace(entry, clip=verdict.scale))


def _norms(jobs: Iterable[JudgedOffer]) -> list[tuple[float, float]]:
    """Norms of the admitted ones, as the history remembers them."""
    entries = (one.entry for one in jobs if one.verdict.admitted)
    return [(one.norm * one.clip, one.optimizer_steps) for one in entries]


def _without_awaited(judged: Sequence[JudgedOffer]) -> list[JudgedOffer]:
    """In order; no contribution of an author after the first that has to wait."""
    waiting: set[str] = set()
    kept = []
    for one in sorted(judged, key=lambda one: one.found.key):
        if one.verdict.wait:
            waiting.add(one.entry.author)
        if one.entry.author not in waiting:
            kept.append(one)
    return kept


# -- the version


def make_version(inputs: MergeInputs, judged: Sequence[JudgedOffer]) -> tuple[StateDict, Version]:
    """The state to which the contributions move the shared one, and its commit record.

    The record's state, size, merger and time are still those of the head. WeightsError when the
    state would not be finite.
    """
    head, rule = inputs.head, inputs.settings.rule
    admitted = [one for one in judged if one.verdict.admitted]
    refused = [one for one in judged if not one.verdict.admitted]
    shares, denominator = _shares(inputs, admitted, refused)
    pulls = [
        displacement(rule, one.delta, inputs.states.get(one.entry.base_version, {}), inputs.shared)
        for one in admitted
    ]
    clips = [one.entry.clip for one in admitted]
    state = add_scaled(inputs.shared, pulls, displacement_factors(rule, shares, clips))
    if not is_finite(state):
        raise WeightsError(f"version {head.version + 1} would not be finite", "report this")
    taken = [replace(one.entry, share=share) for one, share in zip(admitted, shares, strict=True)]
    totals = dict(head.contributors)
    for put in taken:
        totals[put.peer] = totals.get(put.peer, 0) + put.new_steps
    return state, replace(
        head,
        version=head.version + 1,
        parent=inputs.parent,
        base=inputs.base,
        rule=rule,
        denominator=denominator or head.denominator,
        inputs=tuple(taken),
        refused=tuple(
            Refusal(*one.found.key, one.verdict.fault.value, one.verdict.reason[:300])
            for one in refused
        ),
        consumed=_consumed(inputs, judged),
        contributors=dict(sorted(totals.items())),
        norms=extend_norm_history(
            head.norms, _norms(one for one in admitted if not one.found.laptop)
        ),
        fleet_steps=sum(totals.values()),
        restored=False,
        reverts=(),
        replayed=(),
    )


def _shares(
    inputs: MergeInputs,
    admitted: Sequence[JudgedOffer],
    refused: Sequence[JudgedOffer],
) -> tuple[tuple[float, ...], float]:
    """Each admitted contribution's share of the version, and what they were divided by."""
    head, settings = inputs.head, inputs.settings
    offers = [
        WeightedOffer(one.entry.peer, one.env_steps, _lag(inputs, one.found), one.found.laptop,
              friend=one.found.uid is not None)
        for one in admitted
    ]  # fmt: skip
    bad = {one.entry.peer for one in refused if one.verdict.fault is Fault.VALUES}
    bad |= {one.peer for one in head.refused if one.fault == Fault.VALUES.value}
    counted = {one.peer for one in offers if not one.laptop} | (inputs.live - bad)
    full = full_round_weight(offers, len(counted), head.denominator)
    shares, denominator = compute_shares(offers, full)
    if settings.rule == "polyak":
        each = zip(admitted, shares, strict=True)
        shares = tuple(
            min(settings.alpha, own) if one.found.is_capped else settings.alpha for one, own in each
        )
    return shares, denominator


def _consumed(inputs: MergeInputs, judged: Sequence[JudgedOffer]) -> dict[str, tuple[int, int]]:
    """Highest judged sequence per author; forgotten once anything as old would be too stale."""
    head = inputs.head
    kept = {
        author: pair
        for author, pair in head.consumed.items()
        if author in inputs.peers.authors or _may_come_again(inputs, pair[1])
    }
    for one in sorted(judged, key=lambda one: one.found.key):  # the highest is noted last
        kept[one.entry.author] = (one.entry.sequence, head.version + 1)
    return kept


def _may_come_again(inputs: MergeInputs, number: int) -> bool:
    """True if a contribution that came with a version may be offered a second time."""
    lag, record = inputs.head.version + 1 - number, inputs.records.get(number)
    if record is not None:
        lag = laptop_lag(lag, inputs.head.ts - record.ts)
    return lag < forget_after_versions(inputs.settings)


def forget_after_versions(settings: ExchangeSettings) -> int:
    """Versions, or minutes, until a contribution of an author that is gone cannot come again."""
    return 2 * settings.laptop_max_staleness
