"""One try to fill a slot: who is trying, what it writes, when it must leave.

No torch here: an attempt that finds no slot leaves before it costs anything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.event_log import EventWriter
from Daddy.core.humanize import parse_duration
from Daddy.core.job_environment import StartupTimer, read_job
from Daddy.core.machine_info import current_process, host_name
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.stop_reasons import StopSignal, WallTimeLimit


@dataclass(frozen=True)
class AttemptEvents:
    """An event writer whose states name the attempt; a full disk costs rows, not the learner."""

    writer: EventWriter
    attempt: Mapping[str, object]

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        """Append one event."""
        named = {**self.attempt, **data} if event in ("state", "error") else data
        with suppress(OSError):
            self.writer.write(event, step, named)


@dataclass(frozen=True)
class JobAttempt:
    """One try to fill a slot: who we are before we have one."""

    config: Config
    run: RunPaths
    token: str
    job_id: str
    by_hand: bool
    slots: Sequence[int]
    clock: Clock
    boot: StartupTimer
    signals: StopSignal

    def events(self, ident: str) -> AttemptEvents:
        """A writer of events in the name of `ident`."""
        writer = EventWriter(
            self.run.events,
            self.config.run_name,
            self.config.training.workload,
            "learner",
            ident,
            self.clock,
        )
        return AttemptEvents(writer, {"token": self.token, "job_id": self.job_id})

    @cached_property
    def wall(self) -> WallTimeLimit:
        """The job's own deadline."""
        limit_s = parse_duration(self.config.slurm.time_limit)
        end_time, longest = read_job(os.environ).end_time, self.config.training.max_runtime_seconds
        return WallTimeLimit(self.boot.started, longest, end_time, limit_s, self.clock)

    def stop_reason(self) -> str | None:
        """The first reason to leave, a signal or the wall; None to go on."""
        return self.signals.stop_reason() or self.wall.stop_reason()

    def holder(self) -> dict[str, object]:
        """What the slot's lease says of us."""
        me = current_process()
        return {
            "token": self.token,
            "job_id": self.job_id,
            "host": host_name(),
            "pid": me.pid,
            "created": me.created,
            "started_ts": round(self.boot.started, 3),
            "restarts": read_job(os.environ).restarts,
            "release": Path(__file__).resolve().parents[2].name,
        }
