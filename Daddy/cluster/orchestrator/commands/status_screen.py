"""Pure. Draws the status record as one screen: the verdict first, then slots, totals and last ends.

Drawn with rich: in colour on a terminal, as plain lines in a pipe; no line needs its colour to be
understood. A narrow screen shows the successors in a line of their own, and fewer columns.
"""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from Daddy.cluster.orchestrator.commands.health_verdict import (
    Record,
    assign_successors,
    describe_ending,
    describe_runs,
    describe_wait,
)
from Daddy.core.humanize import format_age, format_count, format_span, format_time, printable_line
from Daddy.core.screen_tables import make_table

WIDE = 104
"""Columns from which the table has a column of successors."""
_MARKS = {
    "healthy": ("●", "bold green"),
    "degraded": ("◐", "bold yellow"),
    "down": ("○", "bold red"),
    "unknown": ("?", "bold magenta"),
}
_STYLES = {
    "empty": "bold red",
    "stopped": "dim",
    "ends": "yellow",
    "silent": "bold red",
    "leaves": "yellow",
    "left": "dim",
    "suspended": "magenta",
    "boots": "cyan",
    "trains": "green",
}
_OUTCOMES = {"crashed": "red", "hung": "red", "not launched": "red", "refused": "red"}
_SOON_S = 300.0
"""Seconds before its exit from which a job's remaining time is coloured."""
_REASON = 90
"""Most characters of a reason that are shown."""
_BAR = 24
_MARGIN = 2
_LEAST_SLOTS = ("waited", "beat", "elapsed", "node", "checkpoint", "steps/s", "leaves in", "then")
"""Columns that a narrow screen of the slots lacks, the first of them first."""


def render_screen(run_name: str, status: Record, now: float, width: int = 160) -> RenderableType:
    """Return the whole screen, ``width`` columns wide; ``now`` in wall seconds."""
    wide, inner = width >= WIDE, width - _MARGIN
    mark, style = _MARKS[status["verdict"]]
    first = Text.assemble((f"{mark} {run_name}", style), f": {status['said']}")
    time = f"   {format_time(now, now)}"
    first.append(time if len(first) + len(time) <= width else "", "dim")
    parts: list[RenderableType] = [Text(trouble, "yellow") for trouble in _troubles(status)]
    if status["slots"]:
        parts += [Text(), _slots(status, now, inner, wide=wide)]
    if status["others"]["jobs"]:
        parts += [Text(), _others(status["others"]["jobs"], inner)]
    rows = ((Text(name, "dim"), text) for name, text in _facts(status, now, wide=wide))
    parts += [Text(), make_table(["", ""], rows, inner)]
    if status["last"]:
        titles, narrow = ["", "ended", "job", "outcome"], ["ended", ""]
        last = make_table(titles, _last(status["last"], now), inner, narrow)
        last.show_header = False
        parts += [Text(), last]
    return Group(first, Padding(Group(*parts), (0, 0, 0, _MARGIN)))


def _troubles(status: Record) -> Iterator[str]:
    """Yield each problem of the run that the status sentence does not mention."""
    troubles = [hold["reason"] for hold in status["breaker"]] + [status["rollout"]]
    troubles += [
        f"slot {slot['slot']} has had no heartbeat for {format_age(slot['beat_s'])}"
        for slot in status["slots"]
        if slot["state"] == "silent"
    ]
    troubles += map(printable_line, status["others"]["troubles"])
    if status["excluded"]:
        troubles.append(f"excluded for a day: {', '.join(status['excluded'])}")
    if status["verdict"] == "degraded":
        troubles += [reason for reason in status["reasons"] if "slots train" not in reason]
    yield from (trouble for trouble in dict.fromkeys(troubles) if trouble not in status["said"])


def _slots(status: Record, now: float, width: int, *, wide: bool) -> Table:
    titles = [">slot", "state", ">job", "node", ">waited", ">elapsed", ">steps/s", ">leaves in",
              "checkpoint", ">beat"]  # fmt: skip
    rows = [_slot(slot, now, wanted=status["mode"] == "run") for slot in status["slots"]]
    if wide:
        followed = assign_successors(status)
        titles.append("then")
        for slot, row in zip(status["slots"], rows, strict=True):
            row.append(_successor_cell(slot, followed.get(slot["slot"]), status, now))
    return make_table(titles, rows, width, _LEAST_SLOTS)


def _slot(slot: Record, now: float, *, wanted: bool) -> list[Text | str]:
    rate = slot["beat"].get("steps_per_second") if slot["training"] else None
    leaves, beat, state = slot["leaves_ts"], slot["beat_s"], slot["state"]
    asked, started = slot.get("intended_ts"), slot["started_ts"]
    soon, silent = leaves is not None and leaves - now < _SOON_S, state == "silent"
    return [
        str(slot["slot"]),
        Text(state, "dim" if state == "empty" and not wanted else _STYLES[state]),
        str(slot["job_id"] or ""),
        str(slot["node"] or ""),
        format_age(started - asked) if asked and started else "",
        format_age(now - started) if started else "",
        format_count(rate) if isinstance(rate, int | float) else "",
        Text(format_span(leaves - now) if leaves is not None else "", "yellow" if soon else ""),
        _checkpoint(slot),
        Text("" if beat is None else format_age(beat), "bold red" if silent else "dim"),
    ]


