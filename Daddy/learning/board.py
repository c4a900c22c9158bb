"""Door to TensorBoard: one folder of curves per slot.

Loaded after the first update only, because its imports are no part of a job's way to work.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from Daddy.core.clock import Clock

_FLUSH_SECONDS = 10


class TensorBoard:
    """Writes scalar curves under `folder`."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._writer: Any = None

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """One point at `step` on the curve of every name."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        points = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        event = Event(wall_time=self._clock.now(), step=step, summary=Summary(value=points))
        try:
            if self._writer is None:
                self._writer = _open(self._folder)
            self._writer.add_event(event)
        except OSError:  # a full disk costs points, not the learner; a new file is tried next time
            self._writer = None

    def close(self) -> None:
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()


def _open(folder: Path) -> Any:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter(str(folder), flush_secs=_FLUSH_SECONDS)


class NoBoard:
    """Draws nothing."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Draws nothing."""

    def close(self) -> None:
        """Nothing was opened."""
