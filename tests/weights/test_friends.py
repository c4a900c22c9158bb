"""A friend with an own account: read in its folder, admitted and merged like the owner's."""

import json
import os

import pytest

from Daddy.core.atomic_files import sha256_hex
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode, FileError, UsageError, WeightsError
from Daddy.core.friend_accounts import (
    MAX_FRIENDS,
    MAX_NAMES,
    AccountFolder,
    Friend,
    add_friend,
    read_friends,
    remove_friend,
    trust_note,
    write_friends,
)
from Daddy.core.name_validation import new_incarnation
from Daddy.core.shared_weights_paths import JoinedPaths, SharedPaths
from Daddy.weights import friends
from Daddy.weights.friend_job_exchange import join_run
from Daddy.weights.merge import merger
from Daddy.weights.merge.contributions import PendingOffer, round_robin
from Daddy.weights.merge.merge_inputs import FRIENDS_INPUTS_LIMIT
from Daddy.weights.store.rebuild_version import rebuild_state
from Daddy.weights.store.weight_records import Contribution, parse
from Daddy.weights.store.weight_store import Store
from Daddy.weights.weights_status_record import report_run
from scripts.version_history import read_history
from tests.weights.helpers import (
    EventRecorder,
    ManualClock,
    Peer,
    begin,
    close,
    make_state,
    settings,
    shifted,
)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def owner(tmp_path, clock):
    """The owner's folder with one job, and anna on the list."""
    root = tmp_path / "owner"
    root.mkdir(mode=0o755)
    begin(root, "slot-0", clock).exchange.leave_fleet("done")
    enlist(root, tmp_path / "anna")
    return root


def enlist(root, folder, name="anna", trust="job", uid=None):
    folder.mkdir(exist_ok=True, mode=0o755)
    uid = os.getuid() if uid is None else uid
    new = Friend(name, str(folder), uid, trust)
    write_friends(SharedPaths(root), add_friend(read_friends(SharedPaths(root)), new))


def enter(root, folder, slot, clock, *, resumed=None, own=None, **changes) -> Peer:
    """A friend's job."""
    told, incarnation = EventRecorder(), new_incarnation()
    paths = JoinedPaths(folder, SharedPaths(root))
    exchange = join_run(paths, slot, incarnation, settings(**changes), clock, told)
    begun = exchange.join_fleet(lambda: own or make_state(9), resumed)
    return Peer(exchange, told, dict(begun.weights), incarnation, version=begun.version)


def newest(root):
    store = Store(SharedPaths(root))
    return store.version(store.newest())


def reasons(peer: Peer) -> list[str]:
    return [str(data["reason"]) for event, _, data in peer.recorder.events if event == "error"]


def test_eight_jobs_of_two_accounts_are_one_average(tmp_path, owner, clock):
    ours = [begin(owner, f"slot-{k}", clock) for k in range(4)]
    theirs = [enter(owner, tmp_path / "anna", f"slot-{k}", clock) for k in range(4)]
    assert all(close(their.weights, make_state(0), 0.0) for their in theirs)
    for number, peer in enumerate([*theirs, *ours]):
        peer.shift(number + 1.0)
        peer.publish()
    clock.pass_by(10)
    ours[3].adopt()
    history = read_history(SharedPaths(owner))
    moved = [merged for version in history.versions for merged in version.inputs]
    assert {entry.peer for entry in moved} == {
        *(f"slot-{k}" for k in range(4)), *(f"anna.slot-{k}" for k in range(4))
    }  # fmt: skip
    assert [item.share for item in moved] == [pytest.approx(1 / 8)] * 8
    for peer in theirs:
        assert peer.adopt() == newest(owner).version
        assert close(peer.weights, shifted(make_state(0), sum(range(1, 9)) / 8))
    assert newest(owner).contributors["anna.slot-3"] == 100


