"""A task folder is read whole; a limit is honoured or refused by name."""

from pathlib import Path

import pytest

from Daddy.core.errors import ConfigError
from Daddy.terminal.task_folder import read_task


def write_task(folder: Path, settings: str = "") -> Path:
    for name, text in {
        "instruction.md": "Count.",
        "task.toml": settings,
        "tests/test.sh": "echo 1 > /logs/verifier/reward.txt",
        "environment/Dockerfile": "FROM debian:12\nWORKDIR /app\nENV A=1",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_task_states_its_limits_in_either_spelling(tmp_path: Path) -> None:
    now = '[environment]\nmemory_mb = 1024\nstorage_mb = 512\nnetwork_mode = "no-network"'
    then = '[environment]\nmemory = "1G"\nstorage = "512M"\nallow_internet = false'
    for number, text in enumerate((now, then)):
        task = read_task(write_task(tmp_path / str(number), text + '\nenv = {B = "2"}'))
        assert task.settings.environment.memory_mb == 1024
        assert task.settings.environment.storage_mb == 512
        assert (task.recipe.folder, task.recipe.env) == ("/app", {"A": "1", "B": "2"})
        assert task.instruction == "Count."
        assert not task.in_place


def test_a_network_that_is_allowed_and_keys_that_ask_for_nothing_are_read(tmp_path: Path) -> None:
    public = 'network_mode = "public"'
    for number, key in enumerate(("allow_internet = true", public, f"[agent]\n{public}")):
        text = f"[environment]\n{key}\nmcp_servers = []"
        assert read_task(write_task(tmp_path / str(number), text)).allows_network
    none = f'[environment]\n{public}\n[agent]\nnetwork_mode = "no-network"'
    assert not read_task(write_task(tmp_path / "none", none)).allows_network


def test_a_dockerfile_comes_before_the_image_of_its_result(tmp_path: Path) -> None:
    folder = write_task(tmp_path, '[environment]\ndocker_image = "me/finished:1"')
    assert read_task(folder).recipe.folder == "/app"
    (folder / "environment/Dockerfile").unlink()
    with pytest.raises(ConfigError, match=r"environment\.docker_image = 'me/finished:1'"):
        read_task(folder)


def test_a_task_graded_beside_the_agents_processes_says_so(tmp_path: Path) -> None:
    text = '[verifier]\nenvironment_mode = "shared"\ntimeout_sec = 5'
    task = read_task(write_task(tmp_path, text))
    assert task.in_place
    assert task.settings.verifier.timeout_sec == 5


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[environment]\ngpus = 1", "environment.gpus = 1"),
        ("[environment]\nnew_limit = 3", "environment.new_limit = 3"),
        ('[agent]\nuser = "me"', "agent.user = 'me'"),
        ("[environment]\nenv = {A = '${HOME}'}", "environment.env.A = '${HOME}'"),
        ("[agent]\nenv = {A = '1'}", "agent.env = "),
        ('artifacts = ["../x"]', "artifacts = "),
        ('[environment]\nmemory = "infG"', "environment.memory_mb = 'infG'"),
        ('[environment]\nstorage = "1e999G"', "environment.storage_mb = '1e999G'"),
        ("environment = 5", "environment = 5"),
        ("[environment", "is no TOML"),
    ],
)
def test_a_setting_that_cannot_be_met_is_refused_by_its_name(
    text: str, key: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        read_task(write_task(tmp_path, text))
    assert key in str(error.value)


@pytest.mark.parametrize("name", ["instruction.md", "task.toml", "environment/Dockerfile"])
def test_a_file_that_is_not_utf_8_is_named(name: str, tmp_path: Path) -> None:
    (write_task(tmp_path) / name).write_bytes(b"# caf\xe9")
    with pytest.raises(ConfigError, match=f"{name} is not UTF-8"):
        read_task(tmp_path)


def test_a_folder_without_a_verifier_is_no_task(tmp_path: Path) -> None:
    (write_task(tmp_path) / "tests/test.sh").unlink()
    with pytest.raises(ConfigError, match="it has no tests"):
        read_task(tmp_path)
