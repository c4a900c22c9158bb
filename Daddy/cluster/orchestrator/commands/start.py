"""Implements ``start``: checks everything, writes the intent and starts a controller.

A second ``start`` changes nothing. After a change of code or settings it builds a new release and
writes its name into the intent, which the live controller reads; one slot tries the release first.
"""

import contextlib
import json
import os
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from Daddy.cluster.orchestrator import controller_lease
from Daddy.cluster.orchestrator.action_types import Submit
from Daddy.cluster.orchestrator.commands.daemon import launch_controller, run_daemon
from Daddy.cluster.orchestrator.commands.ensure import describe_survival
from Daddy.cluster.orchestrator.commands.preflight import (
    JOB_ID,
    Findings,
    check_device,
    check_hyperparameters,
    check_login_host,
    check_places,
    check_slurm,
    describe_game,
    load_game,
    read_contract,
)
from Daddy.cluster.orchestrator.commands.run_selection import Request, load_intent, resolve_paths
from Daddy.cluster.orchestrator.commands.status import read_last_summary
from Daddy.cluster.orchestrator.commands.tuned_recipe import (
    apply_recipe,
    check_agreed,
    describe_length,
)
from Daddy.cluster.orchestrator.control_files import read_probe, write_intent
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import DesiredRun, Mode
from Daddy.cluster.orchestrator.decisions.controller_failover import blind_seconds
from Daddy.cluster.orchestrator.scheduler_factory import (
    SpecMaker,
    choose_executor,
    fix_run_id,
)
from Daddy.cluster.orchestrator.single_pass import make_single_pass
from Daddy.cluster.orchestrator.slurm_commands import (
    describe_changes,
    keep_environment,
    read_shell_settings,
)
from Daddy.cluster.orchestrator.slurm_templates import render_job_script
from Daddy.cluster.release_build import Release, freeze_release
from Daddy.core.agreed_settings import GAME, agreed_settings
from Daddy.core.atomic_files import read_json_or_empty, write_atomic
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ConfigError, ControllerAliveError, ExitCode
from Daddy.core.friend_accounts import close_run
from Daddy.core.host_and_processes import full_host_name, user_name
from Daddy.core.humanize import format_age
from Daddy.core.lease import LeaseView, read_lease
from Daddy.core.load_config import load_release_config, run_paths, shared_paths, with_values
from Daddy.core.rom_identity import Rom
from Daddy.core.run_paths import RunPaths
from Daddy.core.saved_cluster import RECEIVER, setup_line, write_receiver
from Daddy.core.settings import Config
from Daddy.core.shared_weights_paths import SharedPaths, owners_root

_SLOWEST, _FASTEST = 0.01, 1e7
"""Steps per second between which a heartbeat's speed is believed."""
_LEAVES_S = 10.0
"""Seconds that a controller has to exit after its run ended."""


def run_start(
    request: Request, *, dry_run: bool, foreground: bool, daemon: bool = True, yes: bool = False
) -> int:
    """Check the run, write its intent, start a controller; ``yes``: also one inside a job."""
    findings, clock = Findings(), SystemClock()
    config, wanted = _configure(request, findings, daemon=daemon)
    run = run_paths(config)
    if dry_run:
        findings.raise_found()
        findings.print_notes()
        _print_dry_run(config, wanted)
        return ExitCode.DONE
    _write_receiver(config, Path.home())
    _close_run(config, findings)
    intent = _load_intent(run)
    view = _controller(run, intent, clock)
    if view is not None:
        findings.raise_found()
        _check_fit(wanted, intent, view, foreground=foreground)
        _check_name(config, view)
        view = _skip_blind(view)
    if view is not None and intent is not None and _nothing_new(config, intent):
        _keep_environment(run, intent, wanted, clock)
        print(f"{config.run_name} runs already: {_fleet(intent)}")
        print(f"controller: {_describe(view)}; nothing was changed")
        return ExitCode.DONE
    if daemon and not foreground and view is None:
        check_login_host(findings, os.environ, yes=yes)
    release = _check(config, findings)
    _fix_run_id(wanted, config, run, clock)
    new = replace(wanted, release=release.ident, started_ts=clock.now())
    write_atomic(run.config, release.config.read_bytes())
    write_intent(run, new, clock.now())  # before any controller starts
    if view is not None:
        _hand_over(new, intent, view)
        return ExitCode.DONE
    print(f"{config.run_name}: {_fleet(new)}")
    if foreground:
        return run_daemon(release.path, ready_fd=None)
    if daemon:
        _start_daemon(config, release)
    else:
        _start_without_daemon(run, release, clock)
    return ExitCode.DONE


