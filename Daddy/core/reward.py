"""The weights of the game's reward: each part's name, what one unit of it is, and its worth.

Where the best public learner tells a tuned value, it is the default here.
"""

from __future__ import annotations

from pydantic import Field

from Daddy.core.section import Section


class Reward(Section):
    """What a step is worth: the reward of one unit of each part."""

    cell: float = Field(
        0.029, description="a cell that was not stepped on since the last forgetting"
    )
    open_goal: float = Field(
        9.5, ge=0, description="factor of a cell on a map where a required milestone is still open"
    )
    way: float = Field(0.3, description="a way from one map to another, taken for the first time")
    sign: float = Field(0.2, description="a sign read for the first time")
    event: float = Field(0.73, description="an event flag, set for the first time")
    required: float = Field(7.1, description="a required milestone, beside its event flag")
    item: float = Field(3.4, description="an item that the story needs, held for the first time")
    hm: float = Field(8.1, description="a machine of a field move, held for the first time")
    badge: float = Field(1.9, description="a badge")
    level: float = Field(1.1, description="a level of the party's sum; beyond 15 a quarter of it")
    move: float = Field(4.1, description="a move that nobody in the party knew before")
    seen: float = Field(2.2, description="a species seen")
    caught: float = Field(3.1, description="a species caught")
    field: float = Field(4.8, description="a field move that did its work, once per map and move")
    heal: float = Field(
        0.75, description="the party's HP restored wholly; of each map the best counts, once"
    )
    blackout: float = Field(-0.1, description="the party's last HP lost")
    memory_steps: int = Field(
        20_000,
        ge=0,
        description="steps after which cells, ways, signs and healings are forgotten and count "
        "again, at other times in each environment; 0: never",
    )
