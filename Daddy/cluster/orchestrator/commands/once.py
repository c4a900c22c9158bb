"""``once``: one pass under the controller's lease, for whoever has no daemon."""

from __future__ import annotations

from Daddy.cluster.orchestrator import single_pass
from Daddy.cluster.orchestrator.commands.request import Request, frozen, started_here
from Daddy.cluster.release_build import Release
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode
from Daddy.core.paths import RunPaths


def once(request: Request) -> int:
    """Look, write down, decide, act, leave; ControllerAliveError where somebody does so already."""
    config, run, intent = started_here(request)
    release, _ = frozen(run, intent, config)
    one_pass(run, release, SystemClock())
    return ExitCode.DONE


def one_pass(run: RunPaths, release: Release, clock: Clock) -> None:
    """One pass from ``release``, and what it did in a line."""
    print(single_pass.one_pass(run, release, clock))
