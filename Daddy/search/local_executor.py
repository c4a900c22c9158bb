"""Adapter for this machine's processes: runs attempts of trials on one rank or on several.

Each rank of a sweep is a process; rank 0 is the driver. They share nothing but the sweep's folder:

1. The driver lists in ``driver.json`` the attempts that it wants to run, and starts its own part.
2. A follower starts its part of each listed attempt, stops what is no longer listed, and lists in
   ``ranks/K.json`` its attempts with their exit codes.
3. The driver counts up a heartbeat: a follower that sees none for `SILENCE_S` (before its first
   attempt for `JOIN_S`) ends. A follower that does not list an attempt within `READY_S` is lost,
   and the attempt with it; later, gloo reports that to the other ranks.

A follower is known by a token of its start: one that was started again lists nothing of before. A
file that cannot be read, or is damaged, counts as unchanged.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field, ValidationError

from Daddy.core.atomic_files import read_json_or_empty, write_json
from Daddy.core.clock import Clock
from Daddy.core.errors import ConfigError, ExitCode, NetworkError
from Daddy.core.rank_address import RankAddress, rank_environment
from Daddy.core.run_subprocess import Child, spawn_child
from Daddy.search.sweep_files import SweepPaths

READY_S = 15.0
"""Longest wait for a follower to start its part; it looks every `_POLL_S`."""
JOIN_S = 120.0
"""Longest wait for a follower's start, of which importing is a part."""
FAILED_S = 3.0
"""Seconds from the first failed rank until the others are killed: gloo ends them at once, unless
they are still connecting."""
STOP_S = 90.0
"""Seconds for a checkpoint, from a request to stop or from the first rank that ended well: a rank
waits 60 s for room on a full disk."""
SILENCE_S = 60.0
_POLL_S, _BEAT_S = 0.2, 2.0
_PORTS = 100
_KEPT = 128
"""Ended attempts in a follower's file: the driver reads exit codes after it has dropped them."""


@dataclass(frozen=True, slots=True)
class TrialAttempt:
    """One attempt of a trial: `name` is unique in the sweep, `folder` holds its config.json."""

    name: str
    run_id: str
    folder: Path


def learner_argv(folder: Path, rank: int) -> list[str]:
    """Return the command line of a rank's learner, which trains in the slot of its number."""
    flags = ("--ddp", "--job-rank", str(rank), "--config", str(folder / "config.json"))
    return [sys.executable, "-m", "Daddy.train_slim", *flags]


def _spawn(folder: Path, environ: Mapping[str, str], at: RankAddress) -> Child:
    """Start a rank's learner; its variables replace those of our own start."""
    # DADDY_ variables would replace the trial's settings.
    own = {name: text for name, text in environ.items() if not name.startswith("DADDY_")}
    env, log = {**own, **rank_environment(at)}, folder / f"rank-{at.rank}.log"
    return spawn_child(
        learner_argv(folder, at.rank), stdout=log, stderr=log, env=env, cwd=folder, die_with_us=True
    )


class _AssignedAttempt(BaseModel):
    """An attempt that other ranks are to run; `followers`: rank → token."""

    run_id: str = Field(pattern=r"\.r\.\d{1,6}$")
    port: int
    followers: dict[int, str]


class _DriverRecord(BaseModel):
    """The file of rank 0; `beat` counts up."""

    beat: int = 0
    size: int
    attempts: dict[str, _AssignedAttempt]
    ended: bool = False


class _FollowerRecord(BaseModel):
    """The file of another rank; `attempts`: exit codes, None while one runs."""

    beat: int = 0
    token: str
    attempts: dict[str, int | None]


_Record = TypeVar("_Record", bound=BaseModel)


def _read_record(path: Path, kind: type[_Record]) -> _Record | None:
    """Return a rank's record, None if there is none that can be read now."""
    try:
        return kind.model_validate(read_json_or_empty(path))
    except ValidationError:
        return None


