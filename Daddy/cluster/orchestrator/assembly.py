"""Puts a controller together for one term: ledger, queue, hands, rules, companions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache

from Daddy.cluster.orchestrator.companions import Companions
from Daddy.cluster.orchestrator.control_parameters import Policy, look_seconds, make_policy
from Daddy.cluster.orchestrator.controller import Controller, Parts
from Daddy.cluster.orchestrator.effects import Effects, Tell
from Daddy.cluster.orchestrator.executors import make_scheduler
from Daddy.cluster.orchestrator.ledger import LedgerFile
from Daddy.cluster.orchestrator.notify import tell
from Daddy.cluster.orchestrator.slots import Silence
from Daddy.cluster.orchestrator.specs import SpecMaker
from Daddy.cluster.release_build import Release
from Daddy.core.clock import Clock
from Daddy.core.config import load_effective, run_paths, shared_paths
from Daddy.core.errors import FileError
from Daddy.core.events import EventWriter
from Daddy.core.files import read_json
from Daddy.core.lease import Lease
from Daddy.core.machine import host_name
from Daddy.core.paths import RunPaths
from Daddy.core.settings import Config


def assemble(
    config: Config,
    release: Release,
    lease: Lease,
    clock: Clock,
    *,
    companions: bool,
    silence: Silence | None = None,
) -> Controller:
    """The controller of ``config``'s run under ``lease``, with the relay beside it if wanted."""
    run, executor = run_paths(config), config.controller.executor
    ledger = LedgerFile(run.ledger, lease.term)
    scheduler = make_scheduler(executor, config, run, clock)
    events = EventWriter(
        run.events, config.run_name, config.training.workload, "controller", host_name(), clock
    )
    make_spec = SpecMaker(config, run, release)
    environment = {**os.environ, "PYTHONPATH": str(release.path)}
    programs = _programs(config, release) if companions else {}
    parts = Parts(
        run=run,
        lease=lease,
        scheduler=scheduler,
        ledger=ledger,
        effects=Effects(run, lease, ledger, scheduler, make_spec, events, clock, _teller(config)),
        rules=_rules(config, run, executor),
        companions=Companions(programs, run.logs, environment, clock),
        steps=_steps(config),
        clock=clock,
        look_s=look_seconds(config, executor),
        silence=silence,
    )
    return Controller(parts)


def _rules(config: Config, run: RunPaths, executor: str) -> Callable[[str], Policy]:
    """Release → its rules; those of ``config`` for a release that is not there."""

    @cache
    def rules(ident: str) -> Policy:
        frozen = Release(ident, run.releases / ident).config
        known = load_effective(frozen) if ident and frozen.exists() else config
        return make_policy(known, executor)

    return rules


def _teller(config: Config) -> Tell:
    """The person's own command, as configured; what went wrong with it is printed to the log."""

    def tell_person(kind: str, text: str) -> None:
        wrong = tell(config.controller.notify, kind, f"{config.run_name}: {text}")
        if wrong:
            print(wrong, flush=True)

    return tell_person


def _programs(config: Config, release: Release) -> dict[str, list[str]]:
    """What runs beside the controller: the relay that holds the login node's end of the tunnel, and
    the mirror, which copies the weights to where no purge comes.
    """
    training, programs = config.training, {}
    if training.stream:
        relay = ["Daddy.streaming.relay", "--run-dir", config.run_dir]
        relay += ["--port", str(training.stream_port), "--top-k", str(training.stream_top_k)]
        programs["relay"] = relay
    ours = config.collaboration.enabled and not config.collaboration.join
    if ours and (seconds := 60.0 * config.mirror.minutes):
        programs["mirror"] = ["Daddy.weights.mirror", "--config", str(release.config)]
        programs["mirror"] += ["--every", str(seconds)]
    ends = ["--die-with-parent", str(os.getpid())]
    return {name: [sys.executable, "-m", *argv, *ends] for name, argv in programs.items()}


def _steps(config: Config) -> Callable[[], tuple[int, int]]:
    """(steps of all contributors in the newest version, steps that end the run)."""
    head, total = shared_paths(config).head, config.training.total_steps

    def read() -> tuple[int, int]:
        try:
            return int(read_json(head).get("fleet_steps", 0)), total
        except (FileNotFoundError, NotADirectoryError, FileError, TypeError, ValueError):
            return 0, total

    return read
