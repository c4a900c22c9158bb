import json
from pathlib import Path

import pytest

from Daddy.core import load_config
from Daddy.core.errors import ConfigError, ExitCode


def write(path, settings):
    path.write_text(json.dumps(settings))
    return path


def test_the_shipped_configuration_holds_the_guides_defaults():
    training = load_config.load_config().training
    assert (training.total_steps, training.num_envs, training.batch_size) == (5_000_000, 8, 64)
    assert (training.checkpoint_interval, training.max_runtime_seconds) == (10_000, 13_500)
    assert (training.stream, training.stream_port, training.stream_top_k) == (True, 9999, 2)


def test_all_errors_are_told_at_once_and_an_unknown_key_with_the_nearest(tmp_path):
    file = write(
        tmp_path / "c.json",
        {"training": {"num_env": 4, "batch_size": 0}, "slurm": {"time_limit": "soon"}, "rundir": 1},
    )
    with pytest.raises(ConfigError) as caught:
        load_config.load_config(file)
    text = str(caught.value)
    assert "training.num_env: unknown key; the nearest valid one is training.num_envs" in text
    assert "batch_size" in text
    assert "run_dir" in text
    assert caught.value.exit_code == ExitCode.CONFIGURATION


def test_an_error_names_the_places_it_may_come_from_and_a_section_is_a_valid_name(tmp_path):
    file = write(tmp_path / "c.json", {"traning": {"seed": 1}, "rom": "red.gb"})
    with pytest.raises(ConfigError) as caught:
        load_config.load_config(file, {"training.num_envs": 0}, {"DADDY_SLURM__PARTITION": "gpu"})
    text = str(caught.value)
    assert "c.json + environment + flags cannot be used" in text
    assert "traning: unknown key; the nearest valid one is training\n" in text
    assert "rom: unknown key; the nearest valid one is training.rom" in text


def test_flags_win_over_environment_over_site_over_file(tmp_path, monkeypatch):
    monkeypatch.setattr(load_config, "SITES", tmp_path)
    file = write(tmp_path / "c.json", {"training": {"num_envs": 1, "seed": 1, "gamma": 0.1}})
    write(tmp_path / "here.json", {"training": {"num_envs": 2, "seed": 2}})
    environ = {"DADDY_TRAINING__NUM_ENVS": "3", "DADDY_SITE": "here"}
    loaded = load_config.load_config(file, {"training.num_envs": 4}, environ).training
    assert (loaded.num_envs, loaded.seed, loaded.gamma) == (4, 2, 0.1)
    assert load_config.load_config(file, {}, environ).training.num_envs == 3


def test_a_flag_that_was_not_given_changes_nothing(tmp_path):
    file = write(tmp_path / "c.json", {"training": {"num_envs": 5}})
    assert load_config.load_config(file, {"training.num_envs": None}).training.num_envs == 5


def test_keys_of_older_configurations_are_read_or_named_once(tmp_path, capsys):
    old = {
        "max_runtime_seconds": 77,
        "training": {"buffer_size": 5, "stream_top_k": 3},
        "streaming": {"top_k": 9, "tunnel_port": 1234},
    }
    loaded = load_config.load_config(write(tmp_path / "c.json", old)).training
    assert (loaded.max_runtime_seconds, loaded.stream_top_k, loaded.stream_port) == (77, 3, 1234)
    assert capsys.readouterr().err.count("warning") == 1


def test_a_relative_rom_is_found_beside_the_config_file(tmp_path):
    file = write(tmp_path / "c.json", {"training": {"rom": "roms/red.gb"}})
    assert load_config.load_config(file).training.rom == str(tmp_path / "roms" / "red.gb")


def test_what_jobs_receive_is_the_same_configuration(tmp_path):
    loaded = load_config.load_config(None, {"training.num_envs": 3})
    path = tmp_path / "config.json"
    path.write_bytes(load_config.config_to_json(loaded))
    assert load_config.load_release_config(path) == loaded


@pytest.mark.parametrize("text", ["[1]", "{", '{"run_name": "a", "run_name": "b"}'])
def test_a_file_that_is_no_config_is_a_configuration_error(tmp_path, text):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(ConfigError):
        load_config.load_config(tmp_path / "c.json")


def test_shared_weights_lie_in_the_run_unless_configured(tmp_path):
    loaded = load_config.load_config(None, {"run_dir": str(tmp_path / "run")})
    assert load_config.shared_paths(loaded).root == tmp_path / "run" / "shared_weights"
    loaded = load_config.load_config(None, {"collaboration.shared_dir": str(tmp_path / "pool")})
    assert load_config.shared_paths(loaded).root == tmp_path / "pool"


