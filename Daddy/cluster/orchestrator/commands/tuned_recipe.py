"""Finds the tuned settings of a run of the real game, and tells them and the run's length.

A value that a person typed wins, then a begun run's, then the recipe's (decision 12).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from Daddy.core.agreed_settings import Contract, agreed_settings, describe_differences
from Daddy.core.errors import ConfigError
from Daddy.core.humanize import format_count, format_span
from Daddy.core.load_config import with_values_beneath
from Daddy.core.settings import TUNED, Config, profile_values

_SIZES = {"training.encoder_size": "128", "training.lstm_size": "128"}
"""The network of runs that began before its sizes were settings."""


def apply_recipe(
    plain: Config, begun: Config | None, contract: Contract
) -> tuple[Config, list[str]]:
    """Return the configuration with the tuned recipe, and lines with both values of each setting.

    ``begun``: the configuration that the run has, None for a new run; ``contract``: the settings on
    which its learners agreed, if any. Raises ConfigError for values that do not fit together.
    """
    tuned = {**_profile(plain), **TUNED}
    values = {**tuned, **{name: json.loads(contract[name]) for name in tuned.keys() & contract}}
    if begun is not None:
        values = {name: _value(begun, name) for name in tuned}
    config = with_values_beneath(plain, values)
    return config, _describe(plain, config, tuned)


def _profile(plain: Config) -> dict[str, Any]:
    """Return the values of the recipe's profile; none if the person named a profile."""
    typed = "profile" in plain.training.model_fields_set
    profile = {} if typed else profile_values(TUNED["training.profile"])
    return {f"training.{name}": value for name, value in profile.items()}


def _describe(plain: Config, config: Config, tuned: Mapping[str, Any]) -> list[str]:
    rows = [("setting", "configured", "tuned", "")]
    for name, value in sorted(tuned.items()):
        used, before = _value(config, name), _value(plain, name)
        section, _, key = name.partition(".")
        typed = key in getattr(plain, section).model_fields_set
        stays = "stays: you set it" if typed else "stays: this run began with it"
        if used != value:
            rows.append((name, _word(name, used), _word(name, value), stays))
        elif before != value:
            rows.append((name, _word(name, before), _word(name, value), ""))
    table = [
        f"  {name:26} {here:>10}  {there:14} {why}".rstrip() for name, here, there, why in rows
    ]
    advice = "values from your own --config file, the environment or flags are never replaced"
    return ["the real game on cuda: the tuned recipe for all that you did not set", *table, advice]


def _word(name: str, value: object) -> str:
    if name == "training.total_steps" and not value:
        return "0 (no end)"
    if value is None:
        return "by device"
    return f"{value:,}" if type(value) is int else str(value)


def _value(config: Config, name: str) -> Any:
    section, _, key = name.partition(".")
    return getattr(getattr(config, section), key)


def check_agreed(config: Config, contract: Contract, game: Contract) -> None:
    """Raise ConfigError if the run's learners agreed on other settings or another ``game``."""
    sizes = _SIZES if contract and config.training.workload == "pokemon_red" else {}
    differ = describe_differences({**sizes, **contract}, agreed_settings(config, game))
    if differ:
        raise ConfigError(
            f"the run's weights were learnt with other settings: {'; '.join(differ)}",
            "use the run's own values, or give this run a run_dir and shared_dir of its own",
        )


def describe_length(config: Config, done: int, rates: Sequence[float]) -> str:
    """Return in words how long ``total_steps`` lasts.

    ``done``: steps of all learners so far; ``rates``: last measured steps per second, by learner.
    """
    total, slots = config.training.total_steps, config.slurm.max_running
    if not total:
        return "total_steps 0: the run has no end"
    said = f"total_steps {total:,}, of all learners together,"
    if done >= total:
        return f"{said} are done: jobs end at once; set a larger training.total_steps, or 0"
    if not rates:
        return f"{said} end the run; no speed is known yet: `status` will show the time left"
    rate = slots * sum(rates) / len(rates)
    left = f"; {total - done:,} are left: {format_span((total - done) / rate)}" if done else ""
    speed = f"{format_count(rate)} steps/s ({slots} slots at the last measured speed)"
    return f"{said} last {format_span(total / rate)} at {speed}{left}"
