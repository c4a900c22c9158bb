"""Times and numbers at a glance."""

import pytest

from Daddy.core.humanize import (
    format_age,
    format_count,
    format_duration,
    format_span,
    format_time,
    kept_columns,
    parse_duration,
    printable_line,
)


@pytest.mark.parametrize(
    ("seconds", "said", "short"),
    [
        (-3, "0 s", "0 s"),
        (41.4, "41 s", "41 s"),
        (600, "10 min", "10 min"),
        (7_500, "2 h 05 min", "2 h"),
        (90_000, "25 h 00 min", "25 h"),
        (273_600, "3 d 4 h", "3 d"),
    ],
)
def test_lengths_of_time(seconds: float, said: str, short: str) -> None:
    assert format_span(seconds) == said
    assert format_age(seconds) == short


def test_a_time_far_away_has_its_day() -> None:
    now = 1_790_000_000.0
    assert len(format_time(now + 3600, now)) == len("14:20")
    assert format_time(now + 2 * 86_400, now)[:3] in (
        "Mon",
        "Tue",
        "Wed",
        "Thu",
        "Fri",
        "Sat",
        "Sun",
    )
    assert format_time(now + 40 * 86_400, now).startswith("2026-")


def test_counts_keep_what_can_be_read() -> None:
    told = [format_count(n) for n in (0, 7.25, 812, 12_345, 3_140_000, 2.5e9)]
    assert told == ["0", "7.2", "812", "12,345", "3.14 M", "2.50 G"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("its norm is 7 – too long", "its norm is 7 – too long"),
        ("run \x1b[31mred\x1b[0m\nv99 all is well", "run ?[31mred?[0m?v99 all is well"),
        ("\u202e backwards", "? backwards"),
        ("x" * 500, "x" * 239 + "…"),
    ],
)
def test_what_others_wrote_stays_on_its_line_and_commands_no_terminal(text, said):
    assert printable_line(text) == said


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("4:00:00", 14_400), ("2", 120), ("1:30", 90), ("1-00:00:00", 86_400), ("0:01:15", 75)],
)
def test_slurms_ways_to_write_a_length_of_time(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1", "1:2:3:4", "4h"])
def test_anything_else_is_no_length_of_time(text):
    with pytest.raises(ValueError, match="no duration"):
        parse_duration(text)


def test_lengths_of_time_are_shown_as_slurm_writes_them():
    assert format_duration(14_399.9) == "3:59:59"


def test_columns_that_do_not_fit_go_the_least_needed_first_and_the_last_one_may_be_wrapped():
    heads, widths = ["slot", "node", "why"], [4, 10, 80]
    assert kept_columns(heads, widths, 34, ["node"]) == [0, 1, 2]  # 4 + 2 + 10 + 2 + 16
    assert kept_columns(heads, widths, 33, ["node"]) == [0, 2]
    assert kept_columns(heads, widths, 5, ["node"]) == [0, 2]  # nothing more may go
