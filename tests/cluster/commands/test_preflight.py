"""Checks of ``start``: folders, partitions, the game, another account's run."""

import os
import resource
import sys
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.commands import preflight
from Daddy.cluster.orchestrator.commands.preflight import (
    Findings,
    check_accounts,
    check_device,
    check_login_host,
    check_places,
    describe_game,
    find_partition_errors,
    load_game,
    locate_node,
    parse_partitions,
)
from Daddy.cluster.orchestrator.commands.run_selection import resolve_paths
from Daddy.core.errors import RomError
from Daddy.core.friend_accounts import Friend, write_friends
from Daddy.core.load_config import run_paths, shared_paths
from Daddy.core.settings import Config, SlurmSettings
from Daddy.core.shared_weights_paths import JoinedPaths, SharedPaths
from Daddy.pokemon.find_rom import cartridge_path
from tests.cluster.conftest import config_of
from tests.weights.helpers import ManualClock, begin

_ABSENT = "cuda" if sys.platform == "darwin" else "mps"
"""A device that no machine of this system has."""


def checked(wanted: Config) -> Findings:
    found = Findings()
    check_places(wanted, "local", found)
    return found


def refused(tmp_path: Path, **settings: object) -> str:
    found = checked(config_of(tmp_path, **settings))  # type: ignore[arg-type]
    return "; ".join(f"{error.message}: {error.fix}" for error in found.wrong)


def test_folders_that_jobs_need_exist_before_any_is_submitted(tmp_path: Path) -> None:
    settings = config_of(tmp_path)
    assert checked(settings).wrong == []
    run = run_paths(settings)
    assert run.logs.is_dir()
    assert list(run.controller.iterdir()) == []
    (tmp_path / "file").write_text("")
    assert f"{tmp_path}/file cannot be written" in refused(tmp_path, run_dir=f"{tmp_path}/file")


def test_slurm_would_lose_the_output_of_jobs_below_a_backslash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # a site without sinfo
    for run_dir, refusals in ((f"{tmp_path}/a\\b", 1), (f"{tmp_path}/a%jb", 0)):
        found = Findings()
        check_places(config_of(tmp_path, run_dir=run_dir), "slurm", found)
        assert len([1 for error in found.wrong if "below a backslash" in error.message]) == refusals


def test_where_slurm_does_not_say_where_nodes_are_a_disk_of_this_host_is_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"sinfo": "echo 'gpu-linuxlab|up|4:00:00|n1'", "scontrol": "exit 1"}
    for name, answer in answers.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    config = config_of(tmp_path, training={"rom": f"{tmp_path}/game.gb"})
    found = Findings()
    check_places(config, "slurm", found)
    assert found.wrong == []
    doubts = [note for note in found.notes if note.endswith("do all nodes see it?")]
    for path in (run_paths(config).root, f"{tmp_path}/game.gb"):
        assert any(note.startswith(f"{path} is on a disk") for note in doubts)


def test_each_folder_is_tried_and_not_only_made(tmp_path: Path) -> None:
    run = run_paths(config_of(tmp_path))
    run.logs.parent.mkdir(parents=True)
    run.logs.symlink_to("/dev/fd")  # a folder where nobody, not even root, makes a file
    assert f"{run.root} cannot be written" in refused(tmp_path)


def test_a_shared_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    ours = tmp_path / "weights" / "ours"
    assert checked(config_of(tmp_path, collaboration={"shared_dir": str(ours)})).wrong == []
    assert list(ours.iterdir()) == []
    (tmp_path / "file").write_text("")
    said = refused(tmp_path, collaboration={"shared_dir": f"{tmp_path}/file"})
    assert f"shared_dir {tmp_path}/file cannot be written" in said
    assert "a folder of yours that all nodes share" in said


KNOWN = parse_partitions(
    """\
gpu-linuxlab|up|4:00:00|n1
gpu-linuxlab|up|4:00:00|n2
long|up|7-00:00:00|n3
broken|down|infinite|n4
no line of ours
"""
)


def findings(**wishes: object) -> list[str]:
    errors = find_partition_errors(SlurmSettings.model_validate(wishes), KNOWN)
    return [f"{error.message} | {error.fix}" for error in errors]


def test_each_partition_is_known_once_with_its_limit_and_one_node() -> None:
    assert KNOWN == {
        "gpu-linuxlab": (True, 14_400, "n1"),
        "long": (True, 604_800, "n3"),
        "broken": (False, None, "n4"),
    }


def test_a_partition_that_takes_the_job_is_no_finding() -> None:
    assert findings() == []
    assert findings(partition="long", time_limit="4-00:00:00") == []


def test_an_unknown_partition_is_answered_with_the_ones_there_are() -> None:
    (found,) = findings(partition="gpu-linuxlap")
    assert "lists: broken, gpu-linuxlab, long" in found
    assert "--partition gpu-linuxlab" in found


def test_of_several_partitions_each_must_exist_and_a_single_suitable_partition_is_enough() -> None:
    assert findings(partition=["gpu-linuxlab", "long", "broken"], time_limit="4-00:00:00") == []
    assert findings(partition="") == []  # the site's default
    (found,) = findings(partition="gpu-linuxlab,log")
    assert "no partition log" in found
    (found,) = findings(partition="gpu-linuxlab,long", time_limit="8-00:00:00")
    assert "over the 168:00:00" in found


def test_a_limit_over_the_partition_s_own_would_wait_for_ever() -> None:
    (found,) = findings(time_limit="5:00:00")
    assert "over the 4:00:00" in found


