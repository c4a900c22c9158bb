"""Pure. Folds the events of a fan-out into the state of each sandbox."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from Daddy.fanout.fanout_settings import FanoutSettings

STATES = ("pending", "running", "done", "error")


@dataclass(slots=True)
class SandboxRow:
    """Holds the state of one sandbox."""

    index: int
    state: str = "pending"
    episode: int = 0
    average: float = 0.0
    best: float | None = None
    solved_at: int | None = None
    message: str = ""
    cpu_s: float = 0.0


class FanoutState:
    """Holds the state of all sandboxes of a run."""

    def __init__(self, settings: FanoutSettings, token: str) -> None:
        self.settings, self._token = settings, token
        self.rows = {index: SandboxRow(index) for index in settings.indices}

    def add_result(self, index: int, result: Mapping[str, Any]) -> None:
        """Take in a result of an earlier attempt."""
        _update(self.rows[index], {**result, "state": "done"})

    def add_events(self, events: Iterable[Mapping[str, Any]]) -> list[SandboxRow]:
        """Take in events of this attempt; return the rows that changed their state."""
        changed = []
        for event in events:
            data, row = event["data"], self.rows.get(event["source"]["index"])
            if row is None or data.get("token") != self._token or row.state == "done":
                continue
            before = row.state
            _update(row, data)
            if row.state != before:
                changed.append(row)
        return changed

    def fail(self, index: int, message: str) -> SandboxRow:
        """Mark a sandbox as failed with a reason that no event told."""
        row = self.rows[index]
        row.state, row.message = "error", message
        return row

    def count(self) -> Counter[str]:
        return Counter(row.state for row in self.rows.values())

    def in_state(self, *states: str) -> list[SandboxRow]:
        """Return the rows in these states by index."""
        return [row for row in self.rows.values() if row.state in states]


def _update(row: SandboxRow, data: Mapping[str, Any]) -> None:
    for name in ("state", "episode", "average", "best", "solved_at", "message", "cpu_s"):
        if name in data:
            setattr(row, name, data[name])
