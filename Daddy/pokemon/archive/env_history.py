"""Pure. Records one environment's way from state to state, as it survives a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from Daddy.pokemon.archive import state_keys as keys

_FIGHT_STEPS = 8
"""Steps in a fight that count as one without anything new, so that it can end."""


@dataclass(slots=True)
class EnvHistory:
    """The present point of one environment; a try is the time since it last reached a new key.

    `held`: its milestones for good, and its place. `followed`: the most milestones to which it has
    followed the fleet. `parent`: the state (hash) that its game descends from, `tried` the one that
    the try began from, "" for none. `since` counts the steps of the try, `fought` those of them in
    a fight, `lived` all steps ever. `hp`: the most that the party had since the last place or load.
    """

    held: frozenset[str] = frozenset()
    followed: int = 0
    parent: str = ""
    tried: str = ""
    since: int = 0
    fought: int = 0
    lived: int = 0
    seed: int | None = None
    hp: int = 0

    @property
    def rank(self) -> int:
        """Number of milestones held."""
        return keys.rank(self.held)

    @property
    def idle_steps(self) -> int:
        """Steps of the try; eight in a fight count as one."""
        return self.since - self.fought + self.fought // _FIGHT_STEPS

    def step(self, fights: bool) -> None:
        """Count one step."""
        self.since += 1
        self.fought += fights
        self.lived += 1

    def start_try(self, held: frozenset[str], state: str) -> None:
        """Begin a try at a key; `state`: the hash of the state kept or loaded there, or ""."""
        self.held, self.tried, self.hp = held, state, 0
        self.parent = state or self.parent
        self.restart_try()

    def restart_try(self) -> None:
        """Begin to count the steps of the try anew."""
        self.since = self.fought = 0

    def to_facts(self) -> dict[str, Any]:
        """JSON that `from_facts` reads; HP are read anew."""
        facts = {**asdict(self), "held": sorted(self.held)}
        del facts["hp"]
        return facts


def history_from(facts: Mapping[str, Any]) -> EnvHistory:
    """Restore a saved environment's history; a new one where it was saved without an archive."""
    try:
        return EnvHistory(**{**facts, "held": frozenset(facts["held"])})
    except (KeyError, TypeError):
        return EnvHistory()
