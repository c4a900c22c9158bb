"""``ensure``: what cron or a timer says every few minutes: a controller lives if one is wanted.

It obeys the intent and never changes it: a run that is stopped, done or paused stays so.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from Daddy.cluster.orchestrator import tenure
from Daddy.cluster.orchestrator.commands import once
from Daddy.cluster.orchestrator.commands.request import Request, frozen
from Daddy.cluster.orchestrator.commands.serve import launch
from Daddy.cluster.orchestrator.commands.units import units
from Daddy.cluster.orchestrator.intent import Intent, read_intent
from Daddy.cluster.orchestrator.records import Mode
from Daddy.core.clock import SystemClock
from Daddy.core.config import CHECKOUT, run_paths
from Daddy.core.errors import ControllerAliveError, ExitCode, FileError

_WHY_NOT = {
    Mode.DRAIN: "a stop was said: say it again if it was interrupted",
    Mode.NOW: "a stop was said: say it again if it was interrupted",
    Mode.STOPPED: "the run is stopped, as asked",
    Mode.DONE: "the run is done",
    Mode.PAUSED: "the run is paused until you say start",
}


def ensure(request: Request) -> int:
    """Start a controller where the intent wants one and none is alive."""
    config, clock = request.load(), SystemClock()
    run = run_paths(config)
    intent = read_intent(run)
    if intent is None:
        print(f"nothing to ensure: no run was ever started in {run.root}")
        return ExitCode.DONE
    if intent.mode is not Mode.RUN:
        print(f"nothing is started: {_why_not(intent)}")
        return ExitCode.DONE
    view = tenure.living(run, clock)
    if view is not None:
        print(f"a controller is alive: {tenure.named(view.holder)}, term {view.term}")
        return ExitCode.DONE
    release, _ = frozen(run, intent, config)
    if not release.config.exists():
        raise FileError(f"release {intent.release} is gone from {run.releases}", "say start")
    try:
        if not intent.daemon:
            once.one_pass(run, release, clock)
            return ExitCode.DONE
        told = launch(run, release)
    except ControllerAliveError as error:  # somebody else's ensure was faster
        print(error.message)
        return ExitCode.DONE
    print(f"controller started: pid {told['pid']} on {told['host']}, term {told['term']}")
    return ExitCode.DONE


def _why_not(intent: Intent) -> str:
    reason = f" ({intent.reason})" if intent.mode is Mode.PAUSED and intent.reason else ""
    return f"{_WHY_NOT[intent.mode]}{reason}"


def print_units(request: Request) -> int:
    """The crontab line and the systemd units that say ``ensure`` for this run."""
    config = request.load()
    run = run_paths(config)
    argv = [sys.executable, "-m", "Daddy.cluster.orchestrator.run_controller", "ensure"]
    if request.config is not None:
        argv += ["--config", str(Path(request.config).resolve())]
    site = request.site or os.environ.get("DADDY_SITE")
    if site:
        argv += ["--site", site]
    print(units(argv, str(CHECKOUT), str(run.logs / "ensure.log"), config.run_name))
    return ExitCode.DONE
