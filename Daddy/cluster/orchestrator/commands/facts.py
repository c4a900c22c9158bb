"""Pure: what a run says of itself under its slots: what comes next, how far, how well, by whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from Daddy.cluster.orchestrator.commands.heirs import waits_for
from Daddy.core.humanize import age, amount, clock, span

_BAR = 24

Record = Mapping[str, Any]


def facts(status: Record, now: float, *, wide: bool) -> Table:
    """Two columns: what it is called, what it is."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _rows(status, now, wide=wide):
        table.add_row(name, text)
    return table


def _rows(status: Record, now: float, *, wide: bool) -> Iterator[tuple[str, Text]]:
    if not wide and status["waiting"]:
        yield "in line", Text(", ").join(told_heir(one, status, now) for one in status["waiting"])
    if not wide and (other := [slot for slot in status["slots"] if differs(slot, status)]):
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
    return Text("no version yet" if count is None else f"{count} versions in the last hour")


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


def told_heir(heir: Record, status: Record, now: float) -> Text:
    """A waiting job: its number, what it waits for, and when it is expected to start."""
    full = all(slot["training"] for slot in status["slots"])
    text = Text(str(heir["job_id"] or "one without a number yet"))
    ready = full and heir["waits"] == "cap"
    short = full or heir["waits"] != "cap"  # the verdict says it at length
    waits = waits_for(heir) if short else f"waits ({heir['why']})"
    text.append(f" {waits}", "green" if ready else "dim")
    if heir["expected_ts"] is not None:
        text.append(f", expected {clock(heir['expected_ts'], now)}")
    return text


def differs(slot: Record, status: Record) -> bool:
    """Whether a slot runs another release than the one that is wanted."""
    return bool(slot["release"] and status["release"] and slot["release"] != status["release"])
