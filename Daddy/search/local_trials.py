"""Adapter for this machine's processes: runs attempts of trials on one rank or on several.

Each rank of a sweep is a process; rank 0 is the driver. They share nothing but the sweep's folder:

1. The driver lists in ``driver.json`` the attempts that it wants to run, and starts its own part.
2. A follower starts its part of each listed attempt, stops what is no longer listed, and lists in
   ``ranks/K.json`` its attempts with their exit codes.
3. The driver counts up a heartbeat: a follower that sees none for `SILENCE_S` (before its first
   attempt for `JOIN_S`) ends. A follower that does not list an attempt within `READY_S` is lost,
   and the attempt with it; later, gloo tells the other ranks.

A follower is known by a token of its start: one that was started again lists nothing of before.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import read_json_or_empty, write_json
from Daddy.core.clock import Clock
from Daddy.core.errors import ConfigError, ExitCode, NetworkError
from Daddy.core.run_subprocess import Child, spawn_child
from Daddy.search.sweep_files import SweepPaths

READY_S = 15.0
"""Longest wait for a follower to begin its part; it looks every `_POLL_S`."""
JOIN_S = 120.0
"""Longest wait for a follower's start, of which importing is a part."""
FAILED_S = 3.0
"""Seconds from the first failed rank until the others are killed: gloo tells them at once, unless
they are still connecting."""
STOP_S = 30.0
"""Seconds for a checkpoint, from a request to stop or from the first rank that ended well."""
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


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of a sweep: their number, and the address at which rank 0 listens."""

    size: int = 1
    host: str = "127.0.0.1"
    port: int = 29500


def learner_argv(folder: Path, rank: int) -> list[str]:
    """Return the command line of a rank's learner, which trains in the slot of its number."""
    flags = ("--ddp", "--job-rank", str(rank), "--config", str(folder / "config.json"))
    return [sys.executable, "-m", "Daddy.train_slim", *flags]


def _spawn(folder: Path, rank: int, environ: Mapping[str, str], added: Mapping[str, str]) -> Child:
    log = folder / f"rank-{rank}.log"
    own = {name: text for name, text in environ.items() if not name.startswith("DADDY_")}
    env = {**own, **added}  # those would replace the trial's settings
    return spawn_child(
        learner_argv(folder, rank), stdout=log, stderr=log, env=env, cwd=folder, die_with_us=True
    )


def _environment(ranks: Ranks, rank: int, port: int) -> dict[str, str]:
    """Return the variables of a rank's learner; they replace those of our own start."""
    return {
        "WORLD_SIZE": str(ranks.size),
        "RANK": str(rank),
        "MASTER_ADDR": ranks.host,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "False",  # torchrun serves the sweep's ranks, not a trial's
    }


@dataclass
class _Running:
    """An attempt that runs: rank 0's child, the followers' tokens, and exit codes by rank."""

    child: Child
    port: int
    begun: float
    followers: Mapping[int, str]
    exits: dict[int, int | None] = field(default_factory=dict)
    """In the order in which the ranks ended; None: lost."""
    ends_by: float | None = None
    """When what is left is killed: some time after a rank failed or we stopped the attempt."""


class LocalTrials:
    """Runs attempts with rank 0's part as a child of this process."""

    def __init__(
        self, paths: SweepPaths, ranks: Ranks, environ: Mapping[str, str], clock: Clock
    ) -> None:
        self._paths, self._ranks, self._environ, self._clock = paths, ranks, environ, clock
        self._running: dict[str, _Running] = {}
        self._attempts: dict[str, TrialAttempt] = {}
        self._seen: dict[int, Mapping[str, Any]] = {}
        self._beat, self._told = 0, float("-inf")

    def join(self, say: Callable[[str], None], stop: Callable[[], object]) -> None:
        """Wait for the other ranks. NetworkError if one does not come within `JOIN_S`."""
        until = self._clock.monotonic() + JOIN_S
        for rank in range(1, self._ranks.size):
            path, before = (
                self._paths.rank_file(rank),
                read_json_or_empty(self._paths.rank_file(rank)),
            )
            say(f"waiting for rank {rank}")
            while not stop() and read_json_or_empty(path) == before:
                if self._clock.monotonic() > until:
                    raise NetworkError(
                        f"rank {rank} of {self._ranks.size} did not come within {JOIN_S:g} s",
                        "start the same command with RANK set on each node",
                    )
                self._tell()
                self._clock.wait(threading.Event(), _POLL_S)

    def start(self, attempt: TrialAttempt) -> None:
        """Start an attempt on all ranks. NetworkError if no port is free."""
        port = self._choose_port()
        child = _spawn(attempt.folder, 0, self._environ, _environment(self._ranks, 0, port))
        others = range(1, self._ranks.size)
        followers = {rank: str(self._read_rank(rank).get("token", "")) for rank in others}
        self._attempts[attempt.name] = attempt
        self._running[attempt.name] = _Running(child, port, self._clock.monotonic(), followers)
        self._tell(now=True)

    def stop(self, name: str) -> None:
        """Ask an attempt's ranks to write a checkpoint and end."""
        if (running := self._running.get(name)) and running.ends_by is None:
            running.child.signal(signal.SIGTERM)
            running.ends_by = self._clock.monotonic() + STOP_S
            self._tell(now=True)

    def poll(self) -> dict[str, Mapping[int, int | None]]:
        """Return the attempts that ended since the last call: exit codes of ranks, first end first.

        None stands for a rank that was lost.
        """
        self._tell()
        ended = {name: each for name, each in self._running.items() if self._has_ended(name, each)}
        for name in ended:
            del self._running[name], self._attempts[name]
        if ended:
            self._tell(now=True)
        return {name: each.exits for name, each in ended.items()}

    def close(self) -> None:
        """Kill what is left, and let the followers end."""
        for running in self._running.values():
            running.child.signal_group(signal.SIGKILL)
            running.child.wait(None)
        self._running, self._attempts = {}, {}
        if self._ranks.size > 1:
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
        parts = record.get("attempts")
        if record.get("token") == token and isinstance(parts, dict) and name in parts:
            if isinstance(code := parts[name], int):
                running.exits[rank] = code
        elif self._clock.monotonic() - running.begun > READY_S or record.get("token") != token:
            running.exits[rank] = None

    def _read_rank(self, rank: int) -> Mapping[str, Any]:
        """Return a follower's record; one that cannot be read now is as it was."""
        self._seen[rank] = read_json_or_empty(self._paths.rank_file(rank)) or self._seen.get(
            rank, {}
        )
        return self._seen[rank]

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

    def _tell(self, *, now: bool = False) -> None:
        if self._ranks.size > 1 and (now or self._clock.monotonic() - self._told >= _BEAT_S):
            self._write()

    def _write(self, *, ended: bool = False) -> None:
        self._beat, self._told = self._beat + 1, self._clock.monotonic()
        wanted = {
            name: {
                "run_id": self._attempts[name].run_id,
                "port": running.port,
                "followers": {str(rank): token for rank, token in running.followers.items()},
            }
            for name, running in self._running.items()
            if running.ends_by is None
        }
        facts = {"beat": self._beat, "size": self._ranks.size}
        record = {**facts, "attempts": wanted, "ended": ended}
        write_json(self._paths.driver, record, durable=False)


