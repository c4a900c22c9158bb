"""Computes the demo's summary from the files of its run directory."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import read_bounded, read_json, sha256_hex
from Daddy.core.event_log import read_events
from Daddy.core.run_paths import RunPaths
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.dashboard import Episode, EventSummary, add_events, mean_return

_RECORD_LIMIT = 1 << 20
LEARNT = 1.5
"""Least ratio of the last tenth's mean return to that of random play."""
ENOUGH_STEPS = 80_000
"""Fleet steps of a demo; the curve leaves random play after 10,000 to 50,000."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Holds figures of the shared weights' commits: number, intact chain, contributors, times."""

    committed: int
    chained: bool
    contributors: tuple[str, ...]
    times: tuple[float, ...]
    fleet_steps: int


def read_run(run: RunPaths, laptop: Path) -> EventSummary:
    """Read every event of the run and of its laptop into a fleet summary."""
    fleet = add_events(read_events(run.events))
    return add_events(read_events(laptop), fleet) if laptop.is_dir() else fleet


def read_versions(shared: SharedPaths) -> Versions:
    """Read the commit records; each must have the SHA-256 of its predecessor."""
    paths = sorted(shared.merged.glob("v*.json"))
    parent, chained, contributors, times, steps = "", True, set(), [], 0
    for number, path in enumerate(paths):
        record = read_json(path, _RECORD_LIMIT)
        chained &= record["version"] == number
        chained &= number == 0 or record["parent"] == parent
        parent = sha256_hex(read_bounded(path, _RECORD_LIMIT))
        contributors |= {entry["peer"] for entry in record["inputs"]}
        times.append(float(record["ts"]))
        steps = int(record["fleet_steps"])
    committed = max(0, len(paths) - 1)
    return Versions(committed, chained, tuple(sorted(contributors)), tuple(times), steps)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile; 0 without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def returns(fleet: EventSummary) -> dict[str, float]:
    """Return mean returns of the first and last tenth and of random play, and the error."""
    first, last = tenths(fleet.episodes)
    return {
        "random": round(mean_return(fleet.random_episodes), 3),
        "first_tenth": round(mean_return(first), 3),
        "last_tenth": round(mean_return(last), 3),
        "standard_error": round(math.hypot(_error(first), _error(last)), 3),
    }


def tenths(episodes: Sequence[Episode]) -> tuple[list[Episode], list[Episode]]:
    """Return the first and the last tenth of the episodes, in the order of their ends."""
    ordered = sorted(episodes, key=lambda episode: episode.ts)
    size = math.ceil(len(ordered) / 10)
    return ordered[:size], ordered[len(ordered) - size :]


def judge_learning(returns: Mapping[str, float], fleet_steps: int) -> tuple[bool, str]:
    """Return True if the agents learnt, and one sentence with the figures and the reason.

    They learnt if the last tenth of the episodes is above the first by two standard errors and at
    least ``LEARNT`` times random play.
    """
    first, last, random = returns["first_tenth"], returns["last_tenth"], returns["random"]
    rise = 2 * returns["standard_error"]
    figures = (
        f"the last tenth of the episodes returned {last:.1f}, "
        f"the first {first:.1f}, random play {random:.1f}"
    )
    if rise and last >= LEARNT * random and last > first + rise:  # 0: a tenth is one episode
        return True, f"The agents learnt: {figures}."
    if fleet_steps < ENOUGH_STEPS:
        why = f"{fleet_steps:,} steps are few, a demo plays {ENOUGH_STEPS:,}"
    elif last < LEARNT * random:
        why = f"less than {LEARNT} times random play"
    else:
        why = f"a rise of less than {rise:.1f}, two standard errors"
    return False, f"The agents did not learn: {figures}; {why}."


def _error(episodes: Sequence[Episode]) -> float:
    if len(episodes) < 2:
        return 0.0
    return statistics.stdev(episode.value for episode in episodes) / math.sqrt(len(episodes))


def summarise(run: RunPaths, laptop: Path) -> dict[str, Any]:
    """Return the summary's keys (``docs/formats.md``), each from the run directory."""
    fleet = read_run(run, laptop)
    versions = read_versions(SharedPaths(run.shared_weights))
    gaps = [handover.gap_s for handover in fleet.handovers()]
    claimed = [attempt for attempt in fleet.attempts.values() if attempt.slot is not None]
    stamps = [event["ts"] for event in read_events(run.events)]
    return {
        "duration_s": round(max(stamps) - min(stamps), 1) if stamps else 0.0,
        "backend": str(read_json(run.status).get("executor", "unknown")),
        "slots": len({attempt.slot for attempt in claimed}),
        "attempts": len(claimed),
        "handovers": {
            "count": len(gaps),
            "gap_p50_s": round(percentile(gaps, 0.5), 2),
            "gap_p95_s": round(percentile(gaps, 0.95), 2),
        },
        "versions": {
            "committed": versions.committed,
            "chained": versions.chained,
            "contributors": list(versions.contributors),
        },
        "fleet_steps": versions.fleet_steps,
        "laptop": {
            "versions_played": len(set(fleet.laptop.versions)),
            "transport": fleet.laptop.transport or "local",
        },
        "viewer": {
            "frames": fleet.viewer.frames.total(),
            "agents": len(fleet.viewer.frames),
            "transport": fleet.viewer.transport or "spool",
        },
        "returns": returns(fleet),
    }
