"""From settings to parts: where jobs run, what they ask for, what is played."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator import wiring
from Daddy.cluster.orchestrator.actions import Submit
from Daddy.cluster.orchestrator.decisions.capacity import way
from Daddy.cluster.orchestrator.records import Chaining, Site
from Daddy.core.config import effective_json, load, run_paths
from Daddy.core.errors import FileError, RomError, SchedulerError
from Daddy.core.files import write_atomic
from Daddy.core.release import Release
from Daddy.core.settings import Config
from Daddy.pokemon.cartridge.build import cartridge_path


def config(tmp_path: Path, **sections: dict[str, object]) -> Config:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"run_dir": str(tmp_path / "run"), **sections}))
    return load(path)


def test_slurm_is_used_where_sbatch_is_found_unless_the_settings_say_local(tmp_path: Path) -> None:
    sbatch = tmp_path / "sbatch"
    sbatch.write_text("#!/bin/sh\n")
    sbatch.chmod(0o755)
    login, laptop = {"PATH": str(tmp_path)}, {"PATH": str(tmp_path / "nothing")}
    assert wiring.choose_executor(config(tmp_path), login) == "slurm"
    assert wiring.choose_executor(config(tmp_path), laptop) == "local"
    local = config(tmp_path, controller={"executor": "local"})
    assert wiring.choose_executor(local, login) == "local"
    with pytest.raises(SchedulerError, match="no sbatch"):
        wiring.choose_executor(config(tmp_path, controller={"executor": "slurm"}), laptop)


def test_every_slurm_setting_reaches_the_job_script(tmp_path: Path) -> None:
    settings = config(
        tmp_path,
        slurm={
            "partition": "p", "account": "a", "qos": "q", "time_limit": "1:30:00",
            "cpus_per_job": 3, "gpus_per_job": 2, "memory": "16G", "mem_per_gpu": "20G",
            "exclude": ["n7", "n9"], "setup": ["module load cuda"],
        },
    )  # fmt: skip
    make = wiring.SpecMaker(settings, run_paths(settings), Release("r1", tmp_path / "r1"))
    spec = make("0" * 12, 5, Submit("successor", 77, exclude=("n8", "n9")))
    assert spec.request == {
        "partition": "p", "account": "a", "qos": "q", "cpus-per-task": 3, "gres": "gpu:2",
        "mem": "16G", "mem-per-gpu": "20G", "exclude": "n7,n9,n8",
    }  # fmt: skip
    assert (spec.time_limit_s, spec.after, spec.setup) == (5400, 77, ("module load cuda",))
    assert spec.argv[1:] == (
        "-m", "Daddy.cluster.launch", "--run", str(run_paths(settings).root),
        "--config", str(tmp_path / "r1" / "config.json"), "--attempt", "0" * 12,
    )  # fmt: skip
    assert spec.environment["PYTHONPATH"] == str(tmp_path / "r1")
    assert spec.warn_s == 180


def test_a_release_that_is_tried_is_tried_in_the_resources_it_asks_for(tmp_path: Path) -> None:
    old = config(tmp_path, slurm={"partition": "closed", "time_limit": "4:00:00"})
    new = config(tmp_path, slurm={"partition": "open", "time_limit": "1:00:00", "memory": "64G"})
    run = run_paths(old)
    make = wiring.SpecMaker(old, run, Release("good", run.releases / "good"))
    wish = Submit("a slot is empty", release="good", request="new")
    assert make("0" * 12, 1, wish).request["partition"] == "closed"  # it is not on disk yet
    write_atomic(run.releases / "new" / "config.json", effective_json(new))
    spec = make("0" * 12, 2, wish)
    assert (spec.request["partition"], spec.request["mem"]) == ("open", "64G")
    assert (spec.time_limit_s, spec.environment["DADDY_RELEASE"]) == (3600, "good")


def test_what_is_left_open_is_left_to_the_site(tmp_path: Path) -> None:
    settings = config(tmp_path, slurm={"gpus_per_job": 0})
    assert set(wiring.slurm_request(settings)) == {"partition", "cpus-per-task"}


def test_the_game_is_named_or_refused(tmp_path: Path) -> None:
    rom = tmp_path / "PokemonRed.gb"
    given = config(tmp_path, training={"rom": str(rom)})
    with pytest.raises(RomError, match="cannot read the ROM"):
        wiring.game_name(given, "local")
    rom.write_bytes(cartridge_path().read_bytes())
    assert wiring.game_name(given, "slurm") == "Daddy cartridge (PokemonRed.gb)"
    rom.write_bytes(bytes(32 * 1024))
    with pytest.raises(RomError, match="not a game we know"):
        wiring.game_name(given, "slurm")
    allowed = config(tmp_path, training={"rom": str(rom), "allow_unknown_rom": True})
    assert wiring.game_name(allowed, "slurm").startswith("unknown ")
    assert "free cartridge" in wiring.game_name(config(tmp_path), "local")
    helped = config(tmp_path, training={"assists": "flash,money"})
    assert wiring.game_name(helped, "local").endswith("), with the assists money, flash")
    with pytest.raises(RomError, match="no ROM is configured"):
        wiring.game_name(config(tmp_path), "slurm")
    meant = config(tmp_path, training={"cartridge": True})
    assert "free cartridge" in wiring.game_name(meant, "slurm")
    assert (
        wiring.game_name(config(tmp_path, training={"workload": "cartpole"}), "slurm") == "cartpole"
    )


def test_two_runs_of_one_name_in_two_places_are_two_runs(tmp_path: Path) -> None:
    one, two = config(tmp_path, run_name="slim"), config(tmp_path)  # type: ignore[arg-type]
    names = {
        wiring.run_id(settings, run_paths(settings.model_copy(update={"run_dir": str(folder)})))
        for settings in (one, two)
        for folder in (tmp_path / "a", tmp_path / "b")
    }
    assert len(names) == 4


def test_prequeue_never_means_late_and_paths_become_absolute(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    polite = config(tmp_path, controller={"prequeue": "never"})
    assert way(Site(), wiring.make_policy(polite, "slurm")).chaining is Chaining.LATE
    open_paths = config(tmp_path, collaboration={"shared_dir": "weights"})
    open_paths = open_paths.model_copy(update={"run_dir": "runs/x"})
    fixed = wiring.absolute(open_paths, "slurm")
    assert fixed.run_dir == str(tmp_path / "runs" / "x")
    assert fixed.collaboration.shared_dir == str(tmp_path / "weights")
    assert fixed.controller.executor == "slurm"


def test_folders_that_jobs_need_exist_before_any_is_submitted(tmp_path: Path) -> None:
    settings = config(tmp_path)
    run = run_paths(settings)
    wiring.prepare_folders(run)
    assert run.logs.is_dir()
    assert list(run.controller.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written"):
        wiring.prepare_folders(
            run_paths(settings.model_copy(update={"run_dir": str(tmp_path / "file")}))
        )
