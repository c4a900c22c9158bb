"""How a run stands, for a person and for scripts: needs no daemon, changes nothing.

A fresh summary of a living controller is taken as it is; otherwise we look at the queue ourselves,
with little patience. Where nobody can see the queue, the last known state is told with its age.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from Daddy.cluster.orchestrator.history import fold, replay
from Daddy.cluster.orchestrator.intent import Intent, read_intent
from Daddy.cluster.orchestrator.ledger import read_entries
from Daddy.cluster.orchestrator.plan import plan
from Daddy.cluster.orchestrator.reconcile import reconcile
from Daddy.cluster.orchestrator.records import Mode, Policy, Snapshot
from Daddy.cluster.orchestrator.scheduler import Scheduler
from Daddy.cluster.orchestrator.slots import holder_alive, read_slots
from Daddy.cluster.orchestrator.summary import summarise
from Daddy.cluster.orchestrator.tenure import holder
from Daddy.core.clock import Clock
from Daddy.core.errors import ExitCode, FileError
from Daddy.core.files import read_json
from Daddy.core.lease import read_lease
from Daddy.core.paths import RunPaths

FRESH_S = 90.0
"""Age up to which a living controller's summary is as good as a look of our own."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One word, one sentence, one exit code."""

    code: ExitCode
    sentence: str


def read_status(
    run: RunPaths, scheduler: Scheduler | None, policy: Policy, clock: Clock
) -> dict[str, Any]:
    """Everything ``status`` shows, as one record; ``scheduler`` None: never look at the queue."""
    intent = read_intent(run)
    known = _last_summary(run)
    controller = _controller(run)
    fresh = known and controller["alive"] is not False and clock.now() - known["ts"] <= FRESH_S
    status = known if fresh or scheduler is None else _look(run, intent, scheduler, policy, clock)
    if not status["queue"]["known"] and known.get("slots"):
        status = {**known, "queue": status["queue"]}
    status = {**status, "controller": controller, "age_s": round(clock.now() - status["ts"], 1)}
    status["slots"] = [{**slot, "beat": _beat(run, slot)} for slot in status["slots"]]
    verdict = judge(intent, status)
    word = verdict.code.name.lower() if verdict.code else "healthy"
    return {**status, "verdict": word, "exit_code": int(verdict.code), "said": verdict.sentence}


def _last_summary(run: RunPaths) -> dict[str, Any]:
    try:
        return read_json(run.status)
    except (FileNotFoundError, NotADirectoryError, FileError):
        return {}


def _controller(run: RunPaths) -> dict[str, Any]:
    """Who holds the run; ``alive`` is None for one on another host."""
    view = holder(run)
    if view is None:
        return {"alive": False}
    alive = holder_alive(view.holder)
    return {"alive": alive, "term": view.term, **view.holder}


def _look(
    run: RunPaths, intent: Intent | None, scheduler: Scheduler, policy: Policy, clock: Clock
) -> dict[str, Any]:
    """What a controller would write now, written nowhere."""
    ledger = replay(read_entries(run.ledger))
    snapshot = scheduler.snapshot()
    slots = read_slots(run, intent.slots if intent is not None else policy.max_running)
    now = clock.now()
    if isinstance(snapshot, Snapshot):
        for entry in reconcile(ledger, snapshot, slots, policy, now):
            ledger = fold(ledger, entry)
    desired = intent.desired if intent is not None else None
    decided = plan(desired, ledger, snapshot, policy, now) if desired is not None else None
    reasons = decided.reasons if decided is not None else ()
    return summarise(intent, ledger, snapshot, slots, reasons, now)


def _beat(run: RunPaths, slot: Mapping[str, Any]) -> Mapping[str, Any]:
    view = read_lease(run.slot(int(slot["slot"])).lease)
    return {} if view is None else view.beat


def judge(intent: Intent | None, status: Mapping[str, Any]) -> Verdict:
    """Pure: the record in one sentence. What was asked for is healthy, also when it is nothing."""
    if intent is None:
        return Verdict(ExitCode.DOWN, "no run was ever started here")
    queue = status["queue"]
    if not queue["known"]:
        age = f"last known {status['age_s']:.0f} s ago"
        return Verdict(ExitCode.UNKNOWN, f"the queue cannot be read ({queue['why']}); {age}")
    training = sum(1 for slot in status["slots"] if slot["training"])
    jobs = queue["running"] + queue["pending"]
    if intent.mode is not Mode.RUN:
        return _judge_ending(intent, jobs)
    count = f"{training} of {intent.slots} slots train"
    if status["controller"]["alive"] is False:
        if jobs == 0:
            return Verdict(ExitCode.DOWN, "no controller and no job is alive: start it again")
        return Verdict(ExitCode.DEGRADED, f"{count}, but no controller is alive: start it")
    well = training >= intent.slots
    return (
        Verdict(ExitCode.DONE, f"all is well: {count}")
        if well
        else Verdict(ExitCode.DEGRADED, count)
    )


def _judge_ending(intent: Intent, jobs: int) -> Verdict:
    if jobs:
        return Verdict(ExitCode.DEGRADED, f"stopping: {jobs} jobs still have to leave")
    if intent.mode is Mode.DONE:
        return Verdict(ExitCode.DONE, f"the run is done: {intent.reason or 'all steps were made'}")
    return Verdict(ExitCode.DONE, "the run is stopped, as asked")