class _RecordFile:
    """Writes a rank's record when it has changed, and every `_BEAT_S`."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._beat, self._due = 0, float("-inf")
        self._written: BaseModel | None = None

    def write(self, record: BaseModel) -> None:
        if record != self._written or self._clock.monotonic() >= self._due:
            self._beat, self._due = self._beat + 1, self._clock.monotonic() + _BEAT_S
            self._written = record
            write_json(self._path, {**record.model_dump(), "beat": self._beat}, durable=False)


@dataclass
class _Running:
    """An attempt that runs: rank 0's child, the followers' tokens, and exit codes by rank."""

    run_id: str
    child: Child
    port: int
    started: float
    followers: dict[int, str]
    exits: dict[int, int | None] = field(default_factory=dict)
    """In the order in which the ranks ended; None: lost."""
    ends_by: float | None = None
    """When what is left is killed: some time after a rank failed or we stopped the attempt."""


class LocalExecutor:
    """Runs attempts with rank 0's part as a child of this process."""

    def __init__(
        self, paths: SweepPaths, ranks: RankAddress, environ: Mapping[str, str], clock: Clock
    ) -> None:
        self._paths, self._ranks, self._environ, self._clock = paths, ranks, environ, clock
        self._running: dict[str, _Running] = {}
        self._seen: dict[int, _FollowerRecord] = {}
        self._file = _RecordFile(paths.driver, clock)

    def join(self, print_line: Callable[[str], None], stop: Callable[[], object]) -> None:
        """Wait for the other ranks. NetworkError if one does not come within `JOIN_S`."""
        until = self._clock.monotonic() + JOIN_S
        for rank in range(1, self._ranks.size):
            print_line(f"waiting for rank {rank}")
            before = self._read_rank(rank)
            while not stop() and self._read_rank(rank) == before:
                if self._clock.monotonic() > until:
                    raise NetworkError(
                        f"rank {rank} of {self._ranks.size} did not come within {JOIN_S:g} s",
                        "start the same command with RANK set on each node",
                    )
                self._write()
                self._clock.wait(threading.Event(), _POLL_S)

    def start(self, attempt: TrialAttempt) -> None:
        """Start an attempt on all ranks. NetworkError if no port is free."""
        port = self._choose_port()
        child = _spawn(attempt.folder, self._environ, replace(self._ranks, port=port))
        others = range(1, self._ranks.size)
        self._running[attempt.name] = _Running(
            run_id=attempt.run_id,
            child=child,
            port=port,
            started=self._clock.monotonic(),
            followers={rank: self._read_rank(rank).token for rank in others},
        )
        self._write()

    def stop(self, name: str) -> None:
        """Ask an attempt's ranks to write a checkpoint and end."""
        if (running := self._running.get(name)) and running.ends_by is None:
            running.child.signal(signal.SIGTERM)
            running.ends_by = self._clock.monotonic() + STOP_S
            self._write()

    def poll(self) -> dict[str, Mapping[int, int | None]]:
        """Return the exit codes of attempts that ended since the last call; None: a lost rank."""
        ended = {name: each for name, each in self._running.items() if self._has_ended(name, each)}
        for name in ended:
            del self._running[name]
        self._write()
        return {name: each.exits for name, each in ended.items()}

    def close(self) -> None:
        """Kill what is left, and let the followers end."""
        for running in self._running.values():
            running.child.signal_group(signal.SIGKILL)
            running.child.wait(None)
        self._running = {}
        self._write(ended=True)

    def _has_ended(self, name: str, running: _Running) -> bool:
        now = self._clock.monotonic()
        if running.child.wait(0):
            running.exits[0] = running.child.exit_code
        for rank, token in running.followers.items():
            self._read_follower(name, rank, token, running)
        if running.ends_by is None and running.exits:
            well = set(running.exits.values()) <= {ExitCode.DONE, ExitCode.DRAINED}
            running.ends_by = now + (STOP_S if well else FAILED_S)
        if running.ends_by is not None and now > running.ends_by:
            running.child.signal_group(signal.SIGKILL)
            for rank in running.followers:
                running.exits.setdefault(rank, None)
        return len(running.exits) == self._ranks.size

    def _read_follower(self, name: str, rank: int, token: str, running: _Running) -> None:
        """Record the exit code of a follower's part, None if the follower is lost."""
        if rank in running.exits:
            return
        record = self._read_rank(rank)
        if record.token == token and name in record.attempts:
            if (code := record.attempts[name]) is not None:
                running.exits[rank] = code
        elif self._clock.monotonic() - running.started > READY_S or record.token != token:
            running.exits[rank] = None

    def _read_rank(self, rank: int) -> _FollowerRecord:
        """Return a follower's record; one that cannot be read now is as it was."""
        if record := _read_record(self._paths.rank_file(rank), _FollowerRecord):
            self._seen[rank] = record
        return self._seen.get(rank, _FollowerRecord(token="", attempts={}))

    def _choose_port(self) -> int:
        """Return the first free port from that of the ranks on; 0 without other ranks."""
        if self._ranks.size == 1:
            return 0
        taken = {running.port for running in self._running.values()}
        for port in range(self._ranks.port, min(self._ranks.port + _PORTS, 1 << 16)):
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if port not in taken:
                    probe.bind((self._ranks.host, port))
                    return port
        raise NetworkError(
            f"no port of {self._ranks.host} from {self._ranks.port} on is free",
            "end the programs that use them, or set MASTER_PORT",
        )

    def _write(self, *, ended: bool = False) -> None:
        wanted = {
            name: _AssignedAttempt(run_id=each.run_id, port=each.port, followers=each.followers)
            for name, each in self._running.items()
            if each.ends_by is None
        }
        if (size := self._ranks.size) > 1:
            self._file.write(_DriverRecord(size=size, attempts=wanted, ended=ended))


