"""Pure. Reads the reward that a verifier wrote: one number, or an object of numbers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

ReduceBy = Literal["sum", "single"]
_LARGEST = 1e6
"""Larger rewards overflow in the arithmetic of a training."""


@dataclass(frozen=True)
class EpisodeGrade:
    """A reward with the reason, or None: the episode could not be graded and is dropped.

    `forgeable` marks a verifier that ran beside the agent's processes.
    """

    reward: float | None
    reason: str
    rewards: Mapping[str, float] = field(default_factory=dict)
    forgeable: bool = False


def read_rewards(
    text: bytes | None, table: bytes | None, key: str | None = None, reduce_by: ReduceBy = "sum"
) -> EpisodeGrade:
    """Return the verdict of reward.txt's and reward.json's content; None for an absent file.

    Of several rewards `key` chooses one; else they are added up, or refused for ``single``.
    """
    rewards: dict[str, float] = {}
    try:
        rewards = _read_numbers(text, table)
        if key is None and reduce_by == "single" and len(rewards) != 1:
            raise ValueError(f"it gave {len(rewards)} rewards, not one")
        if key is not None and key not in rewards:
            raise ValueError(f"it gave no reward {key!r}")
        reward = _number(sum(rewards.values()) if key is None else rewards[key])
    except (ValueError, OverflowError, RecursionError) as error:
        return EpisodeGrade(None, f"no reward of the verifier: {error}", rewards)
    return EpisodeGrade(reward, "reward of the verifier", rewards)


def _read_numbers(text: bytes | None, table: bytes | None) -> dict[str, float]:
    if text is not None and table is not None:
        raise ValueError("it left reward.txt and reward.json, which is refused")
    if text is not None:
        return {"reward": _number(text)}
    if table is None:
        raise ValueError("it left none")
    return _numbers(table)


def _numbers(table: bytes) -> dict[str, float]:
    found = json.loads(table)
    if not isinstance(found, dict) or not found:
        raise ValueError("it is no object with numbers")
    return {name: _number(value) for name, value in found.items()}


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, bytes | int | float):
        raise ValueError(f"{value!r} is no number")  # noqa: TRY004 - of a file, not of a caller
    number = float(value)
    if not abs(number) <= _LARGEST:
        raise ValueError(f"{number} is not between -{_LARGEST:,.0f} and {_LARGEST:,.0f}")
    return number
