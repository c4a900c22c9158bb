"""Pure. Records one environment's way from state to state, as it survives a restart.

It holds the milestones held for good and the place, the last state and the steps since then, and
the number of milestones to which the fleet has been followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from Daddy.pokemon.archive import archive_keys as keys
from Daddy.pokemon.archive.decisions import Standing

_FIGHT_STEPS = 8
"""Steps in a fight that count as one without anything new."""


@dataclass(frozen=True, slots=True)
class EnvHistory:
    """The present point of one environment.

    `parent` is the state this game descends from, "" for the start of the game; `tried` is the
    same while nothing new was reached since, `since` the steps since then, `fought` those of them
    in a fight; `lived` counts all. `hp` is the most that the party had since it came to this place,
    or was loaded.
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
    def standing(self) -> Standing:
        """The facts of a decision. Eight steps in a fight count as one, so that it can end."""
        since = self.since - self.fought + self.fought // _FIGHT_STEPS
        return Standing(keys.rank(self.held), self.followed, self.tried, since)

    def begun(self, held: frozenset[str], seed: int | None) -> EnvHistory:
        """At the start of the game; without a seed the random sequence goes on."""
        seed = self.seed if seed is None else seed
        anew = replace(self, held=held, parent="", tried="", seed=seed, hp=0)
        return anew.waited()

    def stepped(self, fights: bool) -> EnvHistory:
        """One step later."""
        fought = self.fought + fights
        return replace(self, since=self.since + 1, fought=fought, lived=self.lived + 1)

    def arrived(self, held: frozenset[str], kept: str) -> EnvHistory:
        """At a new key; `kept` is the hash of the state that was kept of it, or ""."""
        anew = replace(self, held=held, parent=kept or self.parent, tried=kept, hp=0)
        return anew.waited()

    def went_to(self, held: frozenset[str]) -> EnvHistory:
        """At a place that has been reached before with as many milestones."""
        return replace(self, held=held, hp=0)

    def stronger(self, hp: int) -> EnvHistory:
        """With a party of so many HP."""
        return replace(self, hp=hp)

    def loaded(self, held: frozenset[str], sha256: str) -> EnvHistory:
        """In the game of another state."""
        followed = max(self.followed, keys.rank(held))
        there = replace(self, held=held, followed=followed, parent=sha256, hp=0)
        return replace(there, tried=sha256).waited()

    def waited(self) -> EnvHistory:
        """Restart the count of steps without anything new."""
        return replace(self, since=0, fought=0)

    def to_facts(self) -> dict[str, Any]:
        """JSON that `from_facts` reads; HP are read anew."""
        facts = {**asdict(self), "held": sorted(self.held)}
        del facts["hp"]
        return facts


def from_facts(facts: Mapping[str, Any]) -> EnvHistory:
    """Restore a saved environment's history; a new one where it was saved without an archive."""
    try:
        return EnvHistory(**{**facts, "held": frozenset(facts["held"])})
    except (KeyError, TypeError):
        return EnvHistory()
