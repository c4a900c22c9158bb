"""Adapter for TRL and Transformers: trains a model with GRPO from an asynchronous reward.

A completion without a reward (it could not be graded) is dropped: it has no part in the mean and
deviation of its group, in the loss, or in the number of tokens that the loss is divided by.
A checkpoint of TRL holds pickled tensors; it is read with ``weights_only`` alone.
"""

import logging
import os
import warnings
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import read_json
from Daddy.core.clock import SystemClock
from Daddy.core.errors import ConfigError, FileError, SandboxError, needs_extra
from Daddy.grpo.base_models import model_remedy, naming_full_disk
from Daddy.grpo.chat_tokens import ChatTokens, SampledTokens, Sampler, TokenEpisode
from Daddy.grpo.grpo_settings import (
    REPLY_SHARE,
    TINY,
    Completion,
    GrpoSettings,
    Prompt,
    trl_arguments,
)

os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", TOKENIZERS_PARALLELISM="false")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch

with needs_extra("grpo"):
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import (
        AutoTokenizer,
        LogitsProcessor,
        LogitsProcessorList,
        PrinterCallback,
        TrainerCallback,
    )
    from transformers.utils import logging as transformers_logging
    from trl import GRPOConfig, GRPOTrainer

warnings.filterwarnings("ignore", module="transformers")
for _name in ("trl", "transformers", "accelerate"):  # TRL's warnings quote completions as they are
    logging.getLogger(_name).setLevel(logging.ERROR)
transformers_logging.disable_progress_bar()

_AT_ONCE = 32
_STATE, _MOST_STATE = "trainer_state.json", 1 << 30
"""The file of a checkpoint that is written last, and its largest size: a kilobyte for each step."""


Rewards = Coroutine[Any, Any, Sequence[float | None]]
Reward = Callable[[Sequence[str], Sequence[Completion], int], Rewards]
"""Takes names of tasks, completions and the step; gives rewards, None where it cannot grade."""
Rollout = Callable[[Sequence[str], int, Sampler], Sequence[TokenEpisode]]
"""Takes names of tasks, the step and a sampler; gives an episode of several turns for each name."""


@dataclass(frozen=True)
class GrpoTraining:
    """Everything that one training needs.

    ``model`` is a folder or a name on the hub, ``output`` a folder. ``wait`` runs a reward to its
    end. ``on_step`` gets TRL's metrics of each step. ``stop_reason`` is asked after it; at the
    first one a checkpoint is written. With a ``rollout``, it makes the completions, and prompts are
    those of its episodes.
    """

    settings: GrpoSettings
    model: str
    output: Path
    prompts: Sequence[Prompt]
    reward: Reward
    wait: Callable[[Rewards], Sequence[float | None]]
    on_step: Callable[[dict[str, Any]], None]
    stop_reason: Callable[[], str | None] = lambda: None
    rollout: Rollout | None = None


class DroppingTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer in which a completion without a reward has no part in the gradient.

    TRL leaves it out of its group's baseline and sets its advantage to 0, but keeps its KL term and
    counts its tokens.
    """

    def load_weights(self, checkpoint: Path) -> None:
        """Take the weights of a checkpoint, those of adapters if it learns by them."""
        self._load_from_checkpoint(str(checkpoint))

    def _calculate_rewards(self, *arguments: Any) -> torch.Tensor:
        rewards: torch.Tensor = super()._calculate_rewards(*arguments)
        self._dropped = rewards.isnan().all(dim=1)
        groups = rewards.view(-1, self.num_generations)
        most, least = groups.nan_to_num(-torch.inf).amax(1), groups.nan_to_num(torch.inf).amin(1)
        self._equal = (most <= least).repeat_interleave(self.num_generations)
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        batch["advantages"][self._equal] = 0  # a mean of equal numbers is rounded
        batch["completion_mask"][self._dropped] = 0
        batch["num_items_in_batch"] = (batch["completion_mask"] * batch.get("tool_mask", 1)).sum()
        if self.rollout_func:
            batch["old_per_token_logps"] = batch["sampling_per_token_logps"]
        return batch


class _TokenLogprobs(LogitsProcessor):  # type: ignore[misc]
    """Records the log probability of each token that is sampled, and changes nothing."""

    def __init__(self, temperature: float) -> None:
        self._temperature, self._found = temperature, list[torch.Tensor]()
        self._last: torch.Tensor | None = None

    def __call__(self, rows: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self._last is not None:
            self._found.append(self._last.gather(1, rows[:, -1:]))
        self._last = (scores.float() / self._temperature).log_softmax(-1)
        return scores

    def read(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the log probabilities of all tokens sampled, of shape (rows, tokens)."""
        self(rows, rows[:, :1])
        return torch.cat(self._found, 1)


