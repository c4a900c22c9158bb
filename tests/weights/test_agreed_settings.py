"""Jobs with other settings cannot share a folder; laptops get the run's settings."""

import json
from pathlib import Path

import pytest

from Daddy.core.errors import WeightsError
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.laptop.laptop_exchange import PlayOnlyExchange
from Daddy.weights.laptop.pulled_folder import read_laptop_head
from Daddy.weights.store.weight_store import Store
from tests.weights.helpers import ManualClock, begin, make_state

OURS = (("reward.badge", "1.9"), ("training.gamma", "0.99"))


def test_fault_12_a_job_with_another_reward_cannot_enter(tmp_path: Path) -> None:
    begin(tmp_path, "slot-0", ManualClock(), terms=OURS)
    begin(tmp_path, "slot-1", ManualClock(), terms=OURS)
    with pytest.raises(WeightsError, match=r"reward\.badge 1\.9 there, 5\.0 here"):
        begin(tmp_path, "slot-2", ManualClock(), terms=(("reward.badge", "5.0"), OURS[1]))


def test_fault_37_a_job_with_another_rule_cannot_enter_while_others_run(tmp_path: Path) -> None:
    delta, polyak = (("collaboration.rule", '"delta"'),), (("collaboration.rule", '"polyak"'),)
    first = begin(tmp_path, "slot-0", ManualClock(), terms=delta)
    with pytest.raises(WeightsError, match=r"collaboration\.rule"):
        begin(tmp_path, "slot-1", ManualClock(), terms=polyak, rule="polyak")
    first.learn(1)
    assert first.publish().startswith("contribution 1")


def test_a_card_of_before_there_were_terms_takes_all(tmp_path: Path) -> None:
    begin(tmp_path, "slot-0", ManualClock(), terms=OURS)
    path = SharedPaths(tmp_path).run
    card = json.loads(path.read_bytes())
    del card["terms"]
    path.chmod(0o644)
    path.write_text(json.dumps(card))
    assert Store(SharedPaths(tmp_path)).card().terms == ()
    begin(tmp_path, "slot-1", ManualClock(), terms=(("reward.badge", "5.0"),))


def test_laptops_are_told_how_the_run_learns_and_from_which_release(tmp_path: Path) -> None:
    begin(
        tmp_path,
        "slot-0",
        ManualClock(),
        terms=OURS,
        laptop_terms=(*OURS, ("a.b", "1")),
        release="r-1",
    )
    frame = read_laptop_head(tmp_path / "wan" / "HEAD.json")
    assert frame is not None
    assert (frame.terms, frame.release) == ((*OURS, ("a.b", "1")), "r-1")


@pytest.mark.parametrize("terms", [[["a", "b\n"]], [["a"]], ["ab"], [["a", 1]], {"a": "b"}])
def test_strange_terms_are_no_record(tmp_path: Path, terms: object) -> None:
    begin(tmp_path, "slot-0", ManualClock(), laptop_terms=OURS)
    path = tmp_path / "wan" / "HEAD.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "terms": terms}))
    with pytest.raises(WeightsError, match="terms"):
        read_laptop_head(path)


def test_another_policy_names_the_release_to_install(tmp_path: Path) -> None:
    begin(tmp_path, "slot-0", ManualClock(), release="20260101-abc")
    with pytest.raises(WeightsError, match="another policy than ours") as caught:
        PlayOnlyExchange(tmp_path).join_fleet(lambda: make_state(0, size=9), None)
    assert "20260101-abc" in caught.value.fix
