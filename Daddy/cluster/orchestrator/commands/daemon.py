"""The controller as a process: a daemon that outlives the shell, or this terminal.

A daemon is forked twice, in a session of its own, so that neither the terminal nor the login shell
reaches it; then a fresh interpreter, so that it runs from a release and not from the checkout. It
reports over a pipe: one JSON line, ``{"ok": true, ...}`` or an error with its exit code.
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
from Daddy.cluster.orchestrator.controller_wiring import build_controller
from Daddy.cluster.release_build import Release
from Daddy.core.child_process import start_background
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ControllerAliveError, DaddyError, ExitCode, FileError
from Daddy.core.load_config import load_release_config, run_paths
from Daddy.core.log_setup import log_to
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.stop_reasons import event_on_signals

_READY_TIMEOUT_S = 150.0
"""More than a contender waits for another host's heartbeat."""
_LINE_LIMIT = 16 * 1024


def launch_controller(run: RunPaths, release: Release) -> dict[str, Any]:
    """Leave a controller behind that runs from ``release``; its report.

    DaddyError with the daemon's own exit code when it did not come up.
    """
    module = "Daddy.cluster.orchestrator.run_controller"
    argv = [sys.executable, "-m", module, "start", "--release", str(release.path)]
    env = {**os.environ, "PYTHONPATH": str(release.path)}
    told = start_daemon(argv, env, run.root, run.logs / "controller.log", _READY_TIMEOUT_S)
    if not told["ok"]:
        code = ExitCode(int(told["code"]))
        kind = ControllerAliveError if code is ExitCode.CONTROLLER_ALIVE else DaddyError
        error = kind(str(told["message"]), str(told["fix"]))
        error.exit_code = code
        raise error
    return told


def run_daemon(release_path: Path, *, ready_fd: int | None) -> int:
    """Be the controller of that release's run, until it is stopped, done, or we are signalled."""
    log_to()
    release, clock = Release(release_path.name, release_path), SystemClock()
    config = load_release_config(release.config)
    run = run_paths(config)
    try:
        if read_intent(run) is None:
            raise FileError(f"nothing is asked for in {run.intent}", "say start")
        controller = _take(run, release, config, clock, children=True)
    except DaddyError as error:
        code = int(error.exit_code)
        report_to_starter(
            ready_fd, {"ok": False, "message": error.message, "fix": error.fix, "code": code}
        )
        raise
    report_to_starter(
        ready_fd,
        {
            "ok": True,
            **controller_lease.make_holder_record(clock),
            "term": controller.applier.lease.term,
        },
    )
    return _tend(controller)


def run_until_over(run: RunPaths, release: Release, config: Config, clock: Clock) -> int:
    """Nobody is there to do it: be the controller in this terminal for as long as it takes."""
    return _tend(_take(run, release, config, clock, children=False))


def _take(
    run: RunPaths, release: Release, config: Config, clock: Clock, *, children: bool
) -> Controller:
    lease = controller_lease.become_controller(run, clock)
    lease.beat()
    return build_controller(config, release, lease, clock, children=children)


def _tend(controller: Controller) -> int:
    """Run until the end or a signal; jobs outlive a controller that is only signalled."""
    final = controller.run_passes(event_on_signals(signal.SIGTERM, signal.SIGINT))
    said = "signalled: the jobs go on" if final is None else f"the run is {final.value}"
    controller.applier.lease.release(said)
    logging.getLogger(__name__).info("the controller ends: %s", said)
    return ExitCode.DONE


def start_daemon(
    argv: Sequence[str], env: Mapping[str, str], folder: Path, log: Path, timeout_s: float
) -> dict[str, Any]:
    """Start ``argv`` + ``--ready-fd N`` as a daemon in ``folder``, writing to ``log``; its report.

    The folder must hold no package of ours: Python would prefer that to the release on its path.
    DaddyError when it ended, or stayed silent for ``timeout_s`` seconds; OSError without a log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    reading, writing = os.pipe()
    argv = [*argv, "--ready-fd", str(writing)]
    first = os.fork()
    if first == 0:
        with contextlib.suppress(BaseException):
            os.setsid()  # not by the daemon itself: the head of a session can get a terminal
            start_background(
                argv, log_path=log, env=env, cwd=folder, detach=False, keep_open=[writing]
            )
        os._exit(0)
    os.close(writing)
    os.waitpid(first, 0)
    with os.fdopen(reading, "rb") as pipe:
        ready, _, _ = select.select([pipe], [], [], timeout_s)
        line = pipe.readline(_LINE_LIMIT) if ready else b""
    if not line.endswith(b"\n"):
        said = "it ended at once" if ready else "it gave no sign of life in time"
        raise DaddyError(f"the controller did not come up: {said}", f"read {log}")
    return dict(json.loads(line))


def report_to_starter(descriptor: int | None, facts: Mapping[str, Any]) -> None:
    """In the daemon: tell the starter, once. Without a descriptor nobody waits."""
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.write(descriptor, (json.dumps(dict(facts)) + "\n").encode())
            os.close(descriptor)
