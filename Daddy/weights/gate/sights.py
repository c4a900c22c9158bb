"""How the jobs' newest steps look beside one another: those offered now and those of late versions.

A version is often made of two or three contributions; who contributed to none of them still has
its say through its last one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from Daddy.core.errors import WeightsError
from Daddy.weights import offers
from Daddy.weights.encoding.quantise import decode_delta
from Daddy.weights.gate.agreement import cosine, numbers, table, to_the_rest
from Daddy.weights.gate.conduct import (
    ENOUGH,
    FEWEST,
    NUMBERS_NEEDED,
    Company,
    Sight,
    add_up,
    returning,
    shut_out,
)
from Daddy.weights.polyak import StateDict, levelled
from Daddy.weights.store.records import Input, Version
from Daddy.weights.store.store import Store

NOBODY = Company({})

Offered = tuple[str, StateDict]
"""A job and a delta that it offers."""


def inputs_of_jobs(versions: Iterable[Version]) -> list[Input]:
    """What jobs contributed to these versions, in order."""
    return [one for v in versions for one in v.inputs if offers.counts_as_job(one)]


def look(
    store: Store, late: Sequence[Version], offered: Sequence[Offered], merger: str
) -> tuple[Company, list[Sight]]:
    """Who is there, and a sight of each delta offered, in order. Nobody where too few are.

    ``late`` are the last versions, oldest first; ``merger`` is the job that merges. Who is shut
    out, or comes from a term, has no say.
    """
    head = late[-1]
    newest = {one.peer: (one, v.schema) for v in late for one in inputs_of_jobs([v])}
    struck = {one.peer for one in head.conduct if one.strikes}
    back = returning(head.conduct, head.version + 1)
    silent = shut_out(head.conduct, head.version + 1) | back
    there = (set(newest) | {peer for peer, _ in offered}) - silent
    if len(there) < FEWEST or not offered or numbers(offered[0][1]) < NUMBERS_NEEDED:
        return NOBODY, [Sight(peer, 0.0) for peer, _ in offered]
    read = {peer: _read(store, *newest[peer]) for peer in sorted(newest)}
    last = {peer: levelled(step) for peer, step in read.items() if step is not None}
    ways = [(peer, levelled(delta)) for peer, delta in offered]
    steps = {peer: step for peer, step in (last | dict(ways)).items() if peer in there}
    between = table(steps)
    company = Company(
        {peer: _beside(peer, steps[peer], steps, between) for peer in sorted(steps)},
        {peer: between[merger, peer] for peer in sorted(steps) if merger in steps},
        {peer: ENOUGH if peer in struck else _past(late, peer) for peer in sorted(steps)},
    )
    sights = [
        Sight(
            peer,
            _beside(peer, delta, steps, between),
            cosine(delta, last[peer]) if peer in last else 0.0,
            struck=peer in struck,
            returns=peer in back,
        )
        for peer, delta in ways
    ]
    return company, sights


def _past(late: Sequence[Version], peer: str) -> float:
    """What the cosines on record of ``peer`` add up to."""
    return add_up(one.cosine for one in inputs_of_jobs(late) if one.peer == peer)


def _read(store: Store, one: Input, schema: str) -> StateDict | None:
    """Its delta; None where it is gone or damaged: then it has no say."""
    with contextlib.suppress(WeightsError):
        return decode_delta(store.get_blob(one.blob), one.form, schema)
    return None


def _beside(
    peer: str,
    delta: StateDict,
    steps: Mapping[str, StateDict],
    between: Mapping[tuple[str, str], float],
) -> float:
    rest = sorted(set(steps) - {peer})
    row = {other: cosine(delta, steps[other]) for other in rest}
    return to_the_rest(row, between, rest)
