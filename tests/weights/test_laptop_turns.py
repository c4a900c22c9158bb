"""Laptops' contributions are judged in turn: no box keeps another's out."""

import pytest

from tests.weights.helpers import ManualClock, perturbed
from tests.weights.test_contributions import Cluster
from tests.weights.test_step_counts import next_version


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path, ManualClock())
    for _ in range(2):
        next_version(made)
    return made


def fill(cluster, name: str, count: int) -> None:
    for number in range(count):
        laptop, weights = cluster.laptop(name)
        laptop.publish(perturbed(weights, number), 100, 10)
    cluster.push(name)


def counted(version) -> set[str]:
    return {merged.peer for merged in version.inputs}


def test_a_full_box_that_comes_first_by_name_keeps_nobody_out(cluster):
    fill(cluster, "aaron", 20)
    fill(cluster, "zoe", 1)
    assert counted(next_version(cluster)) == {"aaron", "slot-0", "zoe"}


def test_records_whose_files_never_come_cost_nobody_a_place(cluster):
    for number in range(17):
        fill(cluster, f"aaron-{number:02d}", 1)
    for path in (cluster.root / "inbox").rglob("*.st"):
        path.unlink()
    fill(cluster, "zoe", 1)
    assert counted(next_version(cluster)) == {"slot-0", "zoe"}
