"""Adapter for evidence on how versions play: evaluations on disk, learners' episodes. No torch.

`python -m Daddy.play evaluate --versions` writes an evaluation below ``evaluations/``: pairs of
episodes of two versions from the same starts. Learners' events hold the version of each episode.
"""

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
from Daddy.weights.play_regression import WorseVersion, find_worse_in_pairs, find_worse_in_play
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.version_retention import kept_numbers
from Daddy.weights.store.weight_records import JsonRecord, is_reverted, parse
from Daddy.weights.store.weight_store import Store

PAIRS_LIMIT = 500
"""Pairs in one record, so that it stays within the size limit."""

MOST_EVALUATIONS = 256
"""Newest evaluations that are read."""

Pair = tuple[int, float, float]
"""Seed, return of the version from that start, return of the reference from it."""


@dataclass(frozen=True, slots=True)
class Evaluation(JsonRecord):
    """Pairs of episodes of ``version`` and the older ``reference`` from the same seeds. ``state``
    and ``reference_state`` are the hashes in the two commit records; ``conditions`` names game,
    start, episode length and assists; only evaluations under the same conditions are compared.
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
    """Write an evaluation under a new name; return its path. Raise OSError on a full disk."""
    stamp = f"{int(evaluation.ts):012d}-{new_token()[:8]}"
    path = store.paths.evaluations / f"{stamp}.json"
    store.writer.create(path, evaluation.to_json_bytes(), "evaluation", mode=0o644)
    return path


def read_evaluations(shared: SharedPaths) -> list[Evaluation]:
    """Return the newest evaluations that can be read, oldest first."""
    evaluations = []
    for path in sorted(shared.evaluations.glob("*.json"))[-MOST_EVALUATIONS:]:
        with contextlib.suppress(OSError, DaddyError):
            evaluations.append(parse(Evaluation, read_bounded(path, LIMIT), str(path)))
    return evaluations


def best_evaluated(shared: SharedPaths) -> int | None:
    """Return the version with the highest mean return under the newest conditions, or None."""
    returns: dict[int, list[float]] = defaultdict(list)
    evaluations = read_evaluations(shared)
    for evaluation in evaluations:
        if evaluation.conditions == evaluations[-1].conditions:
            returns[evaluation.version] += [ours for _, ours, _ in evaluation.pairs]
            returns[evaluation.reference] += [theirs for _, _, theirs in evaluation.pairs]
    means = {version: fmean(values) for version, values in returns.items() if values}
    return max(means, key=lambda version: (means[version], version), default=None)


def read_differences(shared: SharedPaths) -> dict[tuple[int, int], list[float]]:
    """Return differences of returns by (version, reference), one per seed and conditions."""
    seeds: dict[tuple[int, int], dict[tuple[str, int], float]] = defaultdict(dict)
    for evaluation in read_evaluations(shared):
        for seed, ours, theirs in evaluation.pairs:
            key, gain = (evaluation.conditions, seed), ours - theirs
            seeds[evaluation.version, evaluation.reference].setdefault(key, gain)
            seeds[evaluation.reference, evaluation.version].setdefault(key, -gain)
    return {versions: list(values.values()) for versions, values in seeds.items()}


def read_returns(events: Path) -> dict[int, list[float]]:
    """Return learners' episode returns by adopted version, from the run's own start only."""
    by_version: dict[int, list[float]] = defaultdict(list)
    for event in read_newest_events(events, "learner-*.jsonl", b'"own_start"'):
        data = event.get("data")
        names = ("version", "returns", "own_start")
        version, returns, own = map(data.get, names) if isinstance(data, dict) else (None,) * 3
        if isinstance(version, int) and isinstance(returns, list) and isinstance(own, list):
            pairs = zip(returns, own, strict=False)
            own_returns = (value for value, own_start in pairs if own_start)
            by_version[version] += [float(x) for x in own_returns if isinstance(x, int | float)]
    return dict(by_version)


def describe_worse_version(shared: SharedPaths, events: Path | None) -> str:
    """Return a warning with the rollback command if the newest version is clearly worse, or ""."""
    with contextlib.suppress(OSError, DaddyError):
        return str(_find_worse(Store(shared), events) or "")
    return ""


def _find_worse(store: Store, events: Path | None) -> WorseVersion | None:
    newest = store.newest()
    if newest is None:
        return None
    reverted = store.version(newest).reverted
    others = kept_numbers(store, newest) - {newest}
    kept = {number for number in others if not is_reverted(number, reverted)}
    worse = find_worse_in_pairs(read_differences(store.paths), newest, kept)
    if worse is None and events is not None:
        returns = {v: values for v, values in read_returns(events).items() if v <= newest}
        worse = find_worse_in_play(returns, reverted, kept)
    return worse
