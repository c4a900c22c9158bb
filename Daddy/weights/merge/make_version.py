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
from Daddy.weights.encoding.state_arithmetic import StateDict, is_finite, move, norm
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.merge.admission import (
    Fault,
    Usual,
    Verdict,
    believe,
    judge_file,
    judge_record,
    judge_values,
    refuse,
    remember,
    usual_beside,
)
from Daddy.weights.merge.averaging import Offer, complete_set, own_lag, share_out
from Daddy.weights.merge.contributions import Found, is_job
from Daddy.weights.merge.fencing import fences_of, judge_term
from Daddy.weights.store.heartbeats import Pulse
from Daddy.weights.store.rebuild_version import factors, pull
from Daddy.weights.store.weight_records import Input, Refusal, Version


@dataclass(frozen=True, slots=True)
class Peers:
    """Heartbeats and contributions that no version has judged, as read at one moment.

    ``authors`` are the processes that have a folder.
    """

    pulses: tuple[Pulse, ...] = ()
    pending: tuple[Found, ...] = ()
    authors: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Judged:
    """A contribution with its verdict, its entry in the commit record, and its delta.

    ``data`` is the file, where it lies in another account's folder or a box; ``env_steps`` are the
    steps that its share stands for.
    """

    found: Found
    verdict: Verdict
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
    peers: Peers
    live: frozenset[str]
    base: int
    shared: StateDict
    states: Mapping[int, StateDict] = field(default_factory=dict)
    opened: Sequence[Judged] = ()


# -- verdicts


def judge_all(inputs: MergeInputs) -> list[Judged]:
    """A verdict on each, in order; without those awaited and their authors' later ones."""
    jobs = [one for one in _without_awaited(inputs.opened) if not one.found.laptop]
    told = _told(inputs, jobs)
    jobs = [_judge_job(one, told, inputs.head) for one in jobs]
    norms = [*inputs.head.norms, *_norms(jobs)]
    laptops = [_judge_values(one, norms) for one in inputs.opened if one.found.laptop]
    return _without_awaited([*jobs, *laptops])


def judge_record_of(inputs: MergeInputs, one: Found) -> Verdict:
    """The verdict on a contribution's record: its author, its slot's term, then the record."""
    settings, offer = inputs.settings, one.offer
    boxed = one.laptop and one.uid is None  # a friend on the owner's list needs no other list
    if boxed and settings.allowed and offer.peer not in settings.allowed:
        reason = f"{offer.peer!r} is not among collaboration.allowed_user_ids"
        return refuse(reason, Fault.VALUES)
    late = "" if one.laptop else judge_term(offer, fences_of(inputs.peers.pulses, offer.peer))
    if late:
        return refuse(late)
    limit = settings.laptop_max_staleness if one.laptop else settings.max_staleness
    base = inputs.records.get(offer.base_version)
    return judge_record(offer, inputs.head, base, _lag(inputs, one), limit)


def _lag(inputs: MergeInputs, one: Found) -> int:
    """Versions that a contribution's base is behind; a laptop's in its own rhythm."""
    versions = inputs.head.version - one.offer.base_version
    base = inputs.records.get(one.offer.base_version)
    return own_lag(versions, inputs.head.ts - base.ts) if one.laptop and base else versions


def judge_bytes(inputs: MergeInputs, one: Found, data: bytes) -> Judged:
    """The verdict on a contribution's file; WeightsError when it holds no delta of this run."""
    verdict = judge_file(one.offer, len(data), sha256_hex(data))
    if not verdict.admitted:
        return as_judged(inputs, one, verdict)
    delta = decode_delta(data, one.offer.form, inputs.head.schema)
    return as_judged(inputs, one, verdict, delta, data)


def as_judged(
    inputs: MergeInputs,
    found: Found,
    verdict: Verdict,
    delta: StateDict | None = None,
    data: bytes = b"",
) -> Judged:
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
    return Judged(found, verdict, entry, delta or {}, kept, offer.env_steps)


