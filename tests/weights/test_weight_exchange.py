import errno
import json
import math
import os
from pathlib import Path

import pytest
import torch

from Daddy.core.errors import WeightsError
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.store.weight_store import Store
from scripts.version_history import read_history
from tests.weights.helpers import ManualClock, begin, close, make_state, perturbed, shifted


@pytest.fixture
def clock():
    return ManualClock()


def newest(root):
    store = Store(SharedPaths(root))
    return store.version(store.newest())


def test_the_first_gives_the_common_beginning_to_all(tmp_path, clock):
    first, *others = [begin(tmp_path, f"slot-{k}", clock, seed=k) for k in range(4)]
    assert all(close(first.weights, other.weights, 0.0) for other in others)
    assert read_history(SharedPaths(tmp_path)).versions[0].merger.startswith("slot-0/")


def test_three_of_four_publish_and_the_third_merges(tmp_path, clock):
    peers = [begin(tmp_path, f"slot-{k}", clock) for k in range(4)]
    for number, peer in enumerate(peers[:3]):
        assert newest(tmp_path).version == 0
        peer.shift(number + 1.0)
        assert "contribution 1 on v0, 100 steps" in peer.publish()
    version = newest(tmp_path)
    assert [merged.peer for merged in version.inputs] == ["slot-0", "slot-1", "slot-2"]
    assert [entry.share for entry in version.inputs] == [0.25] * 3
    assert version.fleet_steps == 300
    assert peers[3].adopt() == 1
    assert close(peers[3].weights, shifted(make_state(0), 0.25 * (1 + 2 + 3)))


def test_a_round_of_four_is_the_mean_of_the_four(tmp_path, clock):
    peers = [begin(tmp_path, f"slot-{k}", clock) for k in range(4)]
    start = peers[0].weights
    for number, peer in enumerate(peers):
        peer.shift(number + 1.0)
        peer.publish()
    assert newest(tmp_path).version == 1  # the first three; the fourth waits a period for others
    clock.pass_by(10)
    assert peers[3].adopt() == 2
    assert close(peers[3].weights, shifted(start, (1 + 2 + 3 + 4) / 4))


def test_a_lone_learner_goes_its_own_way_and_versions_follow_it(tmp_path, clock):
    peer = begin(tmp_path, "slot-0", clock)
    for round_ in range(3):
        peer.learn(round_)
        own = dict(peer.weights)
        peer.publish()
        assert peer.adopt() == round_ + 1
        assert close(peer.weights, own)


def test_progress_since_the_offer_survives_adoption_and_is_offered_next(tmp_path, clock):
    early, other = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    third = begin(tmp_path, "slot-2", clock)
    start = early.weights
    early.shift(1.0)
    early.publish()
    early.shift(10.0)  # since
    other.shift(3.0)
    other.publish()
    assert early.adopt() == 1
    shared = shifted(start, (1.0 + 3.0) / 3)
    assert close(early.weights, shifted(shared, 10.0))
    early.publish()
    third.shift(0.5)
    third.publish()
    assert third.adopt() == 2
    deltas = {merged.peer: merged for merged in newest(tmp_path).inputs}
    assert deltas["slot-0"].norm == pytest.approx(10.0 * math.sqrt(15), rel=1e-4)


def test_an_offer_that_is_not_merged_yet_is_carried_over_once(tmp_path, clock):
    peers = [begin(tmp_path, f"slot-{k}", clock) for k in range(4)]
    start = peers[0].weights
    for peer in peers[:3]:
        peer.shift(4.0)
        peer.publish()
    peers[3].shift(8.0)
    peers[3].publish()
    assert peers[3].adopt() == 1  # merged without its own offer
    shared = shifted(start, 3 * 1.0)
    assert close(peers[3].weights, shifted(shared, 8.0))
    assert "nothing to publish" in peers[3].publish()
    clock.pass_by(60)
    assert peers[3].adopt() == 2
    final = newest(tmp_path).inputs
    assert [entry.peer for entry in final] == ["slot-3"]
    assert close(peers[3].weights, shifted(shared, 8.0 * final[0].share))


