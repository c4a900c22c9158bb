"""Tasks of a laptop beside playing: milestones come and go, contributions are pushed.

All of it ends with the visit. A child process of ours pushes again and again
(``sync_weights.sh push``) and ends with us, also when we are killed. Its trouble is shown in one
line when it changes; all that it says is in its log.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.background.background_task import (
    BackgroundTask,
    ClaimSender,
    PrintLine,
    has_archive,
    open_archive,
)
from Daddy.core import child_process, machine_info
from Daddy.core.clock import Clock
from Daddy.core.errors import ConfigError
from Daddy.core.machine_info import ProcessId
from Daddy.core.name_validation import new_incarnation
from Daddy.core.saved_cluster import SETUP, read_saved_cluster, settings_path
from Daddy.weights.laptop.ssh_login import find_remote

if TYPE_CHECKING:
    from Daddy.laptop_cli import LaptopSession
    from Daddy.learning.console import ConsoleReporter

EVERY_S = 15
LOOK_S = 2.0
GRACE_S = 3.0
_TROUBLE = ("waiting:", "error")
_LONGEST_LINE = 300


@contextmanager
def push_contributions(
    shared: Path, log: Path, environ: Mapping[str, str], home: Path, clock: Clock, say: PrintLine
) -> Iterator[None]:
    """Push what lies in the outbox below ``shared`` while the body runs; says that, or why not.

    UsageError for a login that cannot be one.
    """
    try:
        find_remote("", environ, read_saved_cluster(settings_path(environ, home)))
    except ConfigError as error:
        say(f"what is learnt waits in {shared}/outbox: {error.message}")
        say(f"  what to do: {SETUP}; or hand it in later: ./Daddy/cluster/sync_weights.sh push")
        yield
        return
    log.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "Daddy.weights.sync", "push", "", str(shared), str(EVERY_S)]
    child = child_process.start_background(
        [*argv, "--die-with-parent", str(machine_info.current_process().pid)], log_path=log
    )
    say(f"contributions are pushed every {EVERY_S} s (log: {log})")
    try:
        with closing(
            BackgroundTask(PushLogReporter(child, log, say).report_new_lines, LOOK_S, clock, say)
        ):
            yield
    finally:
        machine_info.terminate_tree(child, GRACE_S)


class PushLogReporter:
    """Repeats what the pushing child says of its trouble, and says when it has ended."""

    def __init__(self, child: ProcessId, log: Path, say: PrintLine) -> None:
        self._child, self._log, self._say = child, log, say
        self._offset = 0
        self._over = False

    def report_new_lines(self) -> None:
        """Look at what is new in its log. OSError."""
        if self._over:
            return
        self._over = not machine_info.is_alive(self._child)
        lines = self._new_lines()
        for line in lines:
            if line.startswith(_TROUBLE):
                self._say(f"push: {line[:_LONGEST_LINE]}")
        if self._over:
            self._say("push has ended; what is learnt waits in the outbox")

    def _new_lines(self) -> list[str]:
        with self._log.open("rb") as stream:
            stream.seek(self._offset)
            data = stream.read()
        whole = data if self._over else data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.decode(errors="replace").splitlines()


@contextmanager
def run_laptop_tasks(visit: LaptopSession, console: ConsoleReporter) -> Iterator[None]:
    """While the body plays, or learns and contributes."""
    say, clock = partial(print, flush=True), visit.clock
    with ExitStack() as tasks:
        if visit.push:
            log = visit.run.logs / "push.log"
            where = (visit.shared, log, os.environ, Path.home())
            tasks.enter_context(push_contributions(*where, clock, say))
        if has_archive(visit.config):
            from Daddy.background.milestone_sync import MilestoneSync

            sender = ClaimSender(visit.user_id, new_incarnation()) if visit.contribute else None
            tell = partial(console.write, "state", 0)
            ours = open_archive(visit.config)
            sync = MilestoneSync(visit.shared, *ours, sender, clock, tell)
            tasks.enter_context(closing(BackgroundTask(sync.run_cycle, LOOK_S, clock, say)))
        yield
