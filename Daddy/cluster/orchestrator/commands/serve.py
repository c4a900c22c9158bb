"""Being the controller: what the daemon runs, and whoever has to see a run through in its place."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from Daddy.cluster.orchestrator import daemon, tenure
from Daddy.cluster.orchestrator.assembly import assemble
from Daddy.cluster.orchestrator.controller import Controller
from Daddy.cluster.orchestrator.intent import read_intent
from Daddy.cluster.release_build import Release
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.config import load_effective, run_paths
from Daddy.core.errors import ControllerAliveError, DaddyError, ExitCode, FileError
from Daddy.core.lease import Lease
from Daddy.core.paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.stopping import set_by

_READY_TIMEOUT_S = 150.0
"""More than a contender waits for another host's heartbeat."""


def launch(run: RunPaths, release: Release) -> dict[str, object]:
    """Leave a controller behind that runs from ``release``; what it reports of itself.

    DaddyError with the daemon's own exit code when it did not come up.
    """
    module = "Daddy.cluster.orchestrator.run_controller"
    argv = [sys.executable, "-m", module, "start", "--release", str(release.path)]
    env = {**os.environ, "PYTHONPATH": str(release.path)}
    told = daemon.launch(argv, env, run.root, run.logs / "controller.log", _READY_TIMEOUT_S)
    if not told["ok"]:
        code = ExitCode(int(told["code"]))
        kind = ControllerAliveError if code is ExitCode.CONTROLLER_ALIVE else DaddyError
        error = kind(str(told["message"]), str(told["fix"]))
        error.exit_code = code
        raise error
    return told


def serve(release_path: Path, *, ready_fd: int | None) -> int:
    """Be the controller of that release's run, until it is stopped, done, or we are signalled."""
    clock = SystemClock()
    release = Release(release_path.name, release_path)
    config = load_effective(release.config)
    run = run_paths(config)
    try:
        if read_intent(run) is None:
            raise FileError(f"nothing is asked for in {run.intent}", "say start")
        lease = tenure.take(run, clock)
        lease.beat()
        controller = assemble(config, release, lease, clock, companions=True)
    except DaddyError as error:
        code = int(error.exit_code)
        facts = {"ok": False, "message": error.message, "fix": error.fix, "code": code}
        daemon.report(ready_fd, facts)
        raise
    daemon.report(ready_fd, {"ok": True, **tenure.me(clock), "term": lease.term})
    return tend(controller, lease)


def see_through(run: RunPaths, release: Release, config: Config, clock: Clock) -> int:
    """Nobody is there to do it: be the controller in this terminal for as long as it takes."""
    lease = tenure.take(run, clock)
    lease.beat()
    return tend(assemble(config, release, lease, clock, companions=False), lease)


def tend(controller: Controller, lease: Lease) -> int:
    """Run until the end or a signal; jobs outlive a controller that is only signalled."""
    stop = set_by(signal.SIGTERM, signal.SIGINT)
    final = controller.run(stop)
    said = "signalled: the jobs go on" if final is None else f"the run is {final.value}"
    lease.release(said)
    print(f"controller leaves: {said}", flush=True)
    return ExitCode.DONE
