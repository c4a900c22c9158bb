"""Pure. The status record as one screen: the verdict first, then what a person asks next.

Drawn with rich: a terminal gets colours, a pipe plain lines; no line needs a colour to be
understood. Narrow terminals get the successors in a line of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from Daddy.cluster.orchestrator.commands.health import (
    SILENT_S,
    Record,
    boots,
    is_suspended,
    leaves,
    successors,
    waits_for,
)
from Daddy.core.humanize import age, amount, clock, one_line, span

WIDE = 104
"""Columns from which each slot's successor fits beside it."""
_MARKS = {
    "healthy": ("●", "bold green"),
    "degraded": ("◐", "bold yellow"),
    "down": ("○", "bold red"),
    "unknown": ("?", "bold magenta"),
}
_OUTCOMES = {"crashed": "red", "hung": "red", "not launched": "red", "refused": "red"}
_SOON_S = 300.0
"""Before a slot changes hands its time is drawn in another colour."""
_REASON = 90
"""Letters of a learner's reason that are shown."""
_BAR = 24


def draw(run_name: str, status: Record, now: float, width: int = 160) -> RenderableType:
    """The whole screen, ``width`` columns wide; ``now`` in wall seconds."""
    parts: list[RenderableType] = [_verdict(run_name, status, now, width)]
    parts += [_indented(Text(line, "yellow")) for line in _troubles(status)]
    if status["slots"]:
        parts += [Text(), _indented(_slots(status, now, wide=width >= WIDE))]
    if status["others"]["jobs"]:
        parts += [Text(), _indented(_others(status["others"]["jobs"]))]
    parts += [Text(), _indented(_facts(status, now, wide=width >= WIDE))]
    if status["last"]:
        parts += [Text(), _indented(_last(status["last"], now))]
    return Group(*parts)


def _indented(what: RenderableType) -> Padding:
    return Padding(what, (0, 0, 0, 2), expand=False)


def _verdict(run_name: str, status: Record, now: float, width: int) -> Text:
    mark, style = _MARKS[status["verdict"]]
    text = Text.assemble((f"{mark} {run_name}", style), f": {status['said']}")
    time = f"   {clock(now, now)}"
    return text.append(time, "dim") if len(text) + len(time) <= width else text


def _troubles(status: Record) -> Iterator[str]:
    """Troubles beyond the verdict, each once."""
    said = status["said"]
    told = [one["reason"] for one in status["breaker"]]
    told += [status["rollout"]] if status["rollout"] else []
    told += [
        f"slot {slot['slot']} has given no sign of life for {age(slot['beat_s'])}"
        for slot in status["slots"]
        if (slot["beat_s"] or 0.0) > SILENT_S
    ]
    told += [one_line(one) for one in status["others"]["troubles"]]
    if status["excluded"]:
        told.append(f"left out for a day: {', '.join(status['excluded'])}")
    if status["verdict"] == "degraded":
        told += [one for one in status["reasons"] if "slots train" not in one]
    yield from (one for one in dict.fromkeys(told) if one not in said)


