"""Pure. Parses the words of a sweep's command line: run=NAME, trainer.…=VALUE, +hardware=NAME.

The words are those of Metta's sweeps; training.KEY=VALUE and reward.KEY=VALUE fix our settings.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from Daddy.core.arguments import LARGEST_NUMBER, ArgumentParser, did_you_mean, whole_number
from Daddy.core.errors import ConfigError, UsageError
from Daddy.core.name_validation import check_sweep
from Daddy.search.study_plan import OBJECTIVES, SAMPLERS

ARENA = "/env/mettagrid/curriculum/arena/random"
"""Metta's curriculum, for which we train cartpole."""
_HARDWARE = {"macbook": "cpu", "cpu": "cpu", "gpu": "cuda"}
_WORDS = ("run", "trainer.total_timesteps", "trainer.curriculum", "+hardware")
_OWN = tuple(f"training.{key}" for key in ["seed", "total_steps", "device", "workload", "stream"])
"""Settings that a sweep chooses, or that another word sets."""
_FROZEN = ("workload", "steps", "fixed")
WORDS_HELP = """words: run=NAME (a sweep of that name is continued),
trainer.total_timesteps=N (20000), trainer.curriculum=cartpole|pokemon_red,
+hardware=macbook|cpu|gpu, training.KEY=VALUE and reward.KEY=VALUE (fixed in every trial). Exit
codes: 0, 2 usage, 3 settings, 4 Slurm refused or does not answer, 5 another process drives this
sweep, 8 another rank is missing, 9 files or a full disk, 13 a trial failed, 14 Optuna or wandb is
missing, 130 stopped."""


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """A sweep as typed; `fixed` holds settings that each trial has, by dotted key."""

    name: str
    workload: str = "cartpole"
    steps: int = 20_000
    device: str = "auto"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    """Sentences on words that mean something else here."""


def add_sweep_flags(parser: ArgumentParser) -> None:
    """Add the words and options of a sweep."""
    parser.late = "words"
    add = parser.add_argument
    add("words", nargs="*", metavar="NAME=VALUE", help="words as below")
    add("--max-rollouts", type=whole_number(0), default=10, help="trials, 0: no end (10)")
    nodes = "nodes that train each trial together (1)"
    add("--nodes", type=whole_number(1, 64), default=1, help=nodes)
    add("--jobs", type=whole_number(1, 64), default=1, help="trials, or Slurm jobs, at once (1)")
    backend = "run trials here, or as Slurm jobs (local)"
    add("--backend", choices=("local", "slurm"), default="local", help=backend)
    options = "option of the jobs, beside the slurm settings: time=30, gres= (repeatable)"
    add("--sbatch", action="append", default=[], metavar="NAME=VALUE", help=options)
    samplers, objectives = (*SAMPLERS, "protein"), [",".join(each) for each in OBJECTIVES]
    add("--sampler", choices=samplers, help="method that suggests settings (gp; tpe with --prune)")
    metavar = "|".join(objectives)
    add("--objectives", choices=objectives, metavar=metavar, help="objectives (score,cost)")
    add("--prune", action="store_true", default=None, help="end bad trials early (score alone)")
    add("--space", metavar="FILE", help="JSON: settings to search (usual ones)")
    add("--seed", type=whole_number(0), help="seed of the suggestions (0)")
    add("--wandb", choices=("offline", "online"), help="write trials as runs of W&B (off)")
    add("--config", metavar="FILE", help="configuration of all trials (the one shipped)")


def parse_words(words: Sequence[str], workloads: Collection[str]) -> dict[str, Any]:
    """Return the fields of a SweepRequest that the words give. UsageError, ConfigError."""
    given: dict[str, Any] = {}
    fixed: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{word!r} has no value", "write NAME=VALUE, such as run=test")
        if key.startswith(("training.", "reward.")) and key not in _OWN:
            fixed[key] = _parse_value(value)
        elif key in _WORDS:
            given |= _parse_word(key, value, workloads)
        else:
            near = "" if key in _OWN else did_you_mean(key, _WORDS)
            raise UsageError(
                f"{key!r} is no word of a sweep{near}",
                f"use {', '.join(_WORDS)}, training.KEY or reward.KEY",
            )
    if "name" not in given:
        raise UsageError("the sweep has no name", "add run=NAME")
    return {**given, "fixed": fixed} if fixed else given


def _parse_word(key: str, value: str, workloads: Collection[str]) -> dict[str, Any]:
    if key == "run":
        return {"name": check_sweep(value)}
    if key == "+hardware":
        if value not in _HARDWARE:
            raise ConfigError(
                f"+hardware={value} is unknown{did_you_mean(value, _HARDWARE)}",
                f"use one of: {', '.join(_HARDWARE)}",
            )
        return {"device": _HARDWARE[value]}
    if key == "trainer.curriculum":
        return _parse_curriculum(value, workloads)
    if value.isascii() and value.isdigit() and 0 < int(value) <= LARGEST_NUMBER:
        return {"steps": int(value)}
    raise UsageError(f"{key}={value} is no number of steps", "use a whole number from 1 on")


def _parse_curriculum(value: str, workloads: Collection[str]) -> dict[str, Any]:
    if value == ARENA:
        return {"workload": "cartpole", "notes": (f"{ARENA} is cartpole here",)}
    if value not in workloads:
        raise ConfigError(
            f"trainer.curriculum={value} is unknown{did_you_mean(value, workloads)}",
            f"use one of: {', '.join([*workloads, ARENA])}",
        )
    return {"workload": value}


def _parse_value(text: str) -> Any:
    """Return a value as JSON has it, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def merge_request(given: Mapping[str, Any], recorded: Mapping[str, Any]) -> SweepRequest:
    """Return the request of a sweep that continues: fields that are not given come from the record.

    ConfigError for a value that differs from the recorded one: the trials could not be compared.
    """
    for key in _FROZEN:
        if key in given and recorded and given[key] != recorded.get(key):
            raise ConfigError(
                f"the sweep {given['name']} has {key} {recorded.get(key)!r}, not {given[key]!r}",
                "start another sweep: run=NAME with a new name",
            )
    return SweepRequest(**{**recorded, **given})


def frozen_fields(request: SweepRequest) -> dict[str, Any]:
    """Return what a sweep keeps for life (JSON)."""
    return {key: asdict(request)[key] for key in _FROZEN}
