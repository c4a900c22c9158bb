"""Entry: makes one pass of the controller and exits; holds the controller's lease meanwhile.

``run_controller once`` and ``ensure`` call :func:`make_single_pass`. A job's sidecar runs this
module as a program, so that the memory of a pass is free again afterwards. All state of a pass is
on disk except the seconds without new heartbeats, which a sidecar passes as ``--silence`` and gets
back: the pass restarts those of suspended jobs.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from Daddy.cluster.orchestrator.action_types import Submit
from Daddy.cluster.orchestrator.control_files import Probe, write_probe
from Daddy.cluster.orchestrator.controller_lease import become_controller
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.cluster.orchestrator.controller_wiring import build_controller
from Daddy.cluster.orchestrator.decisions.controller_failover import SILENCE_S, WAKE
from Daddy.cluster.orchestrator.read_slots import HeartbeatSilence
from Daddy.cluster.orchestrator.scheduler_factory import (
    SpecMaker,
    make_scheduler,
    run_id,
    slurm_environ,
)
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.cluster.release_build import Release
from Daddy.core.arguments import ArgumentParser
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode, SchedulerError
from Daddy.core.host_and_processes import host_name
from Daddy.core.load_config import load_release_config, run_paths
from Daddy.core.log_setup import log_to
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config

_WATCHED_S = 3.0
"""Seconds to wait for a heartbeat where a sidecar has already seen none for long."""
_NO_ANSWER = ("gave no answer", "timed out", "Unable to contact", "Zero Bytes", "Connection")
"""Parts of messages that mean that Slurm did not answer."""


class PassResult(NamedTuple):
    """Holds the run's final mode, if reached, the seconds until the next pass, and the term."""

    final: Mode | None
    wake_in_s: float
    term: int

    def __str__(self) -> str:
        if self.final is not None:
            return f"one pass made: the run is {self.final.value}"
        return f"one pass made; the next is due in {self.wake_in_s:.0f} s"


def make_single_pass(
    run: RunPaths,
    release: Release,
    clock: Clock,
    measured: HeartbeatSilence | None = None,
    *,
    watched: bool = False,
) -> PassResult:
    """Make one pass and release the lease. Raises ControllerAliveError if a controller runs.

    Raises SchedulerError, and claims nothing, if the queue cannot be read here.
    ``measured``: seconds without heartbeats, by a sidecar's clock. ``watched``: the sidecar saw
    none of the lease's holder for long, so this pass waits only 3 s for one.
    """
    wait_s = _WATCHED_S if watched else SILENCE_S
    config = load_release_config(release.config)
    queue = make_scheduler(config.controller.executor, config, run, clock)
    lease = become_controller(
        run, clock, wait_s, list_queue=queue.snapshot, passing=True, watched=watched
    )
    try:
        lease.beat()
        controller = build_controller(config, release, lease, clock, measured, children=False)
        final, wake_at = controller.make_pass()
        passed = PassResult(final, max(0.0, wake_at - clock.now()), lease.term)
        lease.beat({WAKE: round(passed.wake_in_s, 1)})
    finally:
        lease.release("one pass was made")
    return passed


def probe_submission(config: Config, run: RunPaths, release: Release, clock: Clock) -> bool:
    """Test if this host may submit jobs; write ``failover.json``. False: Slurm did not answer."""
    may_submit, why = True, "the queue of this machine"
    if config.controller.executor == "slurm":
        spec = SpecMaker(config, run, release)("0" * 12, 0, Submit("probe"))
        try:
            scheduler = SlurmScheduler(
                run_id(config, run), clock, slurm_environ(run), calls=run.calls
            )
            scheduler.check_script(spec)
            why = "sbatch --test-only takes our job here"
        except SchedulerError as error:
            if any(word in error.message for word in _NO_ANSWER):
                return False
            may_submit, why = False, error.message
    write_probe(run, Probe(may_submit, why, by=f"a job on {host_name()}", ts=clock.now()))
    return True


def main(argv: Sequence[str] | None = None) -> int:
    """Make one pass, or with ``--probe`` test if jobs may submit; print the result as JSON."""
    parser = ArgumentParser(prog="single_pass", description="One pass of the controller.")
    parser.add_argument("--release", type=Path, required=True, help="folder of the release to use")
    parser.add_argument("--silence", default="{}", help="JSON: slot → [term, beat, s] (default {})")
    parser.add_argument("--watched", action="store_true", help="wait 3 s for a heartbeat, not 90")
    parser.add_argument("--probe", action="store_true", help="only test if this host may submit")
    args = parser.parse_args(argv)
    log_to()
    clock, release = SystemClock(), Release(args.release.name, args.release)
    config = load_release_config(release.config)
    run = run_paths(config)
    if args.probe:
        print(json.dumps({"known": probe_submission(config, run, release, clock)}))
        return ExitCode.DONE
    silence = HeartbeatSilence(clock)
    silence.import_durations(json.loads(args.silence))
    passed = make_single_pass(run, release, clock, silence, watched=args.watched)
    told = {**passed._asdict(), "silence": silence.export_durations()}
    # Flushed here: if the sidecar has ended, Python would log a complaint about its closed pipe.
    print(json.dumps({**told, "wake_in_s": round(passed.wake_in_s, 1)}), flush=True)
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(run_entry(main, private=True))
