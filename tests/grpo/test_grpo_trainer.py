"""Steps of TRL with the tiny model: dropped completions, the control, checkpoints, metrics."""

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from Daddy.core.errors import ConfigError, FileError, SandboxError
from Daddy.core.event_loop_thread import EventLoopThread
from Daddy.grpo.grpo_settings import Completion, DeviceFacts, GrpoSettings, Prompt, choose_settings
from tests.components import small_disk
from tests.grpo.conftest import PROMPTS

torch = pytest.importorskip("torch")
GENERATIONS = 4
SMALL = {"num_generations": GENERATIONS, "max_completion_length": 8, "max_steps": 1}


class Lesson:
    """A training with rewards that a test decides, and the metrics of its steps."""

    def __init__(self, model: Path, output: Path, loop: EventLoopThread, **given: Any):
        from Daddy.grpo.grpo_trainer import GrpoLearner, GrpoTraining

        self.settings: GrpoSettings = choose_settings(DeviceFacts(), {**SMALL, **given})[0]
        self.rewards: list[float | None] = [float(n % 2) for n in range(2 * GENERATIONS)]
        self.rows: list[dict[str, Any]] = []
        self.seen: list[tuple[Sequence[str], Sequence[Completion], int]] = []
        self.stop: str | None = None
        self.on_step: Callable[[dict[str, Any]], object] = self.rows.append
        self.learner = GrpoLearner(
            GrpoTraining(
                self.settings,
                str(model),
                output,
                [Prompt(*pair) for pair in PROMPTS.items()],
                self.reward,
                loop.wait,
                lambda row: self.on_step(row),  # noqa: PLW0108 - a test sets it later
                lambda: self.stop,
            )
        )
        self.trainer = self.learner._trainer

    async def reward(
        self, names: Sequence[str], completions: Sequence[Completion], step: int
    ) -> list[float | None]:
        self.seen.append((names, completions, step))
        return self.rewards

    def gradient(self, dropped: list[int], reward: float | None) -> Any:
        """Return the gradient of a step whose third completion is given, as is its reward."""
        from transformers import TrainerCallback

        ids = [[5 + n % 3, 9, 1] for n in range(2 * GENERATIONS)]
        ids[2] = dropped
        self.rewards[2] = reward
        self.trainer._generate_single_turn = lambda *_args, **_rest: (ids, None)
        found = []

        class Catch(TrainerCallback):  # type: ignore[misc]
            def on_pre_optimizer_step(self, *_args: Any, model: Any, **_rest: Any) -> None:
                found.append(torch.cat([p.grad.flatten() for p in model.parameters()]))

        self.trainer.add_callback(Catch())
        with torch.no_grad():  # away from the reference: the KL term then has a gradient
            for parameter in self.trainer.model.parameters():
                parameter.add_(0.01)
        self.learner.train()
        return found[0]


@pytest.fixture
def lesson(tiny_model: Path, tmp_path: Path, loop: EventLoopThread) -> Any:
    numbers = iter(range(100))
    return lambda **given: Lesson(tiny_model, tmp_path / f"run{next(numbers)}", loop, **given)


def test_a_completion_without_a_reward_has_no_part_in_the_gradient(lesson: Any) -> None:
    short, long = [7, 1], [8, 9, 10, 11, 12, 13, 14]
    without = lesson().gradient(short, None)

    def distance(reward: float | None) -> float:
        difference = lesson().gradient(long, reward) - without
        return float(difference.norm() / without.norm())

    assert distance(None) < 1e-4  # padded otherwise: sums are rounded otherwise
    assert distance(0.0) > 1e-1


def test_a_step_tells_trls_metrics_and_ours(lesson: Any) -> None:
    taught = lesson()
    taught.rewards[0] = None
    taught.learner.train()
    (row,), ((names, completions, step),) = taught.rows, taught.seen
    assert names == [name for name in PROMPTS for _ in range(GENERATIONS)]
    assert (row["step"], step, row["not_graded"]) == (1, 1, 1)
    assert row["reward"] == row["fully_correct"] == pytest.approx(4 / 7)
    assert 0 < row["reward_seconds"] < row["step_time"]
    assert row["sandbox_share"] == row["reward_seconds"] / row["step_time"]
    assert {"loss", "kl", "grad_norm", "learning_rate", "completions/mean_length"} <= row.keys()
    assert all(isinstance(each.text, str) for each in completions)


