"""``plan``: what one pass would do now, with its reasons and its next look; nothing is changed."""

from __future__ import annotations

import os
from dataclasses import asdict
from math import isfinite

from Daddy.cluster.orchestrator.actions import Action, Plan
from Daddy.cluster.orchestrator.commands.request import Request, frozen, known_intent
from Daddy.cluster.orchestrator.control_parameters import make_policy
from Daddy.cluster.orchestrator.executors import choose_executor, make_scheduler
from Daddy.cluster.orchestrator.history import fold
from Daddy.cluster.orchestrator.ledger import recall
from Daddy.cluster.orchestrator.plan import plan as decide
from Daddy.cluster.orchestrator.reconcile import reconcile
from Daddy.cluster.orchestrator.records import Desired, Mode, Observation, Snapshot
from Daddy.cluster.orchestrator.slots import read_slots
from Daddy.core.clock import SystemClock
from Daddy.core.config import run_paths
from Daddy.core.errors import ExitCode


def plan(request: Request) -> int:
    """Look as the controller does, decide as it does, and print instead of acting."""
    config, clock = request.load(), SystemClock()
    run = run_paths(config)
    intent, damage = known_intent(run)
    if damage:
        print(f"{damage}: shown is what start would do")
    if intent is None:
        executor = choose_executor(config, os.environ)
        desired = Desired(Mode.RUN, config.slurm.max_running)
        print(f"# no run was started in {run.root}: this is what start would do first")
    else:
        executor, desired = intent.executor, intent.desired
        config = frozen(run, intent, config)[1]
    policy = make_policy(config, executor)
    snapshot = make_scheduler(executor, config, run, clock).snapshot()
    ledger, now = recall(run.ledger), clock.now()
    slots = read_slots(run, max(desired.slots, policy.max_running))
    if isinstance(snapshot, Snapshot):
        for entry in reconcile(ledger, snapshot, slots, policy, now):
            print(f"saw      {entry.kind} {_facts(dict(entry.data))}".rstrip())
            ledger = fold(ledger, entry)
    print("\n".join(show(decide(desired, ledger, snapshot, policy, now), snapshot, now)))
    return ExitCode.DONE


def show(decided: Plan, snapshot: Observation, now: float) -> list[str]:
    """Pure: a plan in lines."""
    seen = (
        f"{len(snapshot.jobs)} jobs of this run, {len(snapshot.others)} others of yours"
        if isinstance(snapshot, Snapshot)
        else f"unknown: {snapshot.why}"
    )
    lines = [f"queue    {seen}"]
    lines += [f"because  {reason}" for reason in decided.reasons]
    lines += [f"would    {_action(action)}" for action in decided.actions]
    if not decided.actions:
        lines.append("would    do nothing")
    if decided.orders is not None:
        slots = ", ".join(f"{slot}: {name}" for slot, name in decided.orders.slots.items())
        lines.append(f"orders   {slots or 'no slot may be claimed'} ({decided.orders.reason})")
    lines.append(f"next     look in {max(0.0, decided.wake_at - now):.0f} s at the latest")
    if isfinite(decided.due_at):
        lines.append(f"due      something would change in {max(0.0, decided.due_at - now):.0f} s")
    return lines


def _action(action: Action) -> str:
    facts = asdict(action)
    reason = facts.pop("reason", "")
    return f"{type(action).__name__.lower()} {_facts(facts)}: {reason}"


def _facts(facts: dict[str, object]) -> str:
    told = ((name, value) for name, value in facts.items() if value not in (None, (), "", {}))
    return ", ".join(f"{name} {getattr(value, 'value', value)}" for name, value in told)
