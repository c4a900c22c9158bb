"""Entry: trains CartPole in many sandboxes at once and compares learning rates.

``python -m Daddy.run_demo`` runs 25 sandboxes on this machine. ``--resume`` runs only what is
missing of the newest run; ``--plan`` prints the time that a run takes and starts nothing.
"""

import argparse
import asyncio
import os
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from Daddy.core.arguments import ArgumentParser, nonnegative_seconds, whole_number
from Daddy.core.atomic_files import sha256_hex
from Daddy.core.clock import SystemClock
from Daddy.core.dotenv import load_dotenv
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ConfigError, ExitCode, FileError, UsageError
from Daddy.core.host_and_processes import usable_cores
from Daddy.core.name_validation import new_incarnation, new_token
from Daddy.core.stop_conditions import StopSignal
from Daddy.core.terminal import can_redraw, print_screen
from Daddy.fanout.estimate import estimate_lines, stated_cost
from Daddy.fanout.fanout_files import (
    FanoutPaths,
    begin_run,
    hold_run,
    read_program,
    read_settings,
)
from Daddy.fanout.fanout_run import FanoutRun, open_view
from Daddy.fanout.fanout_screen import draw_summary
from Daddy.fanout.fanout_settings import POLICIES, FanoutSettings, settings_from
from Daddy.fanout.local_engine import Engine, LocalEngine
from Daddy.fanout.program_python import choose_python
from Daddy.fanout.run_batch import Batch, live_limit, run_batch
from Daddy.sandbox.backend_facts import REMOTE, open_chosen_backend
from Daddy.sandbox.choose_backend import VENDORS
from Daddy.sandbox.sandbox_interfaces import Backend

