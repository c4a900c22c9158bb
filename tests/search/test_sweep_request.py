"""The words of a sweep's command line."""

import shlex

import pytest

from Daddy import docker_launch, sweep_node
from Daddy.core.arguments import option_argv
from Daddy.core.errors import ConfigError, UsageError
from Daddy.search.sweep_request import (
    SweepRequest,
    add_sweep_flags,
    frozen_fields,
    merge_request,
    parse_words,
)

WORKLOADS = ("cartpole", "pokemon_red")
FIRST_LINE = (
    "run=test trainer.total_timesteps=50 "
    "trainer.curriculum=/env/mettagrid/curriculum/arena/random +hardware=macbook"
)


def parse(line):
    return parse_words(shlex.split(line), WORKLOADS)


def test_the_documents_line_is_cartpole_on_the_cpu():
    request = merge_request(parse(FIRST_LINE), {})
    assert (request.name, request.workload, request.steps) == ("test", "cartpole", 50)
    assert request.device == "cpu"
    assert "is cartpole here" in request.notes[0]


def test_settings_of_ours_are_fixed_and_keep_their_type():
    request = parse("run=a training.gamma=0.9 training.learning_rate_schedule=linear")
    assert request["fixed"] == {"training.gamma": 0.9, "training.learning_rate_schedule": "linear"}


@pytest.mark.parametrize(
    ("line", "error", "said"),
    [
        ("trainer.total_timesteps=50", UsageError, "add run=NAME"),
        ("run=a help", UsageError, "'help' has no value"),
        ("run=../a", UsageError, "cannot name a sweep"),
        ("run=a trainer.total_timestep=5", UsageError, "did you mean trainer.total_timesteps"),
        ("run=a trainer.total_timesteps=0", UsageError, "whole number"),
        ("run=a trainer.total_timesteps=-5", UsageError, "whole number"),
        ("run=a trainer.curriculum=arena", ConfigError, "use one of: cartpole, pokemon_red"),
        ("run=a +hardware=macbok", ConfigError, "did you mean macbook"),
        ("run=a training.seed=5", UsageError, "training.seed"),
    ],
)
def test_a_word_that_cannot_be_meant_is_refused_with_a_remedy(line, error, said):
    with pytest.raises(error) as caught:
        parse(line)
    assert said in str(caught.value)


def test_a_sweep_that_continues_keeps_its_words():
    started = merge_request(parse("run=a trainer.total_timesteps=50 training.gamma=0.9"), {})
    assert merge_request(parse("run=a +hardware=cpu"), frozen_fields(started)) == SweepRequest(
        "a", steps=50, device="cpu", fixed={"training.gamma": 0.9}
    )


def test_a_sweep_that_continues_takes_no_other_words():
    recorded = frozen_fields(merge_request(parse("run=a trainer.total_timesteps=50"), {}))
    with pytest.raises(ConfigError, match="steps 50, not 60"):
        merge_request(parse("run=a trainer.total_timesteps=60"), recorded)
    with pytest.raises(ConfigError, match=r"fixed \{\}, not"):
        merge_request(parse("run=a training.gamma=0.9"), recorded)


def test_a_sweep_on_nodes_gets_each_word_and_option_in_any_order():
    typed = shlex.split(
        "--max-rollouts 2 run=a --nodes 2 --jobs=3 --backend slurm --sbatch time=30 "
        "reward.badge=-1 --prune --sbatch gres= --sampler tpe --objectives score "
        "--seed 0 --wandb offline --space s.json --config c.json +hardware=cpu"
    )
    launched = docker_launch.make_parser().parse_args(["sweep", *typed])
    assert launched.words == ["run=a", "reward.badge=-1", "+hardware=cpu"]
    parse_node = sweep_node.make_parser().parse_args
    argv = [*launched.words, *option_argv(launched, add_sweep_flags)]
    assert parse_node(argv) == parse_node(typed)
    assert None not in vars(parse_node(typed)).values(), "an option is missing in this test"


def test_an_unknown_option_between_words_is_refused(capsys):
    with pytest.raises(SystemExit):
        sweep_node.make_parser().parse_args(["run=a", "--wandbb", "+hardware=cpu"])
    assert "--wandbb; did you mean --wandb?" in capsys.readouterr().err
