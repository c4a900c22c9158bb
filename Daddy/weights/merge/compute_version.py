"""Makes a version from the inputs of a merge: verdicts, shares, the new state.

Nothing here reads a file or a clock: equal inputs give equal bytes. A contribution's record is
judged first, then its file, then its values beside the other jobs'. Jobs are judged before laptops,
whose norm is compared with those of all admitted jobs.
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
from Daddy.weights.merge.averaging_shares import (
    WeightedOffer,
    laptop_lag,
    offer_shares,
    round_weight,
)
from Daddy.weights.merge.contributions import PendingOffer, is_job_name
from Daddy.weights.merge.slot_fencing import judge_lease_term, read_fences
from Daddy.weights.store.heartbeats import Heartbeat
from Daddy.weights.store.rebuild_version import displacement, displacement_factors
from Daddy.weights.store.weight_records import Input, Refusal, Version


@dataclass(frozen=True, slots=True)
class Peers:
    """Heartbeats and contributions not judged yet; ``authors``: the processes with a folder."""

    heartbeats: tuple[Heartbeat, ...] = ()
    pending: tuple[PendingOffer, ...] = ()
    authors: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class JudgedOffer:
    """A contribution with its verdict, its entry in the commit record, and its delta.

    ``data`` holds the file's bytes if another account can change the file; ``env_steps`` are the
    steps from which the share is computed.
    """

    pending: PendingOffer
    verdict: AdmissionVerdict
    entry: Input
    delta: StateDict
    data: bytes
    env_steps: int


@dataclass(frozen=True, slots=True)
class MergeInputs:
    """Everything from which one merge computes a version.

    ``records`` are the last versions and the bases of the contributions, by number. ``live`` names
    the jobs whose heartbeat moves. ``shared`` is the state of version ``base``; ``states`` are
    those of the contributions' bases, under "polyak" alone. ``opened`` are the contributions, their
    records and files judged.
    """

    settings: ExchangeSettings
    head: Version
    parent: str
    records: Mapping[int, Version]
    peers: Peers
    live: frozenset[str]
    base: int
    shared: StateDict
    states: Mapping[int, StateDict] = field(default_factory=dict)
    opened: Sequence[JudgedOffer] = ()


# -- verdicts


def judge_all(inputs: MergeInputs) -> list[JudgedOffer]:
    """Judge values in order; leave out an offer that must wait and later ones of its author."""
    jobs = [offer for offer in _without_waiting(inputs.opened) if not offer.pending.laptop]
    merged = _job_entries(inputs, jobs)
    jobs = [_judge_job(offer, merged, inputs.head) for offer in jobs]
    norms = [*inputs.head.norms, *_norms(jobs)]
    laptops = [_judge_values(offer, norms) for offer in inputs.opened if offer.pending.laptop]
    return _without_waiting([*jobs, *laptops])


def judge_contribution_record(inputs: MergeInputs, pending: PendingOffer) -> AdmissionVerdict:
    """Judge a contribution's author, its slot's lease term, then the record; return a verdict."""
    settings, offer = inputs.settings, pending.offer
    boxed = pending.laptop and pending.uid is None  # friends have the owner's list
    if boxed and settings.allowed and offer.peer not in settings.allowed:
        reason = f"{offer.peer!r} is not among collaboration.allowed_user_ids"
        return make_refusal(reason, Fault.VALUES)
    fences = read_fences(inputs.peers.heartbeats, offer.peer)
    if not pending.laptop and (late := judge_lease_term(offer, fences)):
        return make_refusal(late)
    limit = settings.laptop_max_staleness if pending.laptop else settings.max_staleness
    base = inputs.records.get(offer.base_version)
    return judge_record(offer, inputs.head, base, _lag(inputs, pending), limit)


def _lag(inputs: MergeInputs, pending: PendingOffer) -> int:
    """Return the versions that an offer's base is behind (for laptops: `laptop_lag`)."""
    versions = inputs.head.version - pending.offer.base_version
    base = inputs.records.get(pending.offer.base_version)
    return laptop_lag(versions, inputs.head.ts - base.ts) if pending.laptop and base else versions


