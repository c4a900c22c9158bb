"""Episodes of several turns in TRL: which tokens the loss counts, and that they are on policy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from Daddy.core.event_loop_thread import EventLoopThread
from Daddy.grpo.chat_tokens import ChatTokens, SampledTokens, TokenEpisode
from Daddy.grpo.grpo_settings import IMPORTANCE_SAMPLING, GrpoSettings, Prompt

torch = pytest.importorskip("torch")
EPISODES = 4


class Lesson:
    """A training on episodes of two replies, between which a test's text is shown."""

    def __init__(self, model: Path, output: Path, loop: EventLoopThread, **given: Any):
        from Daddy.grpo.grpo_trainer import GrpoLearner, GrpoTraining

        settings = GrpoSettings(
            "folder",
            num_generations=EPISODES,
            per_device_train_batch_size=EPISODES,
            max_completion_length=8,
            max_steps=1,
            learning_rate=1e-3,
            beta=0.0,
            loss_type=IMPORTANCE_SAMPLING,
            **given,
        )
        self.rewards: list[float | None] = [0.0, 1.0, 0.0, 1.0]
        self.observed = ["one\n", "def two", "a longer text\n", "zz"]
        self.rows: list[dict[str, Any]] = []
        self.episodes: list[TokenEpisode] = []
        prompts = [Prompt("one", "one")]
        training = (settings, str(model), output, prompts, self.reward, loop.wait, self.rows.append)
        self.learner = GrpoLearner(GrpoTraining(*training, rollout=self.roll_out))
        self.trainer = self.learner._trainer
        self.batch: dict[str, Any] = {}
        loss = self.trainer._compute_loss

        def keep(model: Any, inputs: Any) -> Any:
            self.batch = inputs
            return loss(model, inputs)

        self.trainer._compute_loss = keep

    async def reward(self, *_: Any) -> list[float | None]:
        return self.rewards

    def roll_out(self, names: Sequence[str], step: int, sample: Any) -> list[TokenEpisode]:
        assert (list(names), step) == (["one"] * EPISODES, 1)
        tokens = self.learner.chat_tokens()
        self.episodes = [TokenEpisode(tokens.begin(text)) for text in self.observed]
        for turn in range(2):
            for episode, reply in zip(
                self.episodes, sample([each.ids for each in self.episodes]), strict=True
            ):
                episode.add_sampled(reply)
            for episode, text in zip(self.episodes, self.observed, strict=True):
                if turn == 0:
                    episode.add_observed(tokens.follow(text))
        return self.episodes

    def by_tokens(self, name: str) -> dict[tuple[int, ...], Any]:
        """Return rows of a tensor of the loss by their tokens: TRL shuffles rows."""
        ids = self.batch["completion_ids"].tolist()
        return {tuple(row): values for row, values in zip(ids, self.batch[name], strict=True)}


@pytest.fixture
def lesson(tiny_model: Path, tmp_path: Path, loop: EventLoopThread) -> Any:
    numbers = iter(range(100))
    return lambda **given: Lesson(tiny_model, tmp_path / f"run{next(numbers)}", loop, **given)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_loss_counts_sampled_tokens_alone_and_at_the_samplers_probabilities(
    lesson: Any, temperature: float
) -> None:
    taught = lesson(temperature=temperature)
    logprobs, compute = [], taught.trainer._get_per_token_logps_and_entropies

    def watch(*args: Any, **rest: Any) -> Any:
        logprobs.append((found := compute(*args, **rest))[0].detach())
        return found

    taught.trainer._get_per_token_logps_and_entropies = watch
    taught.learner.train()
    batch, (learnt,) = taught.batch, logprobs
    mask = (batch["completion_mask"] * batch["tool_mask"]).bool()
    assert mask.sum() == sum(sum(each.env_mask) for each in taught.episodes)
    assert batch["num_items_in_batch"] == mask.sum()
    assert torch.allclose(learnt[mask], batch["old_per_token_logps"][mask], atol=1e-4)
    rows = taught.by_tokens("tool_mask")
    for episode in taught.episodes:
        (found,) = (m for ids, m in rows.items() if [*ids[: len(episode.ids)]] and
                    [*ids[: len(episode.completion_ids)]] == episode.completion_ids)  # fmt: skip
        assert found.tolist()[: len(episode.env_mask)] == episode.env_mask
    assert taught.rows[0]["reward"] == 0.5


def test_a_dropped_episode_has_no_part_in_the_loss_and_the_others_keep_theirs(lesson: Any) -> None:
    taught = lesson()
    taught.rewards = [None, 1.0, 0.0, 1.0]
    taught.learner.train()
    kept = taught.by_tokens("completion_mask")
    dropped = [ids for ids, mask in kept.items() if not mask.any()]
    assert len(dropped) == 1
    assert [*dropped[0][: len(taught.episodes[0].completion_ids)]] == taught.episodes[
        0
    ].completion_ids
    sampled = [sum(each.env_mask) for each in taught.episodes]
    assert taught.batch["num_items_in_batch"] == sum(sampled[1:])
    advantages = sorted(taught.batch["advantages"].tolist())
    assert advantages == pytest.approx([-2 / 3, 0, 1 / 3, 1 / 3])
    assert taught.rows[0]["not_graded"] == 1


def test_an_episode_that_could_not_begin_is_dropped(lesson: Any) -> None:
    taught = lesson()
    play = taught.roll_out

    def fail_first(*args: Any) -> list[TokenEpisode]:
        return [TokenEpisode(), *play(*args)[1:]]

    object.__setattr__(taught.learner._training, "rollout", fail_first)
    taught.rewards[0] = None
    taught.learner.train()
    assert taught.rows[0]["not_graded"] == 1
    assert sum(mask.any().item() for mask in taught.batch["completion_mask"]) == EPISODES - 1


def test_a_reply_ends_at_its_end_or_at_the_limit(lesson: Any) -> None:
    learner = lesson().learner
    prompt = learner.tokenizer('def one(xs):\n    """Return one."""\n').input_ids
    first, second = learner.sample([prompt, prompt[-3:]], greedy=True)
    assert isinstance(first, SampledTokens)
    assert len(first.ids) == len(first.logprobs) <= 8
    assert first.ended == (first.ids[-1] == learner.tokenizer.eos_token_id)
    assert max(first.logprobs) <= 0
    assert learner.sample([prompt], greedy=True)[0].ids == first.ids
    assert second.ids


def test_adapters_learn_alone_and_the_saved_model_has_them(lesson: Any, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    taught = lesson(lora_rank=2)
    trained = [name for name, each in taught.trainer.model.named_parameters() if each.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)
    taught.learner.train()
    taught.learner.save(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", local_files_only=True)
    assert type(model).__name__ == "LlamaForCausalLM"


def test_a_chats_tokens_follow_the_template_of_its_model(tiny_model: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = (
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}<end>\n{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    chat = ChatTokens(tokenizer)
    assert tokenizer.decode(chat.begin("hello")) == "[user]hello<end>\n[assistant]"
    assert tokenizer.decode(chat.follow("more")) == "\n[user]more<end>\n[assistant]"
    end = tokenizer.eos_token_id
    assert chat.follow("a<end>\n[assistant]b").count(end) == chat.follow("ab").count(end) == 1
