import pytest

from Daddy.core.shared_weights_paths import SharedPaths
from scripts.version_history import read_history
from tests.weights.helpers import ManualClock, begin, close, shifted


@pytest.fixture
def clock():
    return ManualClock()


def restart(root, clock, dead, note, **changes):
    """Return the same peer as a new process, with its checkpoint's weights and book-keeping."""
    totals = (dead["env_steps"], dead["updates"])
    return begin(root, "slot-0", clock, resumed=note, own=dead["weights"], totals=totals, **changes)


def saved(peer):
    """Return the content of a checkpoint."""
    kept = {"weights": dict(peer.weights), "env_steps": peer.env_steps, "updates": peer.updates}
    return kept, peer.exchange.resume_state()


def fleet(root):
    return read_history(SharedPaths(root)).versions[-1]


def test_with_no_newer_version_a_restart_goes_on_exactly(tmp_path, clock):
    peer = begin(tmp_path, "slot-0", clock)
    begin(tmp_path, "slot-1", clock)
    begin(tmp_path, "slot-2", clock)
    peer.learn(1)
    peer.publish()  # pending
    peer.learn(2)  # and progress since
    dead, note = saved(peer)
    again = restart(tmp_path, clock, dead, note)
    assert close(again.weights, dead["weights"], 0.0)
    again.shift(0.25)
    again.publish()
    clock.pass_by(100)
    again.adopt()
    assert fleet(tmp_path).fleet_steps == 300


def test_after_newer_versions_own_progress_is_rebased(tmp_path, clock):
    peer, other = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    start = peer.weights
    peer.shift(1.0)  # not offered: only the checkpoint has it
    dead, note = saved(peer)
    other.shift(6.0)
    other.publish()
    again = restart(tmp_path, clock, dead, note)
    assert again.version == 1
    assert close(again.weights, shifted(start, 3.0 + 1.0))
    again.shift(0.5)
    again.publish()
    offered = fleet(tmp_path).inputs[-1]
    assert offered.env_steps == 200
    assert offered.norm == pytest.approx(1.5 * 15**0.5, rel=1e-5)


def test_progress_that_was_offered_after_the_checkpoint_is_not_offered_twice(tmp_path, clock):
    peer, other = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    third = begin(tmp_path, "slot-2", clock)
    start = peer.weights
    peer.shift(1.0)
    dead, note = saved(peer)
    peer.shift(1.0)
    peer.publish()  # then killed
    other.shift(3.0, steps=200)
    other.publish()
    again = restart(tmp_path, clock, dead, note)
    shared = shifted(start, (2.0 + 3.0) / 3)
    assert close(again.weights, shared)
    again.shift(0.5)  # steps 100..200 are played again
    again.publish()
    third.shift(0.5)
    third.publish()
    version = fleet(tmp_path)
    counted = {merged.peer: merged.new_steps for merged in version.inputs}
    assert counted["slot-0"] == 0
    assert version.contributors["slot-0"] == 200


def test_progress_on_a_base_that_is_too_old_is_dropped(tmp_path, clock):
    peer, other = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    peer.shift(1.0)
    dead, note = saved(peer)
    peer.exchange.leave_fleet("killed")
    for round_ in range(5):
        other.learn(round_)
        other.publish()
        other.adopt()
    again = restart(tmp_path, clock, dead, note)
    assert again.version == 5
    assert close(again.weights, other.weights)
    assert "contribution" in (again.learn(9), again.publish())[1]


def test_book_keeping_of_a_learner_that_was_alone_joins_without_claiming_its_past(tmp_path, clock):
    begin(tmp_path, "slot-1", clock)
    peer = begin(tmp_path, "slot-0", clock, resumed=b"{}", totals=(1_000_000, 5_000))
    peer.learn(1)
    peer.publish()
    assert fleet(tmp_path).fleet_steps == 100


def test_steps_go_with_the_progress_that_is_dropped(tmp_path, clock):
    """Before, 200 steps weighed a change that 100 had made."""
    peer, other = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    peer.shift(float("nan"))
    other.shift(1.0)
    other.publish()
    assert peer.adopt() == 1
    peer.shift(0.5)
    peer.publish()
    (offered,) = (merged for merged in fleet(tmp_path).inputs if merged.peer == "slot-0")
    assert (offered.env_steps, offered.new_steps, offered.optimizer_steps) == (100, 100, 10)


