"""The loop of tinker-cookbook plays whole episodes; test_tinker_adapter.py runs this file.

A stand-in policy emits the tokens of replies. The tokenizer has a token for each byte, and two of
the renderer's.
"""

import asyncio
import inspect
import json
import pickle
import runpy
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import chz
import pytest
import tinker
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.rl import types
from tinker_cookbook.rl.rollout_strategy import MinViableGroup
from tinker_cookbook.rl.rollouts import do_group_rollout, do_single_rollout
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from Daddy.core.errors import ConfigError, SandboxError
from Daddy.terminal.tinker_adapter import (
    HarborSingleTaskRLDatasetBuilder,
    HarborTerminalTinkerEnv,
    SingleTaskDataset,
    SingleTaskGroup,
)
from tests.patience import PATIENCE_S
from tests.terminal.episodes import COUNT, backend, copy_task

SOLVED = (
    {"commands": [{"keystrokes": "cd logs\n"}, {"keystrokes": "cat *.log | grep -cw ERROR > n\n"}]},
    {"commands": [{"keystrokes": "mv n ../errors.txt\n", "duration": 30}], "task_complete": True},
)
END = "<|im_end|>"


def texts(*replies: dict[str, Any]) -> list[str]:
    return [json.dumps({"analysis": "", "plan": "", **reply}) + END for reply in replies]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a folder with a tokenizer."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: at for at, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", END])
    folder = tmp_path_factory.mktemp("model")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def settings(model: str, tmp_path: Path) -> HarborSingleTaskRLDatasetBuilder:
    backend()
    return HarborSingleTaskRLDatasetBuilder(
        task_dir=str(COUNT),
        model_name=model,
        renderer_name="qwen3_instruct",
        group_size=2,
        groups_per_batch=3,
        num_batches=25,
        runs_dir=str(tmp_path),
        image="host",
    )


class Scripted(TokenCompleter):
    """Gives each episode its next reply; episodes take the lists of replies in turn."""

    def __init__(self, model: str, *episodes: Sequence[str]) -> None:
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(model)
        self.episodes, self.begun, self.asked = episodes, 0, []

    async def __call__(self, model_input: tinker.ModelInput, stop: Any) -> TokensWithLogprobs:
        chat = self.tokenizer.decode(model_input.to_ints())
        self.asked.append(chat)
        turn = chat.count("<|im_start|>assistant") - 1
        episode = self.episodes[0]
        if turn == 0:
            episode = self.episodes[self.begun]
            self.begun += 1
        tokens = self.tokenizer.encode(episode[turn], add_special_tokens=False)
        return TokensWithLogprobs(tokens=tokens, maybe_logprobs=[0.0] * len(tokens))


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story, PATIENCE_S))


def metrics_of(trajectory: types.Trajectory) -> list[tuple[float, ...]]:
    names = ("parse_success", "json_ok", "num_commands", "too_long")
    return [tuple(step.metrics[name] for name in names) for step in trajectory.transitions]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (HarborTerminalTinkerEnv, types.Env),
        (SingleTaskGroup, types.EnvGroupBuilder),
        (SingleTaskDataset, types.RLDataset),
        (HarborSingleTaskRLDatasetBuilder, types.RLDatasetBuilder),
    ],
)
def test_our_classes_have_the_signatures_of_theirs(ours: Any, theirs: Any) -> None:
    assert issubclass(ours, theirs)
    assert not inspect.isabstract(ours)
    methods = {name for name, member in vars(theirs).items() if inspect.isfunction(member)}
    for name in (methods & vars(ours).keys()) - {"__init__", "__eq__", "__hash__", "__repr__"}:
        there, here = (inspect.signature(vars(kind)[name]).parameters for kind in (theirs, ours))
        assert [*map(str, here.values())] == [*map(str, there.values())], name


