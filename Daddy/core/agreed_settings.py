"""Pure. The settings on which all learners of a run must agree, and those that a laptop adopts.

A contract maps a setting's name to its value as JSON. Learners with different rewards have value
functions of different meaning, which cannot be averaged. A laptop validates a contract as it does
its own configuration, and adopts only the names in `adopted_settings`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from Daddy.core.errors import UsageError
from Daddy.core.settings import MOST_UNITS, REMOVED, Config

Contract = Mapping[str, str]
GAME: Final = "game"
"""SHA-1 of the game's file."""
OBSERVATION: Final = "observation"
"""Version of the meaning of an observation's numbers (`pokemon.observation.MEANING`)."""
_AGREED = ("training.gamma", "training.normalise_rewards", "collaboration.rule")
_OF_THE_GAME = ("training.start", "training.episode_steps")
_NOT_ADOPTED = (GAME, OBSERVATION, "collaboration.rule")
_MATRIX = 2
"""Dimensions of a linear layer's weights: outputs, inputs."""
_FILE_MARKS = ("/", ".state")
"""Texts that show that a start state is a file of one machine."""


def agreed_settings(config: Config, facts: Contract | None = None) -> dict[str, str]:
    """Return the settings on which learners must agree, and `facts` beside them (`GAME`, …)."""
    names = list(_AGREED)
    if config.training.workload == "pokemon_red":
        names += ["training.encoder_size", "training.lstm_size"]
        names += [f"reward.{name}" for name in type(config.reward).model_fields]
    return {**{name: _value(config, name) for name in names}, **(facts or {})}


def offered_settings(config: Config, facts: Contract | None = None) -> dict[str, str]:
    """Return the settings that a run publishes for laptops: the agreed ones, starts and archive."""
    names = ["training.episode_steps"]
    if config.training.workload == "pokemon_red":
        names += [f"archive.{name}" for name in type(config.archive).model_fields]
        if not any(mark in config.training.start for mark in _FILE_MARKS):
            names.append("training.start")
    return {**agreed_settings(config, facts), **{name: _value(config, name) for name in names}}


def adopted_settings(config: Config, contract: Contract) -> dict[str, Any]:
    """Return the settings that a laptop adopts from its run, by dotted key.

    `config` is any valid configuration. Unknown names are left out; see `unknown_settings`.
    """
    known = {*offered_settings(config), *_OF_THE_GAME}.difference(_NOT_ADOPTED)
    return {name: json.loads(contract[name]) for name in sorted(known & contract.keys())}


def unknown_settings(config: Config, contract: Contract) -> list[str]:
    """Return the names in the run's contract that this release does not know."""
    known = {*offered_settings(config), *_OF_THE_GAME, *_NOT_ADOPTED, *REMOVED}
    return sorted(contract.keys() - known)


def describe_differences(theirs: Contract, ours: Contract) -> list[str]:
    """Return "NAME x there, y here" for each setting that differs; skip names missing in one."""
    both = sorted(theirs.keys() & ours.keys())
    return [
        f"{name} {theirs[name]} there, {ours[name]} here"
        for name in both
        if theirs[name] != ours[name]
    ]


def network_sizes(tensors: Mapping[str, Any]) -> dict[str, int]:
    """Return `encoder_size` and `lstm_size` of a policy's named tensors; {} if not a policy's."""
    lstm, actor = tensors.get("lstm.weight_ih_l0"), tensors.get("actor.weight")
    inner, outer = (tuple(getattr(tensor, "shape", ())) for tensor in (lstm, actor))
    if len(inner) not in (0, _MATRIX) or len(outer) != _MATRIX:
        return {}
    encoder, memory = (inner[1], outer[1]) if inner else (outer[1], 0)
    fits = 0 < encoder <= MOST_UNITS and memory <= MOST_UNITS
    return {"encoder_size": int(encoder), "lstm_size": int(memory)} if fits else {}


def describe_sizes(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Return "training.lstm_size 512 there, 128 here" and so on for two policies' tensors."""
    contracts = (
        {f"training.{name}": str(size) for name, size in network_sizes(tensors).items()}
        for tensors in (theirs, ours)
    )
    return "; ".join(describe_differences(*contracts))


def contract_from_pairs(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a record's pairs as a contract; UsageError unless values are JSON scalars."""
    contract = dict(pairs)
    for name, value in contract.items():
        try:
            scalar = isinstance(json.loads(value), str | int | float | bool)
        except (ValueError, RecursionError):
            scalar = False
        if not scalar:
            raise UsageError(f"the run's {name} {value[:80]!r} is invalid", "tell the run's owner")
    return contract


def contract_to_pairs(contract: Contract) -> tuple[tuple[str, str], ...]:
    """Return a contract as sorted pairs, for a record."""
    return tuple(sorted(contract.items()))


def _value(config: Config, name: str) -> str:
    section, _, field = name.partition(".")
    return json.dumps(getattr(getattr(config, section), field))