def _table(*titles: str) -> Table:
    """A table with a column for each title; those marked with > stand right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in titles:
        side: Literal["left", "right"] = "right" if title.startswith(">") else "left"
        table.add_column(title.lstrip(">"), justify=side, no_wrap=title != "then", overflow="fold")
    return table


def _slots(status: Record, now: float, *, wide: bool) -> Table:
    columns = [">slot", "state", ">job", "node", ">steps/s", ">leaves in", "checkpoint", ">beat"]
    table = _table(*columns, *["then"] * wide)
    followed = successors(status)
    for slot in status["slots"]:
        cells = _slot(slot, now, wanted=status["mode"] == "run")
        if wide:
            cells.append(_then(slot, followed.get(slot["slot"]), status, now))
        table.add_row(*cells)
    return table


def _slot(slot: Record, now: float, *, wanted: bool) -> list[Text]:
    word, style = _state(slot)
    style = "dim" if word == "empty" and not wanted else style
    rate = slot["beat"].get("steps_per_second") if slot["training"] else None
    leaves, beat = slot["leaves_ts"], slot["beat_s"]
    soon = leaves is not None and leaves - now < _SOON_S
    return [
        Text(str(slot["slot"])),
        Text(word, style),
        Text(str(slot["job_id"] or "")),
        Text(str(slot["node"] or "")),
        Text(amount(rate) if isinstance(rate, int | float) else ""),
        Text(span(leaves - now) if leaves is not None else "", "yellow" if soon else ""),
        _checkpoint(slot),
        Text("" if beat is None else age(beat), "bold red" if (beat or 0) > SILENT_S else "dim"),
    ]


def _state(slot: Record) -> tuple[str, str]:
    if not slot["training"]:
        return ("empty", "bold red") if slot["job_id"] is None else ("ends", "yellow")
    if (slot["beat_s"] or 0.0) > SILENT_S:
        return "silent", "bold red"
    if leaves(slot):
        return "leaves", "yellow"
    if is_suspended(slot):
        return "suspended", "magenta"
    return ("boots", "cyan") if boots(slot) else ("trains", "green")


def _checkpoint(slot: Record) -> Text:
    """Its age, which is what could be lost, and its steps."""
    if not slot["checkpoint_step"]:
        return Text("none yet", "dim")
    seconds = slot["checkpoint_s"]
    text = Text("" if seconds is None else f"{age(seconds)} ago ")
    return text.append(f"at {amount(slot['checkpoint_step'])}", "dim")


def _then(slot: Record, successor: Record | None, status: Record, now: float) -> Text:
    """The successor and why it waits; or which release runs, where that is not the wanted one."""
    text = Text()
    if _differs(slot, status):
        text.append(f"runs {slot['release']}; ", "magenta")
    if successor is not None:
        return text.append(_told_successor(successor, status, now))
    return text.append("nobody waits" if status["mode"] == "run" else "", "dim")


def _others(jobs: Sequence[Record]) -> Table:
    """Other accounts' jobs, as far as their heartbeats and the newest version tell."""
    table = _table("account", "job", "state", "on", ">steps", ">beat")
    for one in jobs:
        style = {"trains": "green", "silent": "bold red", "left": "dim"}[one["state"]]
        behind = f" (-{one['behind']})" if one["behind"] else ""
        table.add_row(
            Text(one["account"]),
            Text(one["peer"]),
            Text(one["state"], style),
            Text(f"v{one['version']}{behind}"),
            Text(f"{one['steps']:,}"),
            Text(age(one["beat_s"]), "dim"),
        )
    return table


def _last(ends: Sequence[Record], now: float) -> Table:
    table = Table.grid(padding=(0, 2))
    for _ in range(4):
        table.add_column(overflow="fold")
    for place, one in enumerate(reversed(ends)):
        slot = f"slot {one['slot']}" if one["slot"] is not None else "no slot"
        when = clock(one["ts"], now) if one["ts"] else "?"
        job = f"job {one['job_id']}" if one["job_id"] is not None else "no job"
        why = one["reason"] if one["reason"] != one["outcome"] else ""
        said = f"{one['outcome']}: {why[:_REASON]}" if why else one["outcome"]
        table.add_row(
            Text("last    " if place == 0 else "", "dim"),
            Text(when, "dim"),
            f"{slot}, {job}",
            Text(said, _OUTCOMES.get(one["outcome"], "dim")),
        )
    return table


