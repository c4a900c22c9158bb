"""Pure: every assist by name. The one table of them; docs/assists.md tells it to people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from Daddy.pokemon.assists import field_moves, guards, obstacles, supplies, teaching
from Daddy.pokemon.assists.moment import Act, Moment, Trace, Verdict


class Assist(NamedTuple):
    """One help: its decision, how to tell that it worked, and the milestones it is known to serve.

    Without `worked` the bytes it writes are the whole effect, proven without the real game. The
    others depend on what the game's own program makes of them, which nobody here could try.
    """

    decide: Callable[[Moment], Act | None]
    serves: tuple[str, ...]
    worked: Callable[[Trace, Moment], Verdict] | None = None

    @property
    def is_proven(self) -> bool:
        """Whether its whole effect was seen without the real game."""
        return self.worked is None


TABLE: Final[dict[str, Assist]] = {
    "toss_junk": Assist(
        supplies.toss_junk, ("lift_key_held", "scope_held", "card_key_held", "secret_key_taken")
    ),
    "money": Assist(supplies.money, ("drink_given", "got_surf")),
    "flash": Assist(field_moves.flash, ("beat_rival_in_tower",), field_moves.flash_worked),
    "flute": Assist(obstacles.flute, ("snorlax_gone",), obstacles.flute_worked),
    "teach_surf": Assist(teaching.teach_surf, ("surf_taught",)),
    "use_surf": Assist(field_moves.use_surf, ("secret_key_taken",), field_moves.surf_worked),
    "teach_strength": Assist(teaching.teach_strength, ("strength_taught",)),
    "use_strength": Assist(field_moves.use_strength, ("beat_lorelei",)),
    "boulders": Assist(obstacles.boulders, ("beat_lorelei",), obstacles.boulders_worked),
    "block_indigo_exit": Assist(
        guards.block_indigo_exit, ("beat_lorelei", "won"), guards.exit_stayed_shut
    ),
    "no_wild": Assist(guards.no_wild, (), guards.nothing_wild_came),
}
"""In the order of `Daddy.core.assists.NAMES`: who comes first acts first."""
