"""Makes a version from the inputs of a merge: verdicts, shares, the new state.

Nothing here reads a file or a clock: equal inputs give equal bytes. A contribution's record is
judged first, then its file, then its values beside the other jobs'. Jobs are judged before laptops,
whose norm is compared with those of all admitted jobs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

from Daddy.core.atomic_files import sha256_hex
from Daddy.core.errors import WeightsError
from Daddy.core.name_validation import OWN
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
from Daddy.weights.merge.contributions import PendingOffer, plain_reason
from Daddy.weights.merge.slot_fencing import judge_lease_term, read_fences
from Daddy.weights.merge.step_counts import fastest_rate, most_steps, total_of
from Daddy.weights.store.heartbeats import Heartbeat
from Daddy.weights.store.rebuild_version import displacement, displacement_factors
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.weight_records import Input, Refusal, Version

PEER_AUTHORS = 16
OTHERS_AUTHORS = 192
"""Process starts of one laptop or friend's job, and of all of them together, of which a commit
record holds the last judged contribution."""

FREE_BYTES = 512
"""Bytes of a commit record that stay free for what is set after its size is bounded."""


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

    ``records`` are the last versions, the bases of the contributions, their authors' last merges
    and, with contributions of laptops or friends, all versions that may be a base, by number.
    ``number`` is the new version's. ``live`` names the jobs whose heartbeat moves. ``shared`` is
    the state of version ``base``; ``states`` are those of the contributions' bases, under "polyak"
    alone. ``opened`` are the contributions, their records and files judged.
    """

    settings: ExchangeSettings
    head: Version
    number: int
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
    once = _refuse_replays(inputs, _without_waiting([*jobs, *laptops]))
    return _bound_others(inputs, list(once))


def _window(inputs: MergeInputs) -> list[Version]:
    """Return the records of the last versions, oldest first."""
    first = inputs.head.version - inputs.settings.keep_versions + 1
    return [inputs.records[number] for number in sorted(inputs.records) if number >= first]


def _refuse_replays(inputs: MergeInputs, judged: Iterable[JudgedOffer]) -> Iterator[JudgedOffer]:
    """Refuse a laptop's or friend's contribution whose bytes the same sender contributed before.
    Bytes of another sender are no reason: a copy would get the original refused.
    """
    counted = {
        (_sender(merged), merged.blob): version
        for version, record in inputs.records.items()
        for merged in record.inputs
    }
    for offer in judged:
        file = _sender(offer.entry), offer.entry.blob
        repeated = offer.pending.is_capped and offer.verdict.admitted and file in counted
        if repeated:
            reason = f"v{counted[file]} counted the same file already"
            yield replace(offer, verdict=make_refusal(reason, Fault.VALUES))
        else:
            yield offer
        if offer.verdict.admitted:
            counted.setdefault(file, inputs.number)


def _sender(merged: Input) -> str:
    """Return the name of a laptop or of a friend's account, which may have many jobs."""
    return merged.peer.split(".")[0]


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
    """Return entries of own jobs, by which all jobs are judged: those in the last versions and
    admitted new ones. By a friend's tiny ones an own job would be refused.
    """
    before = [
        merged
        for record in _window(inputs)
        for merged in record.inputs
        if OWN.fullmatch(merged.peer)
    ]
    offered = (job.entry for job in jobs if job.verdict.admitted and not job.pending.is_capped)
    return before + [entry for entry in offered if isfinite(entry.norm)]


def _judge_job(job: JudgedOffer, entries: Sequence[Input], head: Version) -> JudgedOffer:
    typical = typical_of_others(job.entry.peer, entries)
    passed = head.version + 1 - last_judged(head, job.entry.peer)
    env_steps, new_steps = cap_claimed_steps(job.env_steps, job.entry.new_steps, typical, passed)
    return _with_steps(_judge_values(job, head.norms, typical), env_steps, new_steps)


def last_judged(head: Version, peer: str) -> int:
    """Return the version that judged the last contribution of ``peer``, 0 if none is known."""
    versions = (last for author, (_, last) in head.consumed.items() if author.split("/")[0] == peer)
    return max(versions, default=0)


def _bound_others(inputs: MergeInputs, judged: Sequence[JudgedOffer]) -> list[JudgedOffer]:
    """Return the offers with the steps of laptops and friends bounded (``step_counts``)."""
    rate = fastest_rate(_window(inputs))
    entries = [offer.entry for offer in judged if offer.verdict.admitted]
    left: dict[str, int] = {}
    bounded = []
    for offer in judged:
        peer = offer.entry.peer
        if offer.pending.is_capped and offer.verdict.admitted:
            if peer not in left:
                left[peer] = most_steps(rate, inputs.head.ts, _free_since(inputs, peer), entries)
            steps = min(offer.entry.new_steps, left[peer])
            most = max(1, left[peer]) if offer.pending.laptop else offer.env_steps
            left[peer] -= steps
            bounded.append(_with_steps(offer, min(offer.env_steps, most), steps))
        else:
            bounded.append(offer)
    return bounded


def _free_since(inputs: MergeInputs, peer: str) -> float | None:
    """Return the time (s) from which steps of ``peer`` count: of the version before the one that
    judged its last contribution. The time of this merge, which is not used, would be each merger's
    own, so the interval is the one before it.
    """
    last = last_judged(inputs.head, peer)
    record = inputs.records.get(last - 1) or inputs.records.get(last)
    return record.ts if last and record else None


