"""Pure: the lineage of a version: who moved it how far, what was refused and why, who adopted it.

One :class:`Step` per version, from commit records, or, on a laptop, from the receipts that came
along. What nobody told is None, never 0.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from Daddy.core.humanize import one_line
from Daddy.core.names import FRIENDS_JOB
from Daddy.weights.store.records import Input, Keyframe, Receipt, Revert, Version

JOB = re.compile(r"slot-\d+")


@dataclass(frozen=True, slots=True)
class Part:
    """One contribution in a version. ``share``: how far it moved the weights, 0 to 1.

    ``norm``: the delta's, before it was scaled by ``clip``; ``staleness`` in versions.
    """

    peer: str
    sequence: int
    share: float
    staleness: int | None = None
    norm: float | None = None
    clip: float = 1.0
    env_steps: int | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """One that did not count. ``fault``: "late" is offered again, "values" is dropped."""

    peer: str
    sequence: int
    fault: str
    reason: str


@dataclass(frozen=True, slots=True)
class Adopted:
    """Who took the version over, when (wall seconds), and its policy's KL to before, in nats."""

    peer: str
    ts: float
    kl: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """One version in the lineage. ``ts`` in wall seconds; ``flaw``: what is wrong with its record.

    ``totals``: environment steps by peer, over all versions so far. ``base``: the version it was
    moved from, where that is not the one before. ``reverted``: what it took back, and why.
    ``versions``: how many it stands for.
    """

    version: int
    ts: float | None = None
    merger: str = ""
    fleet_steps: int | None = None
    totals: Mapping[str, int] = field(default_factory=dict)
    base: int | None = None
    parts: tuple[Part, ...] = ()
    refused: tuple[Refused, ...] = ()
    adopted: tuple[Adopted, ...] = ()
    flaw: str = ""
    reverted: str = ""
    versions: int = 1

    def to_json(self) -> dict[str, Any]:
        """The step as plain values."""
        return {name: one for name, one in dataclasses.asdict(self).items() if name != "versions"}

    @property
    def shares(self) -> dict[str, float]:
        """Peer → its share in this version, over all its contributions."""
        total: dict[str, float] = {}
        for one in self.parts:
            total[one.peer] = total.get(one.peer, 0.0) + one.share
        return dict(sorted(total.items(), key=lambda pair: peer_order(pair[0])))

    @property
    def peers(self) -> set[str]:
        """Everybody who had to do with it."""
        adopters = {one.peer for one in self.adopted}
        return adopters | {o.peer for o in self.parts} | {o.peer for o in self.refused}

    @property
    def kls(self) -> list[float]:
        """The KL of each adoption that told one."""
        return [one.kl for one in self.adopted if one.kl is not None]


def peer_order(peer: str) -> tuple[int, int, str]:
    """Jobs by number, then friends' jobs by friend and number, then laptops by name."""
    if JOB.fullmatch(peer):
        return (0, int(peer.removeprefix("slot-")), peer)
    return (1 if FRIENDS_JOB.fullmatch(peer) else 2, len(peer), peer)


def from_records(
    records: Iterable[Version],
    flaws: Mapping[int, str],
    adoptions: Mapping[int, tuple[Adopted, ...]],
) -> list[Step]:
    """The lineage in a run: a step per record, and one per flaw without a record, in order."""
    steps = {
        one.version: Step(
            version=one.version,
            ts=one.ts,
            merger=one.merger,
            fleet_steps=one.fleet_steps,
            totals=one.contributors,
            base=one.base if one.base != max(0, one.version - 1) else None,
            parts=tuple(_part(each) for each in one.inputs),
            refused=tuple(Refused(o.peer, o.sequence, o.fault, o.reason) for o in one.refused),
            adopted=adoptions.get(one.version, ()),
            flaw=flaws.get(one.version, ""),
            reverted="; ".join(tell_revert(each) for each in one.reverts),
        )
        for one in records
    }
    for number, said in flaws.items():
        steps.setdefault(number, Step(number, adopted=adoptions.get(number, ()), flaw=said))
    return [steps[number] for number in sorted(steps)]


def _part(one: Input) -> Part:
    return Part(
        peer=one.peer,
        sequence=one.sequence,
        share=one.share,
        staleness=one.staleness,
        norm=one.norm,
        clip=one.clip,
        env_steps=one.env_steps,
    )