def test_a_partition_that_is_down_is_said() -> None:
    (found,) = findings(partition="broken")
    assert "not up" in found


def test_nothing_is_concluded_from_a_listing_without_partitions() -> None:
    assert find_partition_errors(SlurmSettings(), {}) == []


@pytest.mark.parametrize(
    ("booted", "where"),
    [
        ("1789999994", "elsewhere"),
        ("1789999995", "here"),
        ("1790000005", "here"),
        ("1790000006", "unsure"),  # slurmctld was busy, or both were switched on together
        ("1790000060", "unsure"),
        ("1790000061", "elsewhere"),
        ("None", "elsewhere"),
    ],
)
def test_a_node_that_booted_with_us_is_this_host(booted: str, where: str) -> None:
    line = f"NodeName=n1 Arch=x86_64 BootTime={booted} SlurmdStartTime=1790000100"
    assert locate_node(line, 1_790_000_000.0) == where


def test_a_slurm_that_says_nothing_of_a_node_does_not_say_where_it_is() -> None:
    assert locate_node("", 1_790_000_000.0) == "unsure"


def test_what_ends_a_daemon_on_this_host_is_told_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = [(resource.RLIM_INFINITY, resource.RLIM_INFINITY), (3600, resource.RLIM_INFINITY)]
    lines = {1: "/sbin/init", 17: "/usr/bin/python3 /opt/arbiter2/arbiter2.py -g x"}
    for limit, running, said in (
        (limits[0], {}, []),
        (limits[1], {}, ["ended after 1:00:00 of CPU time (ulimit -t)", "ensure --print-units"]),
        (limits[0], lines, ["arbiter2 may end busy processes", "start --no-daemon"]),
    ):
        monkeypatch.setattr(preflight.resource, "getrlimit", lambda _, limit=limit: limit)
        monkeypatch.setattr(preflight, "command_lines", lambda running=running: running)
        found = Findings()
        check_login_host(found, {}, yes=False)
        assert len(found.notes) == bool(said)
        assert all(words in found.notes[0] for words in said)
        assert found.wrong == []


@pytest.mark.parametrize(
    ("device", "executor", "refused"),
    [(_ABSENT, "local", True), ("auto", "local", False), ("cpu", "local", False),
     (_ABSENT, "slurm", False)],
)  # fmt: skip
def test_local_jobs_need_their_device_on_this_machine(
    device: str, executor: str, refused: bool, tmp_path: Path
) -> None:
    found = Findings()
    check_device(config_of(tmp_path, training={"device": device}), executor, found)
    assert [
        (error.exit_code, f"'{device}', but this" in error.message) for error in found.wrong
    ] == ([(3, True)] if refused else [])
    assert all("auto" in error.fix for error in found.wrong)


def test_a_torch_that_does_not_load_is_told_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libgomp.so.1 is missing')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = Findings()
    check_device(config_of(tmp_path, training={"device": _ABSENT}), "local", found)
    assert "ImportError: libgomp.so.1 is missing" in found.wrong[0].message


def named(config: Config, executor: str) -> str:
    return describe_game(config, executor, load_game(config))


def test_the_game_is_named_or_refused(tmp_path: Path) -> None:
    rom = tmp_path / "PokemonRed.gb"
    given = config_of(tmp_path, training={"rom": str(rom)})
    with pytest.raises(RomError, match="cannot read the ROM"):
        named(given, "local")
    rom.write_bytes(cartridge_path().read_bytes())
    assert named(given, "slurm") == "Daddy cartridge (PokemonRed.gb)"
    rom.write_bytes(bytes(32 * 1024))
    with pytest.raises(RomError, match="not a game we know"):
        named(given, "slurm")
    allowed = config_of(tmp_path, training={"rom": str(rom), "allow_unknown_rom": True})
    with pytest.warns(UserWarning, match="an unknown game"):
        assert named(allowed, "slurm").startswith("unknown ")
    assert "free cartridge" in named(config_of(tmp_path), "local")
    helped = config_of(tmp_path, training={"assists": "flash,money"})
    assert named(helped, "local").endswith("), with the assists money, flash")
    with pytest.raises(RomError, match="no ROM is configured"):
        named(config_of(tmp_path), "slurm")
    meant = config_of(tmp_path, training={"cartridge": True})
    assert "free cartridge" in named(meant, "slurm")
    assert named(config_of(tmp_path, training={"workload": "cartpole"}), "slurm") == "cartpole"


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    root = tmp_path / "owner" / "shared_weights"
    root.mkdir(parents=True)
    begin(root, "slot-0", ManualClock())
    return root


def config(tmp_path: Path, owner: Path) -> Config:
    return Config.model_validate({
        "run_dir": str(tmp_path / "anna"),
        "collaboration": {"join": str(owner)},
    })  # fmt: skip


def test_whose_run_is_joined_is_beside_ones_own_folder(tmp_path: Path, owner: Path) -> None:
    paths = shared_paths(config(tmp_path, owner))
    assert isinstance(paths, JoinedPaths)
    assert paths.merged == owner / "merged"
    assert paths.peers == tmp_path / "anna" / "shared_weights" / "peers"
    frozen = resolve_paths(config(tmp_path, owner / ".." / "shared_weights"), "local")
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
    check_accounts(SharedPaths(owner), found)
    assert found.wrong == []
    assert any(note.startswith("anna: ") and "does not exist" in note for note in found.notes)
    SharedPaths(owner).friends.write_text("{")
    check_accounts(SharedPaths(owner), found)
    assert "peers.json" in found.wrong[0].message
