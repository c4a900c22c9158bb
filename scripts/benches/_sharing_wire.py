"""Whether a policy does the same after it was sent in half the bytes."""

from __future__ import annotations

import numpy as np

from Daddy.weights.encoding.state_codec import decode, encode
from Daddy.weights.polyak import StateDict
from scripts.benches._sharing_judge import Crowd, Floats, advance, probe

RECORDED = 10_000
"""Observations on which both forms are asked."""


def wire(state: StateDict, seed: int) -> dict[str, int]:
    """Of so many observations that the policy met while playing: on how many both forms agree."""
    games = _met(state, seed)
    whole, half = (Crowd([one]) for one in (state, decode(encode(state, half=True))))
    same = (whole.chances(games) > 0.5) == (half.chances(games) > 0.5)
    return {"asked": int(same.size), "same": int(same.sum())}


def _met(state: StateDict, seed: int) -> Floats:
    """States (1, RECORDED, 4) of games that the policy plays with dice, begun anew after a fall."""
    crowd, dice = Crowd([state]), np.random.default_rng(seed)
    first = probe()[0]
    games, met = first[None], list[Floats]()
    while sum(one.shape[1] for one in met) < RECORDED:
        met.append(games)
        games, fell = advance(games, dice.random(games.shape[:2]) < crowd.chances(games))
        games = np.where(fell[..., None], dice.uniform(-0.05, 0.05, games.shape), games)
    recorded: Floats = np.concatenate(met, axis=1)[:, :RECORDED]
    return recorded
