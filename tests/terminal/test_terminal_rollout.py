"""Episodes of a batch in real terminals: their tokens, rewards, and those that are dropped."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from Daddy.core.clock import SystemClock
from Daddy.core.event_loop_thread import EventLoopThread
from Daddy.grpo.chat_tokens import PLAIN_TEMPLATE, ChatTokens, SampledTokens
from Daddy.terminal.task_folder import read_task
from Daddy.terminal.task_sandboxes import TaskSandboxes
from Daddy.terminal.terminal_rollout import (
    KEPT_BATCHES,
    EpisodeLimits,
    TerminalEpisode,
    TerminalRollout,
    measure_batch,
)
from Daddy.terminal.tiny_terminal_corpus import make_chats
from tests.patience import PATIENCE_S
from tests.terminal.episodes import COUNT, backend, copy_task

LIMITS = EpisodeLimits(4, 4000, 50, 80, 5, shows_format=False)
RIGHT = "cat logs/*.log | grep -cw ERROR > errors.txt\n"


def reply(keys: str, *, ends: bool = False) -> str:
    commands = [{"keystrokes": keys, "duration": PATIENCE_S}]
    return json.dumps({"analysis": "", "plan": "", "commands": commands, "task_complete": ends})


class Table:
    """A rollout whose replies a test has written: a list of texts for each episode."""

    def __init__(self, model: Path, folder: Path, task: Path = COUNT, limits: Any = LIMITS) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.tokens = ChatTokens(self.tokenizer)
        self.asked: list[list[list[int]]] = []
        self.sandboxes_open: list[int] = []
        self.folder, self.limits = folder, limits
        self.sandboxes = {
            task.name: TaskSandboxes(read_task(task), backend(), folder / "l", "host")
        }

    def encode(self, text: str) -> list[int]:
        """Return tokens of a reply that its text would not be split into again."""
        return [*(self.tokenizer(char).input_ids[0] for char in text), self.tokenizer.eos_token_id]

    def play(self, texts: Sequence[Sequence[str]], batch: int = 1) -> list[TerminalEpisode]:
        waiting = [list(each) for each in texts]

        def sample(prompts: Sequence[Sequence[int]]) -> list[SampledTokens]:
            children = psutil.Process().children()
            self.sandboxes_open.append(sum(child.name() == "bwrap" for child in children))
            self.asked.append([list(ids) for ids in prompts])
            answers = []
            for replies in [replies for replies in waiting if replies]:
                ids = self.encode(replies.pop(0))
                answers.append(SampledTokens(ids, [-0.5] * len(ids), ended=True))
            assert len(answers) == len(prompts)
            return answers

        with EventLoopThread() as loop:
            rollout = TerminalRollout(
                self.sandboxes, self.limits, self.folder / "e", loop.wait, SystemClock()
            )
            names = [*self.sandboxes] * len(texts)
            return rollout.play(names, batch, sample, self.tokens)[0]


def test_the_sampled_tokens_are_trained_and_the_terminals_are_masked(
    terminal_model: Path, tmp_path: Path
) -> None:
    table = Table(terminal_model, tmp_path)
    texts = [[reply("echo a\n"), reply(RIGHT, ends=True)], [reply("echo b\n", ends=True)]]
    first, second = table.play(texts)
    assert (first.reward, second.reward) == (1.0, 0.0)
    for episode, each in zip((first, second), texts, strict=True):
        sampled = [
            i for i, mask in zip(episode.completion_ids, episode.env_mask, strict=True) if mask
        ]
        assert sampled == [token for text in each for token in table.encode(text)]
        assert episode.logprobs == [-0.5 * mask for mask in episode.env_mask]
        assert len(episode.env_mask) == len(episode.completion_ids)
    observed = [i for i, mask in zip(first.completion_ids, first.env_mask, strict=True) if not mask]
    assert observed == table.tokens.follow("root:/app# echo a\na\nroot:/app#")
    instruction = read_task(COUNT).instruction.strip()
    assert table.tokenizer.decode(first.prompt_ids) == f"{instruction}\n\nroot:/app#\n>>>\n"
    one_reply = len(table.encode(texts[0][0])) + len(observed)
    assert table.asked == [
        [first.prompt_ids, second.prompt_ids],
        [first.prompt_ids + first.completion_ids[:one_reply]],
    ]
    assert measure_batch([first, second]) == {
        "turns": 1.5,
        "parse_success": 1.0,
        "json_ok": 1.0,
        "num_commands": 1.0,
        "too_long": 0.0,
        "dropped": 0,
    }


def test_an_episode_that_is_not_graded_is_dropped_and_the_others_go_on(
    terminal_model: Path, tmp_path: Path
) -> None:
    test = "[ -e /app/drop ] || python3 -I /tests/grade.py\n"
    task = copy_task(COUNT, tmp_path / "picky", tests__test_x="", **{"tests__test.sh": test})
    table = Table(terminal_model, tmp_path, task)
    dropped, kept = table.play([[reply("touch drop\n", ends=True)], [reply(RIGHT, ends=True)]])
    assert (dropped.reward, kept.reward) == (None, 1.0)
    assert "no reward" in dropped.reason
    figures = measure_batch([dropped, kept])
    assert (figures["dropped"], figures["turns"]) == (1, 1.0)


def test_a_broken_reply_ends_with_zero_and_a_full_chat_and_the_last_turn_are_graded(
    terminal_model: Path, tmp_path: Path
) -> None:
    table = Table(terminal_model, tmp_path)
    broken, cut = table.play(
        [["{no json}"], [reply("seq 9\n"), reply("seq 8\n"), reply(RIGHT), reply("true\n")]]
    )
    assert (broken.reward, broken.in_format, broken.live) == (0.0, 0, False)
    assert "broke the format" in broken.reason
    assert (cut.reward, cut.turns) == (1.0, LIMITS.max_turns)
    short = EpisodeLimits(4, len(cut.prompt_ids) + 60, 50, 80, 5, shows_format=False)
    (long,) = Table(terminal_model, tmp_path, limits=short).play([[reply(RIGHT)]])
    assert (long.reward, long.too_long, long.turns) == (1.0, True, 1)
    none = EpisodeLimits(4, 50, 50, 80, 5, shows_format=False)
    (untold,) = Table(terminal_model, tmp_path, limits=none).play([[]])
    assert (untold.reward, untold.too_long, untold.turns) == (0.0, True, 0)


def test_the_sandbox_of_an_episode_ends_with_it(terminal_model: Path, tmp_path: Path) -> None:
    table = Table(terminal_model, tmp_path)
    table.play(
        [["{no json}"], [reply("true\n"), reply("true\n", ends=True)], [reply("true\n", ends=True)]]
    )
    assert table.sandboxes_open == [3, 1]


def test_records_of_old_batches_are_removed(terminal_model: Path, tmp_path: Path) -> None:
    table = Table(terminal_model, tmp_path)
    for batch in (1, KEPT_BATCHES + 1):
        table.play([[reply("true\n", ends=True)]], batch)
    (folder,) = (tmp_path / "e").iterdir()
    assert folder.name == f"{KEPT_BATCHES + 1:06}"
    names = {path.name for path in folder.glob("*/*")}
    assert {"trajectory.jsonl", "terminal.cast", "result.json"} <= names


def test_the_warm_start_is_written_in_the_plain_template(terminal_model: Path) -> None:
    import random

    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(terminal_model)
    tokens = ChatTokens(tokenizer)
    assert tokenizer.chat_template == PLAIN_TEMPLATE
    draw = random.Random(1)
    chats = make_chats({COUNT.name: "Count."}, 5, draw, 50)
    chat, _ = max(chats, key=lambda pair: len(pair[0]))
    first, *rest = chat.split("<end>")
    begin, _, answer = first.partition("\n>>>\n")
    ids = tokens.begin(begin)
    for following in rest:
        ids += tokenizer(f"{answer}<end>").input_ids
        screen, _, answer = following.partition("\n>>>\n")
        ids += tokens.follow(screen)
    assert ids == tokenizer(chat).input_ids
