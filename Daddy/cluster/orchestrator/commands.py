"""What start, status and stop do, in the order in which it must happen."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.cluster.orchestrator import daemon, tenure, wiring
from Daddy.cluster.orchestrator.assembly import assemble
from Daddy.cluster.orchestrator.controller import Controller
from Daddy.cluster.orchestrator.history import Entry
from Daddy.cluster.orchestrator.intent import Intent, read_intent, write_intent
from Daddy.cluster.orchestrator.ledger import LedgerFile
from Daddy.cluster.orchestrator.records import Mode
from Daddy.cluster.orchestrator.report import read_status
from Daddy.cluster.orchestrator.scheduler import Scheduler
from Daddy.cluster.orchestrator.screen import show
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.cluster.orchestrator.slurm_templates import render
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.config import load, load_effective, run_paths
from Daddy.core.errors import ControllerAliveError, DaddyError, ExitCode, SchedulerError
from Daddy.core.files import write_atomic
from Daddy.core.lease import Lease
from Daddy.core.paths import RunPaths
from Daddy.core.release import Release, freeze
from Daddy.core.settings import Config

_READY_TIMEOUT_S = 150.0
"""More than a contender waits for another host's heartbeat."""
_WATCH_S = 2.0
_STOP_LOOK_S = 0.2
_STOP_GRACE_S = 90.0
"""What the scheduler gets to end the jobs that did not leave in their time."""
_STATUS_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Request:
    """Which run is meant: config file, site profile and flags."""

    config: Path | None
    site: str | None
    overrides: Mapping[str, object]

    def load(self) -> Config:
        """The effective configuration; ConfigError with all that is wrong."""
        return load(self.config, self.overrides, os.environ, self.site)


def start(request: Request, *, dry_run: bool, foreground: bool) -> int:
    """Check everything, freeze a release, write the intent, and leave a controller behind."""
    config = request.load()
    executor = wiring.choose_executor(config, os.environ)
    game = wiring.game_name(config, executor)
    config = wiring.absolute(config, executor)
    run = run_paths(config)
    if dry_run:
        return _rehearse(config, run, executor, game)
    tenure.refuse_if_alive(run)
    wiring.prepare_folders(run)
    release = freeze(run, config)
    _ask_slurm(config, run, release, executor)
    write_atomic(run.config, release.config.read_bytes())
    print(f"{config.run_name}: {config.slurm.max_running} slots on {executor}, playing {game}")
    if foreground:
        return serve(release.path, ready_fd=None)
    return _launch(run, release)


def _rehearse(config: Config, run: RunPaths, executor: str, game: str) -> int:
    """Say what ``start`` would do, with the script of the first job; touches nothing."""
    example = Release("release", run.releases / "<release>")
    spec = wiring.SpecMaker(config, run, example)("0" * 12, 1, None)
    slots, spares = config.slurm.max_running, config.controller.spares
    ahead = (
        "queue no successors"
        if config.controller.prequeue == "never"
        else (f"queue up to {spares} successors as they train")
    )
    print(f"# would play {game} in {run.root}, jobs on {executor}")
    print(f"# would freeze a release, submit {slots} jobs for {slots} slots and {ahead}")
    print(f"# each job: {config.slurm.time_limit}, output in {run.logs}/slurm-<id>.out and .err")
    print(render(spec))
    return ExitCode.DONE


def _ask_slurm(config: Config, run: RunPaths, release: Release, executor: str) -> None:
    if executor == "slurm":
        scheduler = SlurmScheduler(wiring.run_id(config, run), SystemClock())
        scheduler.check(wiring.SpecMaker(config, run, release)("0" * 12, 0, None))


def _launch(run: RunPaths, release: Release) -> int:
    module = "Daddy.cluster.orchestrator.run_controller"
    argv = [sys.executable, "-m", module, "start", "--release", str(release.path)]
    env = {**os.environ, "PYTHONPATH": str(release.path)}
    log = run.logs / "controller.log"
    told = daemon.launch(argv, env, run.root, log, _READY_TIMEOUT_S)
    if not told["ok"]:
        error = DaddyError(str(told["message"]), str(told["fix"]))
        error.exit_code = ExitCode(int(told["code"]))
        raise error
    print(f"controller: pid {told['pid']} on {told['host']}, term {told['term']}, log {log}")
    print("the shell can be closed; `status` shows the slots, `stop` ends the run")
    return ExitCode.DONE