def from_receipts(frames: Sequence[Keyframe], receipts: Iterable[Receipt]) -> list[Step]:
    """As far as a laptop knows it: the versions it holds, and those that judged its work."""
    known = {frame.version: frame for frame in frames}
    mine: dict[int, list[Receipt]] = {}
    for one in receipts:
        mine.setdefault(one.version, []).append(one)
    return [
        Step(
            version=number,
            ts=known[number].ts if number in known else None,
            fleet_steps=known[number].fleet_steps if number in known else None,
            parts=tuple(
                Part(one.peer, one.sequence, one.share)
                for one in mine.get(number, ())
                if one.accepted
            ),
            refused=tuple(
                Refused(one.peer, one.sequence, one.fault, one.reason)
                for one in mine.get(number, ())
                if not one.accepted
            ),
        )
        for number in sorted({*known, *mine})
    ]


def kind_of(reason: str) -> str:
    """A reason without its figures and names: what several refusals have in common."""
    plain = re.sub(r"'[^']*'", "…", re.sub(r"\([^)]*\)", "", one_line(reason)))
    plain = re.sub(r"\b[0-9a-f]{8,64}\b", "…", plain)
    plain = re.sub(r"\bv\d+\b", "v…", plain)
    plain = re.sub(r"(?<![\w])[-+]?\d[\d.,]*(?:e[-+]?\d+)?", "…", plain)
    return re.sub(r"\s+", " ", plain).strip()


@dataclass(frozen=True, slots=True)
class Kind:
    """A reason without figures, how often it was given, and to whom."""

    said: str
    count: int
    peers: tuple[str, ...]


def kinds_of(steps: Iterable[Step]) -> list[Kind]:
    """Why contributions were refused, the most frequent first."""
    refused = [(kind_of(one.reason), one.peer) for step in steps for one in step.refused]
    counted = Counter(said for said, _ in refused)
    peers: dict[str, set[str]] = {}
    for said, peer in refused:
        peers.setdefault(said, set()).add(peer)
    return [
        Kind(said, count, tuple(sorted(peers[said])))
        for said, count in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    ]


def fold(steps: Sequence[Step], most: int) -> list[Step]:
    """At most ``most`` steps, each standing for as many neighbours, for what has room for no more.

    A peer's share is the mean over them, of its staleness, norm and KL the largest is told, and one
    refusal of a kind.
    """
    many = math.ceil(len(steps) / most)
    if many <= 1:
        return list(steps)
    return [_folded(steps[place : place + many]) for place in range(0, len(steps), many)]


def _folded(steps: Sequence[Step]) -> Step:
    last = steps[-1]
    parts: dict[str, list[Part]] = {}
    for one in (part for step in steps for part in step.parts):
        parts.setdefault(one.peer, []).append(one)
    adopted = sorted((o for step in steps for o in step.adopted), key=lambda o: o.kl or -1.0)
    refused = {(o.peer, kind_of(o.reason)): o for step in steps for o in step.refused}
    return dataclasses.replace(
        last,
        base=next((step.base for step in steps if step.base is not None), None),
        flaw=next((step.flaw for step in steps if step.flaw), ""),
        reverted="; ".join(step.reverted for step in steps if step.reverted),
        parts=tuple(_mean(peer, mine, len(steps)) for peer, mine in sorted(parts.items())),
        refused=tuple(refused.values()),
        adopted=tuple({one.peer: one for one in adopted}.values()),
        versions=len(steps),
    )


def _mean(peer: str, parts: Sequence[Part], versions: int) -> Part:
    return Part(
        peer=peer,
        sequence=parts[-1].sequence,
        share=sum(one.share for one in parts) / versions,
        staleness=max((o.staleness for o in parts if o.staleness is not None), default=None),
        norm=max((one.norm for one in parts if one.norm is not None), default=None),
        clip=min(one.clip for one in parts),
        env_steps=sum(one.env_steps or 0 for one in parts),
    )


def tell_revert(one: Revert) -> str:
    """``took back v7 to v10, without …: v8 against v6: it plays worse: …``."""
    named = f", without {', '.join(one.without)}" if one.without else ""
    again = f", {one.replayed} added again" if one.replayed else ""
    return f"took back v{one.first} to v{one.last}{named}{again}: {one.reason}"


def spread(values: Iterable[float | None], form: str = "g") -> str:
    """The least and the most of some figures, "0–2"; "-" where nobody told one."""
    told = [one for one in values if one is not None and math.isfinite(one)]
    if not told:
        return "-"
    least, most = format(min(told), form), format(max(told), form)
    return least if least == most else f"{least}–{most}"
