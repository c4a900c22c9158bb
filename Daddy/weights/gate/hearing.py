"""The gate at work on all contributions of a version: their values, judged beside one another.

Jobs come first: a laptop's norm is judged by what the jobs', these included, usually are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from Daddy.weights.gate.admission import Fault, judge_values
from Daddy.weights.gate.conduct import Company, Sight, after, judge_sight, shut_out, telling
from Daddy.weights.gate.judging import BLOB_PATIENCE_S, Judge, Judged
from Daddy.weights.gate.sights import inputs_of_jobs, look
from Daddy.weights.gate.usual import Told, Usual, believe, usual_beside
from Daddy.weights.offers import Found
from Daddy.weights.store.records import Conduct, Version
from Daddy.weights.store.store import Store


@dataclass(frozen=True, slots=True)
class Hearing:
    """A verdict on each, in order, and the jobs in trouble once it is merged."""

    judged: tuple[Judged, ...]
    conduct: tuple[Conduct, ...]


@dataclass(frozen=True, slots=True)
class Court:
    """Who judges (``judge``, for the job ``merger``), and the ``live`` jobs at that moment.

    ``late`` are the last versions whose contributions are still there, oldest first.
    """

    store: Store
    judge: Judge
    merger: str
    live: Collection[str]
    late: Sequence[Version]

    def hear(self, found: Sequence[Found]) -> Hearing:
        """A verdict on each, in order; without those awaited and their authors' later ones."""
        head = self.late[-1]
        sized = self._of_usual_size(self.judge.open_all(head, [o for o in found if not o.laptop]))
        offered = [(one.peer, one.delta) for one in sized if one.delta is not None]
        company, sights = look(self.store, self.late, offered, self.merger)
        jobs = self._beside_each_other(sized, company, sights)
        norms = [*head.norms, *(one.as_norm() for one in jobs if one.verdict.admitted)]
        laptops = [
            _laptop(one, norms)
            for one in self.judge.open_all(head, [one for one in found if one.laptop])
        ]
        judged = _without_awaited([*jobs, *laptops])
        return Hearing(tuple(judged), self._conduct(judged, company.contrary))

    def _of_usual_size(self, jobs: Sequence[Judged]) -> list[Judged]:
        """Values of jobs' contributions judged, and how many of their steps are believed."""
        told = [
            Told(one.peer, one.norm * one.clip, one.optimizer_steps, one.env_steps)
            for one in inputs_of_jobs(self.late)
        ] + [
            Told(one.peer, one.norm, one.found.offer.optimizer_steps, one.found.offer.env_steps)
            for one in jobs
            if one.verdict.admitted and isfinite(one.norm)
        ]
        return [self._values(one, usual_beside(one.peer, told)) for one in jobs]

    def _values(self, one: Judged, usual: Usual | None) -> Judged:
        if not one.verdict.admitted:
            return one
        head, offer = self.late[-1], one.found.offer
        verdict = judge_values(
            one.norm, offer.optimizer_steps, head.norms, strict=False, beside=usual
        )
        before = [at for who, (_, at) in head.consumed.items() if who.split("/")[0] == offer.peer]
        passed = head.version + 1 - max(before, default=0)
        believed = believe(offer.env_steps, offer.new_steps, usual, passed)
        return replace(one.but(verdict), believed=believed)

    def _beside_each_other(
        self, jobs: Sequence[Judged], company: Company, sights: Sequence[Sight]
    ) -> list[Judged]:
        """Those put off that work against the other jobs; ``sights`` of those with a delta."""
        left, judged = iter(sights), []
        for one in jobs:
            if one.delta is None:
                judged.append(one)
                continue
            sight = next(left)
            verdict = judge_sight(sight, company, self._unheard(one, company))
            seen = replace(one, cosine=telling(sight, company))
            judged.append(seen if verdict is None else replace(seen.but(verdict), put_off=True))
        return judged

    def _unheard(self, one: Judged, company: Company) -> int:
        """Jobs that may have their say if this one waits a little."""
        head = self.late[-1]
        absent = shut_out(head.conduct, head.version + 1) | set(company.to_others) | {one.peer}
        patient = self.judge.waited_s(one.found) < BLOB_PATIENCE_S
        return len(set(self.live) - absent) if patient else 0

    def _conduct(self, judged: Sequence[Judged], contrary: Collection[str]) -> tuple[Conduct, ...]:
        """Who is shut out is not judged, and lateness alone says nothing about anybody."""
        head, jobs = self.late[-1], [one for one in judged if not one.found.laptop]
        absent = shut_out(head.conduct, head.version + 1)
        outcomes = {
            one.peer: one.verdict.admitted
            for one in jobs
            if one.peer not in absent and (one.verdict.admitted or _is_strike(one))
        }
        there = {one.peer for one in inputs_of_jobs(self.late)} | {one.peer for one in jobs}
        return after(head.conduct, head.version + 1, outcomes, there | absent, contrary)


def _laptop(one: Judged, norms: Sequence[tuple[float, float]]) -> Judged:
    if not one.verdict.admitted:
        return one
    steps = one.found.offer.optimizer_steps
    return one.but(judge_values(one.norm, steps, norms, strict=True))


def _without_awaited(judged: Sequence[Judged]) -> list[Judged]:
    """In order; nothing of an author after the first that has to wait."""
    waiting: set[str] = set()
    kept = []
    for one in sorted(judged, key=lambda one: one.found.key):
        if one.verdict.wait:
            waiting.add(one.found.offer.author)
        if one.found.offer.author not in waiting:
            kept.append(one)
    return kept


def _is_strike(one: Judged) -> bool:
    """Whether the numbers themselves were refused; to have learnt nothing is no offence."""
    return one.put_off or (one.verdict.fault is Fault.VALUES and one.norm != 0.0)
