"""A friend's laptops: one box for all of them, in the folder of the friend's own account."""

import json
import os

import pytest

from Daddy.core.errors import UsageError
from Daddy.core.friend_accounts import Friend, write_friends
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.laptop import key_receiver
from Daddy.weights.laptop.laptop_exchange import LaptopExchange
from Daddy.weights.laptop.setup_wizard import find_friend
from Daddy.weights.merge import contributions
from Daddy.weights.merge.averaging_shares import MAX_SHARE_ONE_LAPTOP
from Daddy.weights.merge.cleanup import KEEP_RECEIPTS, Sweeper
from Daddy.weights.merge.compute_version import PEER_AUTHORS
from Daddy.weights.merge.merge_inputs import LAPTOP_INPUTS_LIMIT, PeerReader
from Daddy.weights.store.heartbeats import StallTimer
from Daddy.weights.store.weight_store import Store
from scripts.version_history import read_history
from tests.weights.helpers import ManualClock, begin, make_state, perturbed
from tests.weights.laptop_home import a_laptop
from tests.weights.test_contributions import Cluster
from tests.weights.test_friends import enter
from tests.weights.test_step_counts import next_version

ROOT = os.getuid() == 0
OTHER = 20_012 if ROOT else os.getuid()
"""The friend's account; without root every file belongs to one account."""


class FriendsCluster(Cluster):
    """A run whose owner has listed anna; her laptops push into her own folder."""

    def __init__(self, root):
        super().__init__(root, ManualClock())
        self.friend = root / "anna"
        self.friend.mkdir()
        os.chown(self.friend, OTHER, -1)
        write_friends(SharedPaths(self.root), [Friend("anna", str(self.friend), OTHER)])
        for _ in range(2):
            next_version(self)

    def push_at_home(self, name="anna", uid=OTHER, box=None):
        outbox = super().push(name)
        place = self.friend / "inbox" / (box or name)
        place.mkdir(parents=True, exist_ok=True)
        for path in outbox.iterdir():
            path.rename(place / path.name)
        outbox.rmdir()
        for path in (self.friend / "inbox", place, *place.iterdir()):
            os.chown(path, uid, -1)
        return place

    def contribute(self, name="anna", seed=1, **push):
        laptop, weights = self.laptop(name)
        laptop.publish(perturbed(weights, seed), 100, 10)
        return laptop, self.push_at_home(name, **push)


@pytest.fixture
def cluster(tmp_path):
    return FriendsCluster(tmp_path)


def counted(version) -> set[str]:
    return {merged.peer for merged in version.inputs}


def test_a_friends_laptop_counts_as_a_laptop_and_is_told(cluster):
    laptop, box = cluster.contribute()
    before = sorted(box.iterdir())
    version = next_version(cluster)
    mine = next(merged for merged in version.inputs if merged.peer == "anna")
    assert mine.laptop
    assert 0 < mine.share <= MAX_SHARE_ONE_LAPTOP
    assert version.contributors["anna"] == 100
    assert laptop.receipts()[0].accepted
    assert sorted(box.iterdir()) == before
    assert counted(next_version(cluster)) == {"slot-0"}


def test_three_hundred_boxes_of_one_person_are_one_laptop(cluster):
    for number in range(300):
        cluster.contribute(f"anna-{number}", seed=number)
    cluster.contribute(seed=5000)
    cluster.contribute(seed=5001)
    versions = [next_version(cluster) for _ in range(3)]
    assert set().union(*map(counted, versions)) == {"slot-0", "anna"}
    assert set(versions[-1].contributors) == {"slot-0", "anna"}
    shares = [merged.share for merged in versions[0].inputs if merged.peer == "anna"]
    assert len(shares) == 2
    assert sum(shares) <= MAX_SHARE_ONE_LAPTOP + 1e-9
    assert versions[-1].refused == ()


