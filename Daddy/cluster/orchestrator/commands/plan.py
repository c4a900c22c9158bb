"""Implements ``plan``: prints the actions of one pass, with reasons, without executing them.

``status`` uses ``make_summary`` if no controller has written a recent summary.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from Daddy.cluster.orchestrator.action_types import (
    Action,
    Amend,
    Cancel,
    Conclude,
    EndTerm,
    Notify,
    Pause,
    Plan,
    Signal,
    Submit,
)
from Daddy.cluster.orchestrator.commands.run_selection import Request, find_release, load_intent
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy, derive_policy
from Daddy.cluster.orchestrator.controller_types import (
    DesiredRun,
    Ledger,
    Mode,
    Orders,
    QueueReading,
    SlotView,
    Snapshot,
)
from Daddy.cluster.orchestrator.decisions.circuit_breaker import FOREVER_S
from Daddy.cluster.orchestrator.decisions.job_submission import SLOT_IS_EMPTY
from Daddy.cluster.orchestrator.ledger_file import read_ledger
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry, fold
from Daddy.cluster.orchestrator.planner import plan as decide
from Daddy.cluster.orchestrator.read_slots import read_slots
from Daddy.cluster.orchestrator.reconcile import doubt_listing, reconcile
from Daddy.cluster.orchestrator.scheduler_factory import choose_executor, make_scheduler
from Daddy.cluster.orchestrator.status_summary import summarise
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode
from Daddy.core.humanize import format_duration, format_span
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
    ledger = read_ledger(run.ledger)
    slots = read_slots(run, max(intent.slots, policy.max_running, ledger.slots_held))
    entries, ledger, snapshot = _reconciled(ledger, snapshot, slots, policy, now)
    for entry in entries:
        print(f"saw      {entry.kind} {_format_fields(dict(entry.data))}".rstrip())
    held = {attempt.slot for attempt in ledger.live if attempt.left_ts is None}
    empty = [slot for slot in range(intent.slots) if slot not in held]
    for line in describe_plan(decide(intent, ledger, snapshot, policy, now), snapshot, empty, now):
        print(line)
    return ExitCode.DONE


def describe_plan(
    decided: Plan, snapshot: QueueReading, empty: Sequence[int], now: float
) -> Iterator[str]:
    """Yield the lines of ``plan``: equal actions once. ``empty``: the slots without a job."""
    if isinstance(snapshot, Snapshot):
        ours, others = len(snapshot.jobs), len(snapshot.others)
        yield f"queue    {ours} jobs of this run, {others} others of yours"
    else:
        yield f"queue    unknown: {snapshot.error}"
    yield from (f"because  {reason}" for reason in decided.reasons)
    for action, count in Counter(decided.actions).items():
        yield f"would    {describe_action(action, count, empty)}"
    if not decided.actions:
        yield "would    do nothing"
    if decided.orders is not None:
        yield f"orders   {_describe_orders(decided.orders)}"
    yield f"next     pass in {max(0.0, decided.wake_at - now):.0f} s at the latest"
    if decided.due_at - now < FOREVER_S / 2:
        yield f"due      something would change in {format_span(decided.due_at - now)}"


def describe_action(action: Action, count: int, empty: Sequence[int]) -> str:
    """Return in words what ``count`` equal actions do, and why; ``empty``: the empty slots."""
    reason = action.reason
    match action:
        case Submit(after=after, exclude=nodes, release=release):
            what = "submit a job" if count == 1 else f"submit {count} jobs"
            what += f" of release {release}" * bool(release) + f" after job {after}" * bool(after)
            what += f", not on {', '.join(nodes)}" * bool(nodes)
            if reason == SLOT_IS_EMPTY and empty:
                reason = f"{_slots(empty)} {'is' if len(empty) == 1 else 'are'} empty"
        case Amend(job_id=job):
            what = f"change job {job}: {', '.join(_changes(action))}"
        case Signal(job_id=job):
            what = f"let job {job} write a checkpoint and exit"
        case Cancel(job_id=job):
            what = f"cancel job {job}"
        case EndTerm(slot=slot, term=term):
            what = f"end term {term} of slot {slot}"
        case Conclude(mode=mode):
            what = f"record the run as {mode.value} and end the controller"
        case Pause():
            what = "pause the run"
        case Notify():
            what = "notify you"
    return f"{what}: {reason}"


def _slots(slots: Sequence[int]) -> str:
    if len(slots) == 1:
        return f"slot {slots[0]}"
    return f"slots {', '.join(map(str, slots[:-1]))} and {slots[-1]}"


def _describe_orders(orders: Orders) -> str:
    slots: dict[str, list[int]] = {}
    for slot, release in orders.slots.items():
        slots.setdefault(release, []).append(slot)
    claims = [
        f"{_slots(free)} may be claimed" + f" for release {release}" * bool(release)
        for release, free in slots.items()
    ]
    reason = f" ({orders.reason})" * bool(orders.reason)
    return ("; ".join(claims) or "no slot may be claimed") + reason


def _changes(change: Amend) -> Iterator[str]:
    if change.hold is not None:
        yield "hold it" if change.hold else "release it"
    if change.exclude is not None:
        yield f"keep it off {', '.join(change.exclude) or 'no node'}"
    if change.limit_s is not None:
        yield f"limit it to {format_duration(change.limit_s)}"


def _format_fields(facts: dict[str, object]) -> str:
    present = ((name, value) for name, value in facts.items() if value not in (None, (), "", {}))
    return ", ".join(
        f"{name.replace('_', ' ')} {getattr(value, 'value', value)}" for name, value in present
    )


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
    count = max(desired.slots, policy.max_running, ledger.slots_held)
    slots, now = read_slots(run, count), clock.now()
    _, ledger, snapshot = _reconciled(ledger, snapshot, slots, policy, now)
    decided = decide(desired, ledger, snapshot, policy, now)
    return summarise(intent, ledger, snapshot, slots, decided, policy, now)


def _reconciled(
    ledger: Ledger,
    snapshot: QueueReading,
    slots: Sequence[SlotView],
    policy: ControllerPolicy,
    now: float,
) -> tuple[list[LedgerEntry], Ledger, QueueReading]:
    """Return the entries that follow from ``snapshot``, the ledger with them, and the queue."""
    if not isinstance(snapshot, Snapshot):
        return [], ledger, snapshot
    believed = doubt_listing(ledger, snapshot, slots, policy, now)
    entries = [*reconcile(ledger, snapshot, slots, policy, now)]
    ledger = fold(ledger, *entries)
    if any(entry.kind == "intent" for entry in entries):
        again = [*reconcile(ledger, snapshot, slots, policy, now)]
        entries, ledger = [*entries, *again], fold(ledger, *again)
    return entries, ledger, believed
