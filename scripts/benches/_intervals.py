"""95 % intervals in the words of a table."""

from __future__ import annotations

from collections.abc import Sequence

from Daddy.core.intervals import of_mean, of_share


def spread(values: Sequence[float], bound: bool = False) -> str:
    """Mean and interval of what cannot be negative; `bound`: some are known to be more."""
    one = of_mean(values)
    more = " or more" if bound else ""
    if len(values) == 1:
        return f"{one.middle:,.0f}{more} (one seed: no interval)"
    return f"{one.middle:,.0f} [{max(0.0, one.low):,.0f}, {one.high:,.0f}]{more}"


def share(hits: int, trials: int) -> str:
    """How many of how many, in per cent with its interval."""
    one = of_share(hits, trials)
    percent = f"{100 * one.middle:.0f} % [{100 * one.low:.0f}, {100 * one.high:.0f}]"
    return f"{hits} of {trials}, {percent}"