def _checkpoint(slot: Record) -> Text:
    if not slot["checkpoint_step"]:
        return Text("none yet", "dim")
    seconds = slot["checkpoint_s"]
    text = Text("" if seconds is None else f"{format_age(seconds)} ago ")
    return text.append(f"at {format_count(slot['checkpoint_step'])}", "dim")


def _successor_cell(slot: Record, successor: Record | None, status: Record, now: float) -> Text:
    """Return the slot's release if it is not the wanted one, and its successor with the wait."""
    text = Text(f"runs {slot['release']}; " if _differs(slot, status) else "", "magenta")
    if successor is not None:
        wait = _describe_wait(successor, status, now)
        return Text.assemble(text, f"{_job_name(successor)} ", wait, _waited([successor], now))
    return text.append("no successor" if status["mode"] == "run" else "", "dim")


def _differs(slot: Record, status: Record) -> bool:
    """Return True if a slot runs another release than the intent names."""
    return bool(slot["release"] and status["release"] and slot["release"] != status["release"])


def _job_name(job: Record) -> str:
    return str(job["job_id"] or "a job without an id yet")


def _waited(jobs: Sequence[Record], now: float) -> str:
    """Return the longest time since one of the waiting jobs was submitted."""
    stamps = [stamp for job in jobs if (stamp := job.get("intended_ts"))]
    most = "up to " if len(jobs) > 1 else ""
    return f", waited {most}{format_age(now - min(stamps))}" if stamps else ""


def _describe_wait(job: Record, status: Record, now: float) -> Text:
    """Return the reason of a job's wait, and its expected start."""
    full, at_cap = all(slot["training"] for slot in status["slots"]), job["waits"] == "cap"
    text = Text(describe_wait(job, full=full), "green" if at_cap and full else "dim")
    expected = job["expected_ts"]
    return text.append(f", expected {format_time(expected, now)}" if expected else "")


def _waiting(status: Record, now: float) -> Text:
    """Return the waiting jobs, those with the same reason together."""
    waits, alike = dict[str, Text](), dict[str, list[Record]]()
    for job in status["waiting"]:
        wait = _describe_wait(job, status, now)
        waits[wait.plain] = wait
        alike.setdefault(wait.plain, []).append(job)
    return Text("; ").join(
        Text(", ".join(map(_job_name, jobs)) + (": each " if len(jobs) > 1 else " "))
        .append_text(waits[wait])
        .append(_waited(jobs, now))
        for wait, jobs in alike.items()
    )


def _others(jobs: Sequence[Record], width: int) -> Table:
    rows = (
        (
            job["account"],
            job["peer"],
            Text(job["state"], _STYLES[job["state"]]),
            f"v{job['version']}" + (f" (-{job['behind']})" if job["behind"] else ""),
            f"{job['steps']:,}",
            Text(format_age(job["beat_s"]), "dim"),
        )
        for job in jobs
    )
    titles = ["account", "job", "state", "on", ">steps", ">beat"]
    return make_table(titles, rows, width, ("beat", "on", "account", "steps"))


def _last(ends: Sequence[Record], now: float) -> Iterator[list[Text]]:
    for place, end in enumerate(reversed(ends)):
        slot = f"slot {end['slot']}" if end["slot"] is not None else "no slot"
        job = f"job {end['job_id']}" if end["job_id"] is not None else "no job"
        why = f": {end['reason'][:_REASON]}" if end["reason"] not in ("", end["outcome"]) else ""
        yield [
            Text("last    " if place == 0 else "", "dim"),
            Text(format_time(end["ts"], now) if end["ts"] else "?", "dim"),
            Text(f"{slot}, {job}"),
            Text(f"{end['outcome']}{why}", _OUTCOMES.get(end["outcome"], "dim")),
        ]


def _facts(status: Record, now: float, *, wide: bool) -> Iterator[tuple[str, Text]]:
    """Yield label and text of each line below the slots: steps, hours, queue, controller …"""
    if not wide and status["waiting"]:
        yield "waiting", _waiting(status, now)
    if not wide and (other := [slot for slot in status["slots"] if _differs(slot, status)]):
        runs = ", ".join(f"slot {slot['slot']} runs {slot['release']}" for slot in other)
        yield "releases", Text(runs, "magenta")
    if (leave := status["next_handover"]) and status["mode"] == "run":
        yield "next", Text(f"slot {leave['slot']} hands over in {format_span(leave['ts'] - now)}")
    count, mirror = status["versions_per_hour"], status["mirror"] or {}
    versions = (
        "no version yet"
        if count is None
        else f"{count} version{'s' * (count != 1)} in the last hour"
    )
    yield "steps", _steps(status["steps"], status["done_ts"], now)
    yield "GPU time", _hours(status)
    yield "sharing", _phrases(versions, (_aged(mirror, "worse", now), "bold yellow"))
    if mirror:
        yield "mirror", _mirror(mirror, now)
    if status["watch"]:
        yield "watch", Text(status["watch"])
    if status["join"]:
        yield "join", Text(status["join"])
    yield "queue", _queue(status, now)
    yield "control", _control(status, now)
    if status["game"]:
        yield "plays", Text(f"{status['game']}, release {status['release']}")