def judge_contribution_file(inputs: MergeInputs, pending: PendingOffer, data: bytes) -> JudgedOffer:
    """Judge a contribution's file; WeightsError when it holds no delta of this run."""
    verdict = judge_file(pending.offer, len(data), sha256_hex(data))
    if not verdict.admitted:
        return make_judged(inputs, pending, verdict)
    delta = decode_delta(data, pending.offer.form, inputs.head.schema)
    return make_judged(inputs, pending, verdict, delta, data)


def make_judged(
    inputs: MergeInputs,
    pending: PendingOffer,
    verdict: AdmissionVerdict,
    delta: StateDict | None = None,
    data: bytes = b"",
) -> JudgedOffer:
    """Build a judged offer whose values, claimed steps and share have not been judged yet."""
    offer = pending.offer
    entry = Input(
        *offer.key,
        blob=offer.blob,
        form=offer.form,
        laptop=pending.laptop,
        base_version=offer.base_version,
        staleness=inputs.head.version - offer.base_version,
        share=0.0,
        clip=1.0,
        norm=norm(delta) if delta else 0.0,
        env_steps=offer.env_steps,
        new_steps=offer.new_steps,
        optimizer_steps=offer.optimizer_steps,
    )
    copied = data if pending.is_capped else b""
    return JudgedOffer(pending, verdict, entry, delta or {}, copied, offer.env_steps)


def _job_entries(inputs: MergeInputs, jobs: Iterable[JudgedOffer]) -> list[Input]:
    """Return entries of jobs' contributions: those in the last versions and admitted new ones."""
    first = inputs.head.version - inputs.settings.keep_versions + 1
    before = [
        merged
        for number, record in inputs.records.items()
        for merged in record.inputs
        if number >= first and is_job_name(merged.peer) and not merged.laptop
    ]
    offered = (job.entry for job in jobs if job.verdict.admitted)
    return before + [entry for entry in offered if isfinite(entry.norm)]


def _judge_job(job: JudgedOffer, entries: Sequence[Input], head: Version) -> JudgedOffer:
    peer = job.entry.peer
    typical = typical_of_others(peer, entries)
    before = [last for author, (_, last) in head.consumed.items() if author.split("/")[0] == peer]
    passed = head.version + 1 - max(before, default=0)
    env_steps, new_steps = cap_claimed_steps(job.env_steps, job.entry.new_steps, typical, passed)
    job = _judge_values(job, head.norms, typical)
    return replace(job, entry=replace(job.entry, new_steps=new_steps), env_steps=env_steps)


def _judge_values(
    offer: JudgedOffer, norms: Sequence[tuple[float, float]], typical: TypicalOffer | None = None
) -> JudgedOffer:
    if not offer.verdict.admitted:
        return offer
    entry, strict = offer.entry, offer.pending.laptop
    verdict = judge_values(entry.norm, entry.optimizer_steps, norms, strict=strict, beside=typical)
    return replace(offer, verdict=verdict, entry=replace(entry, clip=verdict.scale))


def _norms(jobs: Iterable[JudgedOffer]) -> list[tuple[float, float]]:
    """Return (norm, optimizer steps) of admitted offers, as a version's ``norms`` hold them."""
    entries = (job.entry for job in jobs if job.verdict.admitted)
    return [(entry.norm * entry.clip, entry.optimizer_steps) for entry in entries]


def _without_waiting(judged: Sequence[JudgedOffer]) -> list[JudgedOffer]:
    """Return offers in order; of each author only those before its first waiting offer."""
    waiting: set[str] = set()
    kept = []
    for offer in sorted(judged, key=lambda offer: offer.pending.key):
        if offer.verdict.wait:
            waiting.add(offer.entry.author)
        if offer.entry.author not in waiting:
            kept.append(offer)
    return kept


# -- the version