def test_with_friends_the_first_file_of_a_private_process_is_readable(owner):
    shared, before = SharedPaths(owner), os.umask(0o077)
    try:
        Store(shared).writer.create(shared.version(7), b"{}", "record")
    finally:
        os.umask(before)
    assert shared.version(7).stat().st_mode & 0o777 == 0o644
    assert shared.merged.stat().st_mode & 0o777 == 0o755


def test_a_round_waits_for_no_friends_job_and_counts_living_ones_that_contributed(
    tmp_path, owner, clock
):
    ours = begin(owner, "slot-0", clock)
    theirs = [enter(owner, tmp_path / "anna", f"slot-{k}", clock) for k in range(3)]

    def share() -> float:
        ours.shift(1.0)
        ours.publish()
        return {merged.peer: merged.share for merged in newest(owner).inputs}["slot-0"]

    assert share() == 1.0  # heartbeats alone shrink no share
    for place, peer in enumerate(theirs[:2]):
        peer.shift(1.0 + place / 10)
        peer.publish()
    assert share() == pytest.approx(1 / 3)
    assert share() == pytest.approx(1 / 3)
    clock.pass_by(200)  # the friend's jobs are dead: nobody beats
    ours.adopt()
    clock.pass_by(1)
    assert share() == 1.0


def test_each_account_writes_only_below_its_own_folder(tmp_path, owner, clock):
    ours = begin(owner, "slot-0", clock)
    before = sorted(owner.rglob("*"))
    theirs = enter(owner, tmp_path / "anna", "slot-0", clock)
    theirs.shift(1.0)
    theirs.publish()
    theirs.adopt()
    theirs.exchange.resume_state()
    assert sorted(owner.rglob("*")) == before
    mine = {path: path.read_bytes() for path in (tmp_path / "anna").rglob("*") if path.is_file()}
    ours.shift(1.0)
    ours.publish()
    clock.pass_by(10)
    ours.adopt()
    assert {merged.peer for merged in newest(owner).inputs} == {"slot-0", "anna.slot-0"}
    assert mine == {p: p.read_bytes() for p in (tmp_path / "anna").rglob("*") if p.is_file()}


def merge_both(owner, ours, theirs, clock):
    ours.shift(0.1)
    theirs.shift(0.1)
    theirs.publish()
    ours.publish()
    clock.pass_by(10)
    ours.adopt()
    theirs.adopt()


def test_the_friends_own_jobs_clear_away_what_was_judged(tmp_path, owner, clock):
    ours = begin(owner, "slot-0", clock)
    theirs = enter(owner, tmp_path / "anna", "slot-0", clock)
    for _ in range(20):
        merge_both(owner, ours, theirs, clock)
    anna = SharedPaths(tmp_path / "anna")
    assert list(anna.peers.glob("*/*/0*.json")) == []
    assert len(list(anna.blobs.glob("*/*.st"))) <= 8 + 2  # what a revert may need stays longer
    record = newest(owner)
    assert rebuild_state(Store(SharedPaths(owner)), record) == Store(SharedPaths(owner)).read_blob(
        record.state
    )


def test_a_version_can_be_made_again_without_the_friends_folder(tmp_path, owner, clock):
    ours = begin(owner, "slot-0", clock)
    theirs = enter(owner, tmp_path / "anna", "slot-0", clock)
    merge_both(owner, ours, theirs, clock)
    (tmp_path / "anna").rename(tmp_path / "away")
    record, store = newest(owner), Store(SharedPaths(owner))
    assert any(merged.peer == "anna.slot-0" for merged in record.inputs)
    assert rebuild_state(store, record) == store.read_blob(record.state)


def test_a_friends_successor_goes_on_from_its_checkpoint(tmp_path, owner, clock):
    ours = begin(owner, "slot-0", clock)
    first = enter(owner, tmp_path / "anna", "slot-0", clock)
    first.shift(1.0)
    first.publish()
    first.shift(0.5)  # since
    note, own = first.exchange.resume_state(), dict(first.weights)
    first.exchange.leave_fleet("wall time")
    ours.shift(1.0)
    ours.publish()
    clock.pass_by(10)
    ours.adopt()
    second = enter(owner, tmp_path / "anna", "slot-0", clock, resumed=note, own=own)
    assert second.version == newest(owner).version
    assert close(second.weights, shifted(ours.weights, 0.5))