def _told(inputs: MergeInputs, jobs: Iterable[Judged]) -> list[Input]:
    """Contributions of jobs to the last versions, and those they offer now."""
    first = inputs.head.version - inputs.settings.keep_versions + 1
    before = [
        one
        for number, record in inputs.records.items()
        for one in record.inputs
        if number >= first and is_job(one.peer) and not one.laptop
    ]
    return before + [one.entry for one in jobs if one.verdict.admitted and isfinite(one.entry.norm)]


def _judge_job(one: Judged, told: Sequence[Input], head: Version) -> Judged:
    """A job's values judged, and its claimed steps as far as they are believed."""
    peer = one.entry.peer
    usual = usual_beside(peer, told)
    before = [at for author, (_, at) in head.consumed.items() if author.split("/")[0] == peer]
    passed = head.version + 1 - max(before, default=0)
    env_steps, new_steps = believe(one.env_steps, one.entry.new_steps, usual, passed)
    one = _judge_values(one, head.norms, usual)
    return replace(one, entry=replace(one.entry, new_steps=new_steps), env_steps=env_steps)


def _judge_values(
    one: Judged, norms: Sequence[tuple[float, float]], usual: Usual | None = None
) -> Judged:
    if not one.verdict.admitted:
        return one
    entry, strict = one.entry, one.found.laptop
    verdict = judge_values(entry.norm, entry.optimizer_steps, norms, strict=strict, beside=usual)
    return replace(one, verdict=verdict, entry=replace(entry, clip=verdict.scale))


def _norms(jobs: Iterable[Judged]) -> list[tuple[float, float]]:
    """Norms of the admitted ones, as the history remembers them."""
    entries = (one.entry for one in jobs if one.verdict.admitted)
    return [(one.norm * one.clip, one.optimizer_steps) for one in entries]


def _without_awaited(judged: Sequence[Judged]) -> list[Judged]:
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


def make_version(inputs: MergeInputs, judged: Sequence[Judged]) -> tuple[StateDict, Version]:
    """The state to which the contributions move the shared one, and its commit record.

    The record's state, size, merger and time are still those of the head. WeightsError when the
    state would not be finite.
    """
    head, rule = inputs.head, inputs.settings.rule
    admitted = [one for one in judged if one.verdict.admitted]
    refused = [one for one in judged if not one.verdict.admitted]
    shares, denominator = _shares(inputs, admitted, refused)
    pulls = [
        pull(rule, one.delta, inputs.states.get(one.entry.base_version, {}), inputs.shared)
        for one in admitted
    ]
    clips = [one.entry.clip for one in admitted]
    state = move(inputs.shared, pulls, factors(rule, shares, clips))
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
        norms=remember(head.norms, _norms(one for one in admitted if not one.found.laptop)),
        fleet_steps=sum(totals.values()),
        restored=False,
        reverts=(),
        replayed=(),
    )


def _shares(
    inputs: MergeInputs, admitted: Sequence[Judged], refused: Sequence[Judged]
) -> tuple[tuple[float, ...], float]:
    """Each admitted contribution's share of the version, and what they were divided by."""
    head, settings = inputs.head, inputs.settings
    offers = [
        Offer(one.entry.peer, one.env_steps, _lag(inputs, one.found), one.found.laptop,
              friend=one.found.uid is not None)
        for one in admitted
    ]  # fmt: skip
    bad = {one.entry.peer for one in refused if one.verdict.fault is Fault.VALUES}
    bad |= {one.peer for one in head.refused if one.fault == Fault.VALUES.value}
    counted = {one.peer for one in offers if not one.laptop} | (inputs.live - bad)
    full = complete_set(offers, len(counted), head.denominator)
    shares, denominator = share_out(offers, full)
    if settings.rule == "polyak":
        each = zip(admitted, shares, strict=True)
        shares = tuple(
            min(settings.alpha, own) if one.found.is_capped else settings.alpha for one, own in each
        )
    return shares, denominator


def _consumed(inputs: MergeInputs, judged: Sequence[Judged]) -> dict[str, tuple[int, int]]:
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
        lag = own_lag(lag, inputs.head.ts - record.ts)
    return lag < forgotten_after(inputs.settings)


def forgotten_after(settings: ExchangeSettings) -> int:
    """Versions, or minutes, until a contribution of an author that is gone cannot come again."""
    return 2 * settings.laptop_max_staleness