def test_a_relative_rom_in_the_environment_is_found_where_it_was_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_config.load_config(None, {}, {"DADDY_ROM": "red.gb"}).training.rom == str(
        tmp_path / "red.gb"
    )


def test_a_profile_typed_after_the_file_replaces_what_the_file_said(tmp_path):
    file = write(tmp_path / "c.json", {"training": {"num_envs": 8, "horizon": 64, "seed": 3}})
    typed = {"DADDY_TRAINING__PROFILE": "gpu", "DADDY_TRAINING__GAMMA": "0.5"}
    loaded = load_config.load_config(file, {"training.batch_size": 512}, typed).training
    assert (loaded.num_envs, loaded.horizon, loaded.rollout) == (96, None, 16_384)
    assert (loaded.gamma, loaded.batch_size, loaded.seed) == (0.5, 512, 3)


def test_beside_a_profiles_name_the_files_own_keys_win(tmp_path):
    file = write(tmp_path / "c.json", {"training": {"profile": "gpu", "num_envs": 8}})
    loaded = load_config.load_config(file)
    assert (loaded.training.num_envs, loaded.training.clip) == (8, 0.1)
    frozen = tmp_path / "frozen.json"
    frozen.write_bytes(load_config.config_to_json(loaded))
    assert load_config.load_release_config(frozen) == loaded


def test_a_sites_profile_yields_to_what_the_file_says(tmp_path, monkeypatch):
    monkeypatch.setattr(load_config, "SITES", tmp_path)
    file = write(tmp_path / "c.json", {"training": {"num_envs": 8, "seed": 3}})
    write(tmp_path / "here.json", {"training": {"profile": "gpu", "gamma": 0.5}})
    loaded = load_config.load_config(file, {"training.batch_size": 512}, {}, "here").training
    assert (loaded.num_envs, loaded.horizon, loaded.rollout) == (8, None, 16_384)
    assert (loaded.gamma, loaded.batch_size, loaded.seed) == (0.5, 512, 3)
    shipped = load_config.load_config(None, {}, {}, "here").training
    assert (shipped.num_envs, shipped.batch_size) == (96, 2048)


def given(path=None, *layers):
    loaded = load_config.load_config(path, *layers).training
    assert (loaded.total_steps, loaded.num_envs, loaded.batch_size) == (5_000_000, 8, 64)
    return loaded.model_fields_set & {"total_steps", "num_envs", "batch_size"}


def test_the_seeds_lines_count_as_not_set_only_in_the_shipped_file_and_unchanged(
    tmp_path, monkeypatch
):
    shipped = load_config.DEFAULT_CONFIG
    assert given() == given(shipped) == set()
    assert given(None, {"training.total_steps": 5_000_000}) == {"total_steps"}
    assert given(None, {}, {"DADDY_TRAINING__NUM_ENVS": "8"}) == {"num_envs"}
    copy = tmp_path / "mine.json"
    copy.write_bytes(shipped.read_bytes())
    assert given(copy) == {"total_steps", "num_envs", "batch_size"}
    monkeypatch.setattr(load_config, "DEFAULT_CONFIG", copy)
    assert given() == set()
    copy.write_bytes(shipped.read_bytes().replace(b"gpu-linuxlab", b"gpu"))
    assert given() == set(), "a person's partition stands in the shipped file, too"
    copy.write_bytes(shipped.read_bytes().replace(b'"num_envs": 8', b'"num_envs": 16'))
    training = load_config.load_config(None).training
    assert "num_envs" in training.model_fields_set
    assert "batch_size" not in training.model_fields_set


def test_values_beneath_fill_in_only_what_nobody_set():
    loaded = load_config.load_config(None, {"training.clip": 0.3, "archive.mode": "off"})
    beneath = {"training.profile": "gpu", "training.clip": 0.1, "archive.mode": "swarm"}
    filled = load_config.with_values_beneath(loaded, beneath)
    assert (filled.training.num_envs, filled.training.clip) == (96, 0.3)
    assert filled.archive.mode == "off"


BEFORE = Path(__file__).with_name("config_of_the_release_before.json")


def test_a_frozen_configuration_of_the_release_before_is_read_in_silence(capsys):
    found = load_config.load_release_config(BEFORE)
    assert (found.collaboration.rule, found.slurm.max_running) == ("delta", 4)
    assert found.training.vector_backend == "processes", "it says auto"
    assert capsys.readouterr().err == ""