@pytest.mark.parametrize("trust", ["job", "laptop"])
def test_trust_says_whether_a_friends_jobs_are_capped(tmp_path, owner, clock, trust):
    ours = begin(owner, "slot-0", clock)
    folder = tmp_path / "bert"
    enlist(owner, folder, "bert", trust)
    theirs = [enter(owner, folder, f"slot-{k}", clock) for k in range(3)]
    for peer in theirs:
        peer.shift(0.1)
        peer.publish()
    ours.shift(0.1)
    ours.publish()
    clock.pass_by(10)
    ours.adopt()
    share = sum(merged.share for merged in newest(owner).inputs if merged.peer.startswith("bert."))
    assert share == pytest.approx(0.5) if trust == "job" else 0.0 < share <= 0.2 + 1e-9


def test_all_friends_together_move_at_most_half_of_a_version(tmp_path, owner, clock):
    ours, theirs = begin(owner, "slot-0", clock), []
    for name in ("bert", "cora"):
        enlist(owner, tmp_path / name, name, "job")
        theirs += [enter(owner, tmp_path / name, f"slot-{k}", clock) for k in range(2)]
    for place, peer in enumerate([*theirs, ours]):
        peer.shift(0.1 + place / 100)
        peer.publish()
    clock.pass_by(10)
    ours.adopt()
    shares = {merged.peer: merged.share for merged in newest(owner).inputs}
    assert shares.pop("slot-0") == pytest.approx(0.2)
    assert sum(shares.values()) == pytest.approx(0.5)


def test_trust_of_the_release_before_is_kept_and_named_until_the_owner_says_a_word(
    tmp_path, owner, capsys
):
    enlist(owner, tmp_path / "bert", "bert", "job")
    shared, told = SharedPaths(owner), ["--of", str(owner)]
    assert "friends trust bert laptop" in trust_note(shared, "bert")
    status = report_run(shared, 0.0)
    assert any("friends trust bert" in statu["trouble"] for statu in status["friends"])
    assert run_entry(friends.main, ["trust", "bert", "job", *told]) == 0
    assert trust_note(shared, "bert") == ""
    assert run_entry(friends.main, ["trust", "bert", "laptop", *told]) == 0
    assert [
        read_friend.trust for read_friend in read_friends(shared) if read_friend.name == "bert"
    ] == ["laptop"]
    assert run_entry(friends.main, ["trust", "eve", "laptop", *told]) == ExitCode.USAGE


def test_a_friend_cannot_speak_for_the_owner_or_another_friend(tmp_path, owner, clock):
    ours = begin(owner, "slot-0", clock)
    theirs = enter(owner, tmp_path / "anna", "slot-0", clock)
    theirs.shift(1.0)
    theirs.publish()
    peers = SharedPaths(tmp_path / "anna").peers
    for name in ("slot-1", "bert.slot-0", "anna", "anna.slot-x", "laptop"):
        (peers / "anna.slot-0").rename(peers / name)
        ours.shift(1.0)
        ours.publish()
        clock.pass_by(10)
        ours.adopt()
        assert [entry.peer for entry in newest(owner).inputs] == ["slot-0"]
        (peers / name).rename(peers / "anna.slot-0")
    forged = next(peers.glob("*/*/000001.json"))
    offer = json.loads(forged.read_text())
    forged.chmod(0o644)
    forged.write_text(json.dumps({**offer, "peer": "slot-1"}))
    ours.shift(1.0)
    ours.publish()
    assert [merged.peer for merged in newest(owner).inputs] == ["slot-0"]


