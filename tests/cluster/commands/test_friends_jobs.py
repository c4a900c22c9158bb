"""``status`` shows both accounts' jobs, whichever account calls it."""

import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from Daddy.cluster.orchestrator.commands.health_verdict import SILENT_S
from Daddy.cluster.orchestrator.commands.status import (
    MOST_JOBS,
    _join_line,
    read_friends_jobs,
    read_status,
)
from Daddy.cluster.orchestrator.commands.status_screen import render_screen
from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.clock import SystemClock
from Daddy.core.friend_accounts import Friend, write_friends
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.shared_weights_paths import SharedPaths, joined_paths
from tests.cluster.commands.test_status_screen import jobs, looking_at
from tests.cluster.commands.test_status_screen import run as slots  # noqa: F401 - a fixture
from tests.weights.helpers import ManualClock, begin
from tests.weights.test_friends import enter


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    """Provide four jobs of the owner and four of anna, with one merged version."""
    owner, anna, clock = tmp_path / "owner", tmp_path / "anna", ManualClock()
    owner.mkdir(), anna.mkdir()
    write_friends(SharedPaths(owner), [Friend("anna", str(anna), os.getuid())])
    ours = [begin(owner, f"slot-{k}", clock) for k in range(4)]
    theirs = [enter(owner, anna, f"slot-{k}", clock) for k in range(4)]
    for number, peer in enumerate([*theirs, *ours]):
        peer.shift(0.1 + 0.01 * number)  # equal bytes of one account count once
        peer.publish()
    theirs[0].adopt()
    return owner, anna


def told(shared: SharedPaths, later: float = 0.0) -> dict:
    head = read_json(shared.head) if shared.head.exists() else {}
    return read_friends_jobs(shared, head, SystemClock().now() + later)


def test_the_owner_sees_the_friends_jobs_and_the_friend_the_owners(both) -> None:
    owner, anna = both
    seen = told(SharedPaths(owner))
    assert seen["troubles"] == []
    assert [job["peer"] for job in seen["jobs"]] == [f"anna.slot-{k}" for k in range(4)]
    assert {job["state"] for job in seen["jobs"]} == {"trains"}
    assert [job["steps"] for job in seen["jobs"]] == [100] * 4
    assert [job["behind"] for job in seen["jobs"]] == [0, 1, 1, 1]
    seen = told(joined_paths(anna, owner))
    assert [job["peer"] for job in seen["jobs"]] == [f"slot-{k}" for k in range(4)]
    assert {job["account"] for job in seen["jobs"]} == {"the run's owner"}


def test_laptops_of_both_accounts_pull_from_the_owners_folder(both, tmp_path: Path) -> None:
    owner, anna = both
    run = RunPaths(tmp_path / "run")
    write_json(run.relay, {"host": "login1"})
    for shared in (SharedPaths(owner), joined_paths(anna, owner)):
        assert f"SYNC_CLUSTER_HOST=login1 SYNC_REMOTE_DIR={owner} " in str(_join_line(run, shared))


def test_who_does_not_beat_is_silent_and_who_left_has_left(both) -> None:
    owner, anna = both
    for path in anna.glob("peers/anna.slot-1/*/hb.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "left": True}))
    seen = told(SharedPaths(owner), later=SILENT_S + 5)
    assert [job["state"] for job in seen["jobs"]] == ["silent", "left", "silent", "silent"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"version": Infinity, "left": 0}', '{"version": 1}', "null", "9" * 5000],
)
def test_a_heartbeat_that_is_none_is_passed_over(both, text: str) -> None:
    owner, anna = both
    for path in anna.glob("peers/anna.slot-1/*/hb.json"):
        path.write_text(text)
    assert len(told(SharedPaths(owner))["jobs"]) == 3


def test_what_is_wrong_is_said_on_the_page_and_the_rest_is_shown(both) -> None:
    owner, anna = both
    anna.rename(anna.with_name("away"))
    seen = told(SharedPaths(owner))
    assert seen["jobs"] == []
    assert "does not exist" in seen["troubles"][0]
    SharedPaths(owner).friends.write_text("{")
    assert "peers.json" in told(SharedPaths(owner))["troubles"][0]


def test_no_more_lines_than_a_screen_has_room_for(both, tmp_path: Path) -> None:
    owner, anna = both
    write_friends(SharedPaths(owner), [Friend("anna", str(anna), os.getuid(), jobs=64)])
    for number in range(4, 64):
        folder = SharedPaths(anna).peer(f"anna.slot-{number}", "01234567")
        folder.mkdir(parents=True)
        (folder / "hb.json").write_text('{"counter": 1, "version": 0, "left": false}')
    assert len(told(SharedPaths(owner))["jobs"]) == MOST_JOBS


def test_one_screen_has_the_slots_and_the_friends_jobs(both, slots: RunPaths) -> None:  # noqa: F811
    owner, _ = both
    sharing = {"run_dir": str(slots.root), "collaboration": {"shared_dir": str(owner)}}
    config = Config.model_validate(sharing)
    status = read_status(slots, config, looking_at(slots, jobs()), SystemClock())
    console = Console(width=120, file=io.StringIO(), highlight=False)
    console.print(render_screen("slim_run", status, SystemClock().now(), 120))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = [line for line in text.splitlines() if "trains" in line]
    assert sum("anna.slot-" in line for line in lines) == 4
    assert len(lines) == 2 + 4