def test_many_sessions_of_one_box_are_each_judged_once(cluster):
    sessions = 2 * PEER_AUTHORS
    laptops = [cluster.contribute(seed=number)[0] for number in range(sessions)]
    for _ in range(sessions // LAPTOP_INPUTS_LIMIT + 3):
        next_version(cluster)
    history = read_history(SharedPaths(cluster.root)).versions
    inputs = [merged.key for version in history for merged in version.inputs]
    assert [key[0] for key in inputs].count("anna") == sessions
    assert len(set(inputs)) == len(inputs)
    assert [version.refused for version in history if version.refused] == []
    known = [author for author in history[-1].consumed if author.startswith("anna/")]
    assert len(known) == PEER_AUTHORS
    assert all(laptop.receipts()[0].accepted for laptop in laptops)


def test_receipts_of_a_full_box_stay_and_the_oldest_go_first(cluster):
    folder = cluster.root / "receipts" / "anna"
    folder.mkdir(parents=True)
    names = [f"{number:08x}-000001.json" for number in reversed(range(KEEP_RECEIPTS + 1))]
    for name in names:
        (folder / name).write_bytes(b"{}")
    store = Store(SharedPaths(cluster.root))
    sweeper = Sweeper(store, 8, StallTimer(cluster.clock), PeerReader(store, cluster.clock))
    sweeper.sweep(store.version(store.newest()))
    assert KEEP_RECEIPTS == contributions.BOX_FILES // 2
    assert {path.name for path in folder.iterdir()} == set(names[1:])


@pytest.mark.parametrize("kind", ["unreadable", "without its file"])
def test_records_that_cannot_count_keep_no_other_laptop_out(cluster, monkeypatch, kind):
    monkeypatch.setattr(contributions, "BOX_LIMIT", 1)
    _, box = cluster.contribute()
    (record,) = box.glob("*.json")
    bad = json.loads(record.read_text()) | {"incarnation": "0" * 8}
    text = json.dumps(bad) if kind == "without its file" else "x"
    for number in (1, 2):  # both come before the good one, by name
        rest = record.name.removeprefix(record.name[:15])
        path = box / f"{'0' * 8}-{number:06d}{rest}"
        path.write_text(text.replace('"sequence":1', f'"sequence":{number}'))
        os.chown(path, OTHER, -1)
    store = Store(SharedPaths(cluster.root))
    head, reader = store.version(store.newest()), PeerReader(store, cluster.clock)
    listed = [reader.read_peers(head).pending for _ in range(3)]
    assert [offer.record for offer in listed[-1]] == [record]


def test_what_was_judged_and_stays_there_hides_nothing_newer(cluster, monkeypatch):
    monkeypatch.setattr(contributions, "BOX_LIMIT", 1)
    laptop, weights = cluster.laptop("anna")
    for number in (1, 2, 3):
        laptop.publish(perturbed(weights, number), 100 * number, 10 * number)
        cluster.push_at_home()
        assert counted(next_version(cluster)) == {"anna", "slot-0"}
    assert [receipt.accepted for receipt in laptop.receipts()] == [True] * 3


@pytest.mark.parametrize("name", ["bert", "anna-mac", "slot-1", "annabel"])
def test_a_friend_speaks_for_no_other_sender(cluster, name):
    cluster.contribute(name)
    cluster.contribute(name, box="anna")
    assert counted(next_version(cluster)) == {"slot-0"}


@pytest.mark.parametrize("name", ["slot-1", "untold"])
def test_a_friend_with_the_name_of_an_own_job_contributes_with_no_laptop(cluster, name):
    write_friends(SharedPaths(cluster.root), [Friend(name, str(cluster.friend), OTHER)])
    cluster.contribute(name)
    assert counted(next_version(cluster)) == {"slot-0"}


def test_a_box_that_is_a_link_is_not_read(cluster):
    _, box = cluster.contribute()
    moved = box.rename(cluster.friend / "elsewhere")
    box.symlink_to(moved)
    os.chown(box, OTHER, -1, follow_symlinks=False)
    assert counted(next_version(cluster)) == {"slot-0"}


@pytest.mark.skipif(not ROOT, reason="only root makes files of two accounts")
def test_files_of_another_account_in_a_friends_box_are_not_read(cluster):
    cluster.contribute(uid=OTHER + 1)
    assert counted(next_version(cluster)) == {"slot-0"}


def test_an_account_that_left_the_list_is_not_read(cluster):
    cluster.contribute()
    store = Store(SharedPaths(cluster.root))
    head = store.version(store.newest())
    assert len(PeerReader(store, cluster.clock).read_peers(head).pending) == 1
    write_friends(SharedPaths(cluster.root), [])
    assert counted(next_version(cluster)) == {"slot-0"}


def test_a_job_of_the_friend_removes_what_was_judged(cluster):
    own = os.getuid()
    os.chown(cluster.friend, own, -1)
    write_friends(SharedPaths(cluster.root), [Friend("anna", str(cluster.friend), own)])
    _, box = cluster.contribute(uid=own)
    job = enter(cluster.root, cluster.friend, "slot-0", cluster.clock)
    assert len(list(box.iterdir())) == 2
    assert counted(next_version(cluster)) == {"anna", "slot-0"}
    job.adopt()
    assert list(box.iterdir()) == []


CLOCK = ManualClock()


@pytest.fixture
def laptop(tmp_path):
    """Yield anna's laptop, set up for another account's run, whose owner has listed her."""
    with a_laptop(tmp_path) as found:
        found.job = begin(found.shared, "slot-0", CLOCK)
        for seed in (1, 2):
            merge(found, seed)
        found.own = found.there / "runs" / "anna" / "shared_weights"
        (found.own / "inbox").mkdir(parents=True, mode=0o700)
        friend = Friend("anna", str(found.own), os.getuid())
        write_friends(SharedPaths(found.shared), [friend])
        os.chown(found.shared, OTHER + 1, -1)
        found.said = found.sync("setup", SYNC_USER_ID="mac").stdout
        found.sync("pull")
        yield found


def merge(laptop, seed):
    CLOCK.pass_by(10.0)
    laptop.job.learn(seed, steps=1000)
    laptop.job.publish()
    laptop.job.adopt()


def contribute_by_ssh(laptop, seed, peer="anna"):
    """Push a contribution from a laptop whose clock is decades behind."""
    exchange = LaptopExchange(laptop.local, peer, os.urandom(4).hex(), CLOCK)
    exchange.publish(perturbed(exchange.join_fleet(make_state, None).weights, seed), 500, 20)
    for path in (laptop.local / "outbox" / peer).glob("*.*"):
        os.utime(path, (1, 1))
    return exchange, laptop.sync("push", SYNC_USER_ID="")


@pytest.mark.skipif(not ROOT, reason="only root makes folders of two accounts")
def test_a_friends_laptop_contributes_into_the_friends_own_folder(laptop):
    assert f"ok       contributions go into {laptop.own}/inbox/anna" in laptop.said
    box = laptop.own / "inbox" / "anna"
    sessions = []
    for seed, files in ((7, 2), (8, 4)):
        session, pushed = contribute_by_ssh(laptop, seed)
        assert pushed.stdout == "pushed 1 contribution(s)\n", pushed.stderr
        assert len(list(box.iterdir())) == files
        sessions.append(session)
    assert all(path.stat().st_mode & 0o055 == 0o055 for path in (box.parent, box))
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in box.iterdir())
    merge(laptop, 3)
    laptop.sync("pull")
    assert [session.receipts()[0].accepted for session in sessions] == [True, True]
    laptop.append(laptop.said)
    tried = laptop.sync("setup").stdout
    assert "ok       push key: writes inbox/anna alone" in tried
    assert "ok       tunnel key: watches the run alone (no relay there yet)" in tried
    with laptop.own_login_shut_out():
        session, pushed = contribute_by_ssh(laptop, 9)
        assert pushed.stdout == "pushed 1 contribution(s)\n", pushed.stderr
        assert len(list(box.iterdir())) == 2, "what was judged is gone"
        merge(laptop, 4)
        laptop.sync("pull")
        assert session.receipts()[0].accepted
    _, pushed = contribute_by_ssh(laptop, 10, "mac")
    assert pushed.returncode == UsageError.exit_code
    assert "play with --user-id anna" in pushed.stderr


