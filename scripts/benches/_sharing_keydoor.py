"""A grid world whose only reward lies behind a door that needs a key: nothing leads there but luck.

All games of a learner are one array, stepped at once. A step goes to one of four sides; who walks
over the key has it, who walks into the door with the key has it open, and who reaches the goal gets
the one reward and begins anew, as does who has walked for too long.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from Daddy.learning.ports import EpisodeEnd, Transition

if TYPE_CHECKING:
    from Daddy.learning.ports import Observations

PLAN = (
    "#############",
    "#     #     #",
    "#     #     #",
    "#     D     #",
    "#     #     #",
    "#K    #    G#",
    "#############",
)
"""# wall, D door, K key, G goal; games begin anywhere left of the door."""
LIMIT = 128
"""Steps after which a game is cut."""
MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])

_CELLS = np.array([list(row) for row in PLAN])
_WALL = _CELLS == "#"
HEIGHT, WIDTH = _CELLS.shape
DOOR, KEY, GOAL = (tuple(np.argwhere(sign == _CELLS)[0]) for sign in "DKG")
STARTS = np.array([cell for cell in np.argwhere(~_WALL) if cell[1] < DOOR[1]])
PHASES = 3
"""Without the key, with it, and with the door open."""
REACHABLE = len(STARTS) * PHASES + int((~_WALL[:, DOOR[1] :]).sum())
"""States there are: the left room in every phase, the rest behind the open door."""
OBSERVED = HEIGHT + WIDTH + PHASES

Games = NDArray[np.int64]
"""(..., 3): row, column and phase of each game."""


def begun(dice: NDArray[np.float64]) -> Games:
    """Games at their beginning, where `dice` (...) in [0, 1) say."""
    cells = STARTS[(dice * len(STARTS)).astype(np.int64)]
    return np.concatenate([cells, np.zeros((*dice.shape, 1), np.int64)], axis=-1)


def advance(games: Games, actions: NDArray[np.int64]) -> tuple[Games, NDArray[np.bool_]]:
    """One step of each game (..., 3) by `actions` (...); and which are at the goal now."""
    there, phase = games[..., :2] + MOVES[actions], games[..., 2]
    at_door = (there == DOOR).all(-1)
    phase = np.where(at_door & (phase == 1), 2, phase)
    shut = _WALL[there[..., 0], there[..., 1]] | (at_door & (phase < PHASES - 1))
    there = np.where(shut[..., None], games[..., :2], there)
    phase = np.where((there == KEY).all(-1) & (phase == 0), 1, phase)
    return np.concatenate([there, phase[..., None]], -1), (there == GOAL).all(-1)


def observe(games: Games) -> NDArray[np.float32]:
    """(..., OBSERVED): a one each for row, column and phase."""
    parts = [np.eye(size, dtype=np.float32)[games[..., number]]
             for number, size in enumerate((HEIGHT, WIDTH, PHASES))]  # fmt: skip
    seen: NDArray[np.float32] = np.concatenate(parts, axis=-1)
    return seen


SPACE = spaces.Dict({"state": spaces.Box(0.0, 1.0, (OBSERVED,), np.float32)})


class KeyDoors:
    """So many games of one learner. Implements `ports.VectorEnv`, as one group.

    `visited` (HEIGHT, WIDTH, PHASES) bool: every state that any of them was ever in.
    """

    observation_space, action_space = SPACE, spaces.Discrete(len(MOVES))
    telemetry_names = ("step",)

    def __init__(self, num_envs: int) -> None:
        self.num_envs, self.groups = num_envs, (slice(0, num_envs),)
        self._dice = np.random.default_rng(0)
        self._games = begun(np.zeros(num_envs))
        self._lengths = np.zeros(num_envs, np.int64)
        self._actions = np.zeros(num_envs, np.int64)
        self.visited = np.zeros((HEIGHT, WIDTH, PHASES), bool)

    def reset(self, seeds: Sequence[int]) -> Observations:
        """Begin everywhere; where games begin, now and later, follows from the seeds."""
        self._dice = np.random.default_rng(list(seeds))
        self._games = begun(self._dice.random(self.num_envs))
        self._lengths[:] = 0
        return self._seen()

    def send(self, group: int, actions: NDArray[np.integer[Any]]) -> None:
        """Begin a step of all."""
        del group
        self._actions = actions.astype(np.int64)

    def recv(self) -> tuple[int, Transition]:
        """The step that was begun."""
        return 0, self.step(self._actions)

    def step(self, actions: NDArray[np.int64]) -> Transition:
        """A step of every game; games that end begin anew at once."""
        self._games, won = advance(self._games, actions)
        self._note()
        self._lengths += 1
        cut = ~won & (self._lengths >= LIMIT)
        ended = won | cut
        episodes = [EpisodeEnd(int(one), float(won[one]), int(self._lengths[one]))
                    for one in np.flatnonzero(ended)]  # fmt: skip
        again = begun(self._dice.random(self.num_envs))
        self._games = np.where(ended[:, None], again, self._games)
        self._lengths[ended] = 0
        return Transition(self._seen(), won.astype(np.float32), won, cut, episodes)

    def _seen(self) -> Observations:
        self._note()
        return {"state": observe(self._games)}

    def _note(self) -> None:
        row, column, phase = self._games.T
        self.visited[row, column, phase] = True

    def telemetry(self) -> NDArray[np.float32]:
        """Steps of each game since it began, (num_envs, 1)."""
        return self._lengths[:, None].astype(np.float32)

    def watch(self, agents: frozenset[int]) -> None:
        """There are no pictures."""

    def frames(self) -> dict[int, bytes]:
        """None."""
        return {}

    def save_states(self) -> list[bytes]:
        """One per game; the first holds the dice and what was visited, too."""
        common = {"dice": self._dice.bit_generator.state, "visited": self.visited.tolist()}
        whole = zip(self._games.tolist(), self._lengths.tolist(), strict=True)
        rows = [{"game": game, "length": length} for game, length in whole]
        rows[0] |= common
        return [json.dumps(row).encode() for row in rows]

    def load_states(self, states: list[bytes]) -> Observations:
        """Go on exactly where they were saved."""
        rows = [json.loads(state) for state in states]
        self._games = np.array([row["game"] for row in rows])
        self._lengths = np.array([row["length"] for row in rows])
        self._dice.bit_generator.state = rows[0]["dice"]
        self.visited = np.array(rows[0]["visited"])
        return self._seen()

    def close(self) -> None:
        """Nothing is open."""
