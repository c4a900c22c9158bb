"""Pure: what all learners of one average have to agree on, and what a laptop takes from its run.

A term is a setting's name and its value as JSON. Two learners paid by different rewards have value
heads that mean different things, and an average of them means nothing. Terms are data: a laptop
checks what it takes as its own configuration, and takes only the names in `adopted_settings`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from Daddy.core.errors import UsageError
from Daddy.core.settings import REMOVED, Config

Contract = Mapping[str, str]
GAME: Final = "game"
"""SHA-1 of the game's file."""
OBSERVATION: Final = "observation"
"""What an observation's numbers mean (`pokemon.observation.MEANING`)."""
_AGREED = ("training.gamma", "training.normalise_rewards", "collaboration.rule")
_OF_THE_GAME = ("training.start", "training.episode_steps")
_NOT_TAKEN = (GAME, OBSERVATION, "collaboration.rule")
_PLACES = ("/", ".state")
"""In a start's name: a file of one machine."""


def agreed_settings(config: Config, facts: Contract | None = None) -> dict[str, str]:
    """What learners must agree on; `facts` are those that no setting says (`GAME`, …)."""
    names = list(_AGREED)
    if config.training.workload == "pokemon_red":
        names += [f"reward.{name}" for name in type(config.reward).model_fields]
    return {**{name: _value(config, name) for name in names}, **(facts or {})}


def offered_settings(config: Config, facts: Contract | None = None) -> dict[str, str]:
    """All that a run tells its laptops: what is agreed on, and how it plays."""
    names = ["training.episode_steps"]
    if config.training.workload == "pokemon_red":
        names += [f"archive.{name}" for name in type(config.archive).model_fields]
        if not any(place in config.training.start for place in _PLACES):
            names.append("training.start")
    return {**agreed_settings(config, facts), **{name: _value(config, name) for name in names}}


def adopted_settings(config: Config, terms: Contract) -> dict[str, Any]:
    """The settings that a laptop takes from its run, by dotted key; `config` is any valid one.

    Names that this program does not know are left out (`unknown_settings` tells them).
    """
    known = {*offered_settings(config), *_OF_THE_GAME}.difference(_NOT_TAKEN)
    return {name: json.loads(terms[name]) for name in sorted(known & terms.keys())}


def unknown_settings(config: Config, terms: Contract) -> list[str]:
    """Terms of the run that this program has never heard of."""
    known = {*offered_settings(config), *_OF_THE_GAME, *_NOT_TAKEN, *REMOVED}
    return sorted(terms.keys() - known)


def describe_differences(theirs: Contract, ours: Contract) -> list[str]:
    """Where two sets of terms disagree: "name: theirs there, ours here". Older ones lack some."""
    both = sorted(theirs.keys() & ours.keys())
    return [
        f"{name} {theirs[name]} there, {ours[name]} here"
        for name in both
        if theirs[name] != ours[name]
    ]


def contract_from_pairs(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Terms as a record holds them; UsageError for a value that is no plain JSON."""
    terms = dict(pairs)
    for name, value in terms.items():
        try:
            plain = isinstance(json.loads(value), str | int | float | bool)
        except (ValueError, RecursionError):
            plain = False
        if not plain:
            raise UsageError(f"the run's {name} is {value[:80]!r}", "ask the run's owner")
    return terms


def contract_to_pairs(terms: Contract) -> tuple[tuple[str, str], ...]:
    """As a record holds them."""
    return tuple(sorted(terms.items()))


def _value(config: Config, name: str) -> str:
    section, _, field = name.partition(".")
    return json.dumps(getattr(getattr(config, section), field))
