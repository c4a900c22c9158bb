"""Reads the events that the learners of a trial write, in all its attempts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from Daddy.core.event_log import EventTail
from Daddy.search.trial_rules import Training

_SLOT = re.compile(r"slot-(\d{1,4})")


class TrialLog:
    """Holds a trial's episodes, steps and CPU seconds, and the last reason of each rank."""

    def __init__(self, folder: Path) -> None:
        self._tail = EventTail(folder / "events")
        self._episodes: list[tuple[int, float]] = []
        self._steps, self._cpu_seconds = 0, 0.0
        self.events = 0
        """Number of events read."""
        self.goodbyes: dict[int, Mapping[str, Any]] = {}
        """Rank → data of its last goodbye: reason, exit_code, job_id."""

    def read(self) -> Training:
        """Read the events that are new; return the training so far."""
        for event in self._tail.read_new():
            self.events += 1
            if found := _SLOT.fullmatch(str(event["source"]["id"])):
                self._add(int(found[1]), event, event["data"])
        return Training(self._episodes, self._steps, self._cpu_seconds)

    def reasons(self, exit_codes: Mapping[int, int | None]) -> dict[int, str]:
        """Return the last sentence of each rank that ended with the exit code of its goodbye.

        A rank that was killed wrote none: its last goodbye is an earlier attempt's.
        """
        return {
            rank: str(data.get("reason", ""))
            for rank, data in self.goodbyes.items()
            if data.get("exit_code") == exit_codes.get(rank)
        }

    def _add(self, rank: int, event: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        self._steps = max(self._steps, int(event["step"]))
        if data.get("result") == "episodes":
            step = int(event["step"])
            self._episodes += [(step, float(value)) for value in data["returns"]]
        elif data.get("result") == "training":
            self._cpu_seconds += float(data["cpu_seconds"])
        elif data.get("state") == "goodbye":
            self.goodbyes[rank] = data
