"""The tuned recipe: given to a new run of the real game, never against what a person typed."""

import pytest

from Daddy.cluster.orchestrator.commands.tuned_recipe import (
    apply_recipe,
    check_agreed,
    describe_length,
)
from Daddy.core.agreed_settings import agreed_settings
from Daddy.core.errors import ConfigError
from Daddy.core.load_config import load_config
from Daddy.core.settings import PROFILES, Config


def config(**typed: object) -> Config:
    return load_config(None, {name.replace("__", "."): value for name, value in typed.items()})


def row(lines: list[str], name: str) -> list[str]:
    return next(line.split() for line in lines if line.strip().startswith(name))


def test_a_new_run_takes_all_of_it_and_is_told_both_values_of_each() -> None:
    tuned, lines = apply_recipe(config(), None, {})
    training = tuned.training
    assert {name: getattr(training, name) for name in PROFILES["gpu"]} == PROFILES["gpu"]
    assert (training.profile, training.total_steps) == ("gpu", 0)
    assert (training.episode_steps, tuned.archive.mode) == (1_000_000_000, "swarm")
    assert row(lines, "training.num_envs") == ["training.num_envs", "8", "96"]
    assert row(lines, "training.total_steps")[1:] == ["5,000,000", "0", "(no", "end)"]
    assert row(lines, "training.learning_rate")[1:] == ["by", "device", "0.0002"]
    changed = {name for name in PROFILES["gpu"] if row_of_change(name, tuned)}
    assert {line.split()[0] for line in lines if line.startswith("  training.")} == {
        f"training.{name}" for name in (*changed, "profile", "episode_steps", "total_steps")
    }


def row_of_change(name: str, tuned: Config) -> bool:
    return bool(getattr(config().training, name) != getattr(tuned.training, name))


def test_what_was_typed_stays_even_if_it_is_the_default() -> None:
    typed = {"training__total_steps": 5_000_000, "training__gamma": 0.99, "archive__mode": "off"}
    tuned, lines = apply_recipe(config(**typed), None, {})
    assert (tuned.training.total_steps, tuned.training.gamma) == (5_000_000, 0.99)
    assert (tuned.archive.mode, tuned.training.num_envs) == ("off", 96)
    said = "  ".join(row(lines, "training.total_steps"))
    assert said.split()[1:] == ["5,000,000", "0", "(no", "end)", "stays:", "you", "set", "it"]
    assert "you" in row(lines, "archive.mode")


def test_a_profile_that_was_typed_is_not_replaced() -> None:
    tuned, lines = apply_recipe(config(training__profile="cpu"), None, {})
    assert (tuned.training.profile, tuned.training.num_envs) == ("cpu", 8)
    assert tuned.archive.mode == "swarm"
    assert not any("num_envs" in line for line in lines)


def test_a_begun_run_keeps_what_it_began_with_unless_a_person_types_it() -> None:
    begun = config(training__num_envs=16)
    tuned, lines = apply_recipe(config(training__batch_size=128), begun, {})
    assert (tuned.training.num_envs, tuned.training.gamma) == (16, 0.99)
    assert (tuned.training.batch_size, tuned.training.total_steps) == (128, 5_000_000)
    assert row(lines, "training.num_envs")[1:3] == ["16", "96"]
    assert "began" in row(lines, "training.num_envs")
    again, _ = apply_recipe(config(), apply_recipe(config(), None, {})[0], {})
    assert again == apply_recipe(config(), None, {})[0]


def test_a_run_without_a_configuration_keeps_what_its_learners_agreed_on() -> None:
    tuned, lines = apply_recipe(config(), None, agreed_settings(config(training__gamma=0.9)))
    assert (tuned.training.gamma, tuned.training.normalise_rewards) == (0.9, True)
    assert tuned.training.num_envs == 96
    assert "began" in row(lines, "training.gamma")


def test_other_agreed_settings_and_sizes_than_the_runs_are_refused() -> None:
    ours = agreed_settings(config())
    check_agreed(config(), ours, {})
    check_agreed(config(training__lstm_size=512), {}, {})
    older = {name: value for name, value in ours.items() if not name.endswith("_size")}
    check_agreed(config(), older, {})
    for contract in (ours, older):
        with pytest.raises(ConfigError, match=r"training\.lstm_size 128 there, 512 here"):
            check_agreed(config(training__lstm_size=512), contract, {})
    with pytest.raises(ConfigError, match="game"):
        check_agreed(config(), {**ours, "game": '"a"'}, {"game": '"b"'})


def test_the_length_is_told_at_the_measured_speed_and_not_invented() -> None:
    typed = config(training__total_steps=5_000_000, slurm__max_running=4)
    assert "no speed is known" in describe_length(typed, 0, [])
    said = describe_length(typed, 0, [1_000.0, 1_500.0])
    assert "5,000,000, of all learners together, last 16 min at 5,000 steps/s (4 slots" in said
    assert said.endswith("measured speed)")
    assert "; 2,000,000 are left: 6 min" in describe_length(typed, 3_000_000, [1_250.0])
    assert "are done: jobs end at once" in describe_length(typed, 5_000_000, [1_250.0])
    assert describe_length(config(training__total_steps=0), 0, []).endswith("no end")
