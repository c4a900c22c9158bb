"""The attacks of the soak `laptops` against a real merger in one process."""

import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from Daddy.core.errors import SchedulerError
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.laptop.pulled_folder import newest_verified
from scripts.soaks.hostile import SPARSE_BYTES, Forge, touching
from scripts.soaks.laptops import Laptop
from scripts.version_history import read_history
from tests.patience import PATIENCE_S
from tests.weights.helpers import ManualClock
from tests.weights.test_contributions import Cluster


@pytest.fixture
def besieged(tmp_path):
    """A cluster some versions old, and one attack of each kind in ben's box."""
    cluster = Cluster(tmp_path, ManualClock())
    for _ in range(3):
        cluster.merge()
    newest = newest_verified(cluster.local)
    weights = decode(newest.data, newest.head.schema)
    attacks = Forge("ben", newest.head, weights, tmp_path / "unpickled", 0).all()
    box = cluster.root / "inbox" / "ben"
    box.mkdir(parents=True)
    return cluster, box, attacks


def lay(box, attack):
    for name, data in attack.files.items():
        (box / name).write_bytes(data)
    if attack.sparse:
        with (box / attack.sparse).open("wb") as stream:
            stream.truncate(SPARSE_BYTES)


def test_nothing_hostile_enters_and_what_is_fair_counts_once(besieged, tmp_path):
    cluster, box, attacks = besieged
    outside = {path for path in tmp_path.rglob("*") if "shared" not in path.parts}
    for _ in range(2):
        for attack in attacks:
            lay(box, attack)
        for _ in range(6):
            cluster.merge()
    versions = read_history(SharedPaths(cluster.root)).versions
    entered = Counter(merged.incarnation for version in versions for merged in version.inputs)
    counted, welcome = Counter[str](), Counter[str]()
    for item in attacks:
        counted[item.name] += entered[item.incarnation]
        welcome[item.name] += item.welcome
    assert counted == welcome
    assert versions[-1].fleet_steps <= 2 * versions[-1].contributors["slot-0"]
    assert not (tmp_path / "unpickled").exists()
    assert {path for path in tmp_path.rglob("*") if "shared" not in path.parts} == outside


def test_of_the_ten_gibibytes_nothing_is_kept(besieged):
    cluster, box, attacks = besieged
    (sparse,) = (attack for attack in attacks if attack.sparse)
    lay(box, sparse)
    cluster.merge()
    cluster.merge()
    held = [path.stat() for path in cluster.root.rglob("*") if path.is_file()]
    assert sum(entry.st_blocks * 512 for entry in held) < 10 << 20


def test_the_pickle_would_bite(tmp_path):
    """Without this, the pickle's harmlessness would prove nothing."""
    loader = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"
    bad = touching(tmp_path / "bitten")
    subprocess.run([sys.executable, "-c", loader], input=bad, check=True, timeout=PATIENCE_S)
    assert (tmp_path / "bitten").exists()


@pytest.mark.parametrize(("code", "whole"), [(0, 1), (23, 0), (255, None)])
def test_a_raid_goes_on_beside_a_merger_that_empties_the_box(tmp_path, code, whole):
    """rsync ends with 23 if its target vanished; without a connection the soak cannot go on."""
    for name, answer in (("ssh", 0), ("rsync", code)):
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {answer}\n")
        (tmp_path / name).chmod(0o755)
    node = SimpleNamespace(path=f"{tmp_path}:/usr/bin:/bin", ssh_config="none")
    stage = SimpleNamespace(node=node, run=SimpleNamespace(shared_weights=tmp_path))
    enemy = Laptop("mallory", "friend", tmp_path / "home", stage)
    if whole is None:
        with pytest.raises(SchedulerError, match="rsync failed"):
            enemy.raid([], 0)
        return
    enemy.raid([], 0)
    assert enemy.whole_raids == whole
