"""Versions to go back to: the newest, some of each hour and day, the best evaluated."""

from Daddy.core.errors import FileError
from Daddy.core.event_log import EventWriter
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights import log, status
from Daddy.weights.evaluations import Evaluation, best_evaluated, write_evaluation
from Daddy.weights.rollback import merge_ranges, roll_back
from Daddy.weights.store import version_retention
from Daddy.weights.store.rebuild_version import candidate_versions
from Daddy.weights.store.version_retention import (
    DAY_S,
    HOUR_S,
    KeptState,
    choose_kept,
    kept_numbers,
    read_kept,
)
from Daddy.weights.store.weight_store import Store
from tests.weights.helpers import ManualClock, begin

NOW = 1_700_006_400.0
"""The begin of a day."""


def minutes(count: int, every: float = 1.0) -> list[KeptState]:
    """Make versions at equal intervals in minutes, the newest now."""
    return [
        KeptState(n, NOW - 60.0 * every * (count - 1 - n), f"{n:064d}", 1_000) for n in range(count)
    ]


def told(kept: list[KeptState]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for entry in kept:
        found.setdefault(entry.reason, []).append(entry.version)
    return found


def test_the_newest_stay_then_one_an_hour_for_a_day_and_one_a_day_for_a_month():
    kept = told(choose_kept(minutes(60 * 24 * 40), 8, None))
    assert len(kept["newest"]) == 8
    assert 23 <= len(kept["hour"]) <= 25
    assert 28 <= len(kept["day"]) <= 31


def test_a_version_that_was_kept_for_its_hour_stays_while_others_come():
    every, known = minutes(60 * 30), []
    for entry in every:
        known = choose_kept([*known, entry], 8, None)
    assert {item.version for item in known} == {
        each.version for each in choose_kept(every, 8, None)
    }  # nothing that a look at all versions would keep was thrown away on the way


def test_the_best_evaluated_stays_however_old():
    kept = choose_kept(minutes(60 * 24 * 60, 1.0)[:40_000] + minutes(8), 8, 77)
    assert told(kept)["best"] == [77]


def test_megabytes_are_bounded_and_the_young_come_first(monkeypatch):
    monkeypatch.setattr(version_retention, "HISTORY_MB", 0.005)
    kept = told(choose_kept(minutes(60 * 24 * 40), 8, 100))
    assert (len(kept["newest"]), kept["best"], len(kept["hour"])) == (8, [100], 4)
    assert "day" not in kept


def shared_after(tmp_path, rounds: int, gap_s: float):
    clock = ManualClock()
    peer = begin(tmp_path, "slot-0", clock, keep_versions=3)
    for round_ in range(rounds):
        clock.pass_by(gap_s)
        peer.learn(round_)
        peer.publish()
        peer.adopt()
    return Store(SharedPaths(tmp_path)), clock


def test_mergers_keep_an_old_version_and_one_can_go_back_to_it(tmp_path):
    store, clock = shared_after(tmp_path, 30, HOUR_S / 6)
    newest = store.newest()
    reasons = told(read_kept(store))
    assert len(reasons["newest"]) == 3
    assert len(reasons["hour"]) >= 4
    old = min(reasons["hour"] + reasons.get("day", []))
    assert old < newest - 10
    kept = kept_numbers(store, newest)
    assert {entry.version for entry in read_kept(store)} <= kept
    assert len(list(store.paths.blobs.glob("*/*.st"))) <= len(kept) + 8
    made = roll_back(store, old, "it forgot", clock)
    assert made.state == store.version(old).state


def test_a_list_that_cannot_be_read_for_a_moment_costs_no_state(tmp_path, monkeypatch):
    store, clock = shared_after(tmp_path, 30, HOUR_S / 6)
    before = {entry.version for entry in read_kept(store) if entry.reason != "newest"}
    real, failed = version_retention.read_bounded, []

    def stale_once(path, *rest):
        if path == store.paths.kept and not failed:
            failed.append(path)
            raise FileError(f"cannot read {path}: Stale file handle", "look again")
        return real(path, *rest)

    monkeypatch.setattr(version_retention, "read_bounded", stale_once)
    peer = begin(tmp_path, "slot-1", clock, keep_versions=3)
    for round_ in range(2):
        clock.pass_by(60.0)
        peer.learn(70 + round_)
        peer.publish()
        peer.adopt()
    assert failed
    assert before <= {item.version for item in read_kept(store)}
    assert all(store.paths.blob(store.version(number).state).exists() for number in before)


def test_what_was_taken_back_holds_no_place_of_the_list(tmp_path):
    store, clock = shared_after(tmp_path, 12, HOUR_S / 6)
    roll_back(store, 9, "it forgot", clock)
    peer = begin(tmp_path, "slot-1", clock, keep_versions=3)
    peer.learn(90)
    peer.publish()
    peer.adopt()
    assert not {10, 11, 12} & {entry.version for entry in read_kept(store)}


def test_after_a_long_rollback_with_a_damaged_state_a_kept_version_carries_on(tmp_path):
    store, clock = shared_after(tmp_path, 30, HOUR_S / 6)
    kept = sorted(entry.version for entry in read_kept(store))
    old, target = kept[0], kept[1]
    made = roll_back(store, target, "it forgot", clock)
    path = store.paths.blob(made.state)
    path.chmod(0o644)
    path.write_bytes(b"torn")
    assert [*candidate_versions(store, made.version, 3)][-1] <= old
    begin(tmp_path, "slot-1", clock, keep_versions=3)


def test_ranges_inside_a_new_one_are_told_once():
    assert merge_ranges(((3, 5), (9, 9)), (2, 7)) == ((9, 9), (2, 7))
    assert merge_ranges(((3, 5),), (9, 12)) == ((3, 5), (9, 12))


def test_what_is_too_old_goes(tmp_path):
    store, clock = shared_after(tmp_path, 6, HOUR_S)
    (first, *_) = sorted(entry.version for entry in read_kept(store))
    state = store.version(first).state
    peer = begin(tmp_path, "slot-1", clock, keep_versions=3)
    for round_ in range(4):
        clock.pass_by(11 * DAY_S)
        peer.learn(50 + round_)
        peer.publish()
        peer.adopt()
    assert first not in {item.version for item in read_kept(store)}
    assert not store.paths.blob(state).exists()


def test_the_best_evaluated_is_read_from_what_people_compared(tmp_path):
    store, _ = shared_after(tmp_path, 4, 10.0)
    assert best_evaluated(store.paths) is None
    states = [store.version(number).state for number in range(4)]
    for newer, older, gain in ((3, 1, -1.0), (3, 2, -0.5)):
        pairs = tuple((seed, 5.0, 5.0 - gain) for seed in range(50))
        write_evaluation(store, Evaluation(
            store.card().run_id, newer, states[newer], older, states[older], "the same", pairs, 9.0
        ))  # fmt: skip
    assert best_evaluated(store.paths) == 1


def test_log_marks_what_is_kept_and_status_names_a_bad_version_and_the_way_back(tmp_path, capsys):
    store, clock = shared_after(tmp_path / "shared_weights", 4, 10.0)
    writer = EventWriter(tmp_path / "events", "run", "cartpole", "learner", "slot-0", clock)
    for version, value in ((2, 10.0), (3, 10.0), (4, 1.0)):
        returns = [value + 0.01 * n for n in range(120)]
        episodes = {"result": "episodes", "returns": returns, "version": version}
        writer.write("result", 1, {**episodes, "own_start": [1] * 120})
        writer.write("result", 1, {**episodes, "returns": [1e6] * 9, "own_start": [0] * 9})
    status.main([str(tmp_path)])
    said = capsys.readouterr().out
    assert "v4 plays clearly worse than v" in said
    assert "python -m Daddy.weights.rollback v" in said
    log.main([str(tmp_path)])
    assert "v4 newest" in capsys.readouterr().out
    roll_back(store, 3, "it plays worse", clock)
    status.main([str(tmp_path)])
    assert "plays clearly worse" not in capsys.readouterr().out