def test_a_restart_drops_own_progress_and_its_steps_and_takes_the_newest_version(tmp_path, clock):
    peers = [begin(tmp_path, f"slot-{k}", clock) for k in range(4)]
    start, dead = peers[0].weights, peers[0]
    dead.shift(4.0)
    dead.publish()
    for peer in peers[1:3]:
        peer.shift(4.0)
        peer.publish()
    dead.shift(1e6, steps=700)
    restart(dead, 1)
    assert close(dead.weights, shifted(start, 3.0))
    assert "nothing to publish" in dead.publish()
    dead.shift(2.0)
    assert dead.publish() == "contribution 2 on v1, 100 steps"
    dead.shift(1e6)
    restart(dead, 2)  # contribution 2 was sound, and counts once
    (entry,) = newest(tmp_path).inputs
    assert (entry.peer, entry.sequence) == ("slot-0", 2)
    assert close(dead.weights, shifted(start, 3.0 + 2.0 * entry.share))
    assert dead.adopt() is None


def restart(peer, version):
    adoption = peer.exchange.restart_from_newest(peer.env_steps)
    assert (adoption.version, adoption.refused) == (version, True)
    peer.weights, peer.updates = dict(adoption.weights), 0


def test_a_restart_while_the_folder_cannot_be_read_takes_the_version_in_memory(
    tmp_path, clock, monkeypatch
):
    peer, other = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    start = peer.weights
    other.shift(1.0)
    other.publish()
    peer.shift(1e6)
    monkeypatch.setattr(peer.exchange, "_load_newest", refuse_to_read)
    adoption = peer.exchange.restart_from_newest(peer.env_steps)
    assert adoption.version == 0
    assert close(adoption.weights, start)


def refuse_to_read():
    raise OSError(5, "the disk does not answer")


def test_own_progress_counts_fully_whatever_is_adopted_between(tmp_path, clock):
    """The contributions of one peer add up to its whole progress."""
    peers = [begin(tmp_path, f"slot-{k}", clock) for k in range(2)]
    moved = 0.0
    for round_ in range(6):
        for number, peer in enumerate(peers):
            step = 0.1 * (round_ + 1) * (number + 1)
            peer.shift(step)
            moved += step if number == 0 else 0.0
            if (round_ + number) % 2:
                peer.publish()
            peer.adopt()
    peers[0].publish()
    clock.pass_by(100)
    peers[1].adopt()
    clock.pass_by(100)
    peers[1].adopt()
    history = read_history(SharedPaths(tmp_path))
    offered = sum(
        merged.norm
        for version in history.versions
        for merged in version.inputs
        if merged.peer == "slot-0"
    )
    assert offered == pytest.approx(moved * math.sqrt(15), rel=1e-4)


def test_each_version_names_the_hash_of_its_parent(tmp_path, clock):
    peer = begin(tmp_path, "slot-0", clock)
    for round_ in range(5):
        peer.learn(round_)
        peer.publish()
        peer.adopt()
    history = read_history(SharedPaths(tmp_path))
    assert len(history.versions) == 6
    assert history.chained
    path = SharedPaths(tmp_path).version(3)
    path.chmod(0o644)
    path.write_text(path.read_text().replace('"fleet_steps": 300', '"fleet_steps": 999'))
    broken = read_history(SharedPaths(tmp_path))
    assert not broken.chained
    assert "v00000004" in broken.flaw


def test_weights_that_are_not_finite_are_never_offered(tmp_path, clock):
    peer = begin(tmp_path, "slot-0", clock)
    peer.learn(1)
    peer.weights["core.bias"][0] = math.nan
    assert "not finite" in peer.publish()
    assert newest(tmp_path).version == 0


def test_own_weights_that_went_bad_are_replaced_by_the_next_version(tmp_path, clock):
    sick, well = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    sick.weights["core.bias"][0] = math.inf
    well.learn(1)
    well.publish()
    well.adopt()
    assert sick.adopt() == 1
    assert all(torch.isfinite(tensor).all() for tensor in sick.weights.values())