def test_a_late_offer_is_offered_again_with_its_steps(tmp_path, clock):
    """Before, 100 steps weighed the change of 200, and 100 steps were never counted."""
    peer, other = (begin(tmp_path, f"slot-{k}", clock, max_staleness=1) for k in range(2))
    for round_ in range(3):
        other.learn(round_)
        other.publish()
        other.adopt()
    peer.shift(1.0)
    peer.publish()  # on v0, of which the limit is one version
    assert peer.adopt() is not None
    peer.shift(0.5)
    peer.publish()
    (offered,) = (merged for merged in fleet(tmp_path).inputs if merged.peer == "slot-0")
    assert offered.norm == pytest.approx(1.5 * 15**0.5, rel=1e-5)
    assert (offered.env_steps, offered.new_steps, offered.optimizer_steps) == (200, 200, 20)
    assert fleet(tmp_path).contributors["slot-0"] == 200


def test_book_keeping_of_another_folder_is_not_believed(tmp_path, clock):
    elsewhere = begin(tmp_path / "a", "slot-0", clock)
    elsewhere.shift(5.0)
    dead, note = saved(elsewhere)
    first = begin(tmp_path / "b", "slot-1", clock, seed=3)
    again = restart(tmp_path / "b", clock, dead, note)
    assert close(again.weights, first.weights)


def test_two_crashes_after_one_checkpoint_count_its_progress_once(tmp_path, clock):
    peer, third = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-2", clock)
    begin(tmp_path, "slot-1", clock)
    peer.shift(1.0)
    dead, note = saved(peer)
    second = restart(tmp_path, clock, dead, note)
    second.shift(1.0)
    second.publish()  # the checkpoint's progress and more, then killed before its own checkpoint
    last = restart(tmp_path, clock, dead, note)
    assert close(last.weights, third.weights)  # not carried over: it was offered already
    last.shift(0.5)
    last.publish()
    third.adopt()
    clock.pass_by(100)
    third.adopt()
    assert fleet(tmp_path).contributors["slot-0"] == 200
    offered = [merged for v in read_history(SharedPaths(tmp_path)).versions for merged in v.inputs]
    moved = sorted(round(entry.norm / 15**0.5, 3) for entry in offered)
    assert moved == [0.5, 2.0]


def test_what_a_predecessor_offered_before_the_checkpoint_is_no_reason_to_drop_it(tmp_path, clock):
    peer = begin(tmp_path, "slot-0", clock)
    others = [begin(tmp_path, f"slot-{k}", clock) for k in (1, 2)]
    peer.shift(1.0)
    peer.publish()  # pending until long after the next checkpoint
    second = restart(tmp_path, clock, *saved(peer))
    second.shift(0.5)
    kept = saved(second)
    others[0].adopt()  # sees it
    clock.pass_by(100)
    others[0].adopt()
    assert fleet(tmp_path).version == 1
    again = restart(tmp_path, clock, *kept)
    assert close(again.weights, shifted(fleet_weights(others[0]), 0.5))
    again.shift(0.5)
    again.publish()
    others[1].adopt()
    clock.pass_by(100)
    others[1].adopt()
    assert fleet(tmp_path).contributors["slot-0"] == 300


def fleet_weights(peer):
    peer.adopt()
    return peer.weights


@pytest.mark.parametrize("moved_on", [False, True])
def test_under_polyak_only_progress_since_the_last_offer_is_carried(tmp_path, clock, moved_on):
    peer = begin(tmp_path, "slot-0", clock, rule="polyak")
    others = [begin(tmp_path, f"slot-{k}", clock, rule="polyak") for k in (1, 2, 3)]
    peer.exchange._merge = lambda period_s=None: None
    for by in (1.0, 2.0):
        peer.shift(by)
        peer.publish()  # absolute weights: the second contains the first
    peer.shift(0.5)
    dead, note = saved(peer)
    if moved_on:
        for other in others:
            other.shift(4.0)
            other.publish()
    again = restart(tmp_path, clock, dead, note, rule="polyak")
    assert (again.version > 0) == moved_on
    own = shifted(fleet_weights(others[0]), 0.5) if moved_on else dead["weights"]
    assert close(again.weights, own)
