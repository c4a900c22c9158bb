"""Builds the controller of one term from a configuration and the controller's lease."""

import logging
import os
import shlex
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from Daddy.cluster.orchestrator.apply_plan import PlanApplier
from Daddy.cluster.orchestrator.child_processes import ChildPrograms
from Daddy.cluster.orchestrator.control_parameters import (
    ControllerPolicy,
    derive_policy,
    file_poll_seconds,
)
from Daddy.cluster.orchestrator.controller import Controller
from Daddy.cluster.orchestrator.ledger_file import LedgerFile
from Daddy.cluster.orchestrator.read_slots import HeartbeatSilence
from Daddy.cluster.orchestrator.scheduler_factory import SpecMaker, make_scheduler
from Daddy.cluster.release_build import Release
from Daddy.core.atomic_files import read_json_or_empty
from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError
from Daddy.core.event_log import EventWriter
from Daddy.core.host_and_processes import host_name
from Daddy.core.lease import Lease
from Daddy.core.load_config import run_paths, shared_paths
from Daddy.core.run_subprocess import run_command as run_program
from Daddy.core.settings import Config

_TIMEOUT_S = 20.0
_LIMIT = 4000
"""Longest message, in characters."""


def build_controller(
    config: Config,
    release: Release,
    lease: Lease,
    clock: Clock,
    measured: HeartbeatSilence | None = None,
    *,
    children: bool,
) -> Controller:
    """Build the controller of ``config``'s run; ``children``: it also runs relay and mirror."""
    run, executor, name = run_paths(config), config.controller.executor, config.run_name

    @cache
    def policy_of(ident: str) -> ControllerPolicy:
        return derive_policy(Release(ident, run.releases / ident).settings(config), executor)

    def notify_person(kind: str, text: str) -> None:
        if failure := run_notify_command(config.controller.notify, kind, f"{name}: {text}"):
            logging.getLogger(__name__).warning("%s", failure)

    ledger = LedgerFile(run.ledger, lease.term)
    scheduler = make_scheduler(executor, config, run, clock)
    make_spec = SpecMaker(config, run, release)
    workload = config.training.workload
    events = EventWriter(run.events, name, workload, "controller", host_name(), clock)
    environment = {**os.environ, "PYTHONPATH": str(release.path)}
    programs = _programs(config, release) if children else {}
    return Controller(
        PlanApplier(run, lease, ledger, scheduler, make_spec, events, clock, notify_person),
        policy_of,
        ChildPrograms(programs, run.logs, environment, clock),
        _steps(config),
        file_poll_seconds(config, executor),
        measured,
    )


def run_notify_command(command: str, kind: str, text: str, timeout_s: float = _TIMEOUT_S) -> str:
    """Run the person's notify command, without a shell; return its failure as text, or ''.

    The command reads ``text`` from standard input and ``kind`` from the variable ``DADDY_KIND``.
    """
    if not command.strip():
        return ""
    try:
        argv = shlex.split(command)
        argv[0] = str(Path(argv[0]).expanduser())
        env = {**os.environ, "DADDY_KIND": kind}
        result = run_program(argv, timeout_s, env=env, stdin=f"{text[:_LIMIT]}\n")
    except (DaddyError, OSError, ValueError) as error:
        return f"controller.notify failed: {error}"
    if result.returncode == 0:
        return ""
    return f"controller.notify failed: exit code {result.returncode}: {result.fault}"


def _programs(config: Config, release: Release) -> dict[str, list[str]]:
    """Return name → command line of the relay and of the mirror, each if the settings want it."""
    training, programs = config.training, {}
    if config.controller.relay and training.stream:
        relay = ["Daddy.streaming.relay", "--run-dir", config.run_dir]
        relay += ["--port", str(training.stream_port), "--top-k", str(training.stream_top_k)]
        programs["relay"] = relay
    own = config.collaboration.enabled and not config.collaboration.join
    if own and (seconds := 60.0 * config.mirror.minutes):
        programs["mirror"] = ["Daddy.weights.mirror", "--config", str(release.config)]
        programs["mirror"] += ["--every", str(seconds)]
    ends = ["--die-with-parent", str(os.getpid())]
    return {name: [sys.executable, "-m", *argv, *ends] for name, argv in programs.items()}


def _steps(config: Config) -> Callable[[], tuple[int, int]]:
    """Return a function: () → (steps of all peers in the newest version, ``total_steps``)."""
    head, total = shared_paths(config).head, config.training.total_steps

    def read_steps() -> tuple[int, int]:
        steps = read_json_or_empty(head).get("fleet_steps", 0)
        return (steps if isinstance(steps, int) else 0), total

    return read_steps