class GrpoLearner:
    """A model, its tokenizer and its training."""

    def __init__(self, training: GrpoTraining) -> None:
        self._training, settings = training, training.settings
        if settings.model_name == TINY:
            torch.set_num_threads(1)  # more of them spin: 14 times the CPU time on a busy machine
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(training.model, padding_side="left")
        except OSError as error:  # no such model, or no network
            raise ConfigError(
                f"the model {training.model} cannot be loaded", model_remedy(training.model)
            ) from error
        count = settings.per_device_train_batch_size * settings.gradient_accumulation_steps
        groups = max(1, count // settings.num_generations) * settings.max_steps
        dataset = [{"prompt": prompt.text, "task": prompt.task} for prompt in training.prompts]
        self._trainer = DroppingTrainer(
            model=training.model,
            reward_funcs=self.reward_func,
            args=GRPOConfig(str(training.output), **trl_arguments(settings)),
            train_dataset=Dataset.from_list(dataset * (groups // len(dataset) + 1)),
            processing_class=self.tokenizer,
            callbacks=[_Reporter(training)],
            peft_config=_lora(settings),
            rollout_func=self._roll_out if training.rollout else None,
        )
        self._trainer.remove_callback(PrinterCallback)

    def train(self, checkpoint: Path | None = None) -> None:
        """Train to the last step or to a reason to stop, on from a checkpoint of this run.

        Raises SandboxError, FileError, also for a checkpoint that holds more than tensors, and what
        the reward raises.
        """
        with naming_full_disk(self._training.output):
            try:
                self._trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint))
            except Exception as error:
                if type(error).__name__ != "UnpicklingError":
                    raise
                raise FileError(  # torch's own text tells how to unpickle it all the same
                    f"{checkpoint} is damaged, or holds more than tensors", "begin a new run"
                ) from error

    def load(self, checkpoint: Path) -> None:
        """Take the weights of a checkpoint of this run."""
        self._trainer.load_weights(checkpoint)

    def save(self, folder: Path) -> None:
        """Write model and tokenizer as a folder that Transformers loads. Raises FileError."""
        model = self._trainer.model
        with naming_full_disk(folder):
            (model.merge_and_unload() if _lora(self._training.settings) else model).save_pretrained(
                folder
            )
            self.tokenizer.save_pretrained(folder)

    def complete(self, prompt: str, count: int = 0) -> list[Completion]:
        """Return completions sampled at temperature 1; for a ``count`` of 0 the greedy one."""
        model = self._trainer.model
        inputs = self.tokenizer([prompt], return_tensors="pt").to(model.device)
        inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        model.eval()
        found: list[Completion] = []
        while len(found) < max(1, count):
            sampling = {"top_k": 0, "num_return_sequences": min(_AT_ONCE, count - len(found))}
            with torch.no_grad():
                rows = model.generate(
                    **inputs,
                    do_sample=count > 0,
                    **(sampling if count else {}),
                    max_new_tokens=self._training.settings.max_completion_length,
                    pad_token_id=self.tokenizer.pad_token_id,
                )
            new = rows[:, inputs["input_ids"].shape[1] :].tolist()
            texts = self.tokenizer.batch_decode(new, skip_special_tokens=True)
            found += [Completion(t, self._has_ended(r)) for t, r in zip(texts, new, strict=True)]
        model.train()
        return found

    def chat_tokens(self) -> ChatTokens:
        """Return the tokens of chats with this model."""
        return ChatTokens(self.tokenizer)

    @property
    def context(self) -> int:
        """The longest text in tokens that the model reads."""
        return int(getattr(self._trainer.model.config, "max_position_embeddings", 0) or 1 << 30)

    @property
    def reply_tokens(self) -> int:
        """The longest reply that is sampled: at most a part of the model's context."""
        limit = self._training.settings.max_completion_length
        return min(limit, self.context // REPLY_SHARE)

    def sample(
        self, prompts: Sequence[Sequence[int]], *, greedy: bool = False
    ) -> list[SampledTokens]:
        """Sample a reply to each prompt, as one padded batch; `greedy` ones are the likeliest."""
        model, settings, pad = self._trainer.model, self._training.settings, self._pad
        longest = max(map(len, prompts))
        rows = [[pad] * (longest - len(ids)) + [*ids] for ids in prompts]
        known = [[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts]
        trace = _TokenLogprobs(1.0 if greedy else settings.temperature)
        choice = {} if greedy else {"temperature": settings.temperature, "top_k": 0, "top_p": 1.0}
        model.eval()
        with torch.no_grad():
            found = model.generate(
                input_ids=torch.tensor(rows, device=model.device),
                attention_mask=torch.tensor(known, device=model.device),
                do_sample=not greedy,
                **choice,
                max_new_tokens=self.reply_tokens,
                pad_token_id=pad,
                logits_processor=LogitsProcessorList([trace]),
            )
        model.train()
        new, logprobs = found[:, longest:].tolist(), trace.read(found).tolist()
        return [self._cut(*row) for row in zip(new, logprobs, strict=True)]

    def _cut(self, ids: list[int], logprobs: list[float]) -> SampledTokens:
        """Leave out the padding after a reply's end."""
        ends = [index for index, token in enumerate(ids) if token in self._trainer.eos_token_ids]
        length = ends[0] + 1 if ends else len(ids)
        return SampledTokens(ids[:length], logprobs[:length], bool(ends))

    @property
    def _pad(self) -> int:
        pad = self.tokenizer.pad_token_id
        return int(self.tokenizer.eos_token_id if pad is None else pad)

    def _roll_out(self, names: Sequence[str], trainer: Any) -> dict[str, Any]:
        """Play the episodes of a step, for TRL. An episode without tokens gets an end, masked."""
        assert self._training.rollout
        episodes = self._training.rollout(names, trainer.state.global_step + 1, self.sample)
        for episode in episodes:
            if not episode.completion_ids:
                episode.prompt_ids = episode.prompt_ids or [self._pad]
                episode.add_observed([self._pad])
        fields = ("prompt_ids", "completion_ids", "logprobs", "env_mask")
        return {name: [getattr(episode, name) for episode in episodes] for name in fields}

    def _has_ended(self, ids: Sequence[int]) -> bool:
        limit = self._training.settings.max_completion_length
        last = self.tokenizer.eos_token_id, self.tokenizer.pad_token_id
        return len(ids) < limit or ids[-1] in last

    def reward_func(
        self, completions: Sequence[str], completion_ids: Any, task: Sequence[str], **rest: Any
    ) -> list[float | None]:
        """Grade the completions of a step, for TRL."""
        clock, step = SystemClock(), rest["trainer_state"].global_step + 1
        texts = [
            Completion(text, self._has_ended(ids))
            for text, ids in zip(completions, completion_ids, strict=True)
        ]
        started = clock.monotonic()
        rewards = [*self._training.wait(self._training.reward(task, texts, step))]
        graded = [reward for reward in rewards if reward is not None]
        if not graded:
            raise SandboxError(
                f"no completion of step {step} could be graded", "read errors.log; then --resume"
            )
        log: Callable[[str, float], None] = rest["log_metric"]
        log("fully_correct", sum(reward >= 1 for reward in graded) / len(graded))
        log("not_graded", len(rewards) - len(graded))
        log("reward_seconds", clock.monotonic() - started)
        if self._training.settings.shuffle_rewards:
            size = self._training.settings.num_generations
            groups = [rewards[at : at + size] for at in range(0, len(rewards), size)]
            rewards = [reward for group in groups for reward in _shuffled(group)]
        return rewards


def _lora(settings: GrpoSettings) -> Any:
    rank = 0 if settings.model_name == TINY else settings.lora_rank
    return (
        LoraConfig(r=rank, target_modules="all-linear", lora_alpha=32, task_type="CAUSAL_LM")
        if rank
        else None
    )


def _shuffled(group: Sequence[float | None]) -> list[float | None]:
    """Return the rewards of a group in another order: a control, from which nothing is learnt."""
    graded = [reward for reward in group if reward is not None]
    order = iter(torch.randperm(len(graded)).tolist())
    return [reward if reward is None else graded[next(order)] for reward in group]


class _Reporter(TrainerCallback):  # type: ignore[misc]
    def __init__(self, training: GrpoTraining) -> None:
        self._training = training

    def on_log(self, _args: Any, state: Any, _control: Any, logs: Any, **_rest: Any) -> None:
        if "reward" in logs:
            share = logs["reward_seconds"] / logs["step_time"]
            self._training.on_step({"step": state.global_step, **logs, "sandbox_share": share})

    def on_pre_optimizer_step(self, *_args: Any, model: Any, **_rest: Any) -> None:
        """Leave the weights as they are after a batch of equal rewards and without a KL term.

        Its gradients are 0, but Adam's momentum goes on for 20 steps: after one bad update no
        episode earned anything any more, and each batch led on to where that update had led.
        """
        if not any(p.grad is not None and p.grad.any() for p in model.parameters()):
            model.zero_grad(set_to_none=True)  # AdamW passes such parameters over

    def on_step_end(self, _args: Any, _state: Any, control: Any, **_rest: Any) -> None:
        if self._training.stop_reason():
            control.should_save = control.should_training_stop = True


def find_checkpoint(output: Path) -> Path | None:
    """Return the newest complete checkpoint of a run's own folder, None before the first one.

    A checkpoint from elsewhere is never read. Raises ConfigError for a link, and if none is
    complete: training again from the first step would remove what the run has recorded.
    """
    found = output.glob("checkpoint-[0-9]*")
    numbered = (folder for folder in found if folder.name.partition("-")[2].isdecimal())
    folders = sorted(numbered, key=checkpoint_step)
    if not folders:
        return None
    complete = [folder for folder in folders if _is_complete(folder)]
    if not complete:
        raise ConfigError(
            f"{folders[-1]} is not complete",
            "remove it to train again from step 1, or begin a new run",
        )
    if complete[-1].is_symlink():
        raise ConfigError(f"{complete[-1]} is a link", "a run resumes its own checkpoints alone")
    return complete[-1]


def checkpoint_step(folder: Path) -> int:
    """Return the step of a checkpoint."""
    return int(folder.name.partition("-")[2])


def _is_complete(folder: Path) -> bool:
    try:
        return "log_history" in read_json(folder / _STATE, _MOST_STATE)
    except (FileNotFoundError, NotADirectoryError, FileError):
        return False
