"""Pure: which waiting job gets which slot, and what it waits for, in a person's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from Daddy.cluster.orchestrator.records import Waits

Record = Mapping[str, Any]

_WORDS = {
    Waits.CAP.value: "is ready",
    Waits.BUDGET.value: "waits: the allocation is used up",
    Waits.RESERVATION.value: "waits for the end of a maintenance",
    Waits.ADMIN.value: "is held by an administrator",
    Waits.NEVER.value: "can never start as it is",
}
_REASON = 40
"""Letters of the scheduler's own word."""


def heirs(status: Record) -> dict[int, Record]:
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