def test_a_group_is_played_and_graded_by_the_cookbooks_loop(
    settings: HarborSingleTaskRLDatasetBuilder, model: str, tmp_path: Path
) -> None:
    batches, evaluation = run(settings())
    assert (len(batches), len(batches.get_batch(0)), len(evaluation)) == (25, 3, 1)
    group = pickle.loads(pickle.dumps(batches.get_batch(0)[0]))
    policy = Scripted(model, texts(*SOLVED), ["{} is no reply" + END])
    played = run(do_group_rollout(group, policy))
    rewards = dict(zip(played.get_total_rewards(), played.trajectories_G, strict=True))
    assert sorted(rewards) == [0.0, 1.0]
    assert metrics_of(rewards[1.0]) == [(1.0, 1.0, 2, 0.0), (1.0, 1.0, 1, 0.0)]
    assert metrics_of(rewards[0.0]) == [(1.0, 0.0, 0, 0.0)]
    assert [rewards[reward].stop_reason for reward in (1.0, 0.0)] == ["completed", "parse_error"]
    second = next(chat for chat in policy.asked if "grep -cw" in chat)
    assert "root:/app/logs#" in second, "the screen after the first reply"
    assert len(list(tmp_path.glob("*/result.json"))) == 2


def test_a_reply_that_was_cut_off_earns_nothing(
    settings: HarborSingleTaskRLDatasetBuilder, model: str
) -> None:
    policy = Scripted(model, [texts(SOLVED[1])[0].removesuffix(END)] * 2, ["{"])
    played = run(do_group_rollout(SingleTaskGroup(settings), policy))
    assert played.get_total_rewards() == [0.0, 0.0]
    assert [metrics_of(episode) for episode in played.trajectories_G] == [[(0.0, 0.0, 0, 0.0)]] * 2


async def play_with_room(
    settings: HarborSingleTaskRLDatasetBuilder, model: str, more: int
) -> types.Trajectory:
    """Play one episode with room for `more` tokens over the first observation."""
    group = SingleTaskGroup(settings)
    env, measured = await group.make_envs()
    try:
        env._max_tokens = more + (await measured.initial_observation())[0].length
        solved = "cat logs/*.log | grep -cw ERROR > n\nmv n errors.txt\n"
        policy = Scripted(model, texts({"commands": [{"keystrokes": solved, "duration": 30}]}))
        return await do_single_rollout(policy, env)
    finally:
        await group.cleanup()


def test_a_chat_that_fills_the_context_is_graded(
    settings: HarborSingleTaskRLDatasetBuilder, model: str
) -> None:
    played = run(play_with_room(settings, model, 10))
    assert metrics_of(played) == [(1.0, 1.0, 1, 1.0)]
    assert (played.transitions[0].reward, played.stop_reason) == (1.0, "context_overflow")


def test_a_task_longer_than_the_context_asks_no_model(
    settings: HarborSingleTaskRLDatasetBuilder, model: str
) -> None:
    played = run(play_with_room(settings, model, -1000))
    assert played.transitions[0].metrics["too_long"] == 1.0
    assert (played.transitions[0].reward, played.stop_reason) == (0.0, "max_tokens")


def test_an_episode_that_cannot_be_graded_is_dropped_by_the_cookbook(
    settings: HarborSingleTaskRLDatasetBuilder, model: str, tmp_path: Path
) -> None:
    script = "[ -e errors.txt ] || echo 0 >/logs/verifier/reward.txt\n"
    task = copy_task(COUNT, tmp_path / "task", **{"tests__test.sh": script})
    group = SingleTaskGroup(chz.replace(settings, task_dir=str(task)))
    policy = Scripted(model, texts(*SOLVED), texts({"commands": [], "task_complete": True}))
    played = run(do_group_rollout(group, policy, MinViableGroup(1, max_retries=0)))
    assert played.get_total_rewards() == [0.0]
    assert [error.error_type for error in played.rollout_errors] == [SandboxError.__name__]


def test_the_recipes_file_gives_the_classes() -> None:
    names = runpy.run_path(str(COUNT.parents[1] / "wrapped_env.py"))
    assert names["HarborTerminalTinkerEnv"] is HarborTerminalTinkerEnv
    assert names["HarborSingleTaskRLDatasetBuilder"] is HarborSingleTaskRLDatasetBuilder


def test_a_wrong_task_is_refused_before_training(
    settings: HarborSingleTaskRLDatasetBuilder,
) -> None:
    with pytest.raises(ConfigError, match="is no task"):
        run(chz.replace(settings, task_dir="/nowhere")())