def strip(owner, ours, clock):
    """Check that the owner still makes a version, whatever lies in the friend's folder."""
    before = newest(owner).version
    ours.shift(0.1)
    ours.publish()
    clock.pass_by(100)
    ours.adopt()
    assert newest(owner).version > before
    return Store(SharedPaths(owner)).version(before + 1)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("gone", "does not exist"),
        ("link", "is no folder (a link is not followed)"),
        ("file", "is no folder"),
        ("other account", "belongs to uid"),
        ("flood", f"more than {MAX_NAMES} names"),
    ],
)
def test_a_folder_that_went_wrong_is_told_once_and_merges_go_on(
    tmp_path, owner, clock, spoil, said
):
    ours = begin(owner, "slot-0", clock)
    theirs = enter(owner, tmp_path / "anna", "slot-0", clock)
    theirs.shift(1.0)
    theirs.publish()
    theirs.exchange.leave_fleet("done")
    anna = tmp_path / "anna"
    if spoil in ("gone", "link", "file"):
        anna.rename(tmp_path / "elsewhere")
    if spoil == "link":
        anna.symlink_to(tmp_path / "elsewhere")
    elif spoil == "file":
        anna.write_text("not a folder")
    elif spoil == "other account":
        known = read_friends(SharedPaths(owner))
        write_friends(SharedPaths(owner), [Friend("anna", known[0].folder, os.getuid() + 1)])
    elif spoil == "flood":
        for number in range(MAX_NAMES + 200):
            (anna / "peers" / f"x{number}").mkdir()
            (anna / "peers" / "anna.slot-0" / f"x{number}").mkdir()
    for _ in range(3):
        record = strip(owner, ours, clock)
        if spoil != "flood":
            assert [merged.peer for merged in record.inputs] == ["slot-0"]
    assert len([reason for reason in reasons(ours) if said in reason and "anna" in reason]) == 1


@pytest.mark.parametrize("what", ["record", "blob", "hb.json"])
@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder", "huge", "other account"])
def test_what_is_no_plain_file_of_the_friends_is_not_read(tmp_path, owner, clock, what, kind):
    ours = begin(owner, "slot-0", clock)
    theirs = enter(owner, tmp_path / "anna", "slot-0", clock)
    theirs.shift(1.0)
    theirs.publish()
    paths = SharedPaths(tmp_path / "anna")
    record = next(paths.peers.glob("*/*/000001.json"))
    offer = parse(Contribution, record.read_bytes(), "it")
    path = {"record": record, "blob": paths.blob(offer.blob),
            "hb.json": record.with_name("hb.json")}[what]  # fmt: skip
    aside = tmp_path / "aside"
    path.rename(aside)
    if kind == "symlink":
        path.symlink_to(aside)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as stream:
            stream.truncate(10 << 30)
    else:
        if os.getuid():
            pytest.skip("only root can give a file away: the pinned uid is tested above")
        path.write_bytes(aside.read_bytes())
        os.chown(path, 12345, 12345)
    merged = {entry.peer for entry in strip(owner, ours, clock).inputs}
    assert merged == ({"slot-0", "anna.slot-0"} if what == "hb.json" else {"slot-0"})


def test_a_flood_of_offers_crowds_nobody_out(tmp_path, owner, clock):
    ours = begin(owner, "slot-0", clock)
    theirs = enter(owner, tmp_path / "anna", "slot-0", clock)
    for number in range(40):
        theirs.shift(0.01 + number / 10_000)
        theirs.publish()
    record = strip(owner, ours, clock)
    assert sum(merged.peer == "anna.slot-0" for merged in record.inputs) == FRIENDS_INPUTS_LIMIT
    assert sum(entry.peer == "slot-0" for entry in record.inputs) == 1


