"""Tests that the table of faults is complete, and that the tests in it exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_every_fault_of_the_table_has_a_test_of_that_name() -> None:
    text = (ROOT / "docs" / "faults.md").read_text()
    table = text.split("## Faults of the shared weights")[0]
    named = set(re.findall(r"`(test_\w+)`", table))
    found = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert named - found == set()
    rows = re.findall(r"^\| (\d+|\+) \|.*`test_", table, re.MULTILINE)
    assert [int(row) for row in rows if row != "+"] == list(range(1, 41))
    assert rows.count("+") == 18


def test_the_twelve_that_must_run_on_a_real_slurm_do() -> None:
    real = (ROOT / "tests" / "real" / "test_faults_slurm.py").read_text()
    numbers = {int(number) for number in re.findall(r"^def test_fault_(\d+)", real, re.MULTILINE)}
    assert numbers == {1, 2, 6, 7, 13, 18, 19, 22, 29, 34, 35, 36}
