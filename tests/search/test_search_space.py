"""Search spaces: files are checked against the settings, and default spaces always train."""

import itertools
import json
from typing import Any

import pytest

from Daddy.core.errors import ConfigError
from Daddy.core.hyperparameters import resolve_settings
from Daddy.core.settings import TrainingSettings
from Daddy.search.search_space import DEFAULT_SPACES, Choices, Range, parse_space

RATE, EPOCHS = "training.learning_rate", "training.update_epochs"


def test_a_space_has_the_types_of_its_settings() -> None:
    text = """{"training.learning_rate": {"low": 0.0001, "high": 1, "log": true},
               "training.update_epochs": {"low": 1, "high": 8.0},
               "training.horizon": {"choices": [64, 128.0]},
               "training.normalise_rewards": {"choices": [true, false]},
               "training.learning_rate_schedule": {"choices": ["constant", "linear"]},
               "reward.badge": {"low": -1, "high": 2}}"""
    space = parse_space(json.loads(text), "space.json")
    assert space == {
        "reward.badge": Range(-1, 2),
        "training.horizon": Choices((64, 128)),
        RATE: Range(1e-4, 1, log=True),
        "training.learning_rate_schedule": Choices(("constant", "linear")),
        "training.normalise_rewards": Choices((True, False)),
        EPOCHS: Range(1, 8, integer=True),
    }
    assert repr(space["training.horizon"]) == "Choices(values=(64, 128))"


@pytest.mark.parametrize(
    ("key", "entry", "said"),
    [
        ("training.learning_rat", {}, r"learning_rat is no setting.*did you mean.*learning_rate"),
        ("training.seed", {"choices": [1, 2]}, "training.seed is no setting that a sweep varies"),
        ("slurm.qos", {"choices": ["a"]}, "slurm.qos is no setting that a sweep varies"),
        (RATE, {"low": 1e-3, "high": 1e-4}, "low 0.001 and high 0.0001"),
        (RATE, {"low": 0.1, "high": 0.1}, "low 0.1 and high 0.1"),
        (RATE, {"low": 0, "high": 0.1}, "cannot be 0: Input should be greater than 0"),
        ("training.gamma", {"low": 0.9, "high": 1.5}, "cannot be 1.5: .* less than or equal to 1"),
        (RATE, {"low": 1e-4, "high": float("nan")}, "cannot be nan: .* finite"),
        (RATE, {"low": "1e-4", "high": 1e-3}, "the bound '1e-4'"),
        (RATE, {"low": True, "high": 2}, "the bound True"),
        (EPOCHS, {"low": 1.5, "high": 4}, "cannot be 1.5: .* fractional part"),
        ("reward.badge", {"low": 0, "high": 1, "log": True}, "low 0, too small for a log"),
        (RATE, {"low": 5e-324, "high": 1, "log": True}, "low 4.94066e-324, too small for a log"),
        ("reward.badge", {"low": -1e308, "high": 1e308}, r"cannot be -1e\+308: a number beyond"),
        (RATE, {"low": 1e-4, "high": 10**400}, "cannot be 10{39}: "),
        ("reward.memory_steps", {"low": 1, "high": 10**12 - 1}, r"low 1 and high 1e\+12"),
        (RATE, {"low": 1e-4, "high": 1e-3, "log": 1}, "has log 1"),
        (RATE, {"choices": []}, r"the choices \[\]"),
        (RATE, {"choices": [0.1, 0.1]}, "the choice 0.1 more than once"),
        (EPOCHS, {"choices": [4, 4.0]}, "the choice 4 more than once"),
        (EPOCHS, {"choices": ["4"]}, "has '4'"),
        (RATE, {"choices": [None]}, "has None"),
        ("training.normalise_rewards", {"low": 0, "high": 1}, "is no number and has no range"),
        (RATE, {"low": 1e-4, "high": 1e-3, "step": 1}, "has {'low'"),
        (RATE, 0.1, "has 0.1"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_a_remedy(key: str, entry: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        parse_space({key: entry}, "space.json")
    assert caught.value.message.startswith(f"space.json: {key} ")
    assert caught.value.fix


def test_an_empty_space_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"space\.json names no setting"):
        parse_space({}, "space.json")


@pytest.mark.parametrize("workload", DEFAULT_SPACES)
@pytest.mark.parametrize("num_envs", [1, 8, 96])
def test_every_corner_of_a_default_space_can_be_trained(workload: str, num_envs: int) -> None:
    space = DEFAULT_SPACES[workload]
    assert 5 <= len(space) <= 7
    ends = [d.values if isinstance(d, Choices) else (d.low, d.high) for d in space.values()]
    names = [key.removeprefix("training.") for key in space]
    for values in itertools.product(*ends):
        corner = dict(zip(names, values, strict=True))
        given = {"workload": workload, "num_envs": num_envs, **corner}
        resolve_settings(TrainingSettings.model_validate(given), "cpu")
        resolve_settings(TrainingSettings.model_validate(given), "cuda")


@pytest.mark.parametrize("workload", DEFAULT_SPACES)
def test_a_default_space_would_be_accepted_from_a_file(workload: str) -> None:
    for key, values in DEFAULT_SPACES[workload].items():
        entry = (
            {"choices": [*values.values]}
            if isinstance(values, Choices)
            else {"low": values.low, "high": values.high, "log": values.log}
        )
        assert parse_space({key: entry}, "x") == {key: values}
