"""``start``: check everything, write down what is wanted, and leave a controller behind.

Saying it twice changes nothing. With changed code or settings it makes a new release and hands it
to the controller that lives, through the intent alone: one slot tries it first.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace

from Daddy.cluster.orchestrator import controller_lease
from Daddy.cluster.orchestrator.commands.daemon import launch_controller, run_daemon
from Daddy.cluster.orchestrator.commands.ensure import describe_survival
from Daddy.cluster.orchestrator.commands.preflight import (
    Findings,
    check_login_host,
    check_places,
    check_slurm,
    describe_game,
)
from Daddy.cluster.orchestrator.commands.run_selection import (
    Request,
    resolve_paths,
    try_read_intent,
)
from Daddy.cluster.orchestrator.commands.status import read_last_summary
from Daddy.cluster.orchestrator.control_files import read_probe, write_intent
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_records import Intent, Mode
from Daddy.cluster.orchestrator.executors import SpecMaker, choose_executor
from Daddy.cluster.orchestrator.plan_actions import Submit
from Daddy.cluster.orchestrator.single_pass import make_single_pass
from Daddy.cluster.orchestrator.slurm_templates import render_job_script
from Daddy.cluster.release_build import Release, freeze_release
from Daddy.core.atomic_files import write_atomic
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ControllerAliveError, ExitCode
from Daddy.core.lease import LeaseView
from Daddy.core.load_config import run_paths
from Daddy.core.machine_info import user_name
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config

_LEAVES_S = 10.0
"""Time that a controller gets to leave after its run has ended."""


def run_start(request: Request, *, dry_run: bool, foreground: bool, daemon: bool = True) -> int:
    """Fill the slots and keep them filled."""
    found, clock = Findings(), SystemClock()
    config, wish = _resolve(request, found, daemon=daemon)
    run = run_paths(config)
    if dry_run:
        found.raise_found()
        _rehearse(config, wish)
        return ExitCode.DONE
    intent, damage = try_read_intent(run)
    if damage:
        print(f"{damage}: it is written anew")
    view = _controller(run, intent, clock)
    if view is not None:
        found.raise_found()
        _fits(wish, intent, view, foreground=foreground)
        if intent is not None and _nothing_new(config, intent):
            print(f"{config.run_name} runs already: {_fleet(intent)}")
            print(
                f"controller: {controller_lease.describe(view.holder)}, term {view.term}; "
                "nothing was changed"
            )
            return ExitCode.DONE
    release = _check(config, found, daemon=daemon)
    new = replace(wish, release=release.ident, started_ts=clock.now())
    write_atomic(run.config, release.config.read_bytes())
    write_intent(run, new, clock.now())  # first of all, so that each controller from now on knows
    if view is not None:
        _hand_over(new, intent, view)
        return ExitCode.DONE
    print(f"{config.run_name}: {_fleet(new)}")
    if foreground:
        return run_daemon(release.path, ready_fd=None)
    if daemon:
        _leave_behind(config, release)
    else:
        print(make_single_pass(run, release, clock))
        print("no daemon: the jobs make the passes from now on; `status` shows the slots")
    return ExitCode.DONE


def _fleet(intent: Intent) -> str:
    return f"{intent.slots} slots on {intent.executor}, playing {intent.game}"


def _resolve(request: Request, found: Findings, *, daemon: bool) -> tuple[Config, Intent]:
    """The configuration and what is wished for, without a release yet.

    What is wrong with executor and game is a finding, so that all can be told at once.
    """
    config = request.load_settings(begins=True)
    executor, game = str(config.controller.executor), str(config.training.workload)
    with found.catching():
        executor = choose_executor(config, os.environ)
    with found.catching():
        game = describe_game(config, executor)
    wish = Intent(Mode.RUN, config.slurm.max_running, executor, "", game, daemon=daemon)
    return resolve_paths(config, executor), wish


def _check(config: Config, found: Findings, *, daemon: bool) -> Release:
    """Everything else that can be wrong; the release that was made for it."""
    executor = config.controller.executor
    scheduled = not any(error.exit_code == ExitCode.SCHEDULER for error in found.wrong)
    check_places(config, executor if scheduled else "local", found)
    if daemon:
        check_login_host(found)
    found.raise_found()
    release = freeze_release(run_paths(config), config)
    if executor == "slurm":
        check_slurm(config, release, found)
    found.raise_found()
    for note in found.notes:
        print(note)
    return release


def _controller(run: RunPaths, intent: Intent | None, clock: Clock) -> LeaseView | None:
    """The controller that lives; one whose run has just ended is given a moment to leave."""
    view = controller_lease.find_live_controller(run, clock)
    ended = intent is not None and intent.mode in (Mode.STOPPED, Mode.DONE)
    until, never = clock.monotonic() + _LEAVES_S, threading.Event()
    while ended and view is not None and clock.monotonic() < until:
        clock.wait(never, 0.2)
        view = controller_lease.find_live_controller(run, clock)
    return view


def _fits(wish: Intent, intent: Intent | None, view: LeaseView, *, foreground: bool) -> None:
    """ControllerAliveError when the one that lives cannot do what is wished for."""
    who = controller_lease.describe(view.holder)
    if intent is not None and intent.mode in (Mode.DRAIN, Mode.NOW):
        raise ControllerAliveError(
            f"the run is being stopped: {who} waits for its jobs to leave",
            "start again once `status` says that it is stopped",
        )
    executor = wish.executor if intent is None else intent.executor
    whys = (
        (executor != wish.executor, f"it works on {executor}, not on {wish.executor}"),
        (foreground, "it is not this terminal"),
        (not wish.daemon, "it is a daemon, and you want none"),
    )
    for holds, why in whys:
        if holds:
            said = f"this run already has a controller ({who}), and {why}"
            raise ControllerAliveError(said, "stop it first, then start")


def _nothing_new(config: Config, intent: Intent) -> bool:
    """True where all that is asked for is so already."""
    run = run_paths(config)
    if intent.mode is not Mode.RUN or read_last_summary(run).get("breaker"):
        return False  # slots that stay empty after failures: start means "try again now"
    wanted = (freeze_release(run, config).ident, config.slurm.max_running)
    return wanted == (intent.release, intent.slots)


def _hand_over(new: Intent, old: Intent | None, view: LeaseView) -> None:
    """The controller that lives reads the intent at its next look."""
    said = []
    if old is None or old.release != new.release:
        said.append(f"release {new.release}: one slot tries it, the others follow when it is good")
    if old is not None and old.slots != new.slots:
        said.append(f"{new.slots} slots instead of {old.slots}")
    if old is not None and old.mode is Mode.PAUSED:
        said.append(f"the pause is over ({old.reason})")
    said = said or ["failures so far are forgiven: empty slots are tried again now"]
    print(f"handed to the controller ({controller_lease.describe(view.holder)}):")
    print("\n".join(f"  {line}" for line in said))


def _leave_behind(config: Config, release: Release) -> None:
    """A daemon; where another host's was faster, that one does it."""
    run = run_paths(config)
    try:
        told = launch_controller(run, release)
    except ControllerAliveError as error:
        print(f"{error.message}: it was told")
        return
    log = run.logs / "controller.log"
    print(f"controller: pid {told['pid']} on {told['host']}, term {told['term']}, log {log}")
    for line in describe_survival(user_name(), workers=_workers(config)):
        print(f"  {line}")
    print("the shell can be closed; `status` shows the slots, `stop` ends the run")


def _workers(config: Config) -> bool | None:
    """True where jobs make the passes of a dead daemon; None: the first job will find out."""
    known = read_probe(run_paths(config))
    if not config.controller.failover or config.controller.executor == "local":
        return config.controller.failover
    return None if known is None else known.may_submit


def _rehearse(config: Config, wish: Intent) -> None:
    """Say what ``start`` would do, with the script of the first job; touches nothing."""
    run = run_paths(config)
    example = Release("release", run.releases / "<release>")
    spec = SpecMaker(config, run, example)("0" * 12, 1, Submit("a slot is empty"))
    print(f"# would play {wish.game} in {run.root}, jobs on {wish.executor}")
    print(f"# would freeze a release, submit {wish.slots} jobs for {wish.slots} slots")
    print(f"# and queue up to {ControllerPolicy().spares} successors as they train")
    print(f"# each job: {config.slurm.time_limit}, output in {run.logs}/slurm-<id>.out and .err")
    print(render_job_script(spec))
