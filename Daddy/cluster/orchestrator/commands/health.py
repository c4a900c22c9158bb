"""Pure. The health of a run in one word, one sentence and one exit code; and its successors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from Daddy.cluster.orchestrator.records import Mode, Waits
from Daddy.core.errors import ExitCode
from Daddy.core.humanize import age

Record = Mapping[str, Any]
"""The status record, or a part of it."""

SILENT_S = 120.0
"""Age of a beat from which a slot that trains is in trouble; file servers show it late."""
_ORPHANED_S = 600.0
"""Age of the last pass after which a run without a daemon counts as looked after by nobody."""
_WORDS = {
    Waits.CAP.value: "is ready",
    Waits.BUDGET.value: "waits: the allocation is used up",
    Waits.RESERVATION.value: "waits for the end of a maintenance",
    Waits.ADMIN.value: "is held by an administrator",
    Waits.NEVER.value: "can never start as it is",
}
_REASON = 40
"""Letters of the scheduler's own word."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run that does as asked is healthy, also when that is nothing."""

    code: ExitCode
    sentence: str

    @property
    def word(self) -> str:
        """``healthy``, ``degraded``, ``down`` or ``unknown``."""
        return self.code.name.lower() if self.code else "healthy"


def judge(status: Record) -> Verdict:
    """The verdict on the record that ``status.read_status`` gathered."""
    if status["damage"]:
        return Verdict(ExitCode.DEGRADED, f"{status['damage']}: say start or stop again")
    if status["mode"] is None:
        return Verdict(ExitCode.DOWN, "no run was ever started here")
    mode, queue = Mode(status["mode"]), status["queue"]
    if not queue["known"] and mode is not Mode.STOPPED:
        return _blind(status)
    jobs = queue["running"] + queue["pending"] if queue["known"] else 0
    if mode is Mode.PAUSED:
        return Verdict(ExitCode.DEGRADED, f"paused: {status['why']}; say start to go on")
    if mode is not Mode.RUN:
        return _ending(mode, status["why"], jobs)
    return _running(status, jobs)


def _blind(status: Record) -> Verdict:
    why, seconds = status["queue"]["why"], status["age_s"]
    known = f"; shown is what was known {age(seconds)} ago" if seconds >= 1.0 else ""
    beating = sum(1 for slot in status["slots"] if alive(slot))
    beats = f", {beating} of {len(status['slots'])} slots give signs of life" if beating else ""
    return Verdict(ExitCode.UNKNOWN, f"the queue cannot be read ({why}){beats}{known}")


def alive(slot: Record) -> bool:
    """True if a slot's learner was heard of lately, whatever the queue says."""
    return slot["beat_s"] is not None and slot["beat_s"] < SILENT_S


def _ending(mode: Mode, why: str, jobs: int) -> Verdict:
    if jobs:
        return Verdict(ExitCode.DEGRADED, f"stopping: {jobs} jobs still have to leave")
    if mode is Mode.DONE:
        return Verdict(ExitCode.DONE, f"the run is done: {why or 'all steps were made'}")
    return Verdict(ExitCode.DONE, "the run is stopped, as asked")


def _running(status: Record, jobs: int) -> Verdict:
    slots = status["slots"]
    filled = [slot for slot in slots if slot["training"] and (slot["beat_s"] or 0) < SILENT_S]
    count = _count(filled, len(slots))
    if status["controller"]["alive"] is False and (left := _left_alone(status, jobs, count)):
        return left
    if len(filled) < len(slots):
        return Verdict(ExitCode.DEGRADED, f"{count}{_because(status)}")
    if status["breaker"] or status["rollout"]:
        return Verdict(ExitCode.DONE, f"{count}; {_first_trouble(status)}")
    return Verdict(ExitCode.DONE, f"all is well: {count}")


def _count(filled: Sequence[Record], slots: int) -> str:
    """A slot whose job boots is no trouble, but does not train yet."""
    booting = sum(boots(slot) for slot in filled)
    count = f"{len(filled) - booting} of {slots} slots train"
    return f"{count}, {booting} boot{'s' * (booting == 1)}" if booting else count


def boots(slot: Record) -> bool:
    """True if a filled slot's learner has not told its speed yet, though it may go on."""
    return not (slot["beat"].get("steps_per_second") or leaves(slot) or is_suspended(slot))


def leaves(slot: Record) -> bool:
    """True if a filled slot's learner was asked to leave, or is about to."""
    return bool(slot["leaving"]) or slot["beat"].get("stage") == "leaving"


def is_suspended(slot: Record) -> bool:
    """True if somebody holds a filled slot's job."""
    return bool(slot["word"] == "SUSPENDED")


def _left_alone(status: Record, jobs: int, count: str) -> Verdict | None:
    """No controller lives: what that means; None where none is wanted and the jobs do its work."""
    failover, passed = status["failover"], status["passed_s"]
    lately = passed is not None and passed < _ORPHANED_S
    if jobs == 0:
        return Verdict(ExitCode.DOWN, "no controller and no job is alive: start it again")
    if not status["daemon"] and lately:
        return None
    if failover is not None and failover["on"] and lately:
        said = f"{count}; no controller is alive, the jobs make its passes: start brings one back"
        return Verdict(ExitCode.DEGRADED, said)
    return Verdict(ExitCode.DEGRADED, f"{count}, but no controller is alive: start it")


def _because(status: Record) -> str:
    if status["breaker"] or status["rollout"]:
        return f": {_first_trouble(status)}"
    if not status["waiting"]:
        return ""
    first = status["waiting"][0]
    return f", job {first['job_id']} {waits_for(first, full=False)}"


def _first_trouble(status: Record) -> str:
    said: list[str] = [hold["reason"] for hold in status["breaker"]]
    return str([*said, status["rollout"]][0])


def successors(status: Record) -> dict[int, Record]:
    """Slot → the job that gets it: its own follower, else the next in line as slots are left."""
    far = float("inf")
    order = sorted(
        status["slots"],
        key=lambda one: (one["training"], far if one["leaves_ts"] is None else one["leaves_ts"]),
    )
    waiting = list(status["waiting"])
    found: dict[int, Record] = {}
    for slot in order:
        own = [one for one in waiting if one["after"] and one["after"] == slot["job_id"]]
        free = [one for one in waiting if not one["after"]]
        chosen = next(iter([*own, *free]), None)
        if chosen is not None:
            found[slot["slot"]] = chosen
            waiting.remove(chosen)
    return found


def waits_for(one: Record, *, full: bool = True) -> str:
    """A job that only waits for one of our places is *ready*: it starts at once.

    Unless a slot is empty (not ``full``): then something else of the person's holds the place.
    """
    why = str(one["why"])[:_REASON]
    if one["held"]:
        return "is held back by us"
    if one["state"] != "pending":
        return "starts" if one["state"] == "running" else "is not seen yet"
    if one["after"]:
        return f"follows job {one['after']}"
    told = _WORDS.get(one["waits"], "waits its turn")
    if one["waits"] == Waits.CAP.value:
        if full:
            return told
        told = "waits: your jobs are at their limit"
    return f"{told} ({why})" if why else told