@pytest.mark.parametrize("kind", ["truncated", "flipped", "empty", "NaN", "schema"])
def test_a_bad_contribution_is_refused_and_its_author_told_why(tmp_path, clock, kind):
    author, other = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    third = begin(tmp_path, "slot-2", clock)
    start = dict(author.weights)
    author.learn(1)
    own = dict(author.weights)
    author.publish()
    spoil(tmp_path, kind)
    other.learn(2)
    other.publish()
    version = newest(tmp_path)
    assert [merged.peer for merged in version.inputs] == ["slot-1"]
    assert [refusal.peer for refusal in version.refused] == ["slot-0"]
    reason = version.refused[0].reason
    said = {
        "truncated": "truncated?",
        "flipped": "damaged",
        "empty": "0 bytes",
        "NaN": "not finite",
        "schema": "names or shapes",
    }
    assert said[kind] in reason
    assert author.adopt() == 1
    assert author.recorder.with_state("refused")[0]["reason"] == reason
    third.adopt()
    kept = {name: author.weights[name] - third.weights[name] for name in author.weights}
    progress = {name: own[name] - start[name] for name in own}
    if kind in ("NaN", "schema"):
        assert close(author.weights, third.weights)  # bad values are dropped ...
    else:
        assert close(kept, progress)  # ... but what a disk damaged is offered again
        assert "nothing to publish" not in (author.shift(0.1), author.publish())[1]


