"""Pure. Search spaces of sweeps: the settings that a sweep varies, and the values of each.

A space is written as JSON: setting → ``{"low", "high", "log"}`` or ``{"choices": [...]}``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from Daddy.core.arguments import did_you_mean
from Daddy.core.errors import ConfigError
from Daddy.core.settings import Config, HyperparameterSettings, RewardSettings

Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from ``low`` to ``high``, both included; ``log``: even in the logarithm."""

    low: float
    high: float
    log: bool = False
    integer: bool = False


@dataclass(frozen=True, slots=True)
class Choices:
    """Values without an order."""

    values: tuple[Value, ...]


Space = Mapping[str, Range | Choices]
"""Setting, as in a configuration (``training.learning_rate``) → its values."""

SEARCHABLE = tuple(
    f"{section}.{name}"
    for section, model in (("training", HyperparameterSettings), ("reward", RewardSettings))
    for name in model.model_fields
    if name != "profile"  # it replaces other settings
)
"""Settings that a sweep can vary; it sets others itself: seed, steps, device, folders."""

_LEAST_LOG = 1e-12
"""Smallest number on a logarithmic scale: most of the scale would lie where nothing changes."""
_MOST_INTEGERS = 1 << 24
"""Most numbers in a range of integers: the Gaussian process holds an array of them."""
_FORMS = 'write {"low": 1e-4, "high": 1e-2, "log": true} or {"choices": [32, 64]}'


def parse_space(given: Mapping[str, Any], source: str) -> Space:
    """Return the space that ``source`` states, by setting. ConfigError with the first fault."""
    if not given:
        raise ConfigError(f"{source} names no setting", "name one, such as training.learning_rate")
    return {key: _parse_entry(key, given[key], source) for key in sorted(given)}


def _parse_entry(key: str, entry: object, source: str) -> Range | Choices:
    try:
        numeric = _numeric_types(key)
        names = set(entry) if isinstance(entry, Mapping) else set()
        if isinstance(entry, Mapping) and names == {"choices"}:
            return _parse_choices(key, entry["choices"])
        if isinstance(entry, Mapping) and {"low", "high"} <= names <= {"low", "high", "log"}:
            if not numeric:
                raise ConfigError(f"{key} is no number and has no range", "give choices")
            low, high = (_number(key, entry[end]) for end in ("low", "high"))
            return _range(key, low, high, entry.get("log", False), integer=int in numeric)
        raise ConfigError(f"{key} has {entry!r}", _FORMS)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error.message}", error.fix) from None


def _numeric_types(key: str) -> set[type]:
    """Return int or float if the setting is such a number. ConfigError if none can vary it."""
    if key not in SEARCHABLE:
        raise ConfigError(
            f"{key} is no setting that a sweep varies{did_you_mean(key, SEARCHABLE)}",
            f"name some of: {', '.join(SEARCHABLE)}",
        )
    section, name = key.split(".")
    model = HyperparameterSettings if section == "training" else RewardSettings
    annotation = model.model_fields[name].annotation
    return {int, float} & {annotation, *get_args(annotation)}


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{key} has the bound {value!r}", "write a number")
    return float(_permitted(key, value))


def _range(key: str, low: float, high: float, log: object, *, integer: bool) -> Range:
    """Return the range. ConfigError if it holds no two values, or more than a sampler can."""
    if not low < high:
        raise ConfigError(f"{key} has low {low:g} and high {high:g}", "let low be below high")
    if not isinstance(log, bool):
        raise ConfigError(f"{key} has log {log!r}", "write true or false")
    if log and low < _LEAST_LOG:
        raise ConfigError(
            f"{key} has low {low:g}, too small for a logarithmic scale",
            f'raise low to {_LEAST_LOG:g} at least, or leave out "log"',
        )
    if integer and high - low >= _MOST_INTEGERS:
        raise ConfigError(
            f"{key} has low {low:g} and high {high:g}", f"span at most {_MOST_INTEGERS:,} numbers"
        )
    return Range(low, high, log, integer)


def _parse_choices(key: str, given: object) -> Choices:
    if not isinstance(given, list) or not given:
        raise ConfigError(f"{key} has the choices {given!r}", "list the values to choose from")
    values = tuple(_permitted(key, value) for value in given)
    for value in values:
        if values.count(value) > 1:
            raise ConfigError(f"{key} has the choice {value!r} more than once", "name it once")
    return Choices(values)


def _permitted(key: str, value: object) -> Value:
    """Return ``value`` in the setting's own type. ConfigError if the setting cannot have it."""
    section, name = key.split(".")
    try:
        valid = getattr(getattr(Config.model_validate({section: {name: value}}), section), name)
    except ValidationError as error:
        problem = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(
            f"{key} cannot be {value!r:.40}: {problem}", "docs/configuration.md lists its values"
        ) from None
    if not isinstance(valid, Value) or valid != value:  # pydantic reads "3" as 3
        raise ConfigError(f"{key} has {value!r}", "write a value of the setting's own type")
    return valid


def format_value(value: Value) -> str:
    """Format a setting's value with four digits, true and false as in a configuration."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


DEFAULT_SPACES: Mapping[str, Space] = {
    "cartpole": {
        "training.clip": Range(0.1, 0.4),
        "training.entropy": Range(1e-4, 0.1, log=True),
        "training.gae_lambda": Range(0.8, 1.0),
        "training.gamma": Range(0.95, 0.999),
        "training.horizon": Choices((64, 128, 256)),
        "training.learning_rate": Range(1e-4, 1e-2, log=True),
        "training.update_epochs": Range(1, 10, integer=True),
    },
    "pokemon_red": {
        "training.clip": Range(0.1, 0.3),
        "training.entropy": Range(1e-3, 0.1, log=True),
        "training.gae_lambda": Range(0.9, 0.99),
        "training.gamma": Range(0.98, 0.9995),
        "training.horizon": Choices((64, 128, 256)),
        "training.learning_rate": Range(3e-5, 3e-3, log=True),
        "training.update_epochs": Range(1, 6, integer=True),
    },
}
"""Workload → the space of a sweep that names none.

Each horizon has room for a minibatch of the default size, also with a single environment, and is a
multiple of the default ``training.bptt``.
"""
