"""Entry of ``sync_weights.sh``: pull, push, bidirectional, status, setup, login; no torch.

Runs once, or every ``interval`` seconds until a signal. In a loop an error is printed when it
changes, and the exchange is tried again after growing pauses; a changed host key ends the loop, and
so does a wrong setting. As an agent of launchd, which starts it again, it waits first
(``launchd_agent``).
"""

import argparse
import atexit
import contextlib
import errno
import gc
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import TypeVar

from Daddy.core.arguments import ArgumentParser
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ConfigError, ExitCode, NetworkError, UsageError, WeightsError
from Daddy.core.event_log import EventWriter
from Daddy.core.host_and_processes import die_with_parent
from Daddy.core.humanize import format_age, printable_line
from Daddy.core.saved_cluster import SETUP, read_saved_cluster, settings_path
from Daddy.weights.laptop import pull_push
from Daddy.weights.laptop.launchd_agent import FileWatch, bound_log, find_plist
from Daddy.weights.laptop.pull_push import PullResult, folder_bytes, lock_folder
from Daddy.weights.laptop.rsync_sftp import (
    DiskFullError,
    FileTransport,
    RsyncUnusableError,
    choose_transport,
)
from Daddy.weights.laptop.setup_wizard import run_setup
from Daddy.weights.laptop.ssh_keys import old_key_lines
from Daddy.weights.laptop.ssh_login import (
    DEFAULT_LOCAL,
    HostKeyChangedError,
    find_remote,
    known_facts,
    open_login,
    remember_sftp,
)
from Daddy.weights.store.weight_records import LaptopHead

COMMANDS = ("pull", "push", "bidirectional", "status", "setup", "login")
LONGEST_PAUSE_S = 60.0
T = TypeVar("T")
DAY_S = 86_400.0


def make_parser() -> argparse.ArgumentParser:
    """Return the argument parser of ``sync_weights.sh``."""
    parser = ArgumentParser(
        prog="sync_weights.sh",
        description="Copy shared weights between this machine and the cluster, over rsync and ssh.",
        epilog="environment: SYNC_CLUSTER_HOST, SYNC_CLUSTER_USER, SYNC_REMOTE_DIR (the cluster); "
        "SYNC_SSH_CONFIG, SYNC_SSH_PORT, SYNC_SSH_KEY, SYNC_TRANSPORT (rsync or sftp); "
        "SYNC_USER_ID (your --user-id among the peers). setup saves them. "
        "login: for clusters that ask for more than a key. "
        'Example: sync_weights.sh pull "" ~/shared_weights 5',
    )
    parser.add_argument("command", choices=COMMANDS, help="task; pull fetches, push sends")
    parser.add_argument(
        "user", nargs="?", default="", help="user or user@host (default: saved by setup)"
    )
    parser.add_argument(
        "local_dir", nargs="?", default="", help=f"local folder (default {DEFAULT_LOCAL})"
    )
    parser.add_argument(
        "interval", nargs="?", type=_interval, help="seconds between repeats (default: once)"
    )
    parser.add_argument("--die-with-parent", type=int, metavar="PID", help="end when PID ends")
    return parser


