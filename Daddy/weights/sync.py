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
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode, NetworkError, UsageError, WeightsError, run_entry
from Daddy.core.event_log import EventWriter
from Daddy.core.humanize import format_age
from Daddy.core.machine_info import die_with_parent
from Daddy.core.saved_cluster import read_saved_cluster, settings_path
from Daddy.weights.laptop import pull_push
from Daddy.weights.laptop.pull_push import PullResult, folder_bytes, lock_folder
from Daddy.weights.laptop.rsync_sftp import FileTransport, choose_transport
from Daddy.weights.laptop.setup_wizard import run_setup
from Daddy.weights.laptop.ssh_login import (
    DEFAULT_LOCAL,
    HostKeyChangedError,
    find_remote,
    open_login,
)
from Daddy.weights.store.weight_records import LaptopHead

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
    parser.add_argument(
        "interval", nargs="?", type=_interval, help="seconds between repeats (once)"
    )
    parser.add_argument("--die-with-parent", type=int, metavar="PID", help="end with the parent")
    return parser


@dataclass(frozen=True)
class Sync:
    """One laptop folder and one cluster; what reads and what writes may have keys of their own."""

    reader: FileTransport
    writer: FileTransport
    local: Path
    clock: Clock

    def once(self, command: str) -> str:
        """One exchange, when no other is under way in this folder; says what happened."""
        said = []
        with lock_folder(self.local, self.clock):
            if command in ("push", "bidirectional"):
                self.writer.prepare()
                sent = pull_push.push(self.writer, self.local, self.clock)
                said.append(f"pushed {sent} contribution(s)" if sent else "nothing to push")
            if command in ("pull", "bidirectional"):
                self.reader.prepare()
                begun = self.clock.monotonic()
                found = pull_push.pull(self.reader, self.local, self.clock)
                said.append(self._pulled(found, self.clock.monotonic() - begun))
        return "; ".join(said)

    def _pulled(self, found: PullResult, seconds: float) -> str:
        """Say what a pull brought; a new version is an event, too."""
        frame, route = found.frame, found.route
        if route is None:
            return f"v{frame.version} is here already" + (f" ({found.remark})" * bool(found.remark))
        _note_pulled(frame, {
            "version": frame.version,
            "bytes": route.size,
            "route": route.reason,
            "seconds": round(seconds, 3),
            "transport": self.reader.name,
        })  # fmt: skip
        return f"pulled v{frame.version} ({route.size / 1e6:.2f} MB in {seconds:.1f} s)"

    def close(self) -> None:
        """End the connections."""
        for carrier in {self.reader, self.writer}:
            carrier.close()

    def status(self) -> int:
        """Print the state of what is here, the way, and the version there."""
        from Daddy.weights.status import print_status
        from Daddy.weights.weights_report import report_laptop

        now = self.clock.now()
        here = report_laptop(self.local, now)
        print_status(here, now)
        print(f"way     {self.reader}")
        self.reader.prepare()
        there = pull_push.fetch_remote_head(self.reader, self.local)
        print(
            f"there   {self.reader.remote.login}: v{there.version} of run {there.run!r} "
            f"({there.workload}), merged {format_age(now - there.ts)} ago, "
            f"{there.fleet_steps:,} steps"
        )
        behind = there.version - here["version"] if here["run_id"] == there.run_id else "everything"
        print("        " + (f"behind by {behind}" if behind else "up to date"))
        return 0


def _note_pulled(frame: LaptopHead, facts: Mapping[str, object]) -> None:
    """Write the event of a pull, when ``SYNC_EVENTS_DIR`` says where it belongs."""
    if folder := os.environ.get("SYNC_EVENTS_DIR"):
        with contextlib.suppress(OSError):
            writer = _event_writer(folder, frame.run, frame.workload)
            writer.write("state", frame.fleet_steps, {"state": "pulled", **facts})


@cache
def _event_writer(folder: str, run: str, workload: str) -> EventWriter:
    return EventWriter(Path(folder), run, workload, "laptop", "sync", SystemClock())


class StopSignal(BaseException):
    """A signal asks this process to end, whatever it is doing."""


def stop_on_signals() -> None:
    """Raise StopNow in the main thread at the first SIGTERM, SIGINT or SIGHUP."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, lambda *_: None)
        raise StopSignal(signal.Signals(number).name)

    for number in numbers:
        signal.signal(number, stop)


def repeat_exchange(sync: Sync, command: str, interval_s: float) -> int:
    """Exchange every ``interval_s`` seconds until asked to stop; says only what is new.

    A failure before which something arrived is no reason to wait: the line is up again.
    """
    failures, last, arriving = 0, "", sync.local / "incoming"
    try:
        while True:
            before = folder_bytes(arriving)
            try:
                said, failures = sync.once(command), 0
            except HostKeyChangedError:
                raise
            except (NetworkError, WeightsError) as error:
                said = f"waiting: {error}"
                failures = failures + 1 if folder_bytes(arriving) <= before else 0
            if said != last:
                print(said, flush=True)
            last = said
            sync.clock.wait(threading.Event(), next_pause_s(interval_s, failures, random.random()))
    except StopSignal as stopped:
        print(f"ended by {stopped}", flush=True)
    return int(ExitCode.DONE)


def next_pause_s(interval_s: float, failures: int, chance: float) -> float:
    """The interval; after failures doubled each time up to a minute, with a quarter of jitter."""
    if failures == 0:
        return interval_s
    longest = max(interval_s, LONGEST_PAUSE_S)
    return float(min(longest, interval_s * 2 ** min(failures, 16))) * (0.75 + 0.5 * chance)


def _interval(text: str) -> float | None:
    if not text:
        return None
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) <= DAY_S:
            return seconds
    raise UsageError(f"interval {text!r} is no number of seconds", "write 5, for example")


def main(argv: Sequence[str] | None = None) -> int:
    """Codes: 0 done, 2 usage, 3 not set up, 6 no usable version, 8 network, 9 files or no rsync."""
    args = make_parser().parse_args(argv)
    if args.die_with_parent is not None:
        die_with_parent(args.die_with_parent)
    if args.command == "setup":
        return run_setup(args.user, os.environ, Path.home())
    settings = settings_path(os.environ, Path.home())
    kept = read_saved_cluster(settings)
    remote = find_remote(args.user, os.environ, kept)
    if args.command == "login":
        return open_login(remote, settings, kept)
    local = Path(args.local_dir or DEFAULT_LOCAL).expanduser()
    local.mkdir(parents=True, exist_ok=True)
    asked = os.environ.get("SYNC_TRANSPORT", "")
    reader, writer = (choose_transport(task, remote, kept, asked) for task in ("pull", "push"))
    with contextlib.closing(Sync(reader, writer, local, SystemClock())) as sync:
        if args.command == "status":
            return sync.status()
        if args.interval is None:
            print(sync.once(args.command))
            return int(ExitCode.DONE)
        stop_on_signals()
        return repeat_exchange(sync, args.command, args.interval)


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