class Follower:
    """Runs one rank's parts of the attempts that the driver lists."""

    def __init__(
        self,
        paths: SweepPaths,
        ranks: Ranks,
        rank: int,
        token: str,
        environ: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._paths, self._ranks, self._rank, self._token = paths, ranks, rank, token
        self._environ, self._clock = environ, clock
        self._children: dict[str, Child] = {}
        self._stopped: dict[str, float] = {}
        self._beat, self._told = 0, float("-inf")

    def follow(self, stop: Callable[[], object]) -> None:
        """Follow the driver until it ends. NetworkError if it is silent."""
        before, heard = read_json_or_empty(self._paths.driver), self._clock.monotonic()
        known = before
        try:
            while not stop():
                record = read_json_or_empty(self._paths.driver)
                if record and record != known:
                    known, heard = record, self._clock.monotonic()
                if known != before:
                    self._check_size(known.get("size"))
                    if known.get("ended"):
                        return
                self._check_silence(heard)
                changed = self._apply(known.get("attempts"))
                self._tell(now=changed)
                self._clock.wait(threading.Event(), _POLL_S)
        finally:
            for child in self._children.values():
                child.signal_group(signal.SIGKILL)

    def _check_size(self, size: object) -> None:
        if size != self._ranks.size:
            raise ConfigError(
                f"WORLD_SIZE is {self._ranks.size} here and {size} at rank 0",
                "set the same WORLD_SIZE on each node",
            )

    def _check_silence(self, heard: float) -> None:
        limit = SILENCE_S if self._children else JOIN_S
        if self._clock.monotonic() - heard > limit:
            raise NetworkError(
                f"rank 0 has not been heard of for {limit:g} s",
                "look at its log, then start the same command on each node",
            )

    def _apply(self, attempts: object) -> bool:
        """Start what is listed for us, stop what no longer is; return True if anything changed."""
        wanted = attempts if isinstance(attempts, dict) else {}
        ours = {
            name: each
            for name, each in wanted.items()
            if each["followers"].get(str(self._rank)) == self._token
        }
        new = [name for name in ours if name not in self._children]
        for name in new:
            self._start(name, ours[name])
        for name, child in list(self._children.items()):
            if name not in ours:
                self._end(name, child)
        ended = [child.wait(0) for child in self._children.values() if child.exit_code is None]
        self._forget(ours)
        return bool(new) or any(ended)

    def _forget(self, ours: Mapping[str, Any]) -> None:
        """Forget attempts that ended long ago, or the file would outgrow what is read."""
        children = self._children.items()
        done = [n for n, child in children if n not in ours and child.exit_code is not None]
        for name in done[:-_KEPT]:
            del self._children[name]

    def _start(self, name: str, wanted: Mapping[str, Any]) -> None:
        added = _environment(self._ranks, self._rank, int(wanted["port"]))
        folder = self._paths.trial(str(wanted["run_id"]))
        self._children[name] = _spawn(folder, self._rank, self._environ, added)

    def _end(self, name: str, child: Child) -> None:
        if name not in self._stopped:
            child.signal(signal.SIGTERM)
            self._stopped[name] = self._clock.monotonic()
        elif self._clock.monotonic() - self._stopped[name] > STOP_S:
            child.signal_group(signal.SIGKILL)

    def _tell(self, *, now: bool) -> None:
        if not now and self._clock.monotonic() - self._told < _BEAT_S:
            return
        self._beat, self._told = self._beat + 1, self._clock.monotonic()
        parts = {name: child.exit_code for name, child in self._children.items()}
        record = {"token": self._token, "beat": self._beat, "attempts": parts}
        write_json(self._paths.rank_file(self._rank), record, durable=False)