class Follower:
    """Runs one rank's parts of the attempts that the driver lists."""

    def __init__(
        self,
        paths: SweepPaths,
        at: RankAddress,
        token: str,
        environ: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._paths, self._at, self._token = paths, at, token
        self._environ, self._clock = environ, clock
        self._children: dict[str, Child] = {}
        self._stopped: dict[str, float] = {}
        self._file = _RecordFile(paths.rank_file(at.rank), clock)

    def follow(self, stop: Callable[[], object]) -> None:
        """Follow the driver until it ends. NetworkError if it is silent."""
        known = _read_record(self._paths.driver, _DriverRecord)
        heard = self._clock.monotonic()
        try:
            while not stop():
                record = _read_record(self._paths.driver, _DriverRecord)
                if record and record != known:
                    known, heard = record, self._clock.monotonic()
                    self._check_size(record.size)
                    if record.ended:
                        return
                self._check_silence(heard)
                self._apply(known.attempts if known else {})
                parts = {name: child.exit_code for name, child in self._children.items()}
                self._file.write(_FollowerRecord(token=self._token, attempts=parts))
                self._clock.wait(threading.Event(), _POLL_S)
        finally:
            for child in self._children.values():
                if not child.wait(0):
                    child.signal_group(signal.SIGKILL)

    def _check_size(self, size: int) -> None:
        if size != self._at.size:
            raise ConfigError(
                f"WORLD_SIZE is {self._at.size} here and {size} at rank 0",
                "set the same WORLD_SIZE on each node",
            )

    def _check_silence(self, heard: float) -> None:
        limit = SILENCE_S if self._children else JOIN_S
        if self._clock.monotonic() - heard > limit:
            raise NetworkError(
                f"rank 0 has not been heard of for {limit:g} s",
                "look at its log, then start the same command on each node",
            )

    def _apply(self, attempts: Mapping[str, _AssignedAttempt]) -> None:
        """Start what is listed for us, stop what no longer is, forget what ended long ago."""
        rank, token = self._at.rank, self._token
        ours = {n: each for n, each in attempts.items() if each.followers.get(rank) == token}
        for name, wanted in ours.items():
            if name not in self._children:
                folder = self._paths.trial(wanted.run_id)
                child = _spawn(folder, self._environ, replace(self._at, port=wanted.port))
                self._children[name] = child
        for name, child in self._children.items():
            if not child.wait(0) and name not in ours:
                self._end(name, child)
        children = self._children.items()
        done = [n for n, child in children if n not in ours and child.exit_code is not None]
        for name in done[:-_KEPT]:
            del self._children[name]

    def _end(self, name: str, child: Child) -> None:
        if name not in self._stopped:
            child.signal(signal.SIGTERM)
            self._stopped[name] = self._clock.monotonic()
        elif self._clock.monotonic() - self._stopped[name] > STOP_S:
            child.signal_group(signal.SIGKILL)
