"""Entry: reports on a sweep, also while it runs; `python -m Daddy.sweep_report run=NAME`.

Prints the trials and the importance of settings, draws them as a picture, and writes the settings
of the best trial as a configuration.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from Daddy.core.arguments import ArgumentParser, did_you_mean, whole_number
from Daddy.core.atomic_files import canonical_json, create_exclusive
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ConfigError, ExitCode, FileError, UsageError
from Daddy.core.humanize import printable_line
from Daddy.core.load_config import load_release_config, unusual_settings
from Daddy.core.settings import TUNED, Config, profile_values
from Daddy.core.terminal import print_screen
from Daddy.search.search_space import format_value
from Daddy.search.study_plan import StudyPlan, Trial
from Daddy.search.sweep_files import SweepPaths, read_request, sweep_paths
from Daddy.search.sweep_report_text import draw_report, format_result, rank_trials, trial_number

_OF_SWEEPS = (
    "run_dir",
    "run_name",
    "collaboration.enabled",
    "slurm.gpus_per_job",
    "training.seed",
    "training.stream",
    "training.total_steps",
)
"""Settings that a sweep gives its trials, and that mean nothing beyond it."""
_EPILOG = """Exit codes: 0, 2 usage, 3 no such sweep or trial, 9 a damaged or existing file,
14 Optuna is missing."""


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(prog="sweep_report", description="Report on a sweep.", epilog=_EPILOG)
    add = parser.add_argument
    add("name", metavar="run=NAME", help="sweep, which may still run")
    add("--run-dir", type=Path, default=Path("runs"), metavar="DIR", help="runs folder (runs)")
    add("--limit", type=whole_number(0), default=20, metavar="N", help="trials shown, 0: all (20)")
    add("--picture", type=Path, metavar="FILE", help="PNG to draw (the sweep's report.png)")
    add("--best", type=Path, metavar="FILE", help="configuration to write, of the best trial")
    add(
        "--trial",
        type=whole_number(1),
        metavar="N",
        help="trial for --best (that of the best score)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report and draw it; with --best, write a configuration and draw if asked to."""
    args = _parse(argv)
    paths = sweep_paths(args.run_dir.resolve(), args.name.removeprefix("run="))
    _refuse_unknown(paths)
    from Daddy.search.study import IMPORTANCE_FROM, importance, read_study

    plan, trials = read_study(paths.journal)
    request, shares = read_request(paths)[0], importance(paths.journal)
    too_few = f"too few trials to tell ({IMPORTANCE_FROM} complete ones that differ are needed)"
    title = _title(paths, plan, request)
    print_screen(partial(draw_report, title, plan, trials, shares, too_few, args.limit))
    picture = args.picture or (None if args.best else paths.root / "report.png")
    if picture and rank_trials(trials):
        from Daddy.search.sweep_report_plot import draw_sweep

        try:
            draw_sweep(picture, title, plan, trials, shares)
        except OSError as error:
            raise FileError(
                f"{picture} cannot be written: {error.strerror}", "name another: --picture FILE.png"
            ) from error
        print(f"\npicture: {picture}")
    if args.best:
        trial = find_trial(paths.root.name, trials, args.trial)
        _write_best(args.best, paths, trial, {*plan.space, *request["fixed"]})
    return ExitCode.DONE


def _parse(argv: Sequence[str] | None) -> Namespace:
    parser = make_parser()
    args = parser.parse_args(argv)
    if not args.name.startswith("run="):
        parser.error(f"{args.name!r} names no sweep: write run=NAME")
    if args.trial is not None and args.best is None:
        parser.error("--trial needs --best FILE")
    if args.picture is not None and args.picture.suffix.lower() != ".png":
        raise UsageError(f"{args.picture} is no name of a PNG", "write --picture report.png")
    return args


def _refuse_unknown(paths: SweepPaths) -> None:
    """Raise ConfigError with the names of sweeps if this one has not started."""
    if paths.journal.exists():
        return
    name, folder = paths.root.name, paths.root.parent
    known = sorted(path.parent.name for path in folder.glob(f"*/{paths.journal.name}"))
    names = printable_line(", ".join(known)) or "there is none; start one: sweep_node run=NAME"
    raise ConfigError(
        f"there is no sweep {name} in {folder}{did_you_mean(name, known)}", f"sweeps: {names}"
    )


def _title(paths: SweepPaths, plan: StudyPlan, request: dict[str, Any]) -> str:
    fixed = [f"{key}={format_value(value)}" for key, value in request["fixed"].items()]
    facts = [request["workload"], f"{request['steps']:,} steps a trial", *fixed, plan.sampler]
    return f"sweep {paths.root.name} ({', '.join(facts)})"


def find_trial(sweep: str, trials: Sequence[Trial], number: int | None) -> Trial:
    """Return the trial of that number; with None, that of the best score. ConfigError."""
    ranked = sorted(rank_trials(trials), key=lambda trial: -trial.values[0])
    if not ranked:
        raise ConfigError(f"no trial of the sweep {sweep} is complete", "wait for the first one")
    for trial in ranked:
        if number in (None, trial_number(trial)):
            return trial
    states = {trial_number(trial): trial.state for trial in trials}
    raise ConfigError(
        f"trial {number} of the sweep {sweep} is {states.get(number or 0, 'unknown')}",
        f"name a complete one: {', '.join(str(trial_number(trial)) for trial in ranked[:20])}",
    )


def _write_best(path: Path, paths: SweepPaths, trial: Trial, sought: set[str]) -> None:
    """Write the trial's configuration. FileError if it is gone, or ``path`` has another content."""
    source = paths.trial(trial.run_id) / "config.json"
    if not source.exists():
        raise FileError(f"the settings of {trial.run_id} are gone: {source}", "name another trial")
    data = canonical_json(portable_settings(load_release_config(source), sought))
    if not create_exclusive(path, data) and path.read_bytes() != data:
        raise FileError(f"{path} exists already", "name another file, or remove it")
    cost = f", cost {format_result(trial.values[1])} CPU s" if trial.values[1:] else ""
    print(f"settings of {trial.run_id} (score {format_result(trial.values[0])}{cost}): {path}")
    print(f"train with: python -m Daddy.train_slim --config {path} --run-dir runs/NAME")


def portable_settings(config: Config, sought: set[str]) -> dict[str, Any]:
    """Return a trial's settings for runs of other sizes: those ``sought``, and those not usual.

    Settings that a profile, or the tuned recipe of the game on CUDA, would replace are named too.
    """
    training = config.training
    replaced = {f"training.{key}" for key in profile_values(training.profile)}
    replaced |= TUNED.keys() if training.workload == "pokemon_red" else set()
    return unusual_settings(config, sought | replaced, _OF_SWEEPS)


if __name__ == "__main__":
    sys.exit(run_entry(main))
