"""Runs the controller's process: a daemon that outlives the shell, or in this terminal.

The daemon is forked twice into its own session, so no signal of terminal or login shell reaches it,
and then executes a new interpreter that imports a release instead of the checkout. It reports over
a pipe with one JSON line: ``{"ok": true, ...}``, or an error with its exit code.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator import controller_lease
from Daddy.cluster.orchestrator.control_files import read_intent
from Daddy.cluster.orchestrator.controller import Controller
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.cluster.orchestrator.controller_wiring import build_controller
from Daddy.cluster.release_build import Release
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ControllerAliveError, DaddyError, ExitCode, FileError
from Daddy.core.load_config import load_release_config, run_paths
from Daddy.core.log_setup import log_to
from Daddy.core.run_paths import RunPaths
from Daddy.core.run_subprocess import start_background
from Daddy.core.settings import Config
from Daddy.core.stop_conditions import event_on_signals

_READY_TIMEOUT_S = 150.0
"""Longest wait for the report: a controller first watches another host's heartbeat."""
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
    return _run_controller(controller)


def run_until_over(run: RunPaths, release: Release, config: Config, clock: Clock) -> int:
    """Run the controller here, without child processes, until the run ends or is to go on.

    A signal ends it as well.
    """
    controller = _make_controller(run, release, config, clock, children=False)
    controller.ends_run = True
    return _run_controller(controller)


def _make_controller(
    run: RunPaths, release: Release, config: Config, clock: Clock, *, children: bool
) -> Controller:
    lease = controller_lease.become_controller(run, clock)
    lease.beat()
    return build_controller(config, release, lease, clock, children=children)


def _run_controller(controller: Controller) -> int:
    """Make passes until the run ends or SIGTERM or SIGINT comes (jobs go on); end the lease."""
    final = controller.run_passes(event_on_signals(signal.SIGTERM, signal.SIGINT))
    reason = "signalled: the jobs go on" if final is None else f"the run is {final.value}"
    reason = "start was typed: the jobs go on" if final is Mode.RUN else reason
    controller.applier.lease.release(reason)
    logging.getLogger(__name__).info("the controller ends: %s", reason)
    return ExitCode.DONE


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