def spoil(root, kind: str) -> None:
    """Damage the one pending contribution as a disk, or a bad learner, would."""
    from Daddy.weights.encoding.state_codec import encode
    from Daddy.weights.store.weight_records import Contribution, parse

    paths = SharedPaths(root)
    record = next(paths.peers.glob("*/*/000001.json"))
    offer = parse(Contribution, record.read_bytes(), "it")
    blob = paths.blob(offer.blob)
    blob.chmod(0o644)
    data = blob.read_bytes()
    if kind in ("NaN", "schema"):
        state = make_state(5) if kind == "NaN" else {"other": torch.zeros(24)}
        if kind == "NaN":
            state["core.bias"][1] = math.nan
        rewrite(paths, record, offer, encode(state))
    elif kind == "flipped":
        blob.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        blob.write_bytes(data[: len(data) // 2] if kind == "truncated" else b"")


def rewrite(paths, record, offer, data: bytes) -> None:
    import dataclasses

    from Daddy.core.atomic_files import sha256_hex

    sha = sha256_hex(data)
    paths.blob(sha).parent.mkdir(parents=True, exist_ok=True)
    paths.blob(sha).write_bytes(data)
    record.chmod(0o644)
    record.write_bytes(dataclasses.replace(offer, blob=sha, size=len(data)).to_json_bytes())


def test_a_late_contribution_keeps_its_progress_for_the_next(tmp_path, clock):
    slow = begin(tmp_path, "slot-0", clock)
    fast = begin(tmp_path, "slot-1", clock, silence_s=0.001)
    slow.shift(1.0)
    for round_ in range(6):  # slow is silent, so fast merges alone
        clock.pass_by(100)
        fast.learn(round_)
        fast.publish()
        fast.adopt()
    assert newest(tmp_path).version == 6
    slow.publish()  # against v0: six versions late
    fast.adopt()
    assert "versions old" in newest(tmp_path).refused[0].reason
    shared = dict(fast.weights)
    slow.adopt()
    assert close(slow.weights, shifted(shared, 1.0))
    assert slow.recorder.with_state("refused")
    slow.shift(0.5)
    assert "contribution 2" in slow.publish()


def test_a_job_that_was_quiet_for_long_is_not_forgotten(tmp_path, clock):
    quiet, busy = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    quiet.learn(1)
    quiet.publish()
    for round_ in range(20):
        busy.learn(round_)
        busy.publish()
        busy.adopt()
    quiet.adopt()
    quiet.learn(2)
    quiet.publish()
    assert [(merged.peer, merged.sequence) for merged in newest(tmp_path).inputs] == [("slot-0", 2)]


def hidden(path):
    """Hide a name, as NFS may for a while."""
    return path.rename(path.with_name(f".hidden-{path.name}"))


@pytest.mark.parametrize("what", ["record", "blob"])
def test_a_later_contribution_waits_for_an_earlier_one_that_is_not_visible_yet(
    tmp_path, clock, what
):
    author, other = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    begin(tmp_path, "slot-2", clock)
    author.learn(1)
    author.publish()
    paths = SharedPaths(tmp_path)
    record = next(paths.peers.glob("slot-0/*/000001.json"))
    name = json.loads(record.read_text())["blob"]
    aside = hidden(record if what == "record" else paths.blob(name))
    author.learn(2)
    author.publish()
    other.learn(3)
    other.publish()
    clock.pass_by(60)
    other.adopt()
    version = newest(tmp_path)
    assert [(merged.peer, merged.sequence) for merged in version.inputs] == [("slot-1", 1)]
    aside.rename(record if what == "record" else paths.blob(name))
    other.adopt()  # sees it
    clock.pass_by(60)
    other.adopt()
    version = newest(tmp_path)
    assert [(entry.peer, entry.sequence) for entry in version.inputs] == [
        ("slot-0", 1),
        ("slot-0", 2),
    ]


def test_a_blob_that_never_comes_is_given_up_and_its_progress_offered_again(tmp_path, clock):
    author, other = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    begin(tmp_path, "slot-2", clock)
    author.shift(1.0)
    author.publish()
    record = next(SharedPaths(tmp_path).peers.glob("slot-0/*/000001.json"))
    SharedPaths(tmp_path).blob(json.loads(record.read_text())["blob"]).unlink()
    for round_ in range(5):
        other.learn(round_)
        other.publish()
        other.adopt()
        clock.pass_by(40)
    refused = [
        refusal for v in read_history(SharedPaths(tmp_path)).versions for refusal in v.refused
    ]
    assert [(entry.peer, entry.fault) for entry in refused] == [("slot-0", "late")]
    assert "did not appear" in refused[0].reason
    author.adopt()
    shared = begin(tmp_path, "slot-3", clock).weights
    assert close(author.weights, shifted(shared, 1.0))


def test_one_refused_and_a_later_one_admitted_in_one_version_are_both_done_with(tmp_path, clock):
    author, other = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    begin(tmp_path, "slot-2", clock)
    for seed in (1, 2):
        author.learn(seed)
        author.publish()
        if seed == 1:
            spoil(tmp_path, "flipped")
    other.learn(3)
    other.publish()
    version = newest(tmp_path)
    assert [(refusal.peer, refusal.sequence) for refusal in version.refused] == [("slot-0", 1)]
    assert ("slot-0", 2) in [(merged.peer, merged.sequence) for merged in version.inputs]
    assert version.consumed[f"slot-0/{author.incarnation}"] == (2, 1)


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO])
def test_trouble_with_the_mergers_own_disk_costs_an_author_nothing(
    tmp_path, clock, monkeypatch, number
):
    author, other = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    begin(tmp_path, "slot-2", clock)
    author.shift(1.0)
    author.publish()
    record = next(SharedPaths(tmp_path).peers.glob("slot-0/*/000001.json"))
    blob = SharedPaths(tmp_path).blob(json.loads(record.read_text())["blob"])
    real = os.open

    def failing(path, *rest):
        if path == blob:
            raise OSError(number, os.strerror(number), str(path))
        return real(path, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing)
        other.learn(2)
        other.publish()
        other.adopt()
    assert [(merged.peer, merged.sequence) for merged in newest(tmp_path).inputs] == [("slot-1", 1)]
    clock.pass_by(60)
    other.adopt()
    clock.pass_by(60)
    other.adopt()
    assert [(entry.peer, entry.sequence) for entry in newest(tmp_path).inputs] == [("slot-0", 1)]


