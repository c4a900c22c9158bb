"""A profile is kept per user id and is used only on the machine it was measured on."""

import dataclasses
from pathlib import Path

import pytest

from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.errors import FileError, UsageError
from Daddy.hardware.machine_profile import (
    Profile,
    default_folder,
    load_profile,
    profile_path,
    save_profile,
)
from Daddy.hardware.recommend_envs import GIB, MachineFacts, Measurement

PROFILE = Profile(
    user_id="annas-mac",
    facts=MachineFacts(8, 16 * GIB),
    workload="pokemon_red",
    measured_at=1000.5,
    rows=(Measurement(1, 700.0, 100), Measurement(7, 3000.5, 200)),
    envs=7,
    reasons=("7 was the fastest",),
)


def test_a_profile_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    path = save_profile(tmp_path / "new" / "folder", PROFILE)
    assert path.name == "annas-mac.json"
    assert load_profile(path.parent, "annas-mac") == PROFILE


def test_who_never_measured_has_no_profile(tmp_path: Path) -> None:
    assert load_profile(tmp_path, "nobody") is None


def test_a_profile_that_names_a_backend_as_the_release_before_wrote_it_is_read(
    tmp_path: Path,
) -> None:
    path = save_profile(tmp_path, PROFILE)
    old = read_json(path) | {"backend": "threads"}
    old["rows"] = [{**row, "backend": "auto"} for row in old["rows"]]
    write_json(path, old)
    assert load_profile(tmp_path, "annas-mac") == PROFILE


def test_profiles_of_two_people_do_not_meet(tmp_path: Path) -> None:
    save_profile(tmp_path, PROFILE)
    save_profile(tmp_path, dataclasses.replace(PROFILE, user_id="bens-pc", envs=2))
    found = [load_profile(tmp_path, name) for name in ("annas-mac", "bens-pc")]
    assert [profile and profile.envs for profile in found] == [7, 2]


@pytest.mark.parametrize("name", ["../escape", "UPPER", "a/b", "", "x" * 40])
def test_a_user_id_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        profile_path(tmp_path, name)


@pytest.mark.parametrize("damage", ["{", '{"format": 1}', '{"format": 2, "user_id": "annas-mac"}'])
def test_a_damaged_profile_names_its_file_and_the_way_out(tmp_path: Path, damage: str) -> None:
    path = save_profile(tmp_path, PROFILE)
    path.write_text(damage)
    with pytest.raises(FileError) as caught:
        load_profile(tmp_path, "annas-mac")
    assert str(path) in str(caught.value)
    assert caught.value.fix


def test_a_profile_that_recommends_nothing_is_damaged(tmp_path: Path) -> None:
    path = save_profile(tmp_path, PROFILE)
    write_json(path, {**read_json(path), "envs": 0})
    with pytest.raises(FileError):
        load_profile(tmp_path, "annas-mac")


def test_a_profile_fits_the_machine_it_was_measured_on_and_no_other() -> None:
    assert PROFILE.fits(MachineFacts(8, 16 * GIB - 300_000_000))
    assert not PROFILE.fits(MachineFacts(4, 16 * GIB))
    assert not PROFILE.fits(MachineFacts(8, 8 * GIB))


def test_profiles_lie_where_the_platform_keeps_settings(tmp_path: Path) -> None:
    assert default_folder({}, tmp_path) == tmp_path / ".config" / "daddy" / "profiles"
    moved = default_folder({"XDG_CONFIG_HOME": "/etc/other"}, tmp_path)
    assert moved == Path("/etc/other/daddy/profiles")
