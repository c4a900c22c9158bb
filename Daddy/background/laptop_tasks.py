"""Background tasks of a laptop: exchange milestones with the run and push contributions.

All tasks end with the session. A child process pushes repeatedly (``sync_weights.sh push``) and
ends with this process, even if this process is killed. The child's errors and waits are printed by
this process; its complete output is in its log.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.background.background_task import (
    BackgroundTask,
    PrintLine,
    has_archive,
    open_archive,
)
from Daddy.core import host_and_processes, run_subprocess
from Daddy.core.clock import Clock
from Daddy.core.errors import ConfigError
from Daddy.core.host_and_processes import ProcessId
from Daddy.core.run_subprocess import ProcessTimeoutError
from Daddy.core.saved_cluster import SETUP, read_saved_cluster, settings_path
from Daddy.weights.laptop.pull_push import list_outbox
from Daddy.weights.laptop.ssh_login import find_remote

if TYPE_CHECKING:
    from Daddy.laptop_common import LaptopSession
    from Daddy.learning.console import ConsoleReporter

EVERY_S = 15
POLL_S = 2.0
GRACE_S = 3.0
LAST_PUSH_S = 15.0
"""Longest wait for the last push, after which contributions stay in the outbox."""
_REPORTED_PREFIXES = ("waiting:", "error")
_LONGEST_LINE = 300


@contextmanager
def push_contributions(
    shared: Path, log: Path, environ: Mapping[str, str], home: Path, clock: Clock, report: PrintLine
) -> Iterator[None]:
    """Push contributions from ``shared/outbox`` during the `with` block, if a cluster is named.

    Without a cluster, report the command that names one. Raises UsageError for an invalid login.
    """
    try:
        find_remote("", environ, read_saved_cluster(settings_path(environ, home)))
    except ConfigError as error:
        report(f"contributions wait in {shared}/outbox: {error.message}")
        report(f"  what to do: {SETUP}; or push later: ./Daddy/cluster/sync_weights.sh push")
        yield
        return
    log.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "Daddy.weights.sync", "push", "", str(shared), str(EVERY_S)]
    argv += ["--die-with-parent", str(host_and_processes.current_process().pid)]
    child = run_subprocess.start_background(argv, log_path=log)
    report(f"contributions are pushed every {EVERY_S} s (log: {log})")
    try:
        reporter = PushLogReporter(child, log, report)
        with closing(BackgroundTask(reporter.report_new_lines, POLL_S, clock, report)):
            yield
    finally:
        host_and_processes.terminate_tree(child, GRACE_S)
        push_rest(shared, report)


def push_rest(shared: Path, report: PrintLine) -> None:
    """Push once what the session leaves in the outbox; report what stays there."""
    if not list_outbox(shared):
        return
    report("pushing the last contribution")
    with suppress(ProcessTimeoutError):
        argv = [sys.executable, "-m", "Daddy.weights.sync", "push", "", str(shared)]
        run_subprocess.run_command(argv, LAST_PUSH_S)
    if left := len(list_outbox(shared)):
        report(f"contributions that stay in {shared}/outbox: {left}; the next session pushes them")


class PushLogReporter:
    """Reports the errors and waits in the log of the pushing child, and the child's end."""

    def __init__(self, child: ProcessId, log: Path, report: PrintLine) -> None:
        self._child, self._log, self._report = child, log, report
        self._offset = 0
        self._ended = False

    def report_new_lines(self) -> None:
        """Report new errors and waits in the child's log, and the child's end. Raises OSError."""
        if self._ended:
            return
        self._ended = not host_and_processes.is_alive(self._child)
        lines = self._new_lines()
        for line in lines:
            if line.startswith(_REPORTED_PREFIXES):
                self._report(f"push: {line[:_LONGEST_LINE]}")
        if self._ended:
            self._report("push has ended; contributions wait in the outbox")

    def _new_lines(self) -> list[str]:
        with self._log.open("rb") as stream:
            stream.seek(self._offset)
            data = stream.read()
        complete = data if self._ended else data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        return complete.decode(errors="replace").splitlines()


@contextmanager
def run_laptop_tasks(session: LaptopSession, console: ConsoleReporter) -> Iterator[None]:
    """Run a laptop's background tasks (push, exchange of milestones) during the `with` block."""
    report, clock = partial(print, flush=True), session.clock
    with ExitStack() as tasks:
        if session.push:
            log = session.run.logs / "push.log"
            where = (session.shared, log, os.environ, Path.home())
            tasks.enter_context(push_contributions(*where, clock, report))
        if has_archive(session.config):
            from Daddy.background.milestone_sync import MilestoneSync

            sender = session.user_id if session.contribute else ""
            report_milestone = partial(console.write, "state", 0)
            ours = open_archive(session.config)
            sync = MilestoneSync(session.shared, *ours, sender, clock, report_milestone)
            tasks.enter_context(closing(BackgroundTask(sync.run_cycle, POLL_S, clock, report)))
        yield
