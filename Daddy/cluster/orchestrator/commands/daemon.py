"""Runs the controller's process: a daemon that outlives the shell, or in this terminal.

The daemon is forked twice into its own session, so no signal of terminal or login shell reaches it,
and then executes a new interpreter that imports a release instead of the checkout. It reports over
a pipe with one JSON line: ``{"ok": true, ...}``, or an error with its exit code.
"""

import contextlib
import json
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator import controller_lease
from Daddy.cluster.orchestrator.control_files import read_intent
from Daddy.cluster.orchestrator.controller import Controller
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.cluster.orchestrator.controller_wiring import build_controller
from Daddy.cluster.orchestrator.decisions.controller_failover import GIVEN_UP
from Daddy.cluster.orchestrator.scheduler_factory import make_scheduler
from Daddy.cluster.release_build import Release
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ControllerAliveError, DaddyError, ExitCode, FileError
from Daddy.core.load_config import load_release_config, run_paths
from Daddy.core.log_setup import log_to
from Daddy.core.run_paths import RunPaths
from Daddy.core.run_subprocess import start_background
from Daddy.core.settings import Config
from Daddy.core.stop_conditions import event_on_signals

_log = logging.getLogger(__name__)
_READY_TIMEOUT_S = 240.0
"""Longest wait for the report: a controller first watches another host's heartbeat, lists the
queue, and waits for a blind holder to give way."""
_ASK_S = 30.0
"""Seconds between two tries of a daemon without the lease to claim it."""
_POLL_S = 2.0
_LINE_LIMIT = 16 * 1024


def launch_controller(run: RunPaths, release: Release) -> dict[str, Any]:
    """Start a controller daemon from ``release``; return its report. Raise the error it reports."""
    module = "Daddy.cluster.orchestrator.run_controller"
    argv = [sys.executable, "-m", module, "start", "--release", str(release.path)]
    env = {**os.environ, "PYTHONPATH": str(release.path)}
    report = start_daemon(argv, env, run.root, run.logs / "controller.log", _READY_TIMEOUT_S)
    if not report["ok"]:
        code = ExitCode(int(report["code"]))
        kind = ControllerAliveError if code is ExitCode.CONTROLLER_ALIVE else DaddyError
        error = kind(str(report["message"]), str(report["fix"]))
        error.exit_code = code
        raise error
    return report


def run_daemon(release_path: Path, *, ready_fd: int | None) -> int:
    """Run a release's controller until the run ends or a signal comes; report to ``ready_fd``."""
    log_to()
    release, clock = Release(release_path.name, release_path), SystemClock()
    config = load_release_config(release.config)
    run = run_paths(config)
    try:
        if read_intent(run) is None:
            raise FileError(f"there is no file {run.intent}", "type `run_controller start`")
        controller = _make_controller(run, release, config, clock, children=True)
    except DaddyError as error:
        code = int(error.exit_code)
        send_report(
            ready_fd, {"ok": False, "message": error.message, "fix": error.fix, "code": code}
        )
        raise
    holder, term = controller_lease.make_holder_record(clock), controller.applier.lease.term
    send_report(ready_fd, {"ok": True, **holder, "term": term})
    stop, current = event_on_signals(signal.SIGTERM, signal.SIGINT), controller
    while _run_controller(current, stop):
        make = partial(_make_controller, run, release, config, clock, children=True)
        again = _wait_for_lease(run, clock, make, stop)
        if again is None:
            break
        current = again
    return ExitCode.DONE


def run_until_over(run: RunPaths, release: Release, config: Config, clock: Clock) -> bool:
    """Run the controller here, without child processes, until the run ends or is to go on.

    A signal ends it as well. Return True if it gave the lease up, unable to read the queue.
    """
    controller = _make_controller(run, release, config, clock, children=False)
    controller.ends_run = True
    return _run_controller(controller, event_on_signals(signal.SIGTERM, signal.SIGINT))


def _make_controller(
    run: RunPaths, release: Release, config: Config, clock: Clock, *, children: bool
) -> Controller:
    queue = make_scheduler(config.controller.executor, config, run, clock)
    lease = controller_lease.become_controller(run, clock, list_queue=queue.snapshot)
    lease.beat()
    return build_controller(config, release, lease, clock, children=children)


def _run_controller(controller: Controller, stop: threading.Event) -> bool:
    """Make passes until the run ends or ``stop`` is set (jobs go on), and end the lease.

    Return True if the lease was given up to a process that can read the queue.
    """
    final = controller.run_passes(stop)
    given_up = final is None and not stop.is_set()
    reason = "signalled: the jobs go on" if final is None else f"the run is {final.value}"
    reason = "start was typed: the jobs go on" if final is Mode.RUN else reason
    reason = GIVEN_UP if given_up else reason
    controller.applier.lease.release(reason)
    _log.info("the controller's term ends: %s", reason)
    return given_up


def _wait_for_lease(
    run: RunPaths, clock: Clock, claim: Callable[[], Controller], stop: threading.Event
) -> Controller | None:
    """Wait without the lease until we can read the queue and nobody else who can holds it.

    Return the controller of the new term; None if ``stop`` is set or the run needs no daemon.
    """
    due, said = clock.monotonic() + _ASK_S, ""
    while not clock.wait(stop, _POLL_S):
        try:
            intent = read_intent(run)
            if intent is None or not intent.daemon or intent.mode not in (Mode.RUN, Mode.PAUSED):
                _log.info("the daemon ends: the run needs none")
                return None
            if clock.monotonic() >= due:
                due = clock.monotonic() + _ASK_S
                return claim()
        except (DaddyError, OSError) as error:
            text = error.message if isinstance(error, DaddyError) else str(error)
            if text != said:
                said = text
                _log.info("waiting without the lease: %s", said)
    return None


def start_daemon(
    argv: Sequence[str], env: Mapping[str, str], folder: Path, log: Path, timeout_s: float
) -> dict[str, Any]:
    """Start ``argv`` + ``--ready-fd N`` as a daemon with output to ``log``; return its report.

    ``folder``, the working directory, must hold no Daddy package: Python would import it. Raises
    DaddyError if the daemon ended or sent no report in ``timeout_s``; OSError without a log folder.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    reading, writing = os.pipe()
    argv = [*argv, "--ready-fd", str(writing)]
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setsid()  # in the parent: a session leader could get a terminal
            start_background(
                argv, log_path=log, env=env, cwd=folder, detach=False, keep_open=[writing]
            )
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        ready, _, _ = select.select([pipe], [], [], timeout_s)
        line = pipe.readline(_LINE_LIMIT) if ready else b""
    if not line.endswith(b"\n"):
        reason = "ended at once" if ready else f"sent no report within {timeout_s:g} s"
        raise DaddyError(f"the controller's process {reason}", f"read its output in {log}")
    return dict(json.loads(line))


def send_report(descriptor: int | None, facts: Mapping[str, Any]) -> None:
    """Write ``facts`` as a JSON line to ``descriptor`` and close it; do nothing for None."""
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.write(descriptor, (json.dumps(dict(facts)) + "\n").encode())
            os.close(descriptor)
