"""Pure. Summarises results by learning rate and tells which rates differ beyond chance."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

from Daddy.core.confidence_intervals import Interval, mean_interval, share_interval
from Daddy.fanout.fanout_settings import FanoutSettings
from Daddy.fanout.fanout_state import SandboxRow


@dataclass(frozen=True, slots=True)
class RateResult:
    """Holds the results of one learning rate with 95 % intervals."""

    rate: float
    sandboxes: int
    solved: int
    solved_share: Interval
    average: Interval


def results_by_rate(rows: Iterable[SandboxRow], settings: FanoutSettings) -> list[RateResult]:
    """Return one result per learning rate for the rows, which are done; lowest rate first."""
    groups = defaultdict[float, list[SandboxRow]](list)
    for row in rows:
        groups[settings.rate_of(row.index)].append(row)
    return [_result(rate, groups[rate]) for rate in sorted(groups)]


def _result(rate: float, rows: Sequence[SandboxRow]) -> RateResult:
    solved = sum(row.solved_at is not None for row in rows)
    average = mean_interval([row.average for row in rows])
    return RateResult(rate, len(rows), solved, share_interval(solved, len(rows)), average)


def compare_rates(results: Sequence[RateResult]) -> str:
    """Return a sentence: the rates whose interval lies below the interval of the best rate."""
    known = [result for result in results if isfinite(result.average.low)]
    if len(known) < 2:  # noqa: PLR2004
        return "Too few sandboxes per learning rate to compare the rates."
    best = max(known, key=lambda result: result.average.middle)
    below = [result for result in known if result.average.high < best.average.low]
    level = [result for result in known if result not in below and result is not best]
    if not below:
        return "No learning rate differs from the best beyond the 95 % intervals."
    text = f"Rate {best.rate:g} is above {_names(below)} beyond the 95 % intervals"
    return f"{text}; it is not told apart from {_names(level)}." if level else f"{text}."


def _names(results: Sequence[RateResult]) -> str:
    names = [f"{result.rate:g}" for result in results]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