def _fix_run_id(wanted: DesiredRun, config: Config, run: RunPaths, clock: Clock) -> None:
    mark = fix_run_id(wanted.executor, config, run, clock)
    if not mark.startswith(f"{config.run_name}-"):
        print(f"{config.run_name} is a label: in the queue the run's jobs keep the name {mark}")


def _write_receiver(config: Config, home: Path) -> None:
    """Write the program that the key lines of laptops name, or print the reason."""
    if config.collaboration.enabled:
        try:
            write_receiver(home)
        except OSError as error:
            told = f"{home / RECEIVER} cannot be written ({error.strerror})"
            print(f"{told}: laptops' keys may not work")


def _close_run(config: Config, findings: Findings) -> None:
    """Close the run's files to other accounts; note what stays open."""
    with findings.catching():
        findings.notes += close_run(run_paths(config), shared_paths(config))


def _load_intent(run: RunPaths) -> DesiredRun | None:
    """Return the intent; None before a start, and for a damaged one, with a line."""
    intent, damage = load_intent(run)
    if damage:
        print(f"{damage}: `start` writes the intent anew")
    return intent


def _start_without_daemon(run: RunPaths, release: Release, clock: Clock) -> None:
    print(make_single_pass(run, release, clock))
    print("no daemon is started: jobs make the controller's passes (see them by `status`)")


def _fleet(intent: DesiredRun) -> str:
    return f"{intent.slots} slots on {intent.executor}, playing {intent.game}"


