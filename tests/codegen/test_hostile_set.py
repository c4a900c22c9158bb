"""Every completion of the hostile set gets the grade that was written down before the grader."""

import pytest

from Daddy.codegen.grade_outcome import PASSED, Grade
from Daddy.codegen.tasks import CodeTask
from tests.codegen.conftest import GradeAll
from tests.codegen.hostile_set import HOSTILE, INNOCENT, HostileRow

ROWS = [*HOSTILE, *INNOCENT]


@pytest.fixture(scope="module")
def grades(tasks: dict[str, CodeTask], grade_all: GradeAll) -> dict[str, Grade]:
    """Rows that must time out do it soon; the others have as long as a busy machine needs."""
    late = [row for row in ROWS if row.reason == "timed out"]
    found = {}
    for rows, time_s in ((late, 1.0), ([row for row in ROWS if row not in late], 120.0)):
        pairs = [(row.task, row.completion) for row in rows]
        found |= dict(zip([row.name for row in rows], grade_all(tasks, pairs, time_s), strict=True))
    return found


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_row_gets_its_grade(row: HostileRow, grades: dict[str, Grade]) -> None:
    grade = grades[row.name]
    assert (row.name, grade.reward) == (row.name, row.reward), grade
    assert grade.reason.startswith(row.reason)
    assert [t for t in grade.tests if t != PASSED and not t.startswith(row.failure)] == []


def test_two_thirds_earn_nothing_and_five_look_alikes_are_clean() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 24
    assert sum(row.reward <= 0 for row in ROWS) >= 2 / 3 * len(ROWS)
    assert sum(row.innocent and row.reward == 1 for row in ROWS) >= 5