def _phrases(*phrases: str | tuple[object, str]) -> Text:
    """Join phrases, each with an optional style, by semicolons; skip empty ones."""
    styled = (phrase if isinstance(phrase, tuple) else (phrase, "") for phrase in phrases)
    return Text("; ").join(Text(str(words), style) for words, style in styled if words)


def _steps(steps: Record, done_ts: float | None, now: float) -> Text:
    steps_done, total = steps["done"], steps["total"]
    speed = f", {format_count(steps['per_second'])} steps/s" if steps["per_second"] else ""
    if not total:
        return Text(f"{format_count(steps_done)} and no end set{speed}")
    share = min(1.0, steps_done / total)
    full = round(_BAR * share)
    bar = Text.assemble(("━" * full, "green"), ("─" * (_BAR - full), "dim"))
    pace = f", done {format_time(done_ts, now)} at this pace" if done_ts else ""
    end = ", done" if steps_done >= total else pace
    return bar.append(
        f" {share:.1%}: {format_count(steps_done)} of {format_count(total)}{speed}{end}"
    )


def _hours(status: Record) -> Text:
    hours = status["hours"]
    used, available, budget = hours["used"], hours["available"], hours["budget"]
    digits = 1 if available >= 10 else 3  # noqa: PLR2004 - a short run needs more digits
    boots = [slot["boot_s"] for slot in status["slots"] if isinstance(slot["boot_s"], int | float)]
    return _phrases(
        f"{used / (available or 1.0):.1%} used in the last {format_age(hours['window_s'])}: "
        f"{used:.{digits}f} of {available:.{digits}f} {hours['unit']}",
        f"jobs boot in {sum(boots) / len(boots):.1f} s" if boots else "",
        f"{hours['spent']:.1f} of {budget:g} of the budget" if budget else "",
    )


def _mirror(copied: Record, now: float) -> Text:
    """Return the version that is copied to the mirror; then failures and missing files."""
    state, trouble = "", _aged(copied, "trouble", now)
    if copied.get("version") is not None:
        since = format_age(now - float(copied["copied_ts"]))
        state = f"v{copied['version']}, copied {since} ago to {copied['folder']}"
    elif not trouble:
        state = f"{format_age(now - float(copied['ts']))} ago: nothing to copy yet"
    return _phrases(state, (trouble, "yellow"), (_aged(copied, "holes", now), "yellow"))


def _aged(copied: Record, name: str, now: float) -> str:
    """Return a text of the mirror's note after the note's age; empty if the text is."""
    text = copied.get(name)
    return f"{format_age(now - float(copied['ts']))} ago: {text}" if text else ""


def _queue(status: Record, now: float) -> Text:
    queue, chaining = status["queue"], status["chaining"]
    where = status["executor"] or "nowhere"
    if not queue["known"]:
        return Text(f"{where}: not known ({queue['why'][:200]})", "magenta")
    others, closed_ts = queue["others"], queue["maintenance_ts"]
    return _phrases(
        f"{where}: {queue['running']} run, {queue['pending']} wait"
        + describe_ending(queue.get("ending", ()))
        + (f", {others} more of yours" if others else "")
        + (f" ({describe_runs(runs)})" if (runs := queue.get("other_runs")) else ""),
        f"successors: {chaining['mode']} ({chaining['how']})",
        (closed_ts and f"maintenance from {format_time(closed_ts, now)}", "yellow"),
    )


def _control(status: Record, now: float) -> Text:
    lease, failover, calls = status["controller"], status["failover"], status["calls_today"]
    text, style = "no daemon is wanted: the jobs make the passes", ""
    if lease["alive"] is not False:
        doubt = "" if lease["alive"] else " (another host)"
        pid, host = lease.get("pid", "?"), lease.get("host", "?")
        text = f"pid {pid} on {host}{doubt}, term {lease['term']}"
    elif status["daemon"]:
        text, style = "no controller is alive", "yellow" if status["mode"] == "run" else ""
    if status["passed_s"] is not None:
        text += f", last pass {format_age(status['passed_s'])} ago"
    how = "on" if failover and failover["on"] else f"off ({failover['how']})" if failover else ""
    if failover and not failover["on"] and failover.get("ts"):
        how = f"{how}, tried {format_age(now - failover['ts'])} ago"
    return _phrases(
        (text, style),
        f"{format_count(calls)} scheduler calls today" if calls is not None else "",
        f"failover {how}" if how else "",
    )
