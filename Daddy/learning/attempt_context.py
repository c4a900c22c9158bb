"""Describes one attempt of a job to fill a slot: its identity, its events and its deadline.

Imports no torch, so that an attempt without a free slot ends within a second.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.event_log import EventWriter
from Daddy.core.host_and_processes import current_process, host_name
from Daddy.core.humanize import parse_duration
from Daddy.core.job_environment import StartupTimer, read_job
from Daddy.core.rank_address import RankAddress
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.stop_conditions import StopSignal, WallTimeLimit


@dataclass(frozen=True)
class AttemptEventLog:
    """Writes events; adds the attempt's token and job id to states and errors."""

    writer: EventWriter
    attempt: Mapping[str, object]

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        """Append an event to the attempt's event log; drop the event on an OSError."""
        row = {**self.attempt, **data} if event in ("state", "error") else data
        with suppress(OSError):
            self.writer.write(event, step, row)


@dataclass(frozen=True)
class JobAttempt:
    """Describes a job's attempt to fill one of `slots`; `by_hand`: a person started it.

    `rank` is its place among the ranks of one learner (DDP), or None.
    """

    config: Config
    run: RunPaths
    token: str
    job_id: str
    by_hand: bool
    slots: Sequence[int]
    clock: Clock
    boot: StartupTimer
    signals: StopSignal
    rank: RankAddress | None = None

    def events(self, ident: str) -> AttemptEventLog:
        """Return a writer of events under the identity `ident`, such as ``slot-0``."""
        writer = EventWriter(
            self.run.events,
            self.config.run_name,
            self.config.training.workload,
            "learner",
            ident,
            self.clock,
        )
        return AttemptEventLog(writer, {"token": self.token, "job_id": self.job_id})

    @cached_property
    def wall(self) -> WallTimeLimit:
        """The wall-time limit of the job: its deadline, from the scheduler and the settings."""
        limit_s = parse_duration(self.config.slurm.time_limit)
        end_time, longest = read_job(os.environ).end_time, self.config.training.max_runtime_seconds
        return WallTimeLimit(self.boot.started, longest, end_time, limit_s, self.clock)

    def stop_reason(self) -> str | None:
        """Return the first reason to stop, a signal or the deadline; None to continue."""
        return self.signals.stop_reason() or self.wall.stop_reason()

    def lease_facts(self) -> dict[str, object]:
        """Return the facts (JSON) about this process that the slot's lease file records."""
        process = current_process()
        return {
            "token": self.token,
            **({"rank": self.rank.rank} if self.rank else {}),
            "job_id": self.job_id,
            "host": host_name(),
            "pid": process.pid,
            "created": process.created,
            "started_ts": round(self.boot.started, 3),
            "restarts": read_job(os.environ).restarts,
            "release": Path(__file__).resolve().parents[2].name,
        }