def make_version(inputs: MergeInputs, judged: Sequence[JudgedOffer]) -> tuple[StateDict, Version]:
    """Return the new state and its commit record. The record's fields state, size, merger and ts
    are still those of the head. Raise WeightsError when the state would not be finite.
    """
    head, rule = inputs.head, inputs.settings.rule
    admitted = [each for each in judged if each.verdict.admitted]
    refused = [each for each in judged if not each.verdict.admitted]
    shares, denominator = _shares(inputs, admitted, refused)
    bases = [inputs.states.get(each.entry.base_version, {}) for each in admitted]
    pulls = [
        displacement(rule, each.delta, base, inputs.shared)
        for each, base in zip(admitted, bases, strict=True)
    ]
    clips = [each.entry.clip for each in admitted]
    state = add_scaled(inputs.shared, pulls, displacement_factors(rule, shares, clips))
    if not is_finite(state):
        raise WeightsError(f"version {head.version + 1} would not be finite", "report this bug")
    by_share = zip(admitted, shares, strict=True)
    entries = [replace(each.entry, share=share) for each, share in by_share]
    totals = dict(head.contributors)
    for merged in entries:
        totals[merged.peer] = totals.get(merged.peer, 0) + merged.new_steps
    return state, replace(
        head,
        version=head.version + 1,
        parent=inputs.parent,
        base=inputs.base,
        rule=rule,
        denominator=denominator or head.denominator,
        inputs=tuple(entries),
        refused=tuple(
            Refusal(*each.pending.key, each.verdict.fault.value, each.verdict.reason[:300])
            for each in refused
        ),
        consumed=_consumed(inputs, judged),
        contributors=dict(sorted(totals.items())),
        norms=extend_norm_history(
            head.norms, _norms(each for each in admitted if not each.pending.laptop)
        ),
        fleet_steps=sum(totals.values()),
        restored=False,
        reverts=(),
        replayed=(),
    )


def _shares(
    inputs: MergeInputs, admitted: Sequence[JudgedOffer], refused: Sequence[JudgedOffer]
) -> tuple[tuple[float, ...], float]:
    """Return each admitted offer's share of the version, and the divisor of all shares."""
    head, settings = inputs.head, inputs.settings
    offers = [
        WeightedOffer(
            each.entry.peer,
            each.env_steps,
            _lag(inputs, each.pending),
            each.pending.laptop,
            friend=each.pending.uid is not None,
        )
        for each in admitted
    ]
    bad = {each.entry.peer for each in refused if each.verdict.fault is Fault.VALUES}
    bad |= {each.peer for each in head.refused if each.fault == Fault.VALUES.value}
    counted = {each.peer for each in offers if not each.laptop} | (inputs.live - bad)
    full_round_weight = round_weight(offers, len(counted), head.denominator)
    shares, denominator = offer_shares(offers, full_round_weight)
    if settings.rule == "polyak":
        pairs = zip(admitted, shares, strict=True)
        shares = tuple(
            min(settings.alpha, own) if each.pending.is_capped else settings.alpha
            for each, own in pairs
        )
    return shares, denominator


def _consumed(inputs: MergeInputs, judged: Sequence[JudgedOffer]) -> dict[str, tuple[int, int]]:
    """Return (highest judged sequence, version) per author; forget authors that cannot return."""
    head = inputs.head
    consumed = {
        author: last
        for author, last in head.consumed.items()
        if author in inputs.peers.authors or _may_come_again(inputs, last[1])
    }
    for offer in sorted(judged, key=lambda offer: offer.pending.key):  # the highest comes last
        consumed[offer.entry.author] = (offer.entry.sequence, head.version + 1)
    return consumed


def _may_come_again(inputs: MergeInputs, number: int) -> bool:
    """Return True if a contribution judged by version ``number`` may be offered again."""
    lag, record = inputs.head.version + 1 - number, inputs.records.get(number)
    if record is not None:
        lag = laptop_lag(lag, inputs.head.ts - record.ts)
    return lag < forget_after_versions(inputs.settings)


def forget_after_versions(settings: ExchangeSettings) -> int:
    """Return the age, in versions (or minutes), at which all offers of a gone author are stale."""
    return 2 * settings.laptop_max_staleness
