"""Entry: the program of each job: claims a slot, chooses its release, becomes the learner.

The job script runs ``python -m Daddy.cluster.launch --run DIR --config FILE --attempt TOKEN``. The
launcher reads the slots that may be claimed, and the release for each, from the controller's
``orders.json``, so a job that waits in the queue never has to be changed. It imports no torch: a
job that finds no free slot exits with 11 within seconds. It replaces itself by the learner with
exec, so the slot's lease keeps its process id; a signal during the exec is left for the learner.
"""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator.control_files import read_orders
from Daddy.cluster.release_node_copy import find_node_copy
from Daddy.core.arguments import ArgumentParser
from Daddy.core.atomic_files import read_json
from Daddy.core.clock import SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import DaddyError, ExitCode, FileError
from Daddy.core.event_log import EventWriter
from Daddy.core.host_and_processes import current_process, host_name, process_age_s
from Daddy.core.job_environment import RELEASE, SLOT, TERM, Job, StartupTimer, read_job
from Daddy.core.log_setup import log_to
from Daddy.core.run_paths import ReleasePaths, RunPaths
from Daddy.core.run_subprocess import start_background
from Daddy.core.slot_lease import SLOT_WAIT_S, HeldSlot, claim_slot
from Daddy.core.stop_conditions import StopSignal, block_signals

_LEARNER = "Daddy.train_slim"
_SIDECAR = "Daddy.cluster.orchestrator.sidecar"


@dataclass(frozen=True)
class LaunchContext:
    """Describes a job before it has a slot; ``facts``: the content of the file ``config``."""

    run: RunPaths
    config: Path
    token: str
    job: Job
    clock: SystemClock
    boot: StartupTimer
    events: EventWriter
    facts: Mapping[str, Any]

    def log_event(self, event: str, **data: object) -> None:
        """Write an event of this attempt into the event log; ignore a disk error."""
        fields = {"token": self.token, "job_id": self.job.job_id, **data}
        with contextlib.suppress(OSError):
            self.events.write(event, 0, fields)

    def make_lease_record(self) -> dict[str, object]:
        return {
            "token": self.token,
            "job_id": self.job.job_id,
            "restarts": self.job.restarts,
            "host": host_name(),
            **asdict(current_process()),
            "started_ts": round(self.boot.started, 3),
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Claim a slot and exec the learner; return 11 if no slot is free or a stop signal came."""
    parser = ArgumentParser(prog="launch", description="Claim a slot and train in it.")
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
    request = (launch.run, list(releases), launch.make_lease_record(), launch.clock, SLOT_WAIT_S)
    lease = claim_slot(*request, stop_reason, about)
    launch.boot.mark("slot")
    if lease is None:
        return _not_needed(launch, stop_reason() or f"no free slot among {list(releases)}")
    try:
        argv, env = _learner(launch, lease, releases[lease.number])
        block_signals()
        if (stopped := stop_reason()) is None:
            os.execve(argv[0], argv, env)  # noqa: S606 - the learner keeps this process id
    except BaseException as error:
        lease.release(f"the learner could not be started: {error!r}")
        raise
    lease.release(stopped)
    return _not_needed(launch, stopped)


def _launch(root: Path, config: Path, token: str) -> LaunchContext:
    clock, run, facts = SystemClock(), RunPaths(root), read_json(config)
    name, workload = str(facts["run_name"]), str(facts["training"]["workload"])
    events = EventWriter(run.events, name, workload, "learner", f"attempt-{token}", clock)
    boot = StartupTimer(clock, clock.now() - process_age_s())
    return LaunchContext(run, config, token, read_job(os.environ), clock, boot, events, facts)


def _releases(launch: LaunchContext) -> dict[int, ReleasePaths]:
    """Return slot → release by ``orders.json``; if unreadable: every slot → this job's release."""
    own = ReleasePaths(launch.config.parent)
    try:
        if (orders := read_orders(launch.run)) is not None:
            wanted = sorted(orders.slots.items())
            return {slot: _release(launch, ident, own) for slot, ident in wanted}
    except FileError as error:
        launch.log_event("error", text=f"any slot may be claimed: orders.json: {error!r}")
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
    launch: LaunchContext, lease: HeldSlot, release: ReleasePaths
) -> tuple[list[str], dict[str, str]]:
    """Unpack the release, start the sidecar; return the learner's command and environment."""
    folder, reason = find_node_copy(release, os.environ, os.getuid())
    if reason:
        launch.log_event("log", text=f"runs from the shared folder: {reason}")
    env = {
        "PYDANTIC_DISABLE_PLUGINS": "__all__",  # else pydantic scans every package
        **os.environ,
        RELEASE: release.root.name,
        SLOT: str(lease.number),
        TERM: str(lease.term),
        "PYTHONPATH": _python_path(folder, launch.config.parent),
    }
    _start_sidecar(launch, lease, release, env)
    launch.boot.mark("release")
    argv = [sys.executable, "-m", _LEARNER, "--config", str(ReleasePaths(folder).config)]
    argv += ["--attempt", launch.token]
    return argv, {**env, **launch.boot.to_environment()}


def _python_path(folder: Path, shared: Path) -> str:
    """Return PYTHONPATH: ``folder``, then its present entries except ``shared``."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = (path for path in entries if path not in ("", str(shared)))
    return os.pathsep.join([str(folder), *others])


def _start_sidecar(
    launch: LaunchContext, lease: HeldSlot, release: ReleasePaths, env: Mapping[str, str]
) -> None:
    """Start the sidecar if controller.failover is on; after an error the job runs without one."""
    if not launch.facts.get("controller", {}).get("failover", False):
        return
    argv = ["nice", "-n", "15", sys.executable, "-m", _SIDECAR, "--run", str(launch.run.root)]
    argv += ["--release", str(release.root), "--slot", str(lease.number), "--term", str(lease.term)]
    argv += ["--parent", str(os.getpid())]
    try:
        start_background(argv, log_path=launch.run.logs / "failover.log", env=env, detach=False)
    except (OSError, DaddyError) as error:
        launch.log_event("error", text=f"no failover from this job: {error}")


if __name__ == "__main__":
    sys.exit(run_entry(main, private=True))
