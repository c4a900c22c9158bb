"""Pure: the numbers that an archive's decisions follow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """See `Daddy.core.settings.Archive` for the settings among them."""

    follow: bool = True
    """Load a state when the fleet first holds more milestones, and begin most episodes near it."""
    starts: bool = False
    """Begin episodes from states that were tried least."""
    per_key: int = 8
    patience: int = 20_000
    """Steps from a state without a new key after which the try was dry; see `journey.Journey`."""
    tries: int = 3
    """Dry tries, on balance, after which a state calls nobody and makes room."""
    fresh: float = 0.25
    """Share of episodes that begin where the game does all the same."""
    stray: float = 0.25
    """Weight of one step fewer milestones, where one is left for another or an episode begins."""
    square: int = 16
    """Cells a side of the squares of a map that tell moments apart; 0: whole maps."""
    places: int = 128
    """With as many milestones; beyond them there is room only where one of them leads nowhere."""
    most_keys: int = 2_048
    stronger: float = 1.1
    """HP of a party over the most before, from which a moment without a new key is kept."""
    look_every: int = 64
    """Steps of an environment between two looks at the folder."""
