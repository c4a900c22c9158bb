"""The gate at work on all contributions of a version: their values, judged beside one another.

Jobs come first: a laptop's norm is judged by what the jobs', these included, usually are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite

from Daddy.weights.gate.judging import Judge, Judged
from Daddy.weights.merge.admission import Told, Usual, believe, judge_values, usual_beside
from Daddy.weights.offers import Found, counts_as_job
from Daddy.weights.store.records import Input, Version


def inputs_of_jobs(versions: Iterable[Version]) -> list[Input]:
    """Contributions of jobs in these versions, in order."""
    return [one for v in versions for one in v.inputs if counts_as_job(one)]


def judge_all(judge: Judge, late: Sequence[Version], found: Sequence[Found]) -> list[Judged]:
    """A verdict on each, in order; without those awaited and their authors' later ones.

    ``late`` are the last versions whose contributions are still there, oldest first.
    """
    head = late[-1]
    opened = judge.open_all(head, [one for one in found if not one.laptop])
    told = [
        Told(one.peer, one.norm * one.clip, one.optimizer_steps, one.env_steps)
        for one in inputs_of_jobs(late)
    ] + [
        Told(one.peer, one.norm, one.found.offer.optimizer_steps, one.found.offer.env_steps)
        for one in opened
        if one.verdict.admitted and isfinite(one.norm)
    ]
    jobs = [_job(one, usual_beside(one.peer, told), head) for one in opened]
    norms = [*head.norms, *(one.as_norm() for one in jobs if one.verdict.admitted)]
    opened = judge.open_all(head, [one for one in found if one.laptop])
    return _without_awaited([*jobs, *(_laptop(one, norms) for one in opened)])


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
    """In order; nothing of an author after the first that has to wait."""
    waiting: set[str] = set()
    kept = []
    for one in sorted(judged, key=lambda one: one.found.key):
        if one.verdict.wait:
            waiting.add(one.found.offer.author)
        if one.found.offer.author not in waiting:
            kept.append(one)
    return kept
