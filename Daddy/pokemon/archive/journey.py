"""Pure: one environment's way from state to state, and what it means for the states.

Owns what has to survive a restart: which milestones are held for good and where, which state
was the last, how long ago that was, and to how many milestones the fleet has been followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from Daddy.pokemon.archive import keys
from Daddy.pokemon.archive.decisions import Standing

_FIGHT_STEPS = 8
"""Steps in a fight that count as one without anything new."""


@dataclass(frozen=True, slots=True)
class Journey:
    """Where one environment is.

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
        """What a decision needs to know. Of steps in a fight eight count as one: it has time to
        end, and yet nobody dawdles in one for ever.
        """
        since = self.since - self.fought + self.fought // _FIGHT_STEPS
        return Standing(keys.rank(self.held), self.followed, self.tried, since)

    def begun(self, held: frozenset[str], seed: int | None) -> Journey:
        """At the start of the game; without a seed the same random sequence goes on."""
        seed = self.seed if seed is None else seed
        anew = replace(self, held=held, parent="", tried="", seed=seed, hp=0)
        return anew.waited()

    def stepped(self, fights: bool) -> Journey:
        """One step later."""
        fought = self.fought + fights
        return replace(self, since=self.since + 1, fought=fought, lived=self.lived + 1)

    def arrived(self, held: frozenset[str], kept: str) -> Journey:
        """At a new key; `kept` is the hash of the state that was kept of it, or ""."""
        anew = replace(self, held=held, parent=kept or self.parent, tried=kept, hp=0)
        return anew.waited()

    def went_to(self, held: frozenset[str]) -> Journey:
        """At a place where others have been with as much."""
        return replace(self, held=held, hp=0)

    def stronger(self, hp: int) -> Journey:
        """With a party of so many HP."""
        return replace(self, hp=hp)

    def loaded(self, held: frozenset[str], sha256: str) -> Journey:
        """In the game of another state."""
        followed = max(self.followed, keys.rank(held))
        there = replace(self, held=held, followed=followed, parent=sha256, hp=0)
        return replace(there, tried=sha256).waited()

    def waited(self) -> Journey:
        """Nothing counts against the try any more."""
        return replace(self, since=0, fought=0)

    def to_facts(self) -> dict[str, Any]:
        """JSON that `from_facts` reads. HP are looked at anew."""
        facts = {**asdict(self), "held": sorted(self.held)}
        del facts["hp"]
        return facts


def from_facts(facts: Mapping[str, Any]) -> Journey:
    """The journey of a saved environment; a new one where it was saved without an archive."""
    try:
        return Journey(**{**facts, "held": frozenset(facts["held"])})
    except (KeyError, TypeError):
        return Journey()