RUNS = Path("runs")
LARGE_PLAN = 25_000
START_DELAY_S = 3.0
"""Seconds between starts at a vendor, where --batch-delay is not given."""
_DECIDING = ("sandboxes", "episodes", "timesteps", "policy", "seed")
"""Options that decide the results."""


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(prog="run_demo", description="Train CartPole in many sandboxes.")
    add, number = parser.add_argument, whole_number(1)
    add("--sandboxes", type=number, help="number of sandboxes (25)")
    add("--episodes", type=number, help="evaluation episodes per sandbox after training (300)")
    add("--timesteps", type=number, help="steps of the training (50000)")
    add("--policy", choices=POLICIES, help="method that learns, or a fixed controller (ppo)")
    add("--seed", type=whole_number(0), help="seed of rates and trainings (0)")
    add("--workers", type=number, help="most sandboxes at once, up to 200 (four to a core)")
    add("--batch-size", type=number, default=25, help="sandboxes that start or run together (25)")
    add(
        "--batch-delay",
        type=nonnegative_seconds,
        help="seconds between batches of --engine local (3 with a vendor's backend, else 0)",
    )
    add("--backend", default="auto", help="sandbox backend (auto)")
    add("--engine", choices=("local", "slurm", "dask"), default="local", help="machines (local)")
    add("--jobs", type=number, default=4, help="jobs of --engine slurm and dask (4)")
    add("--sbatch", action="append", default=[], metavar="NAME=VALUE", help="option of sbatch")
    add("--task", type=Path, help="program that runs in each sandbox (cartpole_task.py)")
    add("--run-dir", type=Path, help="folder of the run (a new one in runs/)")
    add("--resume", action="store_true", help="run only what is missing of the newest run")
    add("--plan", action="store_true", help="print the time that a run takes, and start nothing")
    add("--cleanup", action="store_true", help="delete sandboxes of runs that have ended, and exit")
    add("--no-live", action="store_true", help="print a line per change, not a live table")
    add("--allow-unsafe", action="store_true", help="run without confinement; the records say so")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo. Exit codes: 2 usage, 3 settings, 9 files, 12 not confined, 13 some failed."""
    args = make_parser().parse_args(argv)
    load_dotenv(Path.cwd(), os.environ)
    given = {name: value for name in _DECIDING if (value := getattr(args, name)) is not None}
    if args.plan:
        return _print_plan({**given, "own_program": args.task is not None})
    open_it = partial(
        open_chosen_backend, args.backend, generated=False, allow_unsafe=args.allow_unsafe
    )
    if args.cleanup:
        return asyncio.run(_clean(open_it()[0], args.run_dir))
    paths, settings, program = _read_run(args, given)
    backend, shown = open_it(run=settings.name)
    _check_engine(args, backend.name)
    print(shown)
    engine = make_engine(args, paths, settings, backend)
    if program is not None:  # nothing but the disk can stop the run now
        begin_run(paths, settings, program)
    with hold_run(paths):
        return _run(args, settings, engine, _first_batch(args, paths, backend.name))


def _check_engine(args: argparse.Namespace, backend: str) -> None:
    """Raise ConfigError, UsageError for what goes with one machine only."""
    if args.engine == "local":
        return
    if backend in REMOTE:
        raise ConfigError(
            f"--engine {args.engine} runs on other machines, which do not have the key or the "
            f"engine of the backend {backend}",
            "use --backend bubblewrap or apptainer, or --engine local",
        )
    if args.batch_delay:
        raise UsageError(
            f"--batch-delay {args.batch_delay:g} is for one machine, not --engine {args.engine}",
            "leave it out; --jobs bounds the batches that run at once",
        )


def _print_plan(given: dict[str, object]) -> int:
    settings = settings_from({"sandboxes": LARGE_PLAN, **given}, None)
    cost = stated_cost(settings)
    print("\n".join(estimate_lines(settings.sandboxes, cost, usable_cores())))
    return ExitCode.DONE


async def _clean(backend: Backend, run_dir: Path | None) -> int:
    """Delete what a vendor or an engine still holds of runs that have ended."""
    delete = getattr(backend, "delete_leftovers", None)
    if delete is None:
        print("nothing to delete: sandboxes on this machine end with the program that made them")
        return ExitCode.DONE
    deleted = 0
    for folder in [run_dir] if run_dir else list_runs(RUNS):
        paths = FanoutPaths(folder.resolve())
        try:
            name = settings_from({}, read_settings(paths)).name
            with hold_run(paths, require_locks=True):
                deleted += await delete(name)
        except (ConfigError, FileError) as error:  # also of a run that is held, or of a release
            print(f"{error.message}: the sandboxes of {folder} are left alone")
    print(f"{deleted} sandboxes of ended runs deleted")
    return ExitCode.DONE


def find_program() -> Path:
    """Return cartpole_task.py of the current folder, else of the checkout. Raises ConfigError."""
    places = Path.cwd(), Path(__file__).resolve().parents[1] / "scripts" / "examples"
    for folder in places:
        if (path := folder / "cartpole_task.py").is_file():
            return path
    raise ConfigError("there is no cartpole_task.py here", "name a program: --task FILE")


def list_runs(folder: Path) -> list[Path]:
    """Return the runs of a folder, the newest last."""
    runs = sorted(folder.glob("fanout-*/fanout.json"), key=lambda path: path.stat().st_mtime)
    return [path.parent for path in runs]


def newest_run(folder: Path) -> Path:
    """Return the newest run of a folder. Raises ConfigError."""
    if runs := list_runs(folder):
        return runs[-1]
    raise ConfigError(f"there is no run to resume in {folder}", "name its folder: --run-dir")


def _read_run(
    args: argparse.Namespace, given: dict[str, object]
) -> tuple[FanoutPaths, FanoutSettings, bytes | None]:
    """Return folder and settings of a run, and the program of one that has yet to begin."""
    if args.resume:
        paths = FanoutPaths((args.run_dir or newest_run(RUNS)).resolve())
        if args.task is not None:
            given = {**given, "program": read_program(args.task)[1]}
        settings = settings_from(given, read_settings(paths))
        if sha256_hex(paths.program.read_bytes()) != settings.program:
            raise ConfigError(f"{paths.program} was changed", "begin another run with --task")
        return paths, settings, None
    program, digest = read_program(args.task or find_program())
    stamp = datetime.fromtimestamp(SystemClock().now(), tz=timezone.utc).strftime("%Y%m%d-%H%M%S")
    name = f"fanout-{stamp}-{new_incarnation()}"
    own = args.task is not None
    settings = settings_from({**given, "program": digest, "own_program": own, "name": name}, None)
    return FanoutPaths((args.run_dir or RUNS / name).resolve()), settings, program


def _print_start(engine: str, first: Batch, settings: FanoutSettings) -> None:
    cost = stated_cost(settings)
    print(f"run {first.run}")
    if engine == "local":
        live, why = live_limit(first, settings.sandboxes, cost)
        print(f"{live} sandboxes at once: {why}")
    print("\n".join(estimate_lines(settings.sandboxes, cost, usable_cores())), flush=True)


def make_engine(
    args: argparse.Namespace, paths: FanoutPaths, settings: FanoutSettings, backend: Backend
) -> Engine:
    """Return the engine that the command line names. Raises ExtraMissingError, ConfigError."""
    if args.engine == "local":
        python = choose_python(backend.name)
        return LocalEngine(lambda batch: run_batch(batch, backend, python, SystemClock()))
    from Daddy.fanout.slurm_engine import SlurmEngine, sbatch_options

    cost, most = stated_cost(settings), args.batch_size
    if args.engine == "dask":  # a worker runs many batches
        most = max(most, settings.sandboxes // args.jobs)
    options = sbatch_options(args.sbatch, os.environ, most * cost.cpu_s)
    if args.engine == "slurm":
        return SlurmEngine(paths, args.jobs, options, SystemClock(), os.environ)
    from Daddy.fanout.dask_engine import DaskEngine

    return DaskEngine(paths, args.jobs, options)


def _first_batch(args: argparse.Namespace, paths: FanoutPaths, backend: str) -> Batch:
    """Return the options that all batches of this attempt share."""
    usual_s = START_DELAY_S if backend in VENDORS else 0.0
    return Batch(
        paths.root,
        new_token(),
        number=0,
        indices=(),
        backend=backend,
        allow_unsafe=args.allow_unsafe,
        workers=args.workers,
        pace=(args.batch_size, usual_s if args.batch_delay is None else args.batch_delay),
    )


def _run(args: argparse.Namespace, settings: FanoutSettings, engine: Engine, first: Batch) -> int:
    _print_start(args.engine, first, settings)
    size = settings.sandboxes if args.engine == "local" else args.batch_size
    run = FanoutRun(first, settings, engine, size, SystemClock(), StopSignal().install())
    try:
        with open_view(live=can_redraw() and not args.no_live) as view:
            run.run(view)
    finally:  # an interrupted run has errors, too
        code = run.write_outcome(Path.cwd())
    print_screen(lambda _width: draw_summary(run.state, run.elapsed_s))
    if code:
        print(f"{len(run.state.in_state('error')):,} failed: errors.log tells why")
    print(
        f"results in {FanoutPaths(first.run).results}; `--resume` runs what is missing", flush=True
    )
    return code


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