def _configure(request: Request, findings: Findings, *, daemon: bool) -> tuple[Config, DesiredRun]:
    """Return the configuration, and the intent without a release; add errors to ``findings``."""
    config = request.load_settings(begins=True)
    executor, game = str(config.controller.executor), str(config.training.workload)
    with findings.catching():
        executor = choose_executor(config, os.environ)
    with findings.catching(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        rom = load_game(config)
        game = describe_game(config, executor, rom)
        findings.notes += [f"warning: {entry.message}" for entry in warned]
    if executor == "slurm":
        with findings.catching():
            config = _fill_from_shell(config, findings)
    if not findings.wrong:
        with findings.catching():
            config = _tune(config, rom, findings)
    check_hyperparameters(config, findings)
    kept, dropped = keep_environment(os.environ) if executor == "slurm" else ({}, [])
    findings.notes += dropped
    wanted = DesiredRun(
        Mode.RUN, config.slurm.max_running, executor, "", game, daemon=daemon, environment=kept
    )
    return resolve_paths(config, executor), wanted


def _fill_from_shell(config: Config, findings: Findings) -> Config:
    """Return the configuration with the shell's ``SBATCH_*`` where nobody set a value."""
    values, notes = read_shell_settings(config.slurm, os.environ)
    config = with_values(config, values, "your shell (SBATCH_*)") if values else config
    if values:
        pairs = ", ".join(f"{key} {text}" for key, text in values.items())
        findings.notes.append(f"from your shell (SBATCH_*), kept in the release: {pairs}")
    findings.notes += notes
    run = run_paths(config)
    with contextlib.suppress(ConfigError):  # absent or damaged: nothing to compare with
        findings.notes += describe_changes(load_release_config(run.config).slurm, config.slurm)
    return config


def _tune(config: Config, rom: Rom | None, findings: Findings) -> Config:
    """Return the configuration with the tuned recipe where it applies; note both values of each.

    Raises ConfigError if the run's learners agreed on other settings.
    """
    run, shared = run_paths(config), shared_paths(config)
    contract, begun = dict[str, str](), _begun(run, shared)
    if config.collaboration.enabled:
        contract = {**(agreed_settings(begun) if begun else {}), **read_contract(shared)}
    if rom is not None and rom.real and config.training.device == "cuda":
        config, lines = apply_recipe(config, begun, contract)
        findings.notes += lines
    check_agreed(config, contract, {GAME: json.dumps(rom.sha1)} if rom is not None else {})
    done = read_json_or_empty(shared.head).get("fleet_steps")
    rates = list(_measured_rates(run, config.slurm.max_running))
    findings.notes.append(describe_length(config, done if isinstance(done, int) else 0, rates))
    return config


def _begun(run: RunPaths, shared: SharedPaths) -> Config | None:
    """Return the configuration of a run that has learnt; None for a new run."""
    if not shared.run.exists() and not any(run.slots.glob("*/checkpoints/*.json")):
        return None
    with contextlib.suppress(ConfigError):
        return load_release_config(run.config)
    return None


def _measured_rates(run: RunPaths, slots: int) -> Iterator[float]:
    """Yield the steps per second in the newest heartbeat of each slot that has one."""
    for slot in range(slots):
        view = read_lease(run.slot(slot).lease)
        rate = None if view is None else view.beat.get("steps_per_second")
        if isinstance(rate, int | float) and _SLOWEST <= rate <= _FASTEST:
            yield float(rate)


def _check(config: Config, findings: Findings) -> Release:
    """Run the remaining checks, print notes, return the new release. Raises the errors found."""
    executor = config.controller.executor
    scheduled = not any(error.exit_code == ExitCode.SCHEDULER for error in findings.wrong)
    check_places(config, executor if scheduled else "local", findings)
    check_device(config, executor, findings)
    findings.raise_found()
    release = freeze_release(run_paths(config), config)
    if executor == "slurm":
        check_slurm(config, release, findings)
    findings.raise_found()
    findings.print_notes()
    return release


def _controller(run: RunPaths, intent: DesiredRun | None, clock: Clock) -> LeaseView | None:
    """Return the live controller's lease or None; if its run has ended, wait 10 s for its exit."""
    view = controller_lease.find_live_controller(run, clock)
    ended = intent is not None and intent.mode in (Mode.STOPPED, Mode.DONE)
    until, never = clock.monotonic() + _LEAVES_S, threading.Event()
    while ended and view is not None and clock.monotonic() < until:
        clock.wait(never, 0.2)
        view = controller_lease.find_live_controller(run, clock)
    return view


def _describe(view: LeaseView) -> str:
    return f"{controller_lease.describe(view.holder)}, term {view.term}"


def _skip_blind(view: LeaseView) -> LeaseView | None:
    """Return the live controller's lease; None, and say so, if it cannot read the queue."""
    blind_s = blind_seconds(view.beat)
    if not blind_s:
        return view
    print(
        f"the controller ({_describe(view)}) cannot read the queue for {format_age(blind_s)}: "
        "another one takes over"
    )
    return None


def _keep_environment(run: RunPaths, old: DesiredRun, new: DesiredRun, clock: Clock) -> None:
    """Replace the environment in the intent, if it differs: cron uses the newest that worked."""
    if old.environment != new.environment:
        write_intent(run, replace(old, environment=new.environment), clock.now())


def _check_fit(
    new: DesiredRun, old: DesiredRun | None, view: LeaseView, *, foreground: bool
) -> None:
    """Raise ControllerAliveError when the live controller cannot do what ``start`` asks."""
    name = controller_lease.describe(view.holder)
    if old is not None and old.mode in (Mode.DRAIN, Mode.NOW):
        raise ControllerAliveError(
            f"the run is being stopped: {name} waits for its jobs to exit",
            "wait until `run_controller status` says stopped, then type `run_controller start`",
        )
    executor = new.executor if old is None else old.executor
    rules = (
        (executor != new.executor, f"it runs jobs on {executor}, not on {new.executor}"),
        (foreground, "it does not run in this terminal (--foreground)"),
        (not new.daemon, "it is a daemon, and --no-daemon was given"),
    )
    for applies, why in rules:
        if applies:
            message = f"this run already has a controller ({name}), and {why}"
            raise ControllerAliveError(message, "type `run_controller stop`, then start again")


def _check_name(config: Config, view: LeaseView) -> None:
    """Raise ControllerAliveError if a controller of the release before would take a new name.

    It marks jobs by the ``run_name`` of the newest release, lists those of its own, and so takes
    every job for lost.
    """
    kept = run_paths(config).release(str(view.holder.get("release"))).config
    name = read_json_or_empty(kept).get("run_name", config.run_name)
    if not view.holder.get("keeps_run_id") and name != config.run_name:
        message = f"the controller is of the release before and knows the run as {name!r} only"
        fix = f"type `run_controller stop`, then start; or keep the run_name {name!r}"
        raise ControllerAliveError(message, fix)


def _nothing_new(config: Config, intent: DesiredRun) -> bool:
    """Build the release; return True if it, slots and mode equal ``intent``, nothing is held."""
    run = run_paths(config)
    last = read_last_summary(run)  # start fills stopped slots and forgives failures
    held = last.get("breaker") or last.get("excluded") or intent.stopped_slots
    if intent.mode is not Mode.RUN or held:
        return False
    wanted = (freeze_release(run, config).ident, config.slurm.max_running)
    return wanted == (intent.release, intent.slots)


def _hand_over(new: DesiredRun, old: DesiredRun | None, view: LeaseView) -> None:
    """Print the changes from ``old`` to ``new``, which the live controller reads."""
    changes = []
    if old is None or old.release != new.release:
        changes.append(f"release {new.release}: one slot tries it, the others follow if it works")
    if old is not None and old.slots != new.slots:
        changes.append(f"{new.slots} slots instead of {old.slots}")
    if old is not None and old.stopped_slots:
        changes.append(f"slot {', '.join(map(str, old.stopped_slots))} is filled again")
    if old is not None and old.mode is Mode.PAUSED:
        changes.append(f"the pause is over ({old.reason})")
    changes = changes or ["failures so far are forgiven: empty slots are tried again now"]
    print(f"the controller ({controller_lease.describe(view.holder)}) reads:")
    print("\n".join(f"  {line}" for line in changes))


def _start_daemon(config: Config, release: Release) -> None:
    """Start a controller daemon and print its report; say so if another host was faster."""
    run = run_paths(config)
    try:
        report = launch_controller(run, release)
    except ControllerAliveError as error:
        print(f"{error.message}: that controller reads the new intent")
        return
    log = run.logs / "controller.log"
    print(f"controller: pid {report['pid']} on {report['host']}, term {report['term']}, log {log}")
    if job := os.environ.get(JOB_ID):
        print(f"  it ends with Slurm job {job}: type start again on a login node then")
    else:
        for line in describe_survival(user_name(), workers=_jobs_take_over(config)):
            print(f"  {line}")
    if config.collaboration.enabled:
        root = owners_root(shared_paths(config))
        print(f"a laptop joins by: {setup_line(user_name(), full_host_name(), root)}")
    print("you can close this shell; `run_controller status` shows the slots, `stop` ends the run")


def _jobs_take_over(config: Config) -> bool | None:
    """Return True if jobs make a dead daemon's passes; None until a job has tested submitting."""
    probe = read_probe(run_paths(config))
    if not config.controller.failover or config.controller.executor == "local":
        return config.controller.failover
    return None if probe is None else probe.may_submit


def _print_dry_run(config: Config, wanted: DesiredRun) -> None:
    """Print the actions of ``start`` and the first job's script, and change nothing."""
    run = run_paths(config)
    example = Release("release", run.releases / "<release>")
    spec = SpecMaker(config, run, example)("0" * 12, 1, Submit("a slot is empty"))
    print(f"# would play {wanted.game} in {run.root}, jobs on {wanted.executor}")
    print(f"# would build a release, submit {wanted.slots} jobs for {wanted.slots} slots")
    print(f"# and queue up to {ControllerPolicy().spares} successors as jobs train")
    print(f"# each job: {config.slurm.time_limit}, output in {run.logs}/slurm-<id>.out and .err")
    print(render_job_script(spec))
