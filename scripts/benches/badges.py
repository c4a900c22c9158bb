"""The first badge, with and without the archive, with and without sharing: steps of four learners.

Told are the fleet's steps when its first learner beats the first leader, and those in the first
shared version that does so in half of its episodes from the run's start (learners on their own have
no common policy). A run that is not there when its steps are used up is counted as not there yet:
its mean is a lower bound, its middle one is not known where half of the runs are not there.

All begin where the scripted player has just beaten somebody on the way, on the cartridge without
its busy work. Ended runs are kept in the folder of states, Ctrl-C is no loss. `--quick` only shows
that everything runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from Daddy.core.config import CHECKOUT
from Daddy.core.files import read_json, write_json
from Daddy.learning.prepare import prepare
from scripts.benches import _badges_crew as crew
from scripts.benches import _learning_places as places
from scripts.benches._badges_judge import EPISODES, shared_badge
from scripts.benches._badges_picture import draw
from scripts.benches._intervals import share, spread
from scripts.benches._learning_runs import Arm, Part, Run

STATE = CHECKOUT / "runs" / "benches" / "badges"
SEEDS, QUICK_SEEDS = 10, 1
LIMIT, QUICK_LIMIT = 8_192, 2_048
"""Steps of each learner; all forty runs are to be had in an hour on two cores."""
BEGIN, BADGE = "beat_otis", "beat_leader1"
OPTIONS: Mapping[str, str | Mapping[str, Any]] = {
    "state": f"where runs are kept ({STATE.relative_to(CHECKOUT)})",
    "seeds": {"type": int, "metavar": "N", "help": f"of each arm ({SEEDS})"},
}

_FOUR: Mapping[str, Any] = {"slurm": {"max_running": crew.WORKERS}}
_SHARING = {
    "enabled": True,
    "sync_interval_steps": 1_024,
    "sync_share": 0.1,
    "keep_versions": 10_000,
}
"""A run takes a minute instead of a day, and all of its versions are looked at afterwards."""
_SHARED = {**_FOUR, "collaboration": _SHARING}
_ALONE = {**_FOUR, "collaboration": {"enabled": False}}
_ARCHIVE = {"archive": {"mode": "swarm"}}
ARMS = (
    Arm("alone", settings=_ALONE),
    Arm("sharing", settings=_SHARED),
    Arm("archive", settings={**_ALONE, **_ARCHIVE}),
    Arm("archive and sharing", settings={**_SHARED, **_ARCHIVE}),
)
Found = dict[str, list[dict[str, int | None]]]
"""Arm → of each ended run, the steps of the first learner's and of the shared policy's badge."""


def run(quick: bool, state: Path | None = None, seeds: int | None = None) -> dict[str, object]:
    """Everything as it came out; after Ctrl-C, of the runs that had ended."""
    prepare()
    root = (state or STATE).expanduser().absolute() / ("quick" if quick else "full")
    limit = crew.WORKERS * (QUICK_LIMIT if quick else LIMIT)
    parts = _parts(places.game(root / "game"), limit)
    count = seeds or (QUICK_SEEDS if quick else SEEDS)
    runs = [
        Run(root, parts[_shares(arm)], arm, seed) for seed in range(1, 1 + count) for arm in ARMS
    ]
    try:
        for one in runs:
            _play(one, quick)
            draw(root / "badges.png", _found(runs), limit)
    except KeyboardInterrupt:
        print("  stopped: the same command goes on from here", flush=True)
    found = _found(runs)
    return {
        **({"quick": "a smoke test: nothing here is a result"} if quick else {}),
        "begin": BEGIN,
        "badge": BADGE,
        "limit": limit,
        **{arm.name: _row(arm, found[arm.name], limit) for arm in ARMS if arm.name in found},
        "unfinished": sum(not _badges(one).exists() for one in runs),
        "picture": str(root / "badges.png"),
        "runs": str(root),
    }


def _parts(rom: Path, limit: int) -> dict[bool, Part]:
    """By whether learners share: their `total_steps` are then those of all, else of each."""
    start = str(places.start(rom, BEGIN))
    training = {"rom": str(rom), "cache_dir": str(rom.parent), "start": start}
    settings = {"training": training}
    each = {True: limit, False: limit // crew.WORKERS}
    return {shared: Part("badge", ARMS, BADGE, steps, settings) for shared, steps in each.items()}


def _shares(arm: Arm) -> bool:
    return bool(arm.settings["collaboration"]["enabled"])


def _badges(one: Run) -> Path:
    return one.folder / "badges.json"


def _play(one: Run, quick: bool) -> None:
    """Play it, judge what it shared, and keep both steps; nothing where that was done."""
    if _badges(one).exists():
        return
    if not one.done.exists():
        crew.play(one, _say, to_the_end=_shares(one.arm))
    own = crew.first(one, BADGE)
    shared = shared_badge(one, 1 if quick else EPISODES) if _shares(one.arm) else None
    write_json(_badges(one), {"learner": own, "shared": shared})
    common = f", shared policy {_told(shared)}" if _shares(one.arm) else ""
    _say(f"{one.name}: first learner {_told(own)}{common}")


def _say(text: str) -> None:
    print(f"  {text}", flush=True)


def _told(steps: int | None) -> str:
    return "not there" if steps is None else f"at {steps:,} steps"


def _found(runs: Sequence[Run]) -> Found:
    found: Found = {}
    for one in runs:
        if _badges(one).exists():
            found.setdefault(one.arm.name, []).append(read_json(_badges(one)))
    return found


def _row(arm: Arm, told: Sequence[Mapping[str, int | None]], limit: int) -> dict[str, object]:
    """Of one arm, how many got there and when: the first learner, and the shared policy."""
    asked = ("learner", "shared") if _shares(arm) else ("learner",)
    return {what: _steps([one[what] for one in told], limit) for what in asked}


def _steps(reached: Sequence[int | None], limit: int) -> dict[str, object]:
    """Who shares runs a little past the limit, until all is counted: that is not there yet."""
    reached = [one if one is not None and one <= limit else None for one in reached]
    there = [one for one in reached if one is not None]
    middle = median(math.inf if one is None else one for one in reached)
    return {
        "reached": share(len(there), len(reached)),
        "median": f"more than {limit:,}" if math.isinf(middle) else f"{middle:,.0f}",
        "mean": spread(
            [float(limit if one is None else one) for one in reached],
            bound=len(there) < len(reached),
        ),
        "steps": list(reached),
    }
