"""Tests that releases are named by code, configuration and environment, and never change."""

import shutil

import pytest

from Daddy.cluster import release_build
from Daddy.cluster.release_build import freeze_release
from Daddy.core.atomic_files import read_json
from Daddy.core.load_config import load_config
from Daddy.core.run_paths import RunPaths


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Create a small package with data."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "Daddy/data").mkdir(parents=True)
    (folder / "Daddy/__init__.py").write_text('"""A package."""\n')
    (folder / "Daddy/code.py").write_text("ANSWER = 42\n")
    (folder / "Daddy/data/rom.gb").write_bytes(b"\x00\x01")
    (folder / "Daddy/tool.sh").write_text("#!/bin/sh\n")
    (folder / "Daddy/tool.sh").chmod(0o755)
    return folder


@pytest.fixture
def run(tmp_path):
    found = RunPaths(tmp_path / "run")
    found.releases.mkdir(parents=True)
    return found


def config(**settings):
    return load_config(None, {f"training.{name}": value for name, value in settings.items()})


def test_the_same_code_and_settings_make_one_release(run, checkout):
    first, again = freeze_release(run, config(), checkout), freeze_release(run, config(), checkout)
    assert first == again
    assert [path.name for path in run.releases.iterdir()] == [first.ident]


def test_changed_code_settings_or_environment_make_another(run, checkout, tmp_path, monkeypatch):
    first = freeze_release(run, config(), checkout)
    edited = tmp_path / "edited"
    shutil.copytree(checkout, edited)
    (edited / "Daddy/code.py").write_text("ANSWER = 43\n")
    code = freeze_release(run, config(), edited)
    settings = freeze_release(run, config(seed=8), checkout)
    modules = freeze_release(
        run, load_config(None, {"slurm.setup": ["module load cuda"]}), checkout
    )
    monkeypatch.setattr(release_build, "_version", lambda package: "9.9")
    upgraded = freeze_release(run, config(), checkout)
    idents = {release.ident for release in (first, code, settings, modules, upgraded)}
    assert len(idents) == 5
    assert (first.path / "Daddy/code.py").read_text() == "ANSWER = 42\n"


def test_python_s_own_leavings_do_not_change_the_name(run, checkout, tmp_path):
    used = tmp_path / "used"
    shutil.copytree(checkout, used)
    (used / "Daddy/__pycache__").mkdir()
    (used / "Daddy/__pycache__/code.cpython-311.pyc").write_bytes(b"\x00")
    assert (
        freeze_release(run, config(), used).ident == freeze_release(run, config(), checkout).ident
    )


def test_the_stamp_tells_what_it_was_made_of(run, checkout):
    made = freeze_release(run, config(), checkout)
    record = read_json(made.path / "stamp.json")
    assert record["release"] == made.ident
    assert set(record["environment"]) == {"python", "executable", "packages", "setup"}
    assert "torch" in record["environment"]["packages"]
    assert record["commit"]


def test_files_of_a_release_are_read_only_and_tools_stay_tools(run, checkout):
    made = freeze_release(run, config(), checkout)
    assert (made.path / "Daddy/code.py").stat().st_mode & 0o777 == 0o444
    assert (made.path / "Daddy/tool.sh").stat().st_mode & 0o777 == 0o555
    assert (made.path / "config.json").stat().st_mode & 0o222 == 0