def test_heads_that_a_dead_merger_left_behind_are_mended_by_the_next_reader(tmp_path, clock):
    peer = begin(tmp_path, "slot-0", clock)
    peer.learn(1)
    peer.publish()
    store = Store(SharedPaths(tmp_path))
    for path in (store.paths.head, store.paths.wan / "HEAD.json"):
        path.unlink()
    begin(tmp_path, "slot-1", clock)
    assert store.head().version == 1
    assert store.keyframe().version == 1


def test_another_policy_cannot_enter_the_folder(tmp_path, clock):
    begin(tmp_path, "slot-0", clock)
    with pytest.raises(WeightsError, match="holds the weights of"):
        begin(tmp_path, "slot-1", clock, own={"else": torch.zeros(2)})
    with pytest.raises(WeightsError, match="'cartpole'"):
        begin(tmp_path, "slot-1", clock, workload="pokemon_red")


def test_a_damaged_newest_state_is_made_again_from_what_it_was_made_of(tmp_path, clock):
    peer = begin(tmp_path, "slot-0", clock)
    for round_ in range(3):
        peer.learn(round_)
        peer.publish()
        peer.adopt()
    version = newest(tmp_path)
    blob = SharedPaths(tmp_path).blob(version.state)
    good = blob.read_bytes()
    blob.chmod(0o644)
    blob.write_bytes(good[:100])
    joined = begin(tmp_path, "slot-1", clock)
    assert joined.version == 3
    assert close(joined.weights, peer.weights)
    assert blob.read_bytes() == good
    assert list(SharedPaths(tmp_path).quarantine.glob("damaged/*"))


def test_a_state_that_only_looked_missing_is_not_taken_from_others(tmp_path, clock, monkeypatch):
    """A name may be invisible for a while; that process must not set the file aside."""
    peer = begin(tmp_path, "slot-0", clock)
    peer.learn(1)
    peer.publish()
    blob = SharedPaths(tmp_path).blob(newest(tmp_path).state)
    kept, real = blob.stat().st_ino, Store.read_blob

    def blind(store, sha):
        if sha == blob.stem:
            raise WeightsError(f"{sha} is missing", "an older version is used")
        return real(store, sha)

    monkeypatch.setattr(Store, "read_blob", blind)
    assert begin(tmp_path, "slot-1", clock).version == 1
    assert blob.stat().st_ino == kept
    assert not SharedPaths(tmp_path).quarantine.exists()


def test_when_that_cannot_be_done_the_version_before_is_used_and_said(tmp_path, clock):
    peer = begin(tmp_path, "slot-0", clock)
    kept = {}
    for round_ in range(3):
        peer.learn(round_)
        peer.publish()
        peer.adopt()
        kept[round_ + 1] = dict(peer.weights)
    paths, version = SharedPaths(tmp_path), newest(tmp_path)
    for sha in (version.state, version.inputs[0].blob):
        paths.blob(sha).unlink()
    joined = begin(tmp_path, "slot-1", clock)
    assert joined.version == 2
    assert close(joined.weights, kept[2])
    assert any("passed over" in str(data) for _, _, data in joined.recorder.events)
    joined.shift(1.0)
    joined.publish()
    clock.pass_by(100)
    joined.adopt()
    after = newest(tmp_path)
    assert (after.version, after.base) == (4, 2)
    assert read_history(paths).chained


def test_a_folder_without_any_readable_version_is_an_error_with_exit_code_six(tmp_path, clock):
    begin(tmp_path, "slot-0", clock)
    for blob in SharedPaths(tmp_path).blobs.glob("*/*"):
        blob.unlink()
    with pytest.raises(WeightsError) as error:
        begin(tmp_path, "slot-1", clock)
    assert error.value.exit_code == 6


def test_training_goes_on_when_the_folder_cannot_be_written(tmp_path, clock, monkeypatch):
    peer = begin(tmp_path, "slot-0", clock)
    peer.learn(1)

    def full_disk(*_args, **_kwargs):
        raise OSError(28, "No space left on device", str(tmp_path))

    monkeypatch.setattr("Daddy.weights.store.crash_safe_files.CrashSafeWriter._write", full_disk)
    assert "No space left" in peer.publish()
    assert peer.adopt() is None
    monkeypatch.undo()
    assert "contribution 1 on v0, 100 steps" in peer.publish()
    assert peer.adopt() == 1


