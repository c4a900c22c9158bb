"""Pure. The plan of a study, fixed when its sweep starts, and the trials of it."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from Daddy.core.errors import ConfigError
from Daddy.search.search_space import Choices, Range, Space, Value

SAMPLERS = ("gp", "random", "tpe")
OBJECTIVES = (("score", "cost"), ("score",))
"""Score is maximised; cost, in CPU seconds, is minimised."""


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The decisions of a study that stay for all its trials. ConfigError if they do not fit."""

    sampler: str
    objectives: tuple[str, ...]
    prune: bool
    space: Space
    seed: int

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise ConfigError(
                f"there is no sampler {self.sampler!r}", f"use one of: {', '.join(SAMPLERS)}"
            )
        if self.objectives not in OBJECTIVES:
            raise ConfigError(
                f"the objectives {','.join(self.objectives)!r} cannot be searched for",
                "use score,cost or score",
            )
        if self.prune and self.objectives != ("score",):
            raise ConfigError(
                "trials cannot be ended early for score,cost: a trial that is behind in score may "
                "be ahead in cost",
                "use --objectives score --prune, or leave out --prune",
            )


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial: settings to train with, and the result."""

    number: int
    """Counted from 0, in the order in which the settings were suggested."""
    run_id: str
    """The name in the sweep, ``<sweep>.r.<n>``, which is given out once."""
    settings: Mapping[str, Value]
    state: str
    """running, complete, failed or pruned."""
    values: tuple[float, ...] = ()
    """In the order of the plan's objectives; empty unless complete."""
    attempts: int = 0
    """Times that the trial was started."""
    reason: str = ""
    """Of a failure."""
    repeats: int | None = None
    """The number of the trial whose settings this one repeats."""


def plan_to_json(plan: StudyPlan) -> dict[str, Any]:
    """Return the plan as a JSON object."""
    space = {key: asdict(plan.space[key]) for key in sorted(plan.space)}
    return {**{name: getattr(plan, name) for name in _names()}, "space": space}


def plan_from_json(given: Mapping[str, Any]) -> StudyPlan:
    """Return the plan that :func:`plan_to_json` wrote. KeyError, TypeError, ConfigError."""
    space = {
        key: Choices(tuple(entry["values"])) if "values" in entry else _range(**entry)
        for key, entry in given["space"].items()
    }
    values = {name: given[name] for name in _names()}
    return StudyPlan(**{**values, "objectives": tuple(values["objectives"]), "space": space})


def _range(low: float, high: float, *, log: bool, integer: bool) -> Range:
    return Range(float(low), float(high), log=log, integer=integer)


def differences(old: StudyPlan, new: StudyPlan) -> Iterator[str]:
    """Yield in words each point in which ``new`` differs from ``old``."""
    for name in _names():
        before, now = getattr(old, name), getattr(new, name)
        if name != "space" and before != now:
            yield f"{name} {_words(before)}, not {_words(now)}"
    for key in sorted({*old.space, *new.space}):
        was, given = old.space.get(key), new.space.get(key)
        if was != given:
            yield f"{key} {_words(was)}, not {_words(given)}"


def _names() -> tuple[str, ...]:
    return tuple(StudyPlan.__dataclass_fields__)


def _words(value: object) -> str:
    match value:
        case None:
            return "not searched"
        case Range():
            scale = " log" * value.log
            return f"{value.low:g} to {value.high:g}{scale}"
        case Choices():
            return " or ".join(str(choice) for choice in value.values)
        case tuple():
            return ",".join(str(part) for part in value)
        case _:
            return str(value)