def _with_steps(offer: JudgedOffer, env_steps: int, new_steps: int) -> JudgedOffer:
    entry = replace(offer.entry, new_steps=new_steps)
    if offer.pending.laptop:
        entry = replace(entry, env_steps=env_steps)
    return replace(offer, entry=entry, env_steps=env_steps)


def _judge_values(
    offer: JudgedOffer, norms: Sequence[tuple[float, float]], typical: TypicalOffer | None = None
) -> JudgedOffer:
    if not offer.verdict.admitted:
        return offer
    entry, strict = offer.entry, offer.pending.laptop
    verdict = judge_values(entry.norm, entry.optimizer_steps, norms, strict=strict, beside=typical)
    return replace(offer, verdict=verdict, entry=replace(entry, clip=verdict.scale))


def _norms(offers: Iterable[JudgedOffer]) -> list[tuple[float, float]]:
    """Return (norm, optimizer steps) of own jobs' admitted offers, as ``norms`` holds them."""
    own = (offer for offer in offers if not offer.pending.is_capped)
    entries = [offer.entry for offer in own if offer.verdict.admitted]
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
        raise WeightsError(f"version {inputs.number} would not be finite", "report this bug")
    by_share = zip(admitted, shares, strict=True)
    entries = [replace(each.entry, share=share) for each, share in by_share]
    totals = dict(head.contributors)
    for merged in entries:
        totals[merged.peer] = totals.get(merged.peer, 0) + merged.new_steps
    record = replace(
        head,
        version=inputs.number,
        parent=inputs.parent,
        base=inputs.base,
        rule=rule,
        denominator=denominator or head.denominator,
        inputs=tuple(entries),
        refused=tuple(map(_refusal, refused)),
        consumed=_consumed(inputs, judged),
        contributors=dict(sorted(totals.items())),
        norms=extend_norm_history(head.norms, _norms(admitted)),
        # Own jobs alone may end the run: a version without one adds no steps to the total.
        fleet_steps=total_of(totals)
        if any(OWN.fullmatch(merged.peer) for merged in entries)
        else min(head.fleet_steps, total_of(totals)),
        restored=False,
        reverts=(),
        replayed=(),
    )
    return state, fit_record(record)


def _refusal(offer: JudgedOffer) -> Refusal:
    verdict = offer.verdict
    return Refusal(*offer.pending.key, verdict.fault.value, plain_reason(verdict.reason))


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
    # A friend's job counts by its contributions: heartbeats alone would shrink everybody's share.
    seen = {merged.peer for record in _window(inputs) for merged in record.inputs}
    live = {peer for peer in inputs.live - bad if OWN.fullmatch(peer) or peer in seen}
    counted = {each.peer for each in offers if not each.laptop} | live
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
    """Return (highest judged sequence, version) per author; forget authors that cannot return, and
    of laptops and friends all but the newest: each may choose a new incarnation for each offer.
    """
    head = inputs.head
    consumed = {
        author: last
        for author, last in head.consumed.items()
        if author in inputs.peers.authors or _may_come_again(inputs, last[1])
    }
    for offer in sorted(judged, key=lambda offer: offer.pending.key):  # the highest comes last
        consumed[offer.entry.author] = (offer.entry.sequence, inputs.number)
    return newest_authors(consumed)


def newest_authors(
    consumed: Mapping[str, tuple[int, int]], each: int = PEER_AUTHORS, most: int = OTHERS_AUTHORS
) -> dict[str, tuple[int, int]]:
    """Return the entries of ``consumed`` of own jobs, and of others those judged last: ``each`` of
    a peer, ``most`` together.
    """
    places: Counter[str] = Counter()
    others = []
    for author in sorted(consumed, key=lambda author: consumed[author][1], reverse=True):
        peer = author.split("/")[0]
        places[peer] += 1
        if not OWN.fullmatch(peer) and places[peer] <= each:
            others.append(author)
    kept = {*others[:most], *(author for author in consumed if OWN.fullmatch(author.split("/")[0]))}
    return {author: last for author, last in consumed.items() if author in kept}


def fit_record(record: Version, limit: int = LIMIT - FREE_BYTES) -> Version:
    """Return ``record`` within ``limit`` bytes, if it can be: refusals of laptops and friends are
    dropped before a merge is, then most of their judged authors.
    """
    if len(record.to_json_bytes()) > limit:
        own = tuple(refusal for refusal in record.refused if OWN.fullmatch(refusal.peer))
        record = replace(record, refused=own)
    if len(record.to_json_bytes()) > limit:
        record = replace(record, consumed=newest_authors(record.consumed, 1, PEER_AUTHORS))
    return record


def _may_come_again(inputs: MergeInputs, number: int) -> bool:
    """Return True if a contribution judged by version ``number`` may be offered again."""
    lag, record = inputs.head.version + 1 - number, inputs.records.get(number)
    if record is not None:
        lag = laptop_lag(lag, inputs.head.ts - record.ts)
    return lag < forget_after_versions(inputs.settings)


def forget_after_versions(settings: ExchangeSettings) -> int:
    """Return the age, in versions (or minutes), at which all offers of a gone author are stale."""
    return 2 * settings.laptop_max_staleness
