"""Terms: what one average stands on, and what a laptop may take from a run."""

import pytest

from Daddy.core import load_config as configuration
from Daddy.core.agreed_settings import (
    GAME,
    adopted_settings,
    agreed_settings,
    contract_from_pairs,
    contract_to_pairs,
    describe_differences,
    offered_settings,
    unknown_settings,
)
from Daddy.core.errors import UsageError


def config(**overrides: object):
    return configuration.load_config(
        None, {key.replace("__", "."): v for key, v in overrides.items()}
    )


GAMER = {"training__workload": "pokemon_red"}


def test_two_learners_of_one_configuration_agree() -> None:
    ours = agreed_settings(config(**GAMER, training__num_envs=3), {GAME: '"a"'})
    assert describe_differences(ours, agreed_settings(config(**GAMER), {GAME: '"a"'})) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reward__badge", 3.5),
        ("training__gamma", 0.9),
        ("collaboration__rule", "polyak"),
        ("training__encoder_size", 512),
        ("training__lstm_size", 512),
    ],
)
def test_what_changes_the_meaning_of_weights_is_told(name: str, value: object) -> None:
    found = describe_differences(
        agreed_settings(config(**GAMER)), agreed_settings(config(**GAMER, **{name: value}))
    )
    assert len(found) == 1
    assert found[0].startswith(f"{name.replace('__', '.')} ")


def test_a_reward_means_nothing_where_there_is_no_game() -> None:
    ours = agreed_settings(config(training__workload="cartpole"))
    assert not any(name.startswith("reward.") for name in ours)


def test_what_an_older_record_does_not_say_is_no_difference() -> None:
    assert describe_differences({}, agreed_settings(config())) == []


def test_a_laptop_takes_the_runs_rewards_episodes_network_and_archive() -> None:
    run = config(**GAMER, reward__badge=3.5, training__episode_steps=77, archive__mode="swarm",
                 training__lstm_size=32)  # fmt: skip
    got = adopted_settings(
        config(**GAMER),
        contract_from_pairs(contract_to_pairs(offered_settings(run, {GAME: '"a"'}))),
    )
    laptop = configuration.load_config(None, {**got, "training.workload": "pokemon_red"})
    assert (laptop.reward.badge, laptop.training.episode_steps) == (3.5, 77)
    assert (laptop.archive.mode, laptop.training.lstm_size) == ("swarm", 32)
    assert describe_differences(offered_settings(run), offered_settings(laptop)) == []


@pytest.mark.parametrize(
    "name",
    ["training.rom", "training.device", "run_dir", "controller.notify", "slurm.setup", "x"],
)
def test_nothing_else_is_taken(name: str) -> None:
    terms = {**offered_settings(config(**GAMER)), name: '"/etc/passwd"'}
    assert name not in adopted_settings(config(**GAMER), terms)
    assert unknown_settings(config(**GAMER), terms) == [name]


def test_a_start_that_is_a_file_of_one_machine_is_not_offered() -> None:
    assert "training.start" not in offered_settings(
        config(**GAMER, training__start="/elsewhere/y.state")
    )
    assert "training.start" in offered_settings(config(**GAMER))


@pytest.mark.parametrize("value", ["{", "[1]", '{"a": 1}', "null", "[" * 5_000])
def test_a_value_that_is_no_plain_json_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match=r"the run's training\.gamma .* is invalid"):
        contract_from_pairs([("training.gamma", value)])
