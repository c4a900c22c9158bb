"""Evaluations on disk: one version and an older one, each played from the same fixed starts.

A job writes them below its own process start (``peers/``), one or more pairs at a time; a laptop
drops them into its box beside its contributions, and nothing in a box is trusted. The starts follow
from the run alone, so that any two evaluators play the same ones and none can choose its own.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from Daddy.core.errors import DaddyError, FileError, WeightsError
from Daddy.core.files import read_bounded
from Daddy.core.seeds import seed_for
from Daddy.weights import offers
from Daddy.weights.beats import own_incarnations
from Daddy.weights.store.records import Written, parse
from Daddy.weights.store.store import Store
from Daddy.weights.store.strict_json import LIMIT

PAIRS_LIMIT = 512
"""Pairs in one record; also how many fixed starts a run has."""

BOX_EVALUATIONS = 16
"""Records read from one laptop's box at a time; the rest waits for the next look."""

JOB_EVALUATIONS = 256
"""The newest so many of one job's process are read."""

_JOB_NAME = re.compile(r"eval-(\d{6})\.json")

Pair = tuple[int, float, float]
"""Start seed, the version's return from there, the reference's return from there."""


@dataclass(frozen=True, slots=True)
class Evaluation(Written):
    """Who played which version against which older one, from which starts, with which returns.

    ``state`` and ``reference_state`` are the hashes in the two commit records. ``pairs`` hold
    [start seed, return of ``version``, return of ``reference``] of episodes of at most
    ``episode_steps``.
    """

    run_id: str
    peer: str
    incarnation: str
    sequence: int
    version: int
    state: str
    reference: int
    reference_state: str
    pairs: tuple[Pair, ...]
    episode_steps: int


@lru_cache(maxsize=4)
def fixed_starts(run_id: str, count: int) -> tuple[int, ...]:
    """The seeds of a run's first ``count`` fixed starts, the same for everybody, all different."""
    seeds: dict[int, None] = {}
    number = 0
    while len(seeds) < count:
        seeds[seed_for(0, run_id, "fixed start", number)] = None
        number += 1
    return tuple(seeds)


def read_evaluation(data: bytes, name: str) -> Evaluation:
    """The evaluation in ``data``; WeightsError naming ``name`` and what is wrong with it."""
    found = parse(Evaluation, data, name)
    if fault := _fault(found):
        raise WeightsError(f"{name} is no valid evaluation: {fault}", "it is passed over")
    return found


def _fault(one: Evaluation) -> str:
    """What is wrong with it; empty when nothing is."""
    seeds = [seed for seed, _, _ in one.pairs]
    if not 0 < len(seeds) <= PAIRS_LIMIT:
        return f"it has {len(seeds)} pairs, 1 to {PAIRS_LIMIT} are read"
    if len(set(seeds)) < len(seeds):
        return "a start stands twice"
    if not set(seeds) <= set(fixed_starts(one.run_id, PAIRS_LIMIT)):
        return "it begins where no fixed start of this run is"
    if one.reference >= one.version:
        return f"v{one.reference} is not older than v{one.version}"
    return ""


def box_file(one: Evaluation) -> str:
    """Its file name in a laptop's outbox, and in that laptop's box on the cluster."""
    return f"{offers.EVALUATION}{one.incarnation}-{one.sequence:06d}.json"


def write_evaluation(store: Store, one: Evaluation) -> None:
    """Write a job's evaluation into its own folder. FileError if its number exists already."""
    path = (
        store.paths.peer(one.peer, one.incarnation) / f"{offers.EVALUATION}{one.sequence:06d}.json"
    )
    if not store.durable.create(path, one.to_bytes(), "evaluation", mode=0o444):
        raise FileError(f"{path} exists already", "two processes share one incarnation")


def evaluations_of_jobs(store: Store) -> list[tuple[Path, Evaluation]]:
    """Those that jobs wrote, in a fixed order; what cannot be read is passed over."""
    return [one for folder in own_incarnations(store) for one in _of_job(folder)]


def _of_job(folder: Path) -> Iterator[tuple[Path, Evaluation]]:
    with suppress(FileNotFoundError):
        paths = sorted(path for path in folder.iterdir() if _JOB_NAME.fullmatch(path.name))
        for path in paths[-JOB_EVALUATIONS:]:
            found = _read(path)
            if found is not None and (found.peer, found.incarnation) == (
                folder.parent.name,
                folder.name,
            ):
                yield path, found


def evaluations_in_boxes(store: Store) -> list[tuple[Path, Evaluation]]:
    """Those that laptops sent, unjudged, in a fixed order; what is none is set aside."""
    return [one for box in offers.boxes(store) for one in _from_box(store, box)]


def _from_box(store: Store, box: Path) -> Iterator[tuple[Path, Evaluation]]:
    with suppress(OSError):  # one box that cannot be looked into must not stop the rest
        names = (name for name in os.listdir(box) if name.startswith(offers.EVALUATION))  # noqa: PTH208 - flood
        for path in [box / name for name in heapq.nsmallest(BOX_EVALUATIONS, names)]:
            found = _read(path) if offers.is_plain(path) else None
            named = found is not None and (found.peer, box_file(found)) == (box.name, path.name)
            if found is None or not named or offers.SLOT.fullmatch(box.name):
                store.set_aside(path, "inbox")
            else:
                yield path, found


def _read(path: Path) -> Evaluation | None:
    try:
        return read_evaluation(read_bounded(path, LIMIT), str(path))
    except (FileNotFoundError, DaddyError):
        return None
