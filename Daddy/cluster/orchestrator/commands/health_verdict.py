"""Pure. Assesses a run's health (word, sentence, exit code); assigns waiting jobs to slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import median
from typing import Any

from Daddy.cluster.orchestrator.controller_types import Mode, WaitReason
from Daddy.core.errors import ExitCode
from Daddy.core.humanize import format_age, format_time

Record = Mapping[str, Any]
"""The status record, or a part of it."""

SILENT_S = 120.0
"""Heartbeat age in seconds from which a training slot counts as silent."""
_ORPHANED_S = 600.0
"""Age of the last pass from which the jobs count as making no passes any more."""
_WAIT_PHRASES = {
    WaitReason.CAP.value: "is ready",
    WaitReason.BUDGET.value: "waits: the allocation is used up",
    WaitReason.RESERVATION.value: "waits for the end of a maintenance",
    WaitReason.ADMIN.value: "is held by an administrator",
    WaitReason.NEVER.value: "can never start as it is",
}
_LATE_FACTOR = 5.0
_LATE_LEAST_S = 120.0
_LATE_FIRST_S = 600.0
"""A version is late after five of the run's usual intervals, at least two minutes; the first one
after ten minutes."""
_REASON_LENGTH = 40
"""Most characters of the scheduler's reason."""
_UNFILLED = ("empty", "ends", "silent")


@dataclass(frozen=True, slots=True)
class RunHealth:
    """Holds exit code and sentence; a run that is stopped as requested is healthy too."""

    code: ExitCode
    sentence: str

    @property
    def word(self) -> str:
        """The word ``healthy``, ``degraded``, ``down`` or ``unknown``."""
        return self.code.name.lower() if self.code else "healthy"


def slot_state(slot: Record) -> str:
    """Return the word empty, ends, silent, leaves, suspended, boots (no speed yet) or trains."""
    beat = slot["beat"]
    for holds, state in (
        (not slot["training"], "empty" if slot["job_id"] is None else "ends"),
        ((slot["beat_s"] or 0.0) > SILENT_S, "silent"),
        (slot["leaving"] or beat.get("stage") == "leaving", "leaves"),
        (slot["word"] == "SUSPENDED", "suspended"),
        (not beat.get("steps_per_second"), "boots"),
    ):
        if holds:
            return state
    return "trains"


def describe_late_version(ages: Sequence[float], training_s: float) -> str:
    """Return a clause if no version came for longer than the run's own rhythm, "" otherwise.

    ``ages``: of the newest versions, newest first; ``training_s``: for which a job has trained (s).
    """
    gaps = [older - newer for newer, older in pairwise(ages)]
    usual_s = median(gaps) if gaps else 0.0
    limit_s = max(_LATE_LEAST_S, _LATE_FACTOR * usual_s) if gaps else _LATE_FIRST_S
    if not ages or min(ages[0], training_s) <= limit_s:
        return ""
    usual = f" (usual: {format_age(usual_s)})" if gaps else ""
    return f"no version of the weights came for {format_age(ages[0])}{usual}"


def assess_health(status: Record) -> RunHealth:
    """Return the health of the run in the record that ``status.read_status`` gathered."""
    if status["damage"]:
        return RunHealth(ExitCode.DEGRADED, f"{status['damage']}: type start or stop again")
    if status["mode"] is None:
        return RunHealth(ExitCode.DOWN, "no run was ever started here")
    return _assess_mode(Mode(status["mode"]), status)


def _assess_mode(mode: Mode, status: Record) -> RunHealth:
    queue = status["queue"]
    if not queue["known"] and mode not in (Mode.STOPPED, Mode.DONE):
        return RunHealth(ExitCode.UNKNOWN, _describe_unknown(status))
    jobs = queue["running"] + queue["pending"] if queue["known"] else 0
    if mode is Mode.RUN:
        return _assess_slots(status, jobs)
    if mode is Mode.PAUSED:
        return RunHealth(ExitCode.DEGRADED, f"paused: {status['why']}; type start to go on")
    if jobs:
        return RunHealth(ExitCode.DEGRADED, f"stopping: {jobs} jobs still have to exit")
    since_ts, now = status["intent_ts"], status["ts"] + status["age_s"]
    at = f" at {format_time(since_ts, now)}" if since_ts else ""
    finished = f"the run finished{at}: {status['why'] or 'all steps were made'}"
    stopped = f"the run was stopped{at}, as asked"
    return RunHealth(ExitCode.DONE, finished if mode is Mode.DONE else stopped)


