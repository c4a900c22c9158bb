"""Entry: runs a sweep as rank 0, or follows it as another rank.

The same command runs on each node, with WORLD_SIZE and RANK set as torchrun does. Rank 0 drives the
sweep, the others follow it through the sweep's folder. With Slurm it runs once, and srun starts the
ranks in each trial's job.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from Daddy.core.arguments import ArgumentParser
from Daddy.core.atomic_files import canonical_json, create_exclusive
from Daddy.core.clock import SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ConfigError, ExitCode, UsageError
from Daddy.core.load_config import config_to_json, load_config, read_settings_file
from Daddy.core.name_validation import new_token
from Daddy.core.rank_address import RankAddress, read_rank
from Daddy.core.settings import Config
from Daddy.core.stop_conditions import StopSignal
from Daddy.search.local_executor import Follower, LocalExecutor
from Daddy.search.search_space import DEFAULT_SPACES, parse_space
from Daddy.search.study_plan import StudyPlan, plan_to_json
from Daddy.search.sweep_files import (
    SweepPaths,
    SweepRecord,
    create_sweep,
    hold_sweep,
    read_request,
    sweep_paths,
)
from Daddy.search.sweep_loop import Sweep, sweep_config
from Daddy.search.sweep_request import (
    WORDS_HELP,
    SweepRequest,
    add_sweep_flags,
    frozen_fields,
    merge_request,
    parse_words,
)
from Daddy.search.wandb_runs import WandbRuns, check_wandb
from Daddy.workloads import WORKLOADS

if TYPE_CHECKING:
    from Daddy.search.slurm_executor import SlurmExecutor


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(
        prog="sweep_node", description="Run a sweep, or one rank of it.", epilog=WORDS_HELP
    )
    parser.add_argument("--run-dir", type=Path, default=Path("runs"), help="runs folder (runs)")
    add_sweep_flags(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Drive the sweep as rank 0, or follow rank 0."""
    args = make_parser().parse_args(argv)
    given = parse_words(args.words, WORKLOADS)
    paths = sweep_paths(args.run_dir.resolve(), given["name"])
    at, stop = read_rank(os.environ) or RankAddress(), StopSignal()
    _check_backend(args, at)
    if at.rank > 0:
        follower = Follower(paths, at, new_token(), os.environ, SystemClock())
        with hold_sweep(paths, at.rank):
            follower.follow(stop.install().stop_reason)
        return ExitCode.DONE
    if args.wandb:
        check_wandb(args.wandb, os.environ)
    recorded, recorded_plan = read_request(paths)
    request = merge_request(given, recorded)
    plan = _plan(args, request, recorded_plan)
    common = _common_config(args.config and Path(args.config), paths, request)
    with hold_sweep(paths):
        return _drive(args, paths, request, plan, common, at, stop.install().stop_reason)


def _check_backend(args: Namespace, at: RankAddress) -> None:
    if args.backend == "slurm" and at.size > 1:
        raise UsageError(
            f"--backend slurm with WORLD_SIZE={at.size}: Slurm starts the ranks in each job",
            f"unset WORLD_SIZE, and type --nodes {at.size} on one node",
        )
    if args.backend == "local" and args.nodes not in (1, at.size):
        raise UsageError(
            f"--nodes {args.nodes} with WORLD_SIZE={at.size}",
            f"start the same command on each node, with RANK and WORLD_SIZE={args.nodes}; "
            "or add --backend slurm",
        )
    if args.backend == "local" and args.sbatch:
        raise UsageError("--sbatch is for jobs", "add --backend slurm")


def _drive(
    args: Namespace,
    paths: SweepPaths,
    request: SweepRequest,
    plan: StudyPlan,
    common: Config,
    at: RankAddress,
    stop: Callable[[], str | None],
) -> int:
    """Run the sweep whose lock we hold. FileError, NetworkError, SchedulerError."""
    from Daddy.search.study import Study  # with Optuna, which followers do not need

    print_line = partial(print, flush=True)
    executor, config = _open_executor(args, paths, common, at)
    record = {**frozen_fields(request), "study": plan_to_json(plan)}
    create_exclusive(paths.config, config_to_json(common))
    create_exclusive(paths.request, canonical_json(record))
    study = Study(paths.journal, plan)
    create_sweep(paths, SweepRecord(new_token()))
    for note in request.notes:
        print_line(note)
    try:
        executor.join(print_line, stop)
        runs = args.wandb and WandbRuns(paths.root, args.wandb, os.environ, print_line).record
        sweep = Sweep(paths, config, plan, study, executor, SystemClock(), print_line, runs)
        return sweep.run(args.jobs, args.max_rollouts, stop)
    finally:
        executor.close()


def _open_executor(
    args: Namespace, paths: SweepPaths, common: Config, at: RankAddress
) -> tuple[LocalExecutor | SlurmExecutor, Config]:
    """Return the means that run trials, and the configuration with what its jobs need."""
    if args.backend == "local":
        return LocalExecutor(paths, at, os.environ, SystemClock()), common
    from Daddy.search.slurm_executor import SlurmExecutor, with_job_settings

    config = with_job_settings(common, args.sbatch, args.nodes, os.environ)
    most = (args.jobs, args.nodes)
    return SlurmExecutor(paths, config, args.sbatch, *most, os.environ, SystemClock()), config


def _plan(args: Namespace, request: SweepRequest, recorded: StudyPlan | None) -> StudyPlan:
    """Return the recorded plan, else the usual one, with what the command line gives. ConfigError.

    A setting that is fixed is not searched.
    """
    given: dict[str, Any] = {"prune": args.prune, "seed": args.seed}
    given["sampler"] = "gp" if args.sampler == "protein" else args.sampler
    given["objectives"] = args.objectives and tuple(args.objectives.split(","))
    if args.space or not recorded:
        space = DEFAULT_SPACES[request.workload]
        if args.space:
            space = parse_space(read_settings_file(Path(args.space), "search space"), args.space)
        given["space"] = {key: space[key] for key in space if key not in request.fixed}
        if not given["space"]:
            raise ConfigError("every setting of the space is fixed", "fix fewer, or use --space")
    method = "tpe" if args.prune else "gp"  # GP learns nothing from pruned trials
    usual = StudyPlan(method, ("score", "cost"), prune=False, space={}, seed=0)
    return replace(
        recorded or usual, **{key: value for key, value in given.items() if value is not None}
    )


def _common_config(path: Path | None, paths: SweepPaths, request: SweepRequest) -> Config:
    """Return the configuration of all trials: as recorded, but for the device. ConfigError."""
    given = sweep_config(load_config(path, None, os.environ), request)
    if not paths.config.exists():
        return given
    recorded = sweep_config(load_config(paths.config), request)
    if path and given != recorded:
        raise ConfigError(
            f"the sweep {request.name} has another configuration than {path}: {paths.config}",
            "leave out --config, or start another sweep: run=NAME with a new name",
        )
    return recorded


if __name__ == "__main__":
    sys.exit(run_entry(main, private=True))