def test_plain_polyak_averages_absolute_weights(tmp_path, clock):
    peers = [begin(tmp_path, f"slot-{k}", clock, rule="polyak", alpha=0.5) for k in range(2)]
    start = peers[0].weights
    peers[0].shift(4.0)
    peers[0].publish()
    assert peers[1].adopt() == 1
    assert close(peers[1].weights, shifted(start, 2.0))
    assert peers[0].adopt() == 1
    assert close(peers[0].weights, shifted(start, 2.0))


def test_a_peer_that_said_goodbye_is_not_waited_for(tmp_path, clock):
    peers = [begin(tmp_path, f"slot-{k}", clock) for k in range(3)]
    peers[0].exchange.leave_fleet("wall time")
    peers[1].exchange.leave_fleet("wall time")
    peers[2].learn(1)
    peers[2].publish()
    assert newest(tmp_path).version == 1


def test_the_last_to_leave_merges_what_is_left(tmp_path, clock):
    peers = [begin(tmp_path, f"slot-{k}", clock) for k in range(4)]
    for peer in peers:
        peer.learn(1)
        peer.publish()
        peer.exchange.leave_fleet("total_steps reached")
    history = read_history(SharedPaths(tmp_path))
    assert history.versions[-1].fleet_steps == 400


def test_a_version_that_cannot_be_read_does_not_end_a_learner_that_asks_for_the_steps(
    tmp_path, clock
):
    peer = begin(tmp_path, "slot-0", clock)
    peer.learn(1)
    peer.publish()
    assert peer.exchange.fleet_steps() == 100
    SharedPaths(tmp_path).version(2).write_text('{"format": 2}')  # of a newer release
    peer.learn(2)
    assert "training goes on" in peer.publish()
    assert peer.exchange.fleet_steps() == 100


def test_a_folder_that_cannot_be_synced_does_not_make_a_published_contribution_look_lost(
    tmp_path, clock, monkeypatch
):
    peer, real = begin(tmp_path, "slot-0", clock), os.open

    def no_folders(path, flags, *rest):
        if Path(path).is_dir():
            raise OSError(5, "Input/output error")
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", no_folders)
    for number in (1, 2):
        peer.learn(number)
        assert f"contribution {number} on" in peer.publish()
        clock.pass_by(100)
        assert peer.adopt() == number


def test_two_processes_under_one_name_do_not_overwrite_each_other(tmp_path, clock):
    entry, twin = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-0", clock)
    entry.learn(1)
    twin.learn(2)
    entry.publish()
    twin.publish()
    clock.pass_by(100)
    entry.adopt()
    versions = read_history(SharedPaths(tmp_path)).versions
    assert sum(len(version.inputs) for version in versions) == 2


def test_nudges_differ_so_that_these_tests_mean_something():
    assert not close(make_state(0), perturbed(make_state(0), 1))


def test_who_stands_on_a_version_of_long_ago_stops_nobody_from_merging(tmp_path, clock):
    peer, asleep = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    assert asleep.version == 0
    for round_ in range(70):
        peer.learn(round_)
        peer.publish()
        clock.pass_by(10)
        assert peer.adopt() == round_ + 1
    store = Store(SharedPaths(tmp_path))
    assert [store.version(number).version for number in (70, *range(71))] == [70, *range(71)]


def test_what_says_that_a_contribution_may_exist_is_on_the_disk_before_it(tmp_path, clock):
    """Otherwise a power cut could restore a heartbeat after which no merger looks for it."""
    steps = []
    peer = begin(tmp_path, "slot-0", clock, hook=steps.append)
    peer.shift(1.0)
    synced = []
    real = os.fsync
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: (synced.append(len(steps)), real(fd)))
        peer.publish()
    said = len(steps) - 1 - steps[::-1].index("C5:beat")
    assert any(steps[at - 1] == "C3:beat" for at in synced if at <= said)
