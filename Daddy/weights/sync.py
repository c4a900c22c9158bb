"""Entry behind ``sync_weights.sh``: pull, push, bidirectional, status, setup, login; no torch.

Once, or every ``interval`` seconds until a signal. In a loop trouble is said once, when it changes,
and tried again with growing pauses; what only a person can mend ends it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import (
    ExitCode,
    NetworkError,
    UsageError,
    WeightsError,
    run_entry,
)
from Daddy.core.events import EventWriter
from Daddy.core.humanize import age
from Daddy.core.machine import die_with_parent
from Daddy.core.saved_cluster import remembered, settings_path
from Daddy.core.stopping import Alarm
from Daddy.weights.laptop import pull_push
from Daddy.weights.laptop.pull_push import folder_bytes, turn
from Daddy.weights.laptop.pulled_folder import effect_of, efforts, read_receipts, told
from Daddy.weights.laptop.setup import run_setup
from Daddy.weights.laptop.ssh import (
    DEFAULT_LOCAL,
    HostKeyChangedError,
    Remote,
    find_remote,
    open_login,
)
from Daddy.weights.laptop.transport import Carrier, Way, open_carrier, way_to_pull, way_to_push
from Daddy.weights.store.records import Keyframe

COMMANDS = ("pull", "push", "bidirectional", "status", "setup", "login")
LONGEST_PAUSE_S = 60.0
DAY_S = 86_400.0


def make_parser() -> argparse.ArgumentParser:
    """The command line, as the guide writes it."""
    parser = argparse.ArgumentParser(
        prog="sync_weights.sh",
        description="Move shared weights between this machine and the cluster, over rsync and ssh.",
        epilog="environment: SYNC_CLUSTER_HOST, SYNC_CLUSTER_USER, SYNC_REMOTE_DIR say where; "
        "SYNC_SSH_CONFIG, SYNC_SSH_PORT, SYNC_SSH_KEY, SYNC_TRANSPORT (rsync or sftp) say how; "
        "SYNC_USER_ID: your --user-id among the peers; login: where a key alone is not enough; "
        "setup remembers them. "
        'Example: sync_weights.sh pull "" ~/shared_weights 5',
    )
    parser.add_argument("command", choices=COMMANDS, help="task")
    parser.add_argument("user", nargs="?", default="", help='user or user@host ("": as set up)')
    parser.add_argument("local_dir", nargs="?", default="", help=f"here ({DEFAULT_LOCAL})")
    parser.add_argument("interval", nargs="?", default="", help="seconds between repeats (once)")
    parser.add_argument("--die-with-parent", type=int, metavar="PID", help="end with the parent")
    return parser


class StopNow(BaseException):
    """Raised in the main thread to leave interruptible work."""


class Stopping:
    """Set by SIGTERM, SIGINT or SIGHUP."""

    def __init__(self) -> None:
        self.event = Alarm()
        self.reason = ""
        self._inside = False

    def install(self) -> Stopping:
        """Listen; main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._remember)
        return self

    def is_set(self) -> bool:
        """True if it is time to end."""
        return bool(self.reason) or self.event.is_set()

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Leave the body as soon as a signal comes."""
        self._inside = True
        try:
            yield
        except StopNow:
            pass
        finally:
            self._inside = False

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self.reason = self.reason or signal.Signals(number).name
        self.event.ring()
        if self._inside:
            self._inside = False
            raise StopNow


@dataclass(frozen=True)
class Sync:
    """One laptop folder and one cluster; what reads and what writes may have keys of their own."""

    carrier: Carrier
    writer: Carrier
    way: Way
    local: Path
    clock: Clock
    events: Callable[[Keyframe, str, dict[str, object]], None]

    def once(self, command: str) -> str:
        """One exchange, when no other is under way in this folder; says what happened."""
        said = []
        with turn(self.local, self.clock):
            if command in ("push", "bidirectional"):
                self.writer.prepare()
                sent = pull_push.push(self.writer, self.local, self.clock)
                said.append(f"pushed {sent} contribution(s)" if sent else "nothing to push")
            if command in ("pull", "bidirectional"):
                self.carrier.prepare()
                said.append(self._pull())
        return "; ".join(said)

    def _pull(self) -> str:
        begun = self.clock.monotonic()
        found = pull_push.pull(self.carrier, self.local, self.clock)
        frame = found.frame
        if not found.new:
            return f"v{frame.version} is here already" + (f" ({found.remark})" * bool(found.remark))
        seconds = self.clock.monotonic() - begun
        size = found.route.size if found.route else frame.size
        facts: dict[str, object] = {
            "version": frame.version,
            "bytes": size,
            "route": found.route.reason if found.route else "",
            "seconds": round(seconds, 3),
            "transport": self.carrier.name,
        }
        self.events(frame, "pulled", facts)
        return f"pulled v{frame.version} ({size / 1e6:.2f} MB in {seconds:.1f} s)"

    def close(self) -> None:
        """End the connections."""
        self.carrier.close()
        self.writer.close()

    def status(self) -> int:
        """Print the version here and the one there, their ages, and receipts."""
        here = pull_push.local_frame(self.local)
        print(f"here    {self.local}: {_describe(here, self.clock.now())}")
        for peer in pull_push.contributors(self.local):
            receipts = read_receipts(self.local, peer)
            refused = [one for one in receipts if not one.accepted]
            counted = len(receipts) - len(refused)
            print(f"peer    {peer}: {counted} accepted, {len(refused)} refused")
            if refused:
                print(f"        last refusal: {refused[-1].reason}")
        for peer in efforts(self.local):
            print(f"{peer} did: {told(effect_of(self.local, peer))}")
        print(f"outbox  {len(pull_push.waiting(self.local))} contribution(s) to push")
        print(f"way     {self.way}")
        self.carrier.prepare()
        there = pull_push.remote_frame(self.carrier, self.local)
        print(f"there   {self.carrier.login}: {_describe(there, self.clock.now())}")
        behind = there.version - here.version if here and here.run_id == there.run_id else None
        print(
            "        up to date" if behind == 0 else f"        behind by {behind or 'everything'}"
        )
        return 0


def _describe(frame: Keyframe | None, now: float) -> str:
    if frame is None:
        return "no version"
    return (
        f"v{frame.version} of run {frame.run!r} ({frame.workload}), merged {age(now - frame.ts)} "
        f"ago, {frame.fleet_steps:,} steps"
    )


def repeat(sync: Sync, command: str, interval_s: float, stopping: Stopping) -> int:
    """Exchange every ``interval_s`` seconds until asked to stop; says only what is new.

    A failure before which something arrived is no reason to wait: the line is up again.
    """
    failures, last, arriving = 0, "", sync.local / "incoming"
    while not stopping.is_set():
        said, before = last, folder_bytes(arriving)
        with stopping.interruptible():
            said, failed = _try_once(sync, command)
            stuck = failed and folder_bytes(arriving) <= before
            failures = failures + 1 if stuck else 0
        if said != last:
            print(said, flush=True)
        last = said
        sync.clock.wait(stopping.event, pause_s(interval_s, failures, random.random()))
    print(f"ended by {stopping.reason}", flush=True)
    return int(ExitCode.DONE)


def _try_once(sync: Sync, command: str) -> tuple[str, bool]:
    """A sentence, and True for a failure that may pass."""
    try:
        return sync.once(command), False
    except HostKeyChangedError:
        raise
    except (NetworkError, WeightsError) as error:
        return f"waiting: {error}", True


def pause_s(interval_s: float, failures: int, chance: float) -> float:
    """The interval; after failures doubled each time up to a minute, with a quarter of jitter."""
    if failures == 0:
        return interval_s
    longest = max(interval_s, LONGEST_PAUSE_S)
    return float(min(longest, interval_s * 2 ** min(failures, 16))) * (0.75 + 0.5 * chance)


def _interval(text: str) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= DAY_S:
        raise UsageError(f"interval {text!r} is no number of seconds", "write 5, for example")
    return seconds


def _event_sink(clock: Clock) -> Callable[[Keyframe, str, dict[str, object]], None]:
    """Events of a pull, when ``SYNC_EVENTS_DIR`` says where they belong."""
    folder = os.environ.get("SYNC_EVENTS_DIR")
    writers: list[EventWriter] = []

    def write(frame: Keyframe, state: str, facts: dict[str, object]) -> None:
        if not folder:
            return
        if not writers:
            writers.append(
                EventWriter(Path(folder), frame.run, frame.workload, "laptop", "sync", clock)
            )
        with contextlib.suppress(OSError):
            writers[0].write("state", frame.fleet_steps, {"state": state, **facts})

    return write


def main(argv: Sequence[str] | None = None) -> int:
    """Codes: 0 done, 2 usage, 3 not set up, 6 no usable version, 8 network, 9 files or no rsync."""
    args = make_parser().parse_args(argv)
    if args.die_with_parent is not None:
        die_with_parent(args.die_with_parent)
    interval = _interval(args.interval)
    home = Path.home()
    if args.command == "setup":
        return run_setup(args.user, os.environ, home)
    settings = settings_path(os.environ, home)
    kept = remembered(settings)
    remote = find_remote(args.user, os.environ, kept)
    if args.command == "login":
        return open_login(remote, settings, kept)
    local = Path(args.local_dir or DEFAULT_LOCAL).expanduser()
    local.mkdir(parents=True, exist_ok=True)
    sync = _make_sync(remote, kept, local)
    try:
        return _carry_out(sync, args.command, interval)
    finally:
        sync.close()


def _make_sync(remote: Remote, kept: Mapping[str, str], local: Path) -> Sync:
    asked, clock = os.environ.get("SYNC_TRANSPORT", ""), SystemClock()
    reads, writes = way_to_pull(remote, kept, asked), way_to_push(remote, kept, asked)
    reader = open_carrier(reads)
    writer = reader if reads == writes else open_carrier(writes)
    return Sync(reader, writer, reads, local, clock, _event_sink(clock))


def _carry_out(sync: Sync, command: str, interval: float | None) -> int:
    if command == "status":
        return sync.status()
    if interval is not None:
        return repeat(sync, command, interval, Stopping().install())
    print(sync.once(command))
    return int(ExitCode.DONE)


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
