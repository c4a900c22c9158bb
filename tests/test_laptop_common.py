"""The parts that the two commands of a laptop share."""

import argparse
from pathlib import Path

import pytest

from Daddy import laptop_common
from Daddy.core import host_and_processes
from Daddy.core.clock import SystemClock
from Daddy.core.errors import UsageError
from Daddy.core.load_config import load_config
from Daddy.core.stop_conditions import StopSignal
from Daddy.laptop_common import LaptopLimits
from Daddy.pokemon.find_rom import cartridge_path


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    laptop_common.add_flags(parser)
    return parser.parse_args(arguments)


@pytest.fixture(autouse=True)
def _no_rom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DADDY_ROM", raising=False)


@pytest.mark.parametrize(
    ("typed", "name"),
    [("anna", "anna"), ("Annas-MBP.local", "annas-mbp"), ("Ben's PC", "ben-s-pc")],
)
def test_a_host_name_becomes_a_peer_name(typed: str, name: str) -> None:
    assert laptop_common.peer_name(typed) == name


def test_a_changed_name_is_said_and_a_good_one_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    laptop_common.peer_name("anna")
    assert capsys.readouterr().out == ""
    laptop_common.peer_name("Anna")
    assert "'Anna' is written 'anna'" in capsys.readouterr().out


def test_the_name_of_setup_stays_when_the_hosts_name_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "daddy").mkdir()
    (tmp_path / "daddy" / "sync.json").write_text('{"peer": "annas-mbp", "format": 1}')
    monkeypatch.setattr(host_and_processes, "host_name", lambda: "dhcp-17")
    assert laptop_common.peer_name("") == "annas-mbp"
    assert laptop_common.peer_name("annas-mbp") == "annas-mbp"
    assert capsys.readouterr().out == ""
    assert laptop_common.peer_name("dhcp-17") == "dhcp-17"
    said = capsys.readouterr().out
    assert "user id 'dhcp-17' is not 'annas-mbp', of which setup made" in said
    assert "SYNC_USER_ID=dhcp-17 ./Daddy/cluster/sync_weights.sh setup" in said


def test_a_rom_is_meant_from_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = laptop_common.game_config(parse("--rom", "my/red.gb"), "pokemon_red")
    assert config.training.rom == str(tmp_path / "my" / "red.gb")
    monkeypatch.setenv("DADDY_ROM", "other.gb")
    config = laptop_common.game_config(parse(), "pokemon_red")
    assert config.training.rom == str(tmp_path / "other.gb")


def test_the_cartridge_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DADDY_ROM", "other.gb")
    config = laptop_common.game_config(parse("--cartridge"), "pokemon_red")
    assert config.training.rom == str(cartridge_path())


def test_without_a_word_the_game_is_left_to_the_environment_package() -> None:
    assert laptop_common.game_config(parse(), "pokemon_red").training.rom is None


def test_a_rom_and_the_cartridge_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude"):
        laptop_common.game_config(parse("--cartridge", "--rom", "x"), "pokemon_red")


def test_a_workload_nobody_knows_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tetris"):
        laptop_common.game_config(parse("--profile-dir", str(tmp_path)), "tetris")


@pytest.mark.parametrize(("cores", "ours"), [(1, 1), (2, 1), (8, 7)])
def test_one_core_is_the_persons(monkeypatch: pytest.MonkeyPatch, cores: int, ours: int) -> None:
    monkeypatch.setattr(host_and_processes, "usable_cores", lambda: cores)
    assert laptop_common.cores_for_us() == ours


def test_profiles_lie_where_the_flag_says(tmp_path: Path) -> None:
    assert laptop_common.profile_folder(parse("--profile-dir", str(tmp_path))) == tmp_path


def test_a_visit_ends_after_the_steps_or_seconds_asked_for() -> None:
    def limits(steps: int, seconds: float) -> LaptopLimits:
        return LaptopLimits(steps, seconds, SystemClock(), StopSignal())

    endless, short, brief = limits(0, 0.0), limits(100, 0.0), limits(0, 1e-9)
    for limit in (endless, short):
        limit.beat({"env_steps": 99})
        assert limit.stop_reason() is None
        limit.beat({"env_steps": 100})
    assert endless.stop_reason() is None
    assert short.stop_reason() == "100 steps, as asked"
    assert "as asked" in (brief.stop_reason() or "")


def test_a_single_environment_can_be_measured() -> None:
    config = load_config(None, {"training.workload": "cartpole", "training.device": "cpu"})
    with laptop_common.open_player(config, 0, 1) as step:
        assert step() == laptop_common.HORIZON
