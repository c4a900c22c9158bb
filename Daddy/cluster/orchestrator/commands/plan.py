"""Implements ``plan``: prints the actions of one pass, with reasons, without executing them.

``status`` uses ``make_summary`` if no controller has written a recent summary.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from Daddy.cluster.orchestrator.action_types import Action, Plan
from Daddy.cluster.orchestrator.commands.run_selection import Request, find_release, load_intent
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy, derive_policy
from Daddy.cluster.orchestrator.controller_types import (
    DesiredRun,
    Ledger,
    Mode,
    QueueReading,
    SlotView,
    Snapshot,
)
from Daddy.cluster.orchestrator.ledger_file import read_ledger
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry, fold
from Daddy.cluster.orchestrator.planner import plan as decide
from Daddy.cluster.orchestrator.read_slots import read_slots
from Daddy.cluster.orchestrator.reconcile import reconcile
from Daddy.cluster.orchestrator.scheduler_factory import choose_executor, make_scheduler
from Daddy.cluster.orchestrator.status_summary import summarise
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode
from Daddy.core.run_paths import RunPaths


def run_plan(request: Request) -> int:
    """Read the queue and plan as the controller does, and print the plan."""
    (config, run), clock = request.find_run(), SystemClock()
    intent, damage = load_intent(run)
    if damage:
        print(f"{damage}: this is the plan of a new start")
    if intent is None:
        intent = DesiredRun(Mode.RUN, config.slurm.max_running, choose_executor(config, os.environ))
        print(f"# no run was started in {run.root}: this is the first plan of a new start")
    else:
        config = find_release(run, intent, config)[1]
    policy, now = derive_policy(config, intent.executor), clock.now()
    snapshot = make_scheduler(intent.executor, config, run, clock).snapshot()
    ledger, slots = read_ledger(run.ledger), read_slots(run, max(intent.slots, policy.max_running))
    entries, ledger = _reconciled(ledger, snapshot, slots, policy, now)
    for entry in entries:
        print(f"saw      {entry.kind} {_format_fields(dict(entry.data))}".rstrip())
    for line in _format_plan(decide(intent, ledger, snapshot, policy, now), snapshot, now):
        print(line)
    return ExitCode.DONE


def _format_plan(decided: Plan, snapshot: QueueReading, now: float) -> Iterator[str]:
    if isinstance(snapshot, Snapshot):
        ours, others = len(snapshot.jobs), len(snapshot.others)
        yield f"queue    {ours} jobs of this run, {others} others of yours"
    else:
        yield f"queue    unknown: {snapshot.error}"
    yield from (f"because  {reason}" for reason in decided.reasons)
    yield from (f"would    {_action(action)}" for action in decided.actions)
    if not decided.actions:
        yield "would    do nothing"
    if decided.orders is not None:
        slots = ", ".join(f"{slot}: {name}" for slot, name in decided.orders.slots.items())
        yield f"orders   {slots or 'no slot may be claimed'} ({decided.orders.reason})"
    yield f"next     pass in {max(0.0, decided.wake_at - now):.0f} s at the latest"
    if isfinite(decided.due_at):
        yield f"due      something would change in {max(0.0, decided.due_at - now):.0f} s"


def _action(action: Action) -> str:
    facts = asdict(action)
    reason = facts.pop("reason", "")
    return f"{type(action).__name__.lower()} {_format_fields(facts)}: {reason}"


def _format_fields(facts: dict[str, object]) -> str:
    present = ((name, value) for name, value in facts.items() if value not in (None, (), "", {}))
    return ", ".join(f"{name} {getattr(value, 'value', value)}" for name, value in present)


def make_summary(
    run: RunPaths,
    snapshot: QueueReading,
    policy: ControllerPolicy,
    clock: Clock,
    intent: DesiredRun | None,
    ledger: Ledger,
) -> dict[str, Any]:
    """Return the summary that a controller would write after this ``snapshot``."""
    desired = intent or DesiredRun(Mode.STOPPED, policy.max_running)
    slots, now = read_slots(run, desired.slots), clock.now()
    _, ledger = _reconciled(ledger, snapshot, slots, policy, now)
    decided = decide(desired, ledger, snapshot, policy, now)
    return summarise(intent, ledger, snapshot, slots, decided, policy, now)


def _reconciled(
    ledger: Ledger,
    snapshot: QueueReading,
    slots: Sequence[SlotView],
    policy: ControllerPolicy,
    now: float,
) -> tuple[list[LedgerEntry], Ledger]:
    """Return the ledger entries that follow from ``snapshot``, and the ledger with them."""
    if not isinstance(snapshot, Snapshot):
        return [], ledger
    entries = [*reconcile(ledger, snapshot, slots, policy, now)]
    ledger = fold(ledger, *entries)
    if any(entry.kind == "intent" for entry in entries):
        again = [*reconcile(ledger, snapshot, slots, policy, now)]
        entries, ledger = [*entries, *again], fold(ledger, *again)
    return entries, ledger
