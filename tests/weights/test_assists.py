"""Weights learnt with scripted helps are marked, and refused where fewer are used."""

import json

import pytest

from Daddy.core.errors import ExitCode, WeightsError
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.laptop.laptop_exchange import PlayOnlyExchange
from Daddy.weights.store.weight_store import Store
from tests.weights.helpers import ManualClock, begin, make_state
from tests.weights.test_contributions import Cluster

HELPED = ("money", "flash")


@pytest.fixture
def clock():
    return ManualClock()


def test_the_run_card_every_version_keyframe_and_contribution_name_the_assists(tmp_path, clock):
    offers = []

    def look(point: str) -> None:
        if point == "C7":  # the contribution is written, and not merged yet
            found = tmp_path.glob("peers/slot-0/*/0*.json")
            offers.extend(json.loads(path.read_bytes())["assists"] for path in found)

    peer = begin(tmp_path, "slot-0", clock, assists=HELPED, hook=look)
    for seed in (1, 2):
        peer.learn(seed)
        peer.publish()
        peer.adopt()
    store = Store(SharedPaths(tmp_path))
    newest = store.newest()
    assert newest >= 1
    assert store.card().assists == HELPED
    assert {store.version(number).assists for number in range(newest + 1)} == {HELPED}
    assert store.keyframe().assists == HELPED
    assert offers == [list(HELPED)] * 2


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        (HELPED, (), "the assists money, flash; this learner has none"),
        ((), HELPED, "the assists none; this learner has money, flash"),
        (HELPED, ("money",), "the assists money, flash; this learner has money"),
    ],
)
def test_a_job_with_other_assists_cannot_enter_the_folder(tmp_path, clock, theirs, ours, said):
    begin(tmp_path, "slot-0", clock, assists=theirs)
    with pytest.raises(WeightsError, match=said) as refused:
        begin(tmp_path, "slot-1", clock, assists=ours)
    assert refused.value.exit_code is ExitCode.WEIGHTS
    begin(tmp_path, "slot-1", clock, assists=tuple(reversed(theirs)))


def test_a_laptop_with_fewer_assists_takes_no_version(tmp_path, clock):
    cluster = Cluster(tmp_path, clock, assists=HELPED)
    for laptop in (PlayOnlyExchange(cluster.local), PlayOnlyExchange(cluster.local, ("money",))):
        with pytest.raises(WeightsError, match="learnt with the assists") as refused:
            laptop.join_fleet(make_state, None)
        assert refused.value.exit_code is ExitCode.WEIGHTS
        assert "--assists money,flash" in refused.value.fix
    assert PlayOnlyExchange(cluster.local, HELPED).join_fleet(make_state, None).version == 0


def test_a_laptop_that_plays_does_not_take_a_later_version_either(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    told: list[object] = []
    laptop = PlayOnlyExchange(cluster.local, report=lambda _, data: told.append(data.get("text")))
    weights = dict(laptop.join_fleet(make_state, None).weights)
    cluster.merge()
    head = SharedPaths(cluster.root).wan / "HEAD.json"
    head.write_text(head.read_text().replace('"assists": []', '"assists": ["flash"]'))
    assert laptop.adopt(weights) is None
    assert "learnt with the assists flash" in str(told[-1])


def test_what_a_laptop_learnt_with_more_assists_than_the_run_is_refused_with_a_receipt(
    tmp_path, clock
):
    cluster = Cluster(tmp_path, clock)
    cluster.merge()
    laptop, weights = cluster.laptop(assists=("flash",))
    moved = {
        name: tensor + 0.01 if tensor.is_floating_point() else tensor
        for name, tensor in weights.items()
    }
    laptop.publish(moved, 100, 10)
    cluster.push()
    assert [merged.peer for merged in cluster.merge().inputs] == ["slot-0"]
    (receipt,) = laptop.receipts()
    assert not receipt.accepted
    assert "learnt with the assists flash, which this run does not use" in receipt.reason