def test_a_file_that_changes_after_it_was_judged_is_kept_as_judged(
    tmp_path, owner, clock, monkeypatch
):
    ours = begin(owner, "slot-0", clock)
    theirs = enter(owner, tmp_path / "anna", "slot-0", clock)
    theirs.shift(1.0)
    theirs.publish()
    real = merger.judge_all

    def judge_and_change(inputs):
        for entry in inputs.opened:
            if entry.pending.uid is not None:
                entry.pending.blob.unlink()
        return real(inputs)

    monkeypatch.setattr(merger, "judge_all", judge_and_change)
    record = strip(owner, ours, clock)
    store = Store(SharedPaths(owner))
    assert {merged.peer for merged in record.inputs} == {"slot-0", "anna.slot-0"}
    assert rebuild_state(store, record) == store.read_blob(record.state)


def test_in_turn_each_account_has_its_place(tmp_path):
    offer = parse(Contribution, json.dumps({
        "format": 1, "run_id": "r", "schema": "ab" * 32, "peer": "a0.slot-0",
        "incarnation": "01234567", "sequence": 1, "blob": "ab" * 32, "size": 1, "base_version": 0,
        "base_state": "ab" * 32, "env_steps": 1, "new_steps": 1, "optimizer_steps": 1,
    }).encode(), "it")  # fmt: skip
    import dataclasses

    flood = [
        PendingOffer(
            dataclasses.replace(offer, peer=f"anna.slot-{k}"), tmp_path, tmp_path, False, 1
        )
        for k in range(30)
    ]
    entry = PendingOffer(
        dataclasses.replace(offer, peer="zoe.slot-0"), tmp_path, tmp_path, False, 2
    )
    assert entry in round_robin([*flood, entry])[:2]


def test_who_is_not_on_the_list_is_told_what_the_owner_types(tmp_path, owner, clock):
    (tmp_path / "bert").mkdir()
    with pytest.raises(WeightsError) as error:
        enter(owner, tmp_path / "bert", "slot-0", clock)
    assert f"friends add YOUR-NAME {tmp_path}/bert --of {owner}" in error.value.fix
    theirs = enter(owner, tmp_path / "anna", "slot-0", clock)
    write_friends(SharedPaths(owner), [])
    theirs.shift(1.0)
    theirs.publish()
    theirs.publish()
    assert len([reason for reason in reasons(theirs) if "do not count" in reason]) == 1


def test_who_joins_a_run_that_has_not_begun_is_told_to_wait(tmp_path, clock):
    (tmp_path / "owner").mkdir()
    enlist(tmp_path / "owner", tmp_path / "anna")
    with pytest.raises(WeightsError, match="holds no shared weights yet"):
        enter(tmp_path / "owner", tmp_path / "anna", "slot-0", clock)


# -- the list


def test_the_list_is_added_to_and_taken_from(tmp_path, owner, capsys):
    (tmp_path / "bert" / "shared_weights").mkdir(parents=True)
    told = ["--of", str(owner)]
    assert run_entry(friends.main, ["add", "bert", str(tmp_path / "bert"), *told]) == 0
    assert f'"join": "{owner}"' in capsys.readouterr().out
    added = read_friends(SharedPaths(owner))[1]
    assert added == Friend("bert", str(tmp_path / "bert" / "shared_weights"), os.getuid(), "laptop")
    for wrong in (
        ["add", "bert", str(tmp_path)],
        ["add", "Bert!", str(tmp_path)],
        ["remove", "eve"],
    ):
        assert run_entry(friends.main, [*wrong, *told]) == ExitCode.USAGE
    assert run_entry(friends.main, ["remove", "anna", *told]) == 0
    capsys.readouterr()
    assert run_entry(friends.main, ["list", *told]) == 0
    assert capsys.readouterr().out.startswith("bert  ")


