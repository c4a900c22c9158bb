"""Pure. Assesses a run's health (word, sentence, exit code); assigns waiting jobs to slots."""

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
    WaitReason.CLOSED.value: "cannot start now",
}
_STUCK = (WaitReason.CLOSED.value, WaitReason.NEVER.value, WaitReason.BUDGET.value)
_STARTING_S = 60.0
"""Age of the last ``start`` up to which empty slots are no trouble."""
_LATE_FACTOR = 5.0
_LATE_LEAST_S = 120.0
_LATE_FIRST_S = 600.0
"""A version is late after five of the run's usual intervals, at least two minutes; the first one
after ten minutes."""
_REASON_LENGTH = 40
"""Most characters of the scheduler's reason."""
_UNSUBMITTED_LENGTH = 160
_EMPTY = ("empty", "ends")
_UNFILLED = (*_EMPTY, "silent", "suspended")


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
    """Return the word stopped, empty, ends, silent, leaves, suspended, boots or trains.

    A stopped slot is not to be filled; a job boots until its heartbeat has a speed.
    """
    beat = slot["beat"]
    for holds, state in (
        (slot.get("surplus") and slot["job_id"] is None, "stopped"),
        (not slot["training"], "empty" if slot["job_id"] is None else "ends"),
        (slot["word"] == "SUSPENDED", "suspended"),
        ((slot["beat_s"] or 0.0) > SILENT_S, "silent"),
        (slot["leaving"] or slot.get("surplus") or beat.get("stage") == "leaving", "leaves"),
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
        return _assess_unrecorded(status["queue"])
    return _assess_mode(Mode(status["mode"]), status)


def _assess_unrecorded(queue: Record) -> RunHealth:
    """Return the health of a run without an intent: its folder may have been moved or removed."""
    jobs = queue["running"] + queue["pending"] if queue["known"] else 0
    if not jobs:
        return RunHealth(ExitCode.DOWN, "no run was ever started here")
    names = f"{jobs} job{'s' * (jobs != 1)} of this run {'is' if jobs == 1 else 'are'} in the queue"
    moved = "its folder was moved or removed: move it back, or type stop to cancel them"
    return RunHealth(ExitCode.DEGRADED, f"{names}, and nothing is recorded here: {moved}")


def _assess_mode(mode: Mode, status: Record) -> RunHealth:
    queue = status["queue"]
    if not queue["known"] and mode not in (Mode.STOPPED, Mode.DONE):
        return RunHealth(ExitCode.UNKNOWN, _describe_unknown(status))
    ending = queue.get("ending", ())
    jobs = queue["running"] + queue["pending"] + len(ending) if queue["known"] else 0
    if mode is Mode.RUN:
        return _assess_slots(status, jobs)
    if mode is Mode.PAUSED:
        return RunHealth(ExitCode.DEGRADED, f"paused: {status['why']}; type start to go on")
    if jobs:
        said = f"stopping: {jobs} job{'s' * (jobs != 1)} still to exit{describe_ending(ending)}"
        return RunHealth(ExitCode.DEGRADED, said)
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
    states = [slot["state"] for slot in status["slots"] if not slot.get("surplus")]
    count = _count_slots(status, states)
    if blind_s := status["controller"].get("blind_s"):
        sentence = f"{count}, but the controller cannot read the queue for {format_age(blind_s)}"
        return RunHealth(ExitCode.DEGRADED, f"{sentence}: type start")
    alone = status["controller"]["alive"] is False
    if alone and (health := _assess_without_controller(status, jobs, count)):
        return health
    if status["full"]:
        after = f"once that is mended all goes on by itself; by the last heartbeats {count}"
        return RunHealth(ExitCode.DEGRADED, f"{status['full']}; {after}")
    held = next((hold["reason"] for hold in status["breaker"]), "")
    if {*_UNFILLED}.intersection(states):
        trouble = held or status["rollout"]
        return _assess_unfilled(status, states, f"{count}: {trouble}" if trouble else "", count)
    late = f"{status['late']}: type `run_controller logs`" if status["late"] else ""
    if stuck := held or _describe_stuck(status) or late:
        return RunHealth(ExitCode.DEGRADED, f"{count}, but {stuck}")
    trouble = status["rollout"]
    return RunHealth(ExitCode.DONE, f"{count}; {trouble}" if trouble else f"all is well: {count}")


def _assess_unfilled(status: Record, states: Sequence[str], trouble: str, count: str) -> RunHealth:
    """Return the health of a run some of whose slots do not train: soon after a start it starts."""
    if trouble:
        return RunHealth(ExitCode.DEGRADED, trouble)
    stuck = _describe_stuck(status)
    waiting = f", {stuck}" if stuck else ""
    waiting = _describe_empty(status) if {*_EMPTY}.intersection(states) else waiting
    started_s = status["started_s"]
    if not stuck and started_s is not None and 0 <= started_s < _STARTING_S:
        return RunHealth(ExitCode.DONE, f"starting: {count}{waiting}")
    return RunHealth(ExitCode.DEGRADED, count + waiting)


def _count_slots(status: Record, states: Sequence[str]) -> str:
    """Return the number of slots that train, boot or are suspended, and of jobs beyond them."""
    filled, booting = sum(state not in _UNFILLED for state in states), states.count("boots")
    suspended = states.count("suspended")
    stopped = sum(slot["state"] == "stopped" for slot in status["slots"])
    leaving = len(status["slots"]) - len(states) - stopped
    numbers = (
        (booting, "boots", "boot"),
        (suspended, "is suspended by Slurm", "are suspended by Slurm"),
        (leaving, "more leaves", "more leave"),
        (stopped, "is stopped", "are stopped"),
    )
    parts = [f"{n} {single if n == 1 else plural}" for n, single, plural in numbers if n]
    return ", ".join([f"{filled - booting} of {len(states)} slots train", *parts])


def _describe_stuck(status: Record) -> str:
    """Return the scheduler's reason for which no further job can start, or ""."""
    if reason := status.get("unsubmitted"):
        return f"no further job gets into the queue ({str(reason)[:_UNSUBMITTED_LENGTH]})"
    waiting = [job for job in status["waiting"] if not job["held"]]
    stuck = (job for job in waiting if job["waits"] in _STUCK)
    closed = status["queue"].get("closed") if waiting else ""
    text = f"no further job can start ({closed})" if closed else ""
    return next((f"job {job['job_id']} {describe_wait(job)}" for job in stuck), text)


def _describe_empty(status: Record) -> str:
    """Return the reason for which slots are empty: the first waiting job's, or jobs that end."""
    queue, text = status["queue"], ""
    for job in status["waiting"][:1]:
        text = f", job {job['job_id'] or 'without an id'} {describe_wait(job, full=False)}"
        if job["waits"] == WaitReason.CAP.value and (runs := queue.get("other_runs")):
            text += f": your other run {describe_runs(runs)}"
    if (stuck := _describe_stuck(status)) not in text:
        text += f", {stuck}"
    return text + describe_ending(queue.get("ending", ()))


def describe_runs(runs: Mapping[str, int]) -> str:
    """Return the person's other runs, with the number of their jobs that run."""
    jobs = ((name, f"{number} job{'s' * (number != 1)}") for name, number in runs.items())
    return ", ".join(f"{name} has {number} running" for name, number in jobs)


def describe_ending(jobs: Sequence[Record]) -> str:
    """Return the ended jobs that Slurm still lists as COMPLETING, with their nodes, or ""."""
    names = ", ".join(f"{job['job_id']} on {job['node']}" for job in jobs)
    cause = "COMPLETING: the site's epilog, or a process that does not end"
    return f", job {names} ends ({cause})" if jobs else ""


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
