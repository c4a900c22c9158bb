"""The set of hostile completions is one: most rows earn nothing, and some are innocent."""

from tests.codegen.hostile_set import HOSTILE, INNOCENT


def test_two_thirds_earn_nothing_and_five_look_alikes_are_clean() -> None:
    rows = [*HOSTILE, *INNOCENT]
    assert len({row.name for row in rows}) == len(rows) >= 24
    assert sum(row.reward <= 0 for row in rows) >= 2 / 3 * len(rows)
    assert sum(row.innocent and row.reward == 1 for row in rows) >= 5
