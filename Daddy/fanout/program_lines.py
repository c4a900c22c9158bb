"""Pure. Parses the lines that a program in a sandbox prints: JSON objects with episode and reward.

Each line is a claim of untrusted code. A line that is not exactly of the form is dropped and
counted. Names that the program gives itself are ignored: the host knows the sandbox by its index.
A run of episodes is solved by the host's own rule: a mean of 195 over at least 100 episodes.
"""

import json
from collections import deque
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NoReturn

from Daddy.core.arguments import LARGEST_NUMBER
from Daddy.core.name_validation import unique_names

SOLVED_MEAN, SOLVED_EPISODES = 195.0, 100
LONGEST_LINE = 4096


@dataclass(slots=True)
class ProgramReport:
    """Holds the claims of one program so far; `average` is the mean of the last 100 episodes."""

    episode: int = 0
    average: float = 0.0
    best: float | None = None
    solved_at: int | None = None
    complete: bool = False
    dropped: int = 0
    """Lines that began like an object and were not of the form."""
    _rewards: deque[float] = field(default_factory=lambda: deque(maxlen=SOLVED_EPISODES))

    def add_line(self, line: str) -> bool:
        """Take in a line; return True for a line of progress or the final line."""
        if not line.lstrip().startswith("{"):
            return False  # a program may print other text
        record = _parse(line)
        if record is not None and (self._add_progress(record) or self._add_final(record)):
            return True
        self.dropped += 1
        return False

    def _add_progress(self, record: dict[str, Any]) -> bool:
        episode, reward = _whole(record.get("episode")), _number(record.get("reward"))
        if episode is None or reward is None or episode <= self.episode or self.complete:
            return False
        claimed = _number(record.get("avg_100")) if "avg_100" in record else None
        if "avg_100" in record and claimed is None:
            return False
        self._rewards.append(reward)
        self.episode = episode
        self.best = reward if self.best is None else max(self.best, reward)
        self.average = sum(self._rewards) / len(self._rewards) if claimed is None else claimed
        played = len(self._rewards) if claimed is None else episode
        if self.solved_at is None and played >= SOLVED_EPISODES and self.average >= SOLVED_MEAN:
            self.solved_at = _within(record.get("solved_at"), SOLVED_EPISODES, episode)
        return True

    def _add_final(self, record: dict[str, Any]) -> bool:
        average, best = _number(record.get("final_avg")), _number(record.get("best"))
        if record.get("status") != "complete" or average is None or best is None:
            return False
        if not self.episode or self.complete:
            return False
        self.complete, self.average, self.best = True, average, best
        return True

    def result(self) -> dict[str, Any]:
        """Return the episodes, averages and the host's decision on "solved"."""
        return {
            "episode": self.episode,
            "average": self.average,
            "best": self.best,
            "solved": self.solved_at is not None,
            "solved_at": self.solved_at,
        }


def _parse(line: str) -> dict[str, Any] | None:
    if len(line) > LONGEST_LINE:
        return None
    try:
        record = json.loads(line, object_pairs_hook=unique_names, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _number(value: object) -> float | None:
    """Return a finite number of at most 10**12 in size, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if abs(value) > LARGEST_NUMBER or not isfinite(value):
        return None
    return float(value)


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= LARGEST_NUMBER:
        return None
    return value


def _within(value: object, least: int, most: int) -> int:
    """Return the claimed number if it lies within the bounds, else the upper bound."""
    claimed = _whole(value)
    return claimed if claimed is not None and least <= claimed <= most else most