def test_a_folder_that_does_not_exist_is_not_put_on_the_list(tmp_path, owner, capsys):
    wrong = ["add", "bert", str(tmp_path / "nowhere"), "--of", str(owner)]
    assert run_entry(friends.main, wrong) == ExitCode.WEIGHTS
    assert "mkdir -p" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "{}", '{"format": 2, "friends": []}', '{"format": 1, "friends": [{}]}',
        '{"format": 1, "friends": [{"name": "../x", "folder": "/x", "uid": 1}]}',
        '{"format": 1, "friends": [{"name": "anna", "folder": "x", "uid": 1}]}',
        '{"format": 1, "friends": [{"name": "anna", "folder": "/x", "uid": true}]}',
        '{"format": 1, "friends": [{"name": "anna", "folder": "/x", "uid": -1}]}',
        '{"format": 1, "friends": [{"name": "anna", "folder": "/x", "uid": 1, "trust": "root"}]}',
        '{"format": 1, "friends": [{"name": "anna", "folder": "/x", "uid": 1, "more": 1}]}',
        '{"format": 1, "friends": 3}', '{"format": 1, "friends": [], "friends": []}',
        '{"format": 1, "friends": ["' + "x" * 70_000 + '"]}',
    ],
)  # fmt: skip
def test_a_damaged_list_is_told_and_the_owners_jobs_go_on(owner, clock, text):
    SharedPaths(owner).friends.write_text(text)
    with pytest.raises(FileError):
        read_friends(SharedPaths(owner))
    ours = begin(owner, "slot-0", clock)
    strip(owner, ours, clock)
    strip(owner, ours, clock)
    assert len([reason for reason in reasons(ours) if "peers.json" in reason]) == 1


def test_while_the_list_is_damaged_new_versions_can_be_read_by_friends(owner, clock):
    SharedPaths(owner).friends.write_text("{")
    before = os.umask(0o077)
    try:
        ours = begin(owner, "slot-0", clock)
        strip(owner, ours, clock)
    finally:
        os.umask(before)
    store = Store(SharedPaths(owner))
    record = store.paths.version(store.newest())
    assert [path.stat().st_mode & 0o777 for path in (record, record.parent)] == [0o444, 0o755]


def test_no_friend_gets_the_name_of_a_laptop_of_the_owner(owner, tmp_path, capsys):
    (owner / "inbox" / "bob").mkdir(parents=True)
    (tmp_path / "bob").mkdir()
    line = ["add", "bob", str(tmp_path / "bob"), "--of", str(owner)]
    assert run_entry(friends.main, line) == ExitCode.USAGE
    assert "a laptop of this account is called bob" in capsys.readouterr().err
    assert "bob" not in {friend.name for friend in read_friends(SharedPaths(owner))}


def test_the_list_has_an_end():
    many = [Friend(f"friend-{k}", f"/{k}", 1) for k in range(MAX_FRIENDS)]
    with pytest.raises(UsageError):
        add_friend(many, Friend("one-more", "/more", 1))
    with pytest.raises(UsageError):
        add_friend([], Friend("slot.0", "/more", 1))
    assert remove_friend(many, "friend-0") == tuple(many[1:])


def test_a_process_more_than_are_looked_at_hides_the_oldest(tmp_path):
    anna = SharedPaths(tmp_path)
    for number in range(100):
        folder = anna.peer("anna.slot-0", f"{number:08x}")
        folder.mkdir(parents=True)
        os.utime(folder, (number, number))
    found = AccountFolder("anna", anna, os.getuid()).process_folders()
    assert [item.name for item in found] == [f"{number:08x}" for number in range(36, 100)]


def test_the_hash_of_what_is_offered_is_what_is_merged(tmp_path, owner, clock):
    ours = begin(owner, "slot-0", clock)
    theirs = enter(owner, tmp_path / "anna", "slot-0", clock)
    theirs.shift(1.0)
    theirs.publish()
    (blob,) = SharedPaths(tmp_path / "anna").blobs.glob("*/*.st")
    kept = blob.read_bytes()
    blob.chmod(0o644)
    blob.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    record = strip(owner, ours, clock)
    assert record.refused[0].peer == "anna.slot-0"
    assert "damaged" in record.refused[0].reason
    assert sha256_hex(kept) == blob.stem