@pytest.mark.skipif(not ROOT, reason="only root makes folders of two accounts")
def test_lines_for_another_folder_or_run_are_told_and_nobody_stays_a_friend(laptop):
    laptop.append(laptop.said)
    assert "NO " not in laptop.sync("setup").stdout.partition("token")[2]
    keys = laptop.authorized.read_text()
    of_before = keys.replace(f" {laptop.own} anna {laptop.shared}", f" {laptop.shared} anna")
    laptop.authorized.write_text(of_before)
    said = f"its line is for push anna in {laptop.shared}, not for push anna in {laptop.own} for"
    assert said in laptop.sync("setup").stdout
    laptop.authorized.write_text(keys.replace(str(laptop.own.parent), str(laptop.shared.parent)))
    assert "tunnel key: its line is for the relay of another run" in laptop.sync("setup").stdout
    write_friends(SharedPaths(laptop.shared), [])
    assert "contributions go" not in laptop.sync("setup").stdout, "root may write there"
    saved = json.loads((laptop.keys.parent / "sync.json").read_text())
    assert saved["own_folder"] == ""


def listed(**changes):
    friend = {"name": "anna", "folder": "/home/anna/w", "uid": 7, "trust": "laptop", "jobs": 1}
    return f"friends {json.dumps({'format': 1, 'friends': [friend | changes]})}"


@pytest.mark.parametrize(
    ("lines", "folder"),
    [
        (["uid 7", listed()], "/home/anna/w"),
        (["uid 8", listed()], None),
        (["uid 7", "friends {"], None),
        (["uid 7", listed(folder="/home/anna/w; touch /tmp/x")], None),
        (["folder", "looked"], None),
    ],
)
def test_setup_finds_the_accounts_own_entry_in_the_list(lines, folder):
    assert getattr(find_friend(lines), "folder", None) == folder


def test_old_files_leave_a_box_that_its_run_only_reads(tmp_path, monkeypatch):
    for name in ("aaaaaaaa-000001-0123456789ab.st", "bbbbbbbb-000001-0123456789ab.json"):
        (tmp_path / name).touch()
    os.utime(tmp_path / "aaaaaaaa-000001-0123456789ab.st", (1, 1))
    box = os.open(tmp_path, key_receiver.READ_FOLDER)
    key_receiver.remove_judged(box, box, "anna")
    assert len(list(tmp_path.iterdir())) == 2
    monkeypatch.setattr(key_receiver, "OLD_S", -1)
    key_receiver.remove_judged(box, box, "anna")
    os.close(box)
    assert list(tmp_path.iterdir()) == []