def serve(release_path: Path, *, ready_fd: int | None) -> int:
    """Be the controller of that release's run, until it is stopped, done, or we are signalled."""
    clock = SystemClock()
    release = Release(release_path.name, release_path)
    config = load_effective(release.config)
    run = run_paths(config)
    try:
        lease = tenure.take(run, clock)
        lease.beat()
        executor = config.controller.executor
        game = wiring.game_name(config, executor)
        intent = Intent(Mode.RUN, config.slurm.max_running, executor, release.ident, game)
        write_intent(run, intent, clock.now())
        LedgerFile(run.ledger, lease.term).append(Entry("start", clock.now()))
        controller = assemble(config, release, lease, clock, companions=True)
    except DaddyError as error:
        code = int(error.exit_code)
        facts = {"ok": False, "message": error.message, "fix": error.fix, "code": code}
        daemon.report(ready_fd, facts)
        raise
    daemon.report(ready_fd, {"ok": True, **tenure.me(clock), "term": lease.term})
    return _tend(controller, lease)


def _tend(controller: Controller, lease: Lease) -> int:
    """Run until the end or a signal; jobs outlive a controller that is only signalled."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    final = controller.run(stop)
    said = "signalled: the jobs go on" if final is None else f"the run is {final.value}"
    lease.release(said)
    print(f"controller leaves: {said}", flush=True)
    return ExitCode.DONE


def stop(request: Request, *, now: bool) -> int:
    """Write down that the run is to end, and see it through: by its controller or ourselves."""
    config, clock = request.load(), SystemClock()
    run = run_paths(config)
    intent = read_intent(run)
    if intent is None:
        print(f"nothing to stop: no run was ever started in {run.root}")
        return ExitCode.DONE
    mode = Mode.NOW if now else Mode.DRAIN
    write_intent(run, replace(intent, mode=mode, reason="stop was said"), clock.now())
    print(
        "stopping: " + ("the jobs are cancelled" if now else "the jobs write checkpoints and leave")
    )
    until = clock.monotonic() + config.controller.drain_seconds + _STOP_GRACE_S
    elsewhere = False
    while not _is_over(run):
        if clock.monotonic() > until:
            raise SchedulerError(
                "the controller has not seen all jobs leave yet",
                "it goes on trying: look with `status`, or say `stop --now`",
            )
        if tenure.lives(run) is not True and not elsewhere:
            try:
                return _see_through(run, intent, config, clock)
            except ControllerAliveError:
                elsewhere = True  # on another host: it reads the same intent
        clock.wait(threading.Event(), _STOP_LOOK_S)
    print("stopped: no job is left")
    return ExitCode.DONE


def _is_over(run: RunPaths) -> bool:
    intent = read_intent(run)
    return intent is not None and intent.mode in (Mode.STOPPED, Mode.DONE)


def _see_through(run: RunPaths, intent: Intent, config: Config, clock: Clock) -> int:
    """Nobody is there to do it: be the controller for as long as it takes."""
    release = Release(intent.release, run.releases / intent.release)
    if release.config.exists():
        config = load_effective(release.config)
    lease = tenure.take(run, clock)
    lease.beat()
    controller = assemble(config, release, lease, clock, companions=False)
    code = _tend(controller, lease)
    print("stopped: no job is left" if _is_over(run) else "interrupted: say stop again")
    return code


def status(request: Request, *, as_json: bool, watch: bool) -> int:
    """Print how the run stands; the exit code says it too."""
    config, clock = request.load(), SystemClock()
    run = run_paths(config)
    if not watch:
        return _print_status(config, run, clock, as_json=as_json)
    never = threading.Event()
    while True:
        print("\x1b[2J\x1b[H" if sys.stdout.isatty() and not as_json else "", end="")
        _print_status(config, run, clock, as_json=as_json)
        clock.wait(never, _WATCH_S)


def _print_status(config: Config, run: RunPaths, clock: Clock, *, as_json: bool) -> int:
    intent = read_intent(run)
    executor = intent.executor if intent is not None else "local"
    scheduler: Scheduler = wiring.make_scheduler(executor, config, run, clock)
    if isinstance(scheduler, SlurmScheduler):
        scheduler.list_timeout_s = _STATUS_PATIENCE_S
    told = read_status(run, scheduler, wiring.make_policy(config, executor), clock)
    print(json.dumps(told) if as_json else show(config.run_name, told, clock.now()), flush=True)
    return int(told["exit_code"])
