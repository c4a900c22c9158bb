"""Pure: the status record as text for a terminal, plain enough for a pipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from Daddy.core.duration import format_duration

_MARKS = {"healthy": "●", "degraded": "◐", "down": "○", "unknown": "?"}


def show(run_name: str, status: Mapping[str, Any], now: float) -> str:
    """One screen: the verdict first, then controller, slots, queue, reasons, what happened last."""
    lines = [f"{_MARKS[status['verdict']]} {run_name}: {status['said']}"]
    lines += [f"  game        {status['game'] or '–'}"]
    lines += [f"  controller  {_controller(status['controller'])}"]
    lines += [f"  queue       {_queue(status)}"]
    if steps := status.get("steps"):
        lines += [f"  steps       {_steps(steps)}"]
    lines += [_slot(slot, now) for slot in status["slots"]]
    lines += [f"  waiting     {_waiting(one)}" for one in status["waiting"]]
    lines += [f"  because     {reason}" for reason in status["reasons"]]
    lines += [f"  last        {_last(one, now)}" for one in reversed(status["last"])]
    return "\n".join(lines)


def _controller(controller: Mapping[str, Any]) -> str:
    if controller["alive"] is False:
        return "none is alive"
    sure = "" if controller["alive"] else " (another host: judged by its last summary)"
    return f"pid {controller['pid']} on {controller['host']}, term {controller['term']}{sure}"


def _queue(status: Mapping[str, Any]) -> str:
    queue, where = status["queue"], status["executor"]
    if not queue["known"]:
        return f"{where}: cannot be read ({queue['why']})"
    return f"{where}: {queue['running']} running, {queue['pending']} pending"


def _steps(steps: Mapping[str, int]) -> str:
    if not steps["total"]:
        return f"{steps['done']:,} (no limit)"
    return f"{steps['done']:,} of {steps['total']:,} ({steps['done'] / steps['total']:.1%})"


def _slot(slot: Mapping[str, Any], now: float) -> str:
    head = f"  slot {slot['slot']:<6} "
    made = f"checkpoint at {slot['checkpoint_step']:,}"
    if not slot["training"]:
        return f"{head}empty, {made}"
    left = slot["ends_ts"] - now if slot["ends_ts"] else None
    wall = f", {format_duration(left)} left" if left is not None else ""
    node = f" on {slot['node']}" if slot["node"] else ""
    speed = slot.get("beat", {}).get("steps_per_second")
    rate = f", {speed:,.0f} steps/s" if isinstance(speed, int | float) else ""
    return f"{head}trains: job {slot['job_id']}{node}{wall}{rate}, {made}"


def _waiting(one: Mapping[str, Any]) -> str:
    job = f"job {one['job_id']}" if one["job_id"] is not None else "a job without a number yet"
    why = f" ({one['why']})" if one["why"] else ""
    return f"{job} {one['state']}{why}"


def _last(one: Mapping[str, Any], now: float) -> str:
    ago = format_duration(now - one["ts"]) if one["ts"] else "?"
    slot = f"slot {one['slot']}" if one["slot"] is not None else "no slot"
    return f"{ago} ago: job {one['job_id']} ({slot}) {one['outcome']}: {one['reason']}"
