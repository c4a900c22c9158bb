"""``start`` in another account's run: what stands in the way is said before a job is queued."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.commands.preflight import Findings, check_others, check_places
from Daddy.cluster.orchestrator.commands.request import absolute
from Daddy.core.config import shared_paths
from Daddy.core.friend_accounts import Friend, write_friends
from Daddy.core.settings import Config
from Daddy.core.shared_paths import JoinedPaths, SharedPaths
from tests.weights.helpers import ToldClock, begin


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    root = tmp_path / "owner" / "shared_weights"
    root.mkdir(parents=True)
    begin(root, "slot-0", ToldClock())
    return root


def config(tmp_path: Path, owner: Path) -> Config:
    return Config.model_validate({
        "run_dir": str(tmp_path / "anna"),
        "collaboration": {"join": str(owner)},
    })  # fmt: skip


def checked(wanted: Config) -> Findings:
    found = Findings()
    check_places(wanted, "local", found)
    return found


def test_whose_run_is_joined_is_beside_ones_own_folder(tmp_path: Path, owner: Path) -> None:
    paths = shared_paths(config(tmp_path, owner))
    assert isinstance(paths, JoinedPaths)
    assert paths.merged == owner / "merged"
    assert paths.peers == tmp_path / "anna" / "shared_weights" / "peers"
    frozen = absolute(config(tmp_path, owner / ".." / "shared_weights"), "local")
    assert frozen.collaboration.join == str(owner)


def test_who_is_not_on_the_list_is_refused_with_the_line_for_the_owner(
    tmp_path: Path, owner: Path
) -> None:
    found = checked(config(tmp_path, owner))
    mine = tmp_path / "anna" / "shared_weights"
    assert f"does not name {mine}" in found.wrong[0].message
    assert f"friends add YOUR-NAME {mine} --of {owner}" in found.wrong[0].fix
    write_friends(SharedPaths(owner), [Friend("anna", str(mine), os.getuid())])
    found = checked(config(tmp_path, owner))
    assert found.wrong == []
    assert f"takes part in {owner} as anna" in found.notes


def test_a_run_that_has_not_begun_cannot_be_joined(tmp_path: Path, owner: Path) -> None:
    found = checked(config(tmp_path, owner.parent))
    assert "holds no shared weights yet" in found.wrong[0].message


def test_the_owner_is_told_of_a_friend_who_cannot_be_seen(tmp_path: Path, owner: Path) -> None:
    write_friends(SharedPaths(owner), [Friend("anna", str(tmp_path / "gone"), os.getuid())])
    found = Findings()
    check_others(SharedPaths(owner), found)
    assert found.wrong == []
    assert any(note.startswith("anna: ") and "is gone" in note for note in found.notes)
    SharedPaths(owner).friends.write_text("{")
    check_others(SharedPaths(owner), found)
    assert "peers.json" in found.wrong[0].message
