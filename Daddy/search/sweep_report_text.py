"""Pure. Writes a sweep's report for a screen: counts, the best trials, importance of settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from Daddy.core.humanize import format_count, printable_line
from Daddy.core.screen_tables import make_table
from Daddy.search.search_space import format_value
from Daddy.search.study_plan import StudyPlan, Trial
from Daddy.search.trial_rules import common_cause

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

Importance = Mapping[str, Mapping[str, float]]
"""Objective → setting → share of its influence, most first; empty: too few trials to tell."""
_BAR = 20
"""Characters of a bar for a share of 1."""
_STATES = ("complete", "running", "pruned", "failed")


def draw_report(
    title: str,
    plan: StudyPlan,
    trials: Sequence[Trial],
    shares: Importance,
    too_few: str,
    limit: int,
    width: int,
) -> Group:
    """Return the report for a screen of ``width`` columns.

    ``limit``: most trials in the table, 0 for all. ``too_few``: sentence in place of importance.
    """
    from rich.console import Group, RenderableType
    from rich.text import Text

    lines = [title, count_states(trials), *_causes(trials)]
    ranked = rank_trials(trials)
    if not ranked:
        return Group(Text("\n".join(lines)))
    shown = ranked[: limit or None]
    lines += ["", *_legend(plan, len(ranked) - len(shown))]
    table = _trials_table(plan, ranked, shown, shares, width)
    heading = "\nimportance of settings for being among the best trials"
    parts: list[RenderableType] = [Text("\n".join(lines)), table]
    if shares:
        parts += [Text(heading), _importance_table(shares, width)]
    else:
        parts += [Text(f"{heading}: {too_few}")]
    return Group(*parts)


def count_states(trials: Sequence[Trial]) -> str:
    """Return in words the number of trials, and of those in each state."""
    counts = Counter(trial.state for trial in trials)
    states = ", ".join(f"{counts[state]} {state}" for state in _STATES if counts[state])
    number = f"{len(trials)} trial{'s' * (len(trials) > 1)}"
    return f"{number}: {states}" if trials else "no trial has started"


def _causes(trials: Sequence[Trial]) -> list[str]:
    """Return a line per cause of failures, most frequent first, with its newest reason.

    Numbers tell no causes apart: they are often settings, steps or seconds.
    """
    reasons = [trial.reason for trial in trials if trial.state == "failed"]
    newest = {common_cause(reason): reason for reason in reasons}
    counts = Counter(map(common_cause, reasons)).most_common()
    return [f"  {count} failed: {printable_line(newest[cause])}" for cause, count in counts]


def complete_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that have a score."""
    return [trial for trial in trials if trial.state == "complete"]


def pareto_front(trials: Sequence[Trial]) -> list[Trial]:
    """Return the complete trials than which none has a higher score at no more cost, cheapest
    first; without costs, the first trial of the highest score.
    """
    front: list[Trial] = []
    for trial in sorted(
        complete_trials(trials), key=lambda trial: (trial.values[1:], -trial.values[0])
    ):
        if not front or trial.values[0] > front[-1].values[0]:
            front.append(trial)
    return front


def rank_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Return the complete trials: those of the Pareto front first, then by score, then by cost."""
    front = {trial.number for trial in pareto_front(trials)}
    return sorted(
        complete_trials(trials),
        key=lambda trial: (trial.number not in front, -trial.values[0], trial.values[1:]),
    )


def trial_number(trial: Trial) -> int:
    """Return n of the run id ``<sweep>.r.<n>``, by which people name the trial."""
    return int(trial.run_id.rpartition(".")[2])


def _legend(plan: StudyPlan, hidden: int) -> list[str]:
    marked = "* Pareto front: no other trial has a higher score at no more cost"
    more = f"{hidden} more complete trials: --limit 0 shows all"
    return [*([marked] if len(plan.objectives) > 1 else []), *([more] if hidden else [])]


def _trials_table(
    plan: StudyPlan, ranked: Sequence[Trial], shown: Sequence[Trial], shares: Importance, width: int
) -> Table:
    """Return the trials with the settings in which they differ, the most important first."""
    order = [*shares.get(plan.objectives[0], sorted(plan.space))]
    values = {key: {trial.settings[key] for trial in ranked} for key in order}
    keys = [key for key in order if len(ranked) == 1 or len(values[key]) > 1]
    front = {trial.number for trial in pareto_front(ranked)} if len(plan.objectives) > 1 else ()
    named = [short_name(key).replace("_", "\n") for key in keys]
    costs = [f"{name}\nCPU s" if name == "cost" else name for name in plan.objectives]
    depth = max(name.count("\n") for name in ["", *costs, *named])
    heads = [">" + "\n" * (depth - name.count("\n")) + name for name in ("trial ", *costs, *named)]
    rows = [
        [
            f"{trial_number(trial)}{'*' if trial.number in front else ' '}",
            *map(format_result, trial.values),
            *(format_value(trial.settings[key]) for key in keys),
        ]
        for trial in shown
    ]
    least_first = [head.lstrip(">") for head in reversed(heads[1 + len(costs) :])]
    return make_table(heads, rows, width, least_first)


def _importance_table(shares: Importance, width: int) -> Table:
    first, *_ = shares.values()
    longest = max(len(short_name(key)) for key in first)
    room = (width - longest) // len(shares) - len("   100 %  ")
    length = max(1, min(_BAR, room))
    rows = [
        [short_name(key), *(_bar(each[key], length) for each in shares.values())] for key in first
    ]
    return make_table(["setting", *(f"for {name}" for name in shares)], rows, width)


def _bar(share: float, length: int) -> str:
    return f"{'█' * round(share * length):{length}} {100 * share:3.0f} %"


def format_result(value: float) -> str:
    """Format a score or a cost with four digits, or more before the point: 30.00, 12,345."""
    small = abs(value) < 1e4  # noqa: PLR2004 - from here on it would have an exponent
    return f"{value:#.4g}".removesuffix(".") if small else format_count(value)


def short_name(key: str) -> str:
    """Return a setting's name without its section."""
    return key.rpartition(".")[2]
