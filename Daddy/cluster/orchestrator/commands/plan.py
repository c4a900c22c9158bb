"""``plan``: look at the queue and decide as the controller does, but change nothing.

Prints what a pass would do, with reasons; ``status`` takes the summary of such a pass.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from Daddy.cluster.orchestrator.commands.run_selection import (
    Request,
    intended_release,
    try_read_intent,
)
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy, derive_policy
from Daddy.cluster.orchestrator.controller_records import (
    Intent,
    Ledger,
    Mode,
    QueueReading,
    SlotView,
    Snapshot,
)
from Daddy.cluster.orchestrator.executors import choose_executor, make_scheduler
from Daddy.cluster.orchestrator.ledger_file import read_ledger
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry, fold
from Daddy.cluster.orchestrator.plan_actions import Action, Plan
from Daddy.cluster.orchestrator.planner import plan as decide
from Daddy.cluster.orchestrator.reconcile import reconcile
from Daddy.cluster.orchestrator.slot_status import read_slots
from Daddy.cluster.orchestrator.status_summary import summarise
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode
from Daddy.core.run_paths import RunPaths


def run_plan(request: Request) -> int:
    """Look as the controller does, decide as it does, and print instead of acting."""
    (config, run), clock = request.find_run(), SystemClock()
    intent, damage = try_read_intent(run)
    if damage:
        print(f"{damage}: shown is what start would do")
    if intent is None:
        intent = Intent(Mode.RUN, config.slurm.max_running, choose_executor(config, os.environ))
        print(f"# no run was started in {run.root}: this is what start would do first")
    else:
        config = intended_release(run, intent, config)[1]
    policy, now = derive_policy(config, intent.executor), clock.now()
    snapshot = make_scheduler(intent.executor, config, run, clock).snapshot()
    ledger, slots = read_ledger(run.ledger), read_slots(run, max(intent.slots, policy.max_running))
    seen, ledger = _seen(ledger, snapshot, slots, policy, now)
    for entry in seen:
        print(f"saw      {entry.kind} {_facts(dict(entry.data))}".rstrip())
    for line in _show(decide(intent, ledger, snapshot, policy, now), snapshot, now):
        print(line)
    return ExitCode.DONE


def _show(decided: Plan, snapshot: QueueReading, now: float) -> Iterator[str]:
    if isinstance(snapshot, Snapshot):
        ours, others = len(snapshot.jobs), len(snapshot.others)
        yield f"queue    {ours} jobs of this run, {others} others of yours"
    else:
        yield f"queue    unknown: {snapshot.why}"
    yield from (f"because  {reason}" for reason in decided.reasons)
    yield from (f"would    {_action(action)}" for action in decided.actions)
    if not decided.actions:
        yield "would    do nothing"
    if decided.orders is not None:
        slots = ", ".join(f"{slot}: {name}" for slot, name in decided.orders.slots.items())
        yield f"orders   {slots or 'no slot may be claimed'} ({decided.orders.reason})"
    yield f"next     look in {max(0.0, decided.wake_at - now):.0f} s at the latest"
    if isfinite(decided.due_at):
        yield f"due      something would change in {max(0.0, decided.due_at - now):.0f} s"


def _action(action: Action) -> str:
    facts = asdict(action)
    reason = facts.pop("reason", "")
    return f"{type(action).__name__.lower()} {_facts(facts)}: {reason}"


def _facts(facts: dict[str, object]) -> str:
    told = ((name, value) for name, value in facts.items() if value not in (None, (), "", {}))
    return ", ".join(f"{name} {getattr(value, 'value', value)}" for name, value in told)


def make_summary(
    run: RunPaths,
    snapshot: QueueReading,
    policy: ControllerPolicy,
    clock: Clock,
    intent: Intent | None,
    ledger: Ledger,
) -> dict[str, Any]:
    """The summary that a controller would write of this look; it is written nowhere."""
    desired = intent or Intent(Mode.STOPPED, policy.max_running)
    slots, now = read_slots(run, desired.slots), clock.now()
    _, ledger = _seen(ledger, snapshot, slots, policy, now)
    decided = decide(desired, ledger, snapshot, policy, now)
    return summarise(intent, ledger, snapshot, slots, decided, policy, now)


def _seen(
    ledger: Ledger,
    snapshot: QueueReading,
    slots: Sequence[SlotView],
    policy: ControllerPolicy,
    now: float,
) -> tuple[list[LedgerEntry], Ledger]:
    """The entries of this look, and the ledger with them.

    Adopted jobs are looked at once more, as the next pass would.
    """
    if not isinstance(snapshot, Snapshot):
        return [], ledger
    seen = [*reconcile(ledger, snapshot, slots, policy, now)]
    ledger = fold(ledger, *seen)
    if any(entry.kind == "intent" for entry in seen):
        again = [*reconcile(ledger, snapshot, slots, policy, now)]
        seen, ledger = [*seen, *again], fold(ledger, *again)
    return seen, ledger
