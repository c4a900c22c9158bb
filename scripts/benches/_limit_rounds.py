"""Pure. Leaves out the rounds in which a share of a limit is above 1.

A limit cannot be exceeded: in such a round another program slowed the measurement of the limit, or
the share is noise.
"""

from collections.abc import Mapping, Sequence
from statistics import median

Shares = Sequence[Mapping[str, float]]


def median_shares(rounds: Shares) -> dict[str, float | None]:
    """Return each name's median over the rounds in which no share is above 1; None without any."""
    counted = [shares for shares in rounds if max(shares.values()) <= 1.0]
    names = rounds[0] if rounds else ()
    return {
        name: round(median(shares[name] for shares in counted), 3) if counted else None
        for name in names
    }


def rounds_left_out(rounds: Shares) -> dict[str, str]:
    """Describe by its number each round that does not count, with its largest share."""
    largest = [max(shares, key=lambda name: shares[name]) for shares in rounds]
    return {
        f"round {number}": f"{name} at {shares[name]:.2f} of the limit, which was measured too "
        "low: other programs ran; repeat on a quiet machine"
        for number, (name, shares) in enumerate(zip(largest, rounds, strict=True), 1)
        if shares[name] > 1.0
    }
