"""Entry: the first thing a job does: claim a slot, choose the release for it, become the learner.

``python -m Daddy.cluster.launch --run DIR --config FILE --attempt TOKEN`` is what the job script
runs. Light, so that a job that is not needed leaves (exit 11) before it costs anything, and so that
what waits in the queue need never be changed: which slots may be had and what runs there is read
here, from the controller's orders. The learner takes over this very process, so the slot's lease
stays ours and signals reach it; those that come meanwhile are held for it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator.control_files import read_orders
from Daddy.cluster.release_bundle import find_node_copy
from Daddy.core.atomic_files import read_json
from Daddy.core.child_process import start_background
from Daddy.core.clock import SystemClock
from Daddy.core.errors import DaddyError, ExitCode, FileError, run_entry
from Daddy.core.event_log import EventWriter
from Daddy.core.job_environment import RELEASE, SLOT, TERM, Job, StartupTimer, read_job
from Daddy.core.log_setup import log_to
from Daddy.core.machine_info import current_process, host_name, process_age_s
from Daddy.core.run_paths import ReleasePaths, RunPaths
from Daddy.core.slot_lease import SLOT_WAIT_S, HeldSlot, claim_slot
from Daddy.core.stop_reasons import StopSignal, block_signals

_LEARNER = "Daddy.train_slim"
_SIDECAR = "Daddy.cluster.orchestrator.sidecar"


@dataclass(frozen=True)
class LaunchContext:
    """One job before it has a slot. ``config`` is its own release's; ``facts`` what that says."""

    run: RunPaths
    config: Path
    token: str
    job: Job
    clock: SystemClock
    boot: StartupTimer
    events: EventWriter
    facts: Mapping[str, Any]

    def log_event(self, event: str, **data: object) -> None:
        """An event in the name of the attempt; a full disk costs the line, not the job."""
        named = {"token": self.token, "job_id": self.job.job_id, **data}
        with contextlib.suppress(OSError):
            self.events.write(event, 0, named)

    def make_lease_record(self) -> dict[str, object]:
        """Facts about us for the lease of any slot."""
        return {
            "token": self.token,
            "job_id": self.job.job_id,
            "restarts": self.job.restarts,
            "host": host_name(),
            **asdict(current_process()),
            "started_ts": round(self.boot.started, 3),
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Claim and become the learner; returns only where there is no slot, with exit code 11."""
    parser = argparse.ArgumentParser(prog="launch", description="Claim a slot and train in it.")
    parser.add_argument("--run", type=Path, required=True, help="the run directory")
    parser.add_argument("--config", type=Path, required=True, help="config.json of a release")
    parser.add_argument("--attempt", required=True, metavar="TOKEN", help="the attempt's token")
    args = parser.parse_args(argv)
    log_to(sys.stdout)
    launch = _launch(args.run, args.config, args.attempt)
    launch.log_event("state", state="started")
    launch.boot.mark("script")
    signals = StopSignal().install()
    releases, stop_reason = _releases(launch), signals.stop_reason
    about = {slot: {"release": release.root.name} for slot, release in releases.items()}
    places = (launch.run, list(releases), launch.make_lease_record(), launch.clock, SLOT_WAIT_S)
    seat = claim_slot(*places, stop_reason, about)
    launch.boot.mark("slot")
    if seat is None:
        return _not_needed(launch, stop_reason() or f"no free slot among {list(releases)}")
    try:
        argv, env = _learner(launch, seat, releases[seat.number])
        block_signals()
        if (asked := stop_reason()) is None:
            os.execve(argv[0], argv, env)  # noqa: S606 - that is the point
    except BaseException as error:
        seat.release(f"the learner could not be started: {error!r}")
        raise
    seat.release(asked)
    return _not_needed(launch, asked)


def _launch(root: Path, config: Path, token: str) -> LaunchContext:
    clock, run, facts = SystemClock(), RunPaths(root), read_json(config)
    name, workload = str(facts["run_name"]), str(facts["training"]["workload"])
    events = EventWriter(run.events, name, workload, "learner", f"attempt-{token}", clock)
    boot = StartupTimer(clock, clock.now() - process_age_s())
    return LaunchContext(run, config, token, read_job(os.environ), clock, boot, events, facts)


def _releases(launch: LaunchContext) -> dict[int, ReleasePaths]:
    """Slots that may be claimed, lowest first, with what is to run there."""
    own = ReleasePaths(launch.config.parent)
    try:
        if (orders := read_orders(launch.run)) is not None:
            wanted = sorted(orders.slots.items())
            return {slot: _release(launch, ident, own) for slot, ident in wanted}
    except FileError as error:
        launch.log_event("error", text=f"the orders cannot be read, all slots count: {error!r}")
    return dict.fromkeys(range(int(launch.facts["slurm"]["max_running"])), own)


def _release(launch: LaunchContext, ident: str, own: ReleasePaths) -> ReleasePaths:
    wanted = launch.run.release(ident)
    if ident == own.root.name or not ident.isalnum():
        return own
    if not wanted.config.exists():
        launch.log_event("error", text=f"release {ident} is gone: this job runs {own.root.name}")
        return own
    return wanted


def _not_needed(launch: LaunchContext, reason: str) -> int:
    code = ExitCode.NOT_NEEDED
    launch.log_event("state", state="goodbye", reason=reason, exit_code=int(code))
    return code


def _learner(
    launch: LaunchContext, seat: HeldSlot, release: ReleasePaths
) -> tuple[list[str], dict[str, str]]:
    """The command that this process becomes, and its environment; the sidecar runs by then."""
    folder, why = find_node_copy(release, os.environ, os.getuid())
    if why:
        launch.log_event("log", text=f"runs from the shared folder: {why}")
    env = {
        "PYDANTIC_DISABLE_PLUGINS": "__all__",  # else every installed package is looked into
        **os.environ,
        RELEASE: release.root.name,
        SLOT: str(seat.number),
        TERM: str(seat.term),
        "PYTHONPATH": _python_path(folder, launch.config.parent),
    }
    _start_sidecar(launch, seat, release, env)
    launch.boot.mark("release")
    argv = [sys.executable, "-m", _LEARNER, "--config", str(ReleasePaths(folder).config)]
    argv += ["--attempt", launch.token]
    return argv, {**env, **launch.boot.to_environment()}


def _python_path(folder: Path, shared: Path) -> str:
    """The release first; what the site's own lines put there stays behind it."""
    kept = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([str(folder), *(one for one in kept if one and one != str(shared))])


def _start_sidecar(
    launch: LaunchContext, seat: HeldSlot, release: ReleasePaths, env: Mapping[str, str]
) -> None:
    """Start the maker of a dead controller's passes; without it a job runs all the same."""
    if not launch.facts.get("controller", {}).get("failover", False):
        return
    argv = ["nice", "-n", "15", sys.executable, "-m", _SIDECAR, "--run", str(launch.run.root)]
    argv += ["--release", str(release.root), "--slot", str(seat.number), "--term", str(seat.term)]
    argv += ["--parent", str(os.getpid())]
    try:
        start_background(argv, log_path=launch.run.logs / "failover.log", env=env, detach=False)
    except (OSError, DaddyError) as error:
        launch.log_event("error", text=f"no failover from this job: {error}")


if __name__ == "__main__":
    sys.exit(run_entry(main))