def test_a_key_that_is_gone_is_passed_over_with_one_warning(tmp_path, capsys):
    old = json.loads(BEFORE.read_text())
    old["collaboration"]["rule"] = "delta"
    load_config.load_config(write(tmp_path / "c.json", old))
    said = capsys.readouterr().err
    assert said.count("warning") == 1
    assert "collaboration.elastic_alpha" in said


@pytest.mark.parametrize("old", ["auto", "threads"])
def test_a_backend_of_before_is_read_as_processes_with_one_warning(tmp_path, capsys, old):
    file = write(tmp_path / "c.json", {"training": {"vector_backend": old}})
    found = load_config.load_config(file, begins=True)
    assert found.training.vector_backend == "processes"
    warning = f"warning: training.vector_backend '{old}' is read as 'processes'\n"
    assert capsys.readouterr().err == warning


def test_a_rule_that_is_gone_is_passed_over_with_a_warning_for_a_run_that_is_there(
    tmp_path, capsys
):
    old = {"collaboration": {"rule": "elastic", "elastic_alpha": 0.9}}
    found = load_config.load_config(write(tmp_path / "c.json", old))
    said = capsys.readouterr().err
    assert found.collaboration.rule == "delta"
    assert (said.count("warning"), "collaboration.rule 'elastic'" in said) == (1, True)


def test_a_run_does_not_begin_by_a_rule_that_is_gone(tmp_path):
    file = write(tmp_path / "c.json", {"collaboration": {"rule": "elastic"}})
    with pytest.raises(
        ConfigError, match=r"collaboration\.rule 'elastic' no longer exists"
    ) as caught:
        load_config.load_config(file, begins=True)
    assert "model export" in caught.value.fix
    assert "run_controller stop" in caught.value.fix
    assert caught.value.exit_code == ExitCode.CONFIGURATION


def test_a_run_has_at_most_88_settings():
    assert len(list(load_config.valid_keys())) <= 88


@pytest.mark.parametrize(
    ("limit", "pause"),
    [("0:01:15", 3.75), ("0:02:00", 6.0), ("0:10:00", 600.0), ("2:00:00", 600.0), ("0", 600.0)],
)
def test_only_a_demos_short_jobs_keep_and_share_their_work_more_often(limit, pause):
    assert (
        load_config.load_config(None, {"slurm.time_limit": limit}).slurm.limit_interval(600.0)
        == pause
    )


def test_a_section_that_is_gone_does_nothing_wherever_it_is_said(tmp_path, capsys):
    gone = {"checkpointing": {"max_keep": 2}, "training": {"states_dir": "peers"}}
    load_config.load_config(write(tmp_path / "c.json", gone))
    said = capsys.readouterr().err
    assert said.count("warning") == 1
    assert "checkpointing.max_keep, training.states_dir" in said


@pytest.mark.parametrize(
    ("option", "why"),
    [
        *((f"--{name}=x", "belongs to the controller") for name in (
            "name", "job-name", "comment", "output", "error", "chdir", "time", "signal", "requeue",
            "array", "dependency", "export", "parsable", "wrap", "no-requeue", "open-mode", "nodes",
            "test-only", "wait", "clusters", "hold", "version", "time-min",
        )),
        ("--dep=afterok:1", "--dep belongs to the controller"),  # sbatch takes shortened names
        ("--partition=x", "given by slurm.partition"),
        ("--qos=x", "given by slurm.qos"),
        ("--gpus=2", "given by slurm.gpu_option"),
        ("--gres=gpu:2", "given by slurm.gpus_per_job and slurm.gpu_type"),
        ("--exclusive x", "not of the form"),
        ("-p x", "not of the form"),
        ("exclusive", "not of the form"),
        ("--nice=", "not of the form"),
        ("--nice=1\n#SBATCH --wrap=x", "control character"),
    ],
)  # fmt: skip
def test_an_option_of_sbatch_that_is_not_free_is_refused_by_name(option: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config.load_config(None, {"slurm.options": [option]})
    assert f"slurm.options: {option!r}" in refused.value.message
    assert why in refused.value.message


@pytest.mark.parametrize(
    "wishes",
    [{"partition": ["a", 3]}, {"gpu_type": "a100:2"}, {"gpu_type": "a,b"}, {"gpu_option": "tres"}],
)
def test_a_request_that_slurm_would_read_otherwise_is_refused(wishes: dict[str, object]) -> None:
    (key,) = wishes
    with pytest.raises(ConfigError, match=rf"slurm\.{key}"):
        load_config.load_config(None, {f"slurm.{key}": wishes[key]})
