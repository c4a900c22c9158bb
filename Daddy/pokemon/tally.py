"""Pure: what one environment was paid for, and what its next step is worth.

Promises that discontinuities pay nothing: a tally begins with the moment it is given, of a new
game, a loaded state or another environment's, and pays only what steps bring from there on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from Daddy.core.settings import Reward
from Daddy.pokemon import field, story
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.exploration import Exploration
from Daddy.pokemon.progress import Progress
from Daddy.pokemon.reward import Records, achieved, advance, blacked_out, reward_parts


class Tally:
    """Records, exploration memory, and the moments from which field moves are told.

    `real`: Red or Blue, else the cartridge. `records` and `facts` are those of a state that is
    gone on from, `cells` its visited cells: what the game of that state holds counts as paid,
    whatever was kept in it.
    """

    def __init__(
        self,
        weights: Reward,
        real: bool,
        now: Progress,
        facts: Mapping[str, Any],
        records: Records | None = None,
        cells: bytes = b"",
    ) -> None:
        self._weights, self._real = weights, real
        self.records = advance(records or Records(), now, real)
        self.memory = Exploration(weights.memory_steps, facts, cells)
        self.memory.begin(now)
        shrub = facts.get("shrub")
        kept = (shrub[0], shrub[1], shrub[2], shrub[3]) if shrub else None
        self._shrub: field.Shrub = field.next_shrub(kept, now)

    def pay(self, was: Progress, now: Progress) -> dict[str, float]:
        """Reward of the step from `was` to `now`, by part; parts that earned nothing lack."""
        before = self.records
        if self._shrub is not None or not _same_holdings(was, now):
            uses = field.uses(self._shrub, was, now)
            self.records = advance(before, now, self._real, uses)
        self._shrub = field.next_shrub(self._shrub, now)
        counts = self.memory.find(was, now) | achieved(before, self.records)
        if "cell" in counts and now.map_id in story.open_places(before.held, self._real):
            counts["cell"] *= self._weights.open_goal
        if blacked_out(was, now):
            counts["blackout"] = 1.0
        return reward_parts(counts, self._weights) if counts else {}

    def grant(self, now: Progress) -> None:
        """What `now` holds without a step having brought it, as after a help, counts as paid."""
        self.records = advance(self.records, now, self._real)
        self._shrub = field.next_shrub(self._shrub, now)

    def adopt(self, other: Tally) -> None:
        """Go on with what `other` was paid for; when to forget stays one's own."""
        self.records, self._shrub = other.records, other._shrub
        self.memory.adopt(other.memory)

    def to_facts(self) -> dict[str, Any]:
        """JSON: all but the records and the visited cells."""
        return {**self.memory.to_facts(), "shrub": self._shrub}


def _same_holdings(was: Progress, now: Progress) -> bool:
    """Whether nothing has changed that records or field moves are told from: most steps only walk.

    The real game keeps all of it from the party to the events, but for where the player stands.
    """
    before, after = was.image, now.image
    return was.placed == now.placed and all(before[part] == after[part] for part in _HOLDINGS)


_HOLDINGS = (
    slice(ram.PARTY_COUNT - ram.RAM_START, ram.MAP_ID + 1 - ram.RAM_START),
    slice(ram.LAST_MAP - ram.RAM_START, ram.EVENTS + ram.EVENT_BYTES - ram.RAM_START),
)
