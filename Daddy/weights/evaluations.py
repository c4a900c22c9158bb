"""Evidence on how versions play: evaluations on disk, and learners' own episodes. No torch.

`python -m Daddy.play evaluate --versions` writes an evaluation below ``evaluations/``: pairs of
episodes of two versions from the same starts. Learners' events hold the version of each episode.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from Daddy.core.atomic_files import read_bounded
from Daddy.core.errors import DaddyError
from Daddy.core.event_log import read_newest_events
from Daddy.core.name_validation import new_token
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.version_retention import kept_numbers
from Daddy.weights.store.weight_records import JsonRecord, is_reverted, parse_record
from Daddy.weights.store.weight_store import Store
from Daddy.weights.version_comparison import WorseVersion, find_worse_in_pairs, find_worse_in_play

PAIRS_LIMIT = 500
"""Pairs in one record, which has room for them."""

MOST_EVALUATIONS = 256
"""The newest so many are read."""

Pair = tuple[int, float, float]
"""Seed, the version's return from there, the reference's return from there."""


@dataclass(frozen=True, slots=True)
class Evaluation(JsonRecord):
    """Pairs of episodes of ``version`` and the older ``reference`` from the same seeds.

    ``state`` and ``reference_state`` are the hashes in the two commit records; ``conditions`` names
    game, start, episode length and assists, and only like is compared with like.
    """

    run_id: str
    version: int
    state: str
    reference: int
    reference_state: str
    conditions: str
    pairs: tuple[Pair, ...]
    ts: float


def write_evaluation(store: Store, evaluation: Evaluation) -> Path:
    """Write it under a new name; returns the path. OSError when the disk does not take it."""
    stamp = f"{int(evaluation.ts):012d}-{new_token()[:8]}"
    path = store.paths.evaluations / f"{stamp}.json"
    store.writer.create(path, evaluation.to_json_bytes(), "evaluation", mode=0o644)
    return path


def read_evaluations(shared: SharedPaths) -> list[Evaluation]:
    """The newest evaluations that can be read, oldest first."""
    found = []
    for path in sorted(shared.evaluations.glob("*.json"))[-MOST_EVALUATIONS:]:
        with contextlib.suppress(OSError, DaddyError):
            found.append(parse_record(Evaluation, read_bounded(path, LIMIT), str(path)))
    return found


def best_evaluated(shared: SharedPaths) -> int | None:
    """The version with the highest mean return under the conditions evaluated last."""
    returns: dict[int, list[float]] = defaultdict(list)
    evaluations = read_evaluations(shared)
    for one in evaluations:
        if one.conditions == evaluations[-1].conditions:
            returns[one.version] += [ours for _, ours, _ in one.pairs]
            returns[one.reference] += [theirs for _, _, theirs in one.pairs]
    means = {version: fmean(values) for version, values in returns.items() if values}
    return max(means, key=lambda version: (means[version], version), default=None)


def read_differences(shared: SharedPaths) -> dict[tuple[int, int], list[float]]:
    """Return differences of all pairs, by (version, reference); each seed counts once."""
    seeds: dict[tuple[int, int], dict[tuple[str, int], float]] = defaultdict(dict)
    for one in read_evaluations(shared):
        for seed, ours, theirs in one.pairs:
            seeds[one.version, one.reference].setdefault((one.conditions, seed), ours - theirs)
            seeds[one.reference, one.version].setdefault((one.conditions, seed), theirs - ours)
    return {versions: list(values.values()) for versions, values in seeds.items()}


def read_returns(events: Path) -> dict[int, list[float]]:
    """Returns of learners' episodes that began at the run's own start, by version adopted."""
    found: dict[int, list[float]] = defaultdict(list)
    for event in read_newest_events(events, "learner-*.jsonl", b'"own_start"'):
        data = event.get("data")
        names = ("version", "returns", "own_start")
        version, returns, own = map(data.get, names) if isinstance(data, dict) else (None,) * 3
        if isinstance(version, int) and isinstance(returns, list) and isinstance(own, list):
            pairs = zip(returns, own, strict=False)
            found[version] += [
                float(value) for value, began in pairs if began and isinstance(value, int | float)
            ]
    return dict(found)


def describe_worse_version(shared: SharedPaths, events: Path | None) -> str:
    """The newest version, where it plays clearly worse than one to go back to, and the command."""
    with contextlib.suppress(OSError, DaddyError):
        return str(_find_worse(Store(shared), events) or "")
    return ""


def _find_worse(store: Store, events: Path | None) -> WorseVersion | None:
    newest = store.newest()
    if newest is None:
        return None
    reverted = store.version(newest).reverted
    known = kept_numbers(store, newest) - {newest}
    kept = {number for number in known if not is_reverted(number, reverted)}
    found = find_worse_in_pairs(read_differences(store.paths), newest, kept)
    if found is None and events is not None:
        returns = {v: values for v, values in read_returns(events).items() if v <= newest}
        found = find_worse_in_play(returns, reverted, kept)
    return found
