"""Pure: which jobs work against the others, and who is shut out for how long.

Norms do not see a step turned round, and one job's word is as good as another's: only where three
others are there is a job called an outlier. Honest jobs agree little now and then, so what a job's
cosines say is added up; once that is enough, its contribution is put off: its author keeps the
progress and offers it again with the next. The second in a row, or values that are refused twice in
a row, shut the job out for ``TERM`` versions, and each further time for twice as long. It is
neither waited for nor counted until, after that, a contribution goes with the others. Never is more
than half of the jobs shut out.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from Daddy.weights.gate.admission import OTHERS_NEEDED, Fault, Verdict
from Daddy.weights.store.records import Conduct

AGAINST, ENOUGH = -0.05, 0.4
"""What cosines to the others fall below the first is added up, what they rise above it taken off
again; a sum above the second is work against them: docs/decisions/0063."""

ALIKE, APART = 0.9, 0.25
"""The same step again (its cosine to the author's last above the first), though the others go
elsewhere (to theirs below that part of what is usual among them): nobody learns like that."""

AGREED = 0.2
"""The usual cosine among the others from which on they have a way to go with."""

NUMBERS_NEEDED = 3_600
"""In fewer dimensions chance alone comes near ``AGAINST`` (three deviations, 3 / sqrt n)."""

STRIKES = 2
TERM, LONGEST_TERM = 16, 256
"""Versions for which a job is shut out the first time, and at most."""

FORGOTTEN = 64
"""Versions after its term from which on a job in order has no past."""

FEWEST = 2
"""Other jobs that are enough to judge whoever was refused the last time."""


@dataclass(frozen=True, slots=True)
class Sight:
    """How one contribution looks: its cosines to the other jobs' newest steps and to the author's
    last, and whether the author was refused the last time or comes from a term.
    """

    peer: str
    to_others: float
    to_last: float = 0.0
    struck: bool = False
    returns: bool = False


@dataclass(frozen=True, slots=True)
class Company:
    """The jobs in good standing that are there.

    The cosine of each one's newest step to the others', and to that of the job that merges (empty
    where it has none); ``past`` is what each one's earlier cosines add up to (``add_up``), of one
    that was refused the last time enough.
    """

    to_others: Mapping[str, float]
    to_merger: Mapping[str, float] = field(default_factory=dict)
    past: Mapping[str, float] = field(default_factory=dict)

    def is_against(self, peer: str, cosine: float) -> bool:
        """Whether this cosine, with the job's earlier ones, is work against the others."""
        return cosine < AGAINST and add_up([cosine], self.past.get(peer, 0.0)) > ENOUGH

    @property
    def split(self) -> bool:
        """Whether half or more are against the rest: then nobody stands alone."""
        against = sum(one < AGAINST for one in self.to_others.values())
        return 2 * against >= len(self.to_others)

    @property
    def contradicts(self) -> bool:
        """Whether somebody is against the rest by what is here alone."""
        return any(add_up([one]) > ENOUGH for one in self.to_others.values())

    @property
    def contrary(self) -> set[str]:
        """In a split, who works against what the merging job learnt itself."""
        return {p for p, one in self.to_merger.items() if self.split and self.is_against(p, one)}

    def beside(self, peer: str) -> list[float]:
        """The others' cosines."""
        return [one for other, one in sorted(self.to_others.items()) if other != peer]


def shut_out(conduct: Sequence[Conduct], version: int) -> set[str]:
    """Jobs whose contributions ``version`` does not take."""
    return {one.peer for one in conduct if version <= one.until}


def returning(conduct: Sequence[Conduct], version: int) -> set[str]:
    """Jobs whose term is over and who have not gone with the others since."""
    return {one.peer for one in conduct if one.terms and one.strikes and version > one.until}


def uncounted(conduct: Sequence[Conduct], version: int) -> set[str]:
    """Jobs that bring nothing: shut out, or refused the last time."""
    return shut_out(conduct, version) | {one.peer for one in conduct if one.strikes}


def judge_conduct(peer: str, conduct: Sequence[Conduct], version: int) -> Verdict | None:
    """The refusal of a job that is shut out; None for others."""
    for one in conduct:
        if one.peer == peer and version <= one.until:
            reason = f"{peer} is shut out until v{one.until}: refused time and again"
            return Verdict(admitted=False, reason=reason, fault=Fault.VALUES)
    return None


def add_up(cosines: Iterable[float], past: float = 0.0) -> float:
    """How far a job's cosines, in order, lie below ``AGAINST`` together: a one-sided CUSUM."""
    for one in cosines:
        past = max(0.0, past + AGAINST - one)
    return past


def telling(sight: Sight, company: Company) -> float:
    """The cosine that says something of its author: in a split, where all look bad to the rest,
    that to what the merging job learnt (0 where it learnt nothing).
    """
    return company.to_merger.get(sight.peer, 0.0) if company.split else sight.to_others


def judge_sight(sight: Sight, company: Company, unheard: int = 0) -> Verdict | None:
    """A refusal of what works against the others; None where nothing speaks against it.

    ``unheard``: other jobs that may yet have their say. A contradiction waits for them: where three
    of four have spoken, the first two to agree may be those that lie.
    """
    if unheard and company.contradicts and len(company.to_others) + unheard > OTHERS_NEEDED:
        return _WAIT
    beside = company.beside(sight.peer)
    if len(beside) < (FEWEST if sight.struck or sight.returns else OTHERS_NEEDED):
        return None
    if company.split and not sight.returns:
        return _side_with_merger(sight.peer, company)
    if company.is_against(sight.peer, sight.to_others):
        return _put_off(f"it works against the other jobs (cosine {sight.to_others:.2f})")
    return _judge_apart(sight, statistics.median(beside))


def _judge_apart(sight: Sight, usual: float) -> Verdict | None:
    """A refusal of who goes nowhere where the others, at ``usual`` cosines, go one way."""
    cosine = f"cosine {sight.to_others:.2f}"
    apart = usual >= AGREED and sight.to_others < APART * usual
    if apart and sight.returns:
        return _put_off(f"it comes from a term and does not go with the other jobs ({cosine})")
    if apart and sight.to_last > ALIKE:
        again = f"{cosine}, to its last {sight.to_last:.2f}"
        return _put_off(f"it is the last step again, and not the other jobs' way ({again})")
    return None


_WAIT = Verdict(admitted=False, reason="a job that lives has yet to say where it goes", wait=True)


def _side_with_merger(peer: str, company: Company) -> Verdict | None:
    """As many against as for: all that whoever merges can be sure of is what it learnt itself."""
    if peer not in company.contrary:
        return None
    return _put_off(
        "the jobs contradict one another, and it works against what the merging job learnt "
        f"(cosine {company.to_merger[peer]:.2f})"
    )


def _put_off(reason: str) -> Verdict:
    return Verdict(admitted=False, reason=reason, fault=Fault.LATE)


def after(
    conduct: Sequence[Conduct],
    version: int,
    outcomes: Mapping[str, bool],
    jobs: Collection[str],
    contrary: Collection[str] = (),
) -> tuple[Conduct, ...]:
    """The jobs in trouble once ``version`` has judged.

    ``outcomes`` says of each author that was judged whether its last contribution was in order,
    ``jobs`` who is there at all. Where the jobs are split and one of the ``contrary`` is shut out,
    the rest of them is with it: afterwards too few would be left to judge them.
    """
    known = {one.peer: one for one in conduct}
    for peer, fine in sorted(outcomes.items()):
        before = known.get(peer, Conduct(peer, 0))
        known[peer] = _in_order(before, version) if fine else _struck(before)
    guilty = {peer for peer, one in known.items() if one.strikes >= STRIKES}
    if guilty & set(contrary):
        guilty |= set(contrary)
    absent = shut_out(conduct, version)
    for peer in sorted(guilty):
        one = known.get(peer, Conduct(peer, 0))
        alone = len(set(jobs) - absent) <= OTHERS_NEEDED and not one.terms
        if alone or 2 * (len(shut_out(list(known.values()), version + 1)) + 1) > len(jobs):
            known[peer] = replace(one, strikes=STRIKES - 1)
        else:
            until = version + min(TERM << one.terms, LONGEST_TERM)
            known[peer] = Conduct(peer, STRIKES - 1, one.terms + 1, until)
    kept = [one for one in known.values() if one.strikes or one.terms]
    return tuple(sorted(kept, key=lambda one: one.peer))


def _in_order(before: Conduct, version: int) -> Conduct:
    past = Conduct(before.peer, 0) if version > before.until + FORGOTTEN else before
    return replace(past, strikes=0)


def _struck(before: Conduct) -> Conduct:
    """One strike more. Who comes from a term had one left."""
    return replace(before, strikes=before.strikes + 1)