@dataclass
class Sync:
    """Exchanges one laptop folder with one cluster; ``reader``, ``writer`` may have other keys.

    ``by_sftp``: the two to use where rsync cannot be; None if the person chose a transport.
    ``remember`` saves that they were used.
    """

    reader: FileTransport
    writer: FileTransport
    local: Path
    clock: Clock
    by_sftp: tuple[FileTransport, FileTransport] | None = None
    remember: Callable[[], None] = lambda: None

    def exchange_once(self, command: str) -> str:
        """Pull, push or both, by SFTP if rsync cannot be used; return one line on the result."""
        return self._by_either(partial(self._exchange, command))

    def _by_either(self, action: Callable[[FileTransport, FileTransport], T]) -> T:
        """Return the result of ``action``; change to SFTP for good if that works and rsync not."""
        try:
            return action(self.reader, self.writer)
        except RsyncUnusableError as error:
            if self.by_sftp is None:
                raise
            reader, writer = self.by_sftp
            result = _explained(error, lambda: action(reader, writer))
            self.reader, self.writer, self.by_sftp = reader, writer, None
            self.remember()
            print(f"by SFTP from now on: {error}; {SETUP} tries rsync again", file=sys.stderr)
            return result

    def _exchange(self, command: str, reader: FileTransport, writer: FileTransport) -> str:
        """Pull, push or both, with the folder locked."""
        results = []
        with lock_folder(self.local, self.clock):
            if command in ("push", "bidirectional"):
                writer.prepare()
                sent = pull_push.push(writer, self.local, self.clock)
                results.append(f"pushed {sent} contribution(s)" if sent else "nothing to push")
            if command in ("pull", "bidirectional"):
                reader.prepare()
                started = self.clock.monotonic()
                pulled = pull_push.pull(reader, self.local, self.clock)
                seconds = self.clock.monotonic() - started
                results.append(_describe_pull(pulled, seconds, reader.name))
        return "; ".join(results)

    def close(self) -> None:
        """Close the connections of reader and writer."""
        for transport in {self.reader, self.writer}:
            transport.close()

    def print_status(self, facts: Mapping[str, str]) -> int:
        """Print the state of the local folder, the transport, old lines of the laptop's keys
        (``facts``: found by setup), and the cluster's version.
        """
        from Daddy.weights.status import print_status
        from Daddy.weights.weights_status_record import report_laptop

        now = self.clock.now()
        here = report_laptop(self.local, now)
        print_status(here, now)
        print(f"route   {self.reader}")
        for line in old_key_lines(facts):
            print(f"keys    {line}")
        self.reader.prepare()
        remote = self._by_either(lambda reader, _: pull_push.fetch_remote_head(reader, self.local))
        print(
            f"cluster {self.reader.remote.login}: v{remote.version} of run {remote.run!r} "
            f"({printable_line(remote.workload)}), merged {format_age(now - remote.ts)} ago, "
            f"{remote.fleet_steps:,} steps"
        )
        behind = (
            remote.version - here["version"] if here["run_id"] == remote.run_id else "everything"
        )
        print("        " + (f"behind by {behind}" if behind else "up to date"))
        return 0


def _describe_pull(pull: PullResult, seconds: float, transport: str) -> str:
    """Return one line on a pull; write an event if a version was fetched."""
    head, route = pull.head, pull.route
    if route is None:
        return f"v{head.version} is here already" + (f" ({pull.remark})" * bool(pull.remark))
    _write_pull_event(head, {
        "version": head.version,
        "bytes": route.size,
        "route": route.reason,
        "seconds": round(seconds, 3),
        "transport": transport,
    })  # fmt: skip
    return f"pulled v{head.version} ({route.size / 1e6:.2f} MB in {seconds:.1f} s)"


def _explained(error: RsyncUnusableError, by_sftp: Callable[[], T]) -> T:
    """Return the result of ``by_sftp``; if the network fails there, name rsync's ``error``, too."""
    try:
        return by_sftp()
    except HostKeyChangedError:
        raise
    except NetworkError as second:
        message = f"{error.message}; by SFTP: {second.message}"
        raise NetworkError(message, f"{error.fix}; {second.fix}") from second


def _write_pull_event(head: LaptopHead, facts: Mapping[str, object]) -> None:
    """Write the event of a pull into the folder ``SYNC_EVENTS_DIR``, if it is set."""
    if folder := os.environ.get("SYNC_EVENTS_DIR"):
        with contextlib.suppress(OSError):
            writer = _event_writer(folder, head.run, head.workload)
            writer.write("state", head.fleet_steps, {"state": "pulled", **facts})


@cache
def _event_writer(folder: str, run: str, workload: str) -> EventWriter:
    return EventWriter(Path(folder), run, workload, "laptop", "sync", SystemClock())


class StoppedBySignal(BaseException):
    """Raised in the main thread when a signal ends this process."""


