"""Tests laptops of a friend, whose boxes lie in the folder of the friend's own account."""

from __future__ import annotations

import os

import pytest

from Daddy.core.friend_accounts import Friend, account_folders, box_owner, write_friends
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.laptop.rsync_sftp import choose_transport
from Daddy.weights.laptop.setup_wizard import ClusterFindings, choose_box, read_own_entry
from Daddy.weights.laptop.ssh_login import Remote
from Daddy.weights.merge import contributions
from tests.weights.helpers import ManualClock, perturbed
from tests.weights.test_contributions import Cluster
from tests.weights.test_ssh_keys import kept
from tests.weights.test_step_counts import next_version

ROOT = os.getuid() == 0
OTHER = 20_012 if ROOT else os.getuid()
"""The friend's account; without root every file belongs to one account."""


class FriendsCluster(Cluster):
    """A run whose owner has listed anna; her laptop pushes into her own folder."""

    def __init__(self, root):
        super().__init__(root, ManualClock())
        self.friend = root / "anna"
        self.friend.mkdir()
        os.chown(self.friend, OTHER, -1)
        others = [Friend(name, str(root / name), OTHER) for name in ("anna", "bert")]
        write_friends(SharedPaths(self.root), others)
        for _ in range(2):
            next_version(self)

    def push_at_home(self, name="anna-mac", uid=OTHER):
        box = super().push(name)
        place = self.friend / "inbox" / name
        place.mkdir(parents=True, exist_ok=True)
        for path in box.iterdir():
            path.rename(place / path.name)
        box.rmdir()
        for path in (self.friend / "inbox", place, *place.iterdir()):
            os.chown(path, uid, -1)
        return place


@pytest.fixture
def cluster(tmp_path):
    return FriendsCluster(tmp_path)


def contribute(cluster, name="anna-mac", **changes):
    laptop, weights = cluster.laptop(name)
    laptop.publish(perturbed(weights, len(name)), 100, 10)
    return laptop, cluster.push_at_home(name, **changes)


def counted(version) -> set[str]:
    return {merged.peer for merged in version.inputs}


def test_a_friends_laptop_counts_as_a_laptop_and_is_told(cluster):
    laptop, box = contribute(cluster)
    before = sorted(box.iterdir())
    version = next_version(cluster)
    mine = next(merged for merged in version.inputs if merged.peer == "anna-mac")
    assert mine.laptop
    assert 0 < mine.share <= 0.10
    assert laptop.receipts()[0].accepted
    assert sorted(box.iterdir()) == before
    assert counted(next_version(cluster)) == {"slot-0"}


def test_what_was_judged_and_stays_there_hides_nothing_newer(cluster, monkeypatch):
    monkeypatch.setattr(contributions, "BOX_LIMIT", 1)
    laptop, weights = cluster.laptop("anna-mac")
    for number in (1, 2, 3):
        laptop.publish(perturbed(weights, number), 100 * number, 10 * number)
        cluster.push_at_home()
        assert counted(next_version(cluster)) == {"anna-mac", "slot-0"}
    assert [receipt.accepted for receipt in laptop.receipts()] == [True] * 3


@pytest.mark.parametrize("name", ["bert-mac", "mac", "slot-1", "annabel"])
def test_a_friend_speaks_for_no_laptop_but_those_of_the_own_name(cluster, name):
    contribute(cluster, name)
    assert counted(next_version(cluster)) == {"slot-0"}


def test_a_box_of_the_owner_comes_before_a_friends_of_the_same_name(cluster):
    (cluster.root / "inbox" / "anna-mac").mkdir(parents=True)
    laptop, weights = cluster.laptop("anna-mac")
    laptop.publish(perturbed(weights, 1), 100, 10)
    place = cluster.friend / "inbox" / "anna-mac"
    place.mkdir(parents=True)
    for path in (cluster.local / "outbox" / "anna-mac").glob("*.*"):
        path.rename(place / path.name)
    assert counted(next_version(cluster)) == {"slot-0"}


@pytest.mark.skipif(not ROOT, reason="only root makes files of two accounts")
def test_files_of_another_account_in_a_friends_box_are_not_read(cluster):
    contribute(cluster, uid=OTHER + 1)
    assert counted(next_version(cluster)) == {"slot-0"}


def test_without_a_place_on_the_list_nothing_is_read(cluster):
    write_friends(SharedPaths(cluster.root), [])
    contribute(cluster)
    assert counted(next_version(cluster)) == {"slot-0"}
    assert account_folders(SharedPaths(cluster.root)) == []


@pytest.mark.parametrize(
    ("box", "owner"),
    [("anna-b-mac", "anna-b"), ("anna-mac", "anna"), ("anna", ""), ("slot-1", ""), ("x/anna-", "")],
)
def test_a_box_belongs_to_the_friend_with_the_longest_name_before_it(box, owner):
    assert box_owner(box, ["anna", "anna-b", "slot"]) == owner


LISTED = '{"format":1,"friends":[{"name":"anna","folder":"/home/anna/w","uid":7}]}'


@pytest.mark.parametrize(
    ("lines", "folder"),
    [
        (["uid 7", f"friends {LISTED}"], "/home/anna/w"),
        (["uid 8", f"friends {LISTED}"], ""),
        (["uid 7", "friends {"], ""),
        (["folder", "looked"], ""),
    ],
)
def test_setup_finds_the_accounts_own_entry_in_the_list(lines, folder):
    found = read_own_entry(lines)
    assert (found.folder if found else "") == folder
    want = {"push_folder": folder} | ({"peer": "anna-mac"} if folder else {})
    for peer in ("mac", "anna-mac"):
        assert choose_box(ClusterFindings(friend=found), peer) == (want)


def test_pushes_go_into_the_friends_folder_by_the_own_login(tmp_path):
    remote = Remote("login", "me", "/data/w")
    saved = kept(tmp_path, remote, push_folder="/home/anna/w", push_key="/k", peer="anna-mac")
    push = choose_transport("push", remote, saved, "").remote
    assert push.path("inbox/anna-mac") == "/home/anna/w/inbox/anna-mac"
    assert (push.key, push.shows_boxes) == ("", True)
    assert choose_transport("pull", remote, saved, "").remote == remote
