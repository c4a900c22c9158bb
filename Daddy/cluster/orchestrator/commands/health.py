"""Pure. The health of a run in one word, one sentence and one exit code; and its successors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from Daddy.cluster.orchestrator.controller_records import Mode, WaitReason
from Daddy.core.errors import ExitCode
from Daddy.core.humanize import format_age

Record = Mapping[str, Any]
"""The status record, or a part of it."""

SILENT_S = 120.0
"""Age of a beat from which a slot that trains is in trouble; file servers show it late."""
_ORPHANED_S = 600.0
"""Age of the last pass after which a run without a daemon counts as looked after by nobody."""
_WORDS = {
    WaitReason.CAP.value: "is ready",
    WaitReason.BUDGET.value: "waits: the allocation is used up",
    WaitReason.RESERVATION.value: "waits for the end of a maintenance",
    WaitReason.ADMIN.value: "is held by an administrator",
    WaitReason.NEVER.value: "can never start as it is",
}
_REASON = 40
"""Letters of the scheduler's own word."""
_UNFILLED = ("empty", "ends", "silent")


@dataclass(frozen=True, slots=True)
class RunHealth:
    """A run that does as asked is healthy, also when that is nothing."""

    code: ExitCode
    sentence: str

    @property
    def word(self) -> str:
        """``healthy``, ``degraded``, ``down`` or ``unknown``."""
        return self.code.name.lower() if self.code else "healthy"


def slot_state(slot: Record) -> str:
    """``empty``, ``ends``, ``silent``, ``leaves``, ``suspended``, ``boots`` or ``trains``.

    A learner boots until it has told its speed, unless it is not to go on.
    """
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


def assess_health(status: Record) -> RunHealth:
    """The verdict on the record that ``status.read_status`` gathered."""
    if status["damage"]:
        return RunHealth(ExitCode.DEGRADED, f"{status['damage']}: say start or stop again")
    if status["mode"] is None:
        return RunHealth(ExitCode.DOWN, "no run was ever started here")
    return _judge_mode(Mode(status["mode"]), status)


def _judge_mode(mode: Mode, status: Record) -> RunHealth:
    queue = status["queue"]
    if not queue["known"] and mode not in (Mode.STOPPED, Mode.DONE):
        return RunHealth(ExitCode.UNKNOWN, _blind(status))
    jobs = queue["running"] + queue["pending"] if queue["known"] else 0
    if mode is Mode.RUN:
        return _running(status, jobs)
    if mode is Mode.PAUSED:
        return RunHealth(ExitCode.DEGRADED, f"paused: {status['why']}; say start to go on")
    if jobs:
        return RunHealth(ExitCode.DEGRADED, f"stopping: {jobs} jobs still have to leave")
    done = f"the run is done: {status['why'] or 'all steps were made'}"
    return RunHealth(ExitCode.DONE, done if mode is Mode.DONE else "the run is stopped, as asked")


def _blind(status: Record) -> str:
    seconds, slots = status["age_s"], status["slots"]
    beating = sum(slot["beat_s"] is not None and slot["beat_s"] < SILENT_S for slot in slots)
    beats = f", {beating} of {len(slots)} slots give signs of life" if beating else ""
    known = f"; shown is what was known {format_age(seconds)} ago" if seconds >= 1.0 else ""
    return f"the queue cannot be read ({status['queue']['why']}){beats}{known}"


def _running(status: Record, jobs: int) -> RunHealth:
    states = [slot["state"] for slot in status["slots"]]
    filled, booting = sum(state not in _UNFILLED for state in states), states.count("boots")
    count = f"{filled - booting} of {len(states)} slots train"
    if booting:
        count += f", {booting} boot{'s' * (booting == 1)}"
    if status["controller"]["alive"] is False and (left := _left_alone(status, jobs, count)):
        return left
    trouble = next((hold["reason"] for hold in status["breaker"]), status["rollout"])
    if filled < len(states):
        waiting = "".join(
            f", job {job['job_id']} {describe_wait(job, full=False)}"
            for job in status["waiting"][:1]
        )
        return RunHealth(ExitCode.DEGRADED, f"{count}: {trouble}" if trouble else count + waiting)
    return RunHealth(ExitCode.DONE, f"{count}; {trouble}" if trouble else f"all is well: {count}")


def _left_alone(status: Record, jobs: int, count: str) -> RunHealth | None:
    """No controller lives: what that means; None where none is wanted and the jobs do its work."""
    failover, passed = status["failover"], status["passed_s"]
    lately = passed is not None and passed < _ORPHANED_S
    if jobs == 0:
        return RunHealth(ExitCode.DOWN, "no controller and no job is alive: start it again")
    if not status["daemon"] and lately:
        return None
    if failover is not None and failover["on"] and lately:
        said = f"{count}; no controller is alive, the jobs make its passes: start brings one back"
        return RunHealth(ExitCode.DEGRADED, said)
    return RunHealth(ExitCode.DEGRADED, f"{count}, but no controller is alive: start it")


def assign_successors(status: Record) -> dict[int, Record]:
    """Slot → the job that gets it: its own follower, else the next in line as slots are left."""
    waiting = list(status["waiting"])
    found: dict[int, Record] = {}
    for slot in sorted(
        status["slots"], key=lambda slot: (slot["training"], slot["leaves_ts"] or inf)
    ):
        fit = [job for job in waiting if job["after"] in (None, slot["job_id"])]
        if fit:
            chosen = found[slot["slot"]] = min(fit, key=lambda job: job["after"] is None)
            waiting.remove(chosen)
    return found


def describe_wait(job: Record, *, full: bool = True) -> str:
    """A job that only waits for one of our places is *ready*: it starts at once.

    Unless a slot is empty (not ``full``): then something else of the person's holds the place.
    """
    why = str(job["why"])[:_REASON]
    if job["held"]:
        return "is held back by us"
    if job["state"] != "pending":
        return "starts" if job["state"] == "running" else "is not seen yet"
    if job["after"]:
        return f"follows job {job['after']}"
    told = _WORDS.get(job["waits"], "waits its turn")
    if job["waits"] == WaitReason.CAP.value:
        if full:
            return told
        told = "waits: your jobs are at their limit"
    return f"{told} ({why})" if why else told