def stop_on_signals() -> None:
    """Make the first SIGTERM, SIGINT or SIGHUP raise StoppedBySignal in the main thread."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, lambda *_: None)
        raise StoppedBySignal(signal.Signals(number).name)

    for number in numbers:
        signal.signal(number, stop)


_PASSING = frozenset((
    *(errno.ENOSPC, errno.EDQUOT),  # a full disk, on which there may be room again later
    *(errno.ESTALE, errno.EIO, errno.ETIMEDOUT),  # a home on NFS whose server is away
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EBUSY),  # a busy machine
))  # fmt: skip
"""Errors of files after which the next exchange may succeed."""


def repeat_exchange(sync: Sync, command: str, interval_s: float, plist: Path | None = None) -> int:
    """Exchange every ``interval_s`` seconds until a signal; print only new messages. The pause does
    not grow after a failure during which bytes arrived. ``plist``: of the agent that this loop is.
    """
    failures, last, arriving = 0, "", sync.local / "incoming"
    try:
        while True:
            before = folder_bytes(arriving)
            try:
                message, failures = sync.exchange_once(command), 0
            except HostKeyChangedError:
                raise
            except (NetworkError, WeightsError, DiskFullError, OSError) as error:
                if isinstance(error, OSError) and error.errno not in _PASSING:
                    raise
                message = f"waiting: {error}"
                failures = failures + 1 if folder_bytes(arriving) <= before else 0
            if message != last:
                print(message, flush=True)
            if plist is not None:
                bound_log(plist)
            last = message
            sync.clock.wait(threading.Event(), next_pause_s(interval_s, failures, random.random()))
    except StoppedBySignal as stopped:
        print(f"ended by {stopped}", flush=True)
    return int(ExitCode.DONE)


def next_pause_s(interval_s: float, failures: int, chance: float) -> float:
    """Return the interval; after failures twice as long each time, to 60 s, with 25 % jitter."""
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
    raise UsageError(f"interval {text!r} is no number of seconds", "use seconds, such as 5")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Codes: 0 done, 2 usage, 3 not set up, 6 no version, 8 network, 9 files."""
    plist = find_plist(os.environ, Path.home())
    return _run(argv, None) if plist is None else _run_agent(argv, plist)


def _run_agent(argv: Sequence[str] | None, plist: Path) -> int:
    """Run the command as launchd's agent; after an error that only a person can mend, print it and
    return its exit code once a file of the settings has changed.
    """
    named = (os.environ.get(name, "") for name in ("SYNC_SSH_CONFIG", "SYNC_SSH_KEY"))
    files = [settings_path(os.environ, Path.home()), plist, Path("~/.ssh/known_hosts")]
    watch = FileWatch(path.expanduser() for path in [*files, *map(Path, filter(None, named))])
    bound_log(plist)
    try:
        return _run(argv, plist)
    except (ConfigError, UsageError, HostKeyChangedError) as error:
        print(f"error: {error}", file=sys.stderr)
        code = int(error.exit_code)
    except SystemExit as ended:  # argparse has printed why
        code = int(ended.code or 0)
    if code:
        print(f"waiting until one changes: {', '.join(map(str, files))}", file=sys.stderr)
        with contextlib.suppress(StoppedBySignal):
            stop_on_signals()
            watch.wait(SystemClock())
    return code


def _run(argv: Sequence[str] | None, plist: Path | None) -> int:
    """Run the command; ``plist``: of the agent of launchd that this process is, or None."""
    args = make_parser().parse_args(argv)
    if args.die_with_parent is not None:
        die_with_parent(args.die_with_parent)
    if args.command == "setup":
        return run_setup(args.user, os.environ, Path.home())
    settings = settings_path(os.environ, Path.home())
    saved = read_saved_cluster(settings)
    remote = find_remote(args.user, os.environ, saved)
    if args.command == "login":
        return open_login(remote, settings, saved)
    local = Path(args.local_dir or DEFAULT_LOCAL).expanduser()
    local.mkdir(parents=True, exist_ok=True)
    asked = os.environ.get("SYNC_TRANSPORT", "")
    choose = partial(choose_transport, remote=remote, saved=saved)
    sync = Sync(
        choose("pull", asked=asked),
        choose("push", asked=asked),
        local,
        SystemClock(),
        None if asked else (choose("pull", asked="sftp"), choose("push", asked="sftp")),
        partial(remember_sftp, settings, remote, saved),
    )
    with contextlib.closing(sync):
        if args.command == "status":
            return sync.print_status(known_facts(remote, saved))
        if args.interval is None:
            print(sync.exchange_once(args.command))
            return int(ExitCode.DONE)
        stop_on_signals()
        return repeat_exchange(sync, args.command, args.interval, plist)


if __name__ == "__main__":
    atexit.register(gc.freeze)  # a collection at exit would take a tenth of a pull's run time
    sys.exit(run_entry(main, private=True))