def test_a_completion_that_the_limit_cut_has_not_ended(lesson: Any) -> None:
    greedy = lesson(max_completion_length=30).learner.complete(PROMPTS["one"])
    assert [(each.ended, each.text[:10]) for each in greedy] == [(True, "    return")]
    cut = lesson(max_completion_length=1).learner.complete(PROMPTS["one"], 3)
    assert [each.ended for each in cut] == [False] * 3


def test_a_batch_of_equal_rewards_changes_no_weight(lesson: Any) -> None:
    many = {"num_generations": 8, "per_device_train_batch_size": 8}  # whose mean is rounded
    taught = lesson(max_steps=3, loss_type="importance_sampling", beta=0.0, **many)
    weights = []

    def keep(row: dict[str, Any]) -> None:
        parameters = taught.trainer.model.parameters()
        weights.append(torch.cat([each.detach().flatten().clone() for each in parameters]))
        taught.rewards = [0.3] * 8 if row["step"] == 1 else lucky

    lucky = taught.rewards
    taught.on_step = keep
    taught.learner.train()
    assert [bool((a != b).any()) for a, b in pairwise(weights)] == [False, True]


def test_a_step_without_any_reward_ends_the_training(lesson: Any) -> None:
    taught = lesson()
    taught.rewards = [None] * (2 * GENERATIONS)
    with pytest.raises(SandboxError, match="no completion of step 1"):
        taught.learner.train()


def test_the_control_shuffles_rewards_within_a_group_and_leaves_the_ungraded() -> None:
    from Daddy.grpo.grpo_trainer import _shuffled

    group = [None, *map(float, range(50))]
    shuffled = _shuffled(group)
    assert shuffled != group
    assert shuffled[0] is None
    assert sorted(shuffled[1:]) == group[1:]


def test_a_stopped_training_leaves_a_checkpoint_from_which_it_goes_on(
    lesson: Any, tmp_path: Path
) -> None:
    from Daddy.grpo.grpo_trainer import find_checkpoint

    taught = lesson(max_steps=3)
    taught.stop = "signal SIGINT"
    taught.learner.train()
    assert len(taught.rows) == 1
    checkpoint = find_checkpoint(tmp_path / "run0")
    assert checkpoint
    assert checkpoint.name == "checkpoint-1"
    again = lesson(max_steps=3)
    again.learner.train(checkpoint)
    assert [row["step"] for row in again.rows] == [2, 3]
    (tmp_path / "run2").mkdir()
    (tmp_path / "run2" / "checkpoint-1.copy").mkdir()
    assert find_checkpoint(tmp_path / "run2") is None
    (tmp_path / "run2" / "checkpoint-9").symlink_to(checkpoint)
    with pytest.raises(ConfigError, match="is a link"):
        find_checkpoint(tmp_path / "run2")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_named_and_a_torn_checkpoint_is_not_resumed(
    tiny_model: Path,
    tmp_path: Path,
    loop: EventLoopThread,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from Daddy.grpo.grpo_trainer import find_checkpoint

    with small_disk(tmp_path / "disk", monkeypatch) as disk:
        taught = Lesson(tiny_model, disk.folder, loop)
        taught.on_step = lambda _row: disk.fill(leave=20_000)  # for the small files
        with pytest.raises(FileError, match="No space left"):
            taught.learner.train()
        assert [path.name for path in disk.folder.glob("checkpoint-*")] == ["checkpoint-1"]
        with pytest.raises(ConfigError, match="checkpoint-1 is not complete"):
            find_checkpoint(disk.folder)


def test_a_saved_model_loads_offline_and_completes_as_before(
    lesson: Any, tmp_path: Path, loop: EventLoopThread
) -> None:
    taught = lesson()
    taught.learner.save(tmp_path / "model")
    again = Lesson(tmp_path / "model", tmp_path / "again", loop)
    assert again.learner.complete(PROMPTS["two"]) == taught.learner.complete(PROMPTS["two"])


class _Planted:
    """An object whose unpickling makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_an_object_in_a_checkpoint_is_not_unpickled(lesson: Any, tmp_path: Path, name: str) -> None:
    from Daddy.grpo.grpo_trainer import find_checkpoint

    taught = lesson(max_steps=2)
    taught.stop = "signal SIGINT"
    taught.learner.train()
    checkpoint = find_checkpoint(tmp_path / "run0")
    assert checkpoint
    torch.save({"state": _Planted(tmp_path / "made")}, checkpoint / name)
    with pytest.raises(FileError, match="checkpoint-1 is damaged, or holds more than tensors"):
        lesson(max_steps=2).learner.train(checkpoint)
    assert not (tmp_path / "made").exists()