def _describe_unknown(status: Record) -> str:
    seconds, slots = status["age_s"], status["slots"]
    beating = sum(slot["beat_s"] is not None and slot["beat_s"] < SILENT_S for slot in slots)
    beats = f", {beating} of {len(slots)} slots have a heartbeat" if beating else ""
    shown = f"; this is the state of {format_age(seconds)} ago" if seconds >= 1.0 else ""
    return f"the queue cannot be read ({status['queue']['why']}){beats}{shown}"


def _assess_slots(status: Record, jobs: int) -> RunHealth:
    states = [slot["state"] for slot in status["slots"]]
    filled, booting = sum(state not in _UNFILLED for state in states), states.count("boots")
    count = f"{filled - booting} of {len(states)} slots train"
    if booting:
        count += f", {booting} boot{'s' * (booting == 1)}"
    alone = status["controller"]["alive"] is False
    if alone and (health := _assess_without_controller(status, jobs, count)):
        return health
    trouble = next((hold["reason"] for hold in status["breaker"]), status["rollout"])
    if filled < len(states):
        first = status["waiting"][:1]
        waiting = "".join(
            f", job {job['job_id']} {describe_wait(job, full=False)}" for job in first
        )
        return RunHealth(ExitCode.DEGRADED, f"{count}: {trouble}" if trouble else count + waiting)
    if status["late"]:
        return RunHealth(
            ExitCode.DEGRADED, f"{count}, but {status['late']}: type `run_controller logs`"
        )
    return RunHealth(ExitCode.DONE, f"{count}; {trouble}" if trouble else f"all is well: {count}")


def _assess_without_controller(status: Record, jobs: int, count: str) -> RunHealth | None:
    """Return a run's health without a controller; None if jobs make its passes as requested."""
    failover, passed = status["failover"], status["passed_s"]
    recent = passed is not None and passed < _ORPHANED_S
    beats = (slot["beat_s"] for slot in status["slots"])
    beating = any(beat_s is not None and beat_s < SILENT_S for beat_s in beats)
    if jobs == 0 and not beating:
        return RunHealth(ExitCode.DOWN, "no controller and no job is alive: start it again")
    if not status["daemon"] and recent:
        return None
    if failover is not None and failover["on"] and recent:
        sentence = f"{count}; no controller is alive, the jobs make its passes: type start"
        return RunHealth(ExitCode.DEGRADED, sentence)
    return RunHealth(ExitCode.DEGRADED, f"{count}, but no controller is alive: start it")


def assign_successors(status: Record) -> dict[int, Record]:
    """Return slot → waiting job; prefer the job that was submitted to follow the slot's job."""
    waiting = list(status["waiting"])
    assigned: dict[int, Record] = {}
    for slot in sorted(
        status["slots"], key=lambda slot: (slot["training"], slot["leaves_ts"] or inf)
    ):
        candidates = [job for job in waiting if job["after"] in (None, slot["job_id"])]
        if candidates:
            chosen = assigned[slot["slot"]] = min(candidates, key=lambda job: job["after"] is None)
            waiting.remove(chosen)
    return assigned


def describe_wait(job: Record, *, full: bool = True) -> str:
    """Return why a job waits, in words; if all slots train (``full``) one at the cap is *ready*."""
    reason = str(job["why"])[:_REASON_LENGTH]
    if job["held"]:
        return "is held by the controller"
    if job["state"] != "pending":
        return "starts" if job["state"] == "running" else "is not listed yet"
    if job["after"]:
        return f"follows job {job['after']}"
    text = _WAIT_PHRASES.get(job["waits"], "waits its turn")
    if job["waits"] == WaitReason.CAP.value:
        if full:
            return text
        text = "waits: your jobs are at their limit"
    return f"{text} ({reason})" if reason else text