def _facts(status: Record, now: float, *, wide: bool) -> Table:
    """Two columns: what it is called, what it is."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _rows(status, now, wide=wide):
        table.add_row(name, text)
    return table


def _rows(status: Record, now: float, *, wide: bool) -> Iterator[tuple[str, Text]]:
    if not wide and status["waiting"]:
        yield (
            "in line",
            Text(", ").join(_told_successor(one, status, now) for one in status["waiting"]),
        )
    if not wide and (other := [slot for slot in status["slots"] if _differs(slot, status)]):
        runs = ", ".join(f"slot {slot['slot']} runs {slot['release']}" for slot in other)
        yield "releases", Text(runs, "magenta")
    if status["next_handover"] is not None:
        leave = status["next_handover"]
        yield "next", Text(f"slot {leave['slot']} hands over in {span(leave['ts'] - now)}")
    yield "steps", _steps(status["steps"], status["done_ts"], now)
    yield "GPU time", _hours(status)
    yield "sharing", _sharing(status)
    if status.get("mirror"):
        yield "mirror", _mirror(status["mirror"], now)
    if status.get("watch"):
        yield "watch", Text(status["watch"])
    yield "queue", _queue(status, now)
    yield "control", _control(status)
    if status["game"]:
        yield "plays", Text(f"{status['game']}, release {status['release']}")


def _steps(steps: Record, done_ts: float | None, now: float) -> Text:
    done, total = steps["done"], steps["total"]
    speed = f", {amount(steps['per_second'])} steps/s" if steps["per_second"] else ""
    if not total:
        return Text(f"{amount(done)} and no end set{speed}")
    share = min(1.0, done / total)
    full = round(_BAR * share)
    text = Text.assemble(("━" * full, "green"), ("─" * (_BAR - full), "dim"))
    text.append(f" {share:.1%}: {amount(done)} of {amount(total)}{speed}")
    if done >= total:
        return text.append(", done")
    return text.append(f", done {clock(done_ts, now)} at this pace" if done_ts else "")


def _hours(status: Record) -> Text:
    hours = status["hours"]
    share = hours["used"] / hours["available"] if hours["available"] else 0.0
    text = Text(f"{share:.1%} used in the last {age(hours['window_s'])}: ")
    digits = 1 if hours["available"] >= 10 else 3  # noqa: PLR2004 - a run of an hour has some too
    text.append(f"{hours['used']:.{digits}f} of {hours['available']:.{digits}f} {hours['unit']}")
    boots = [slot["boot_s"] for slot in status["slots"] if isinstance(slot["boot_s"], int | float)]
    if boots:
        text.append(f"; jobs boot in {sum(boots) / len(boots):.1f} s")
    if hours["budget"]:
        text.append(f"; {hours['spent']:.1f} of {hours['budget']:g} of the budget")
    return text


def _sharing(status: Record) -> Text:
    count = status["versions_per_hour"]
    text = Text("no version yet" if count is None else f"{count} versions in the last hour")
    worse = (status.get("mirror") or {}).get("worse")
    return text.append(f"; {worse}", "bold yellow") if worse else text


def _mirror(copied: Record, now: float) -> Text:
    """Which version a purge cannot reach, and what one has taken."""
    if copied.get("trouble"):
        text = Text(str(copied["trouble"]), "yellow")
    elif copied.get("version") is None:
        text = Text("nothing to copy yet")
    else:
        since = age(max(0.0, now - float(copied["copied_ts"])))
        text = Text(f"v{copied['version']}, copied {since} ago to {copied['folder']}")
    return text.append(f"; {copied['holes']}", "yellow") if copied.get("holes") else text


def _queue(status: Record, now: float) -> Text:
    queue, chaining = status["queue"], status["chaining"]
    where = status["executor"] or "nowhere"
    if not queue["known"]:
        return Text(f"{where} cannot be read: {queue['why'][:200]}", "magenta")
    text = Text(f"{where}: {queue['running']} run, {queue['pending']} wait")
    if queue["others"]:
        text.append(f", {queue['others']} more of yours")
    text.append(f"; successors: {chaining['mode']} ({chaining['how']})")
    if queue["maintenance_ts"] is not None:
        text.append(f"; maintenance from {clock(queue['maintenance_ts'], now)}", "yellow")
    return text


def _control(status: Record) -> Text:
    who = status["controller"]
    if who["alive"] is not False:
        sure = "" if who["alive"] else " (another host)"
        text = Text(
            f"pid {who.get('pid', '?')} on {who.get('host', '?')}{sure}, term {who['term']}"
        )
    elif status["daemon"]:
        text = Text("no controller is alive", "yellow" if status["mode"] == "run" else "")
    else:
        text = Text("no daemon is wanted: the jobs make the passes")
    if status["passed_s"] is not None:
        text.append(f", looked {age(status['passed_s'])} ago")
    if status["calls_today"] is not None:
        text.append(f"; {amount(status['calls_today'])} scheduler calls today")
    if failover := status.get("failover"):
        how = "" if failover["on"] else f" ({failover['how']})"
        text.append(f"; failover {'on' if failover['on'] else 'off'}{how}")
    return text


def _told_successor(job: Record, status: Record, now: float) -> Text:
    """A waiting job: its number, what it waits for, and when it is expected to start."""
    full = all(slot["training"] for slot in status["slots"])
    text = Text(str(job["job_id"] or "one without a number yet"))
    ready = full and job["waits"] == "cap"
    short = full or job["waits"] != "cap"  # the verdict says it at length
    waits = waits_for(job) if short else f"waits ({job['why']})"
    text.append(f" {waits}", "green" if ready else "dim")
    if job["expected_ts"] is not None:
        text.append(f", expected {clock(job['expected_ts'], now)}")
    return text


def _differs(slot: Record, status: Record) -> bool:
    """True where a slot runs another release than the one that is wanted."""
    return bool(slot["release"] and status["release"] and slot["release"] != status["release"])
