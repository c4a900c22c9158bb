"""Pure: the status record as one screen: the verdict first, then what a person asks next.

Drawn with rich, so that a terminal gets colours and a pipe gets plain lines; no line depends on a
colour to be understood. Narrow terminals get the successors in a line of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from Daddy.cluster.orchestrator.commands.facts import differs, facts, told_heir
from Daddy.cluster.orchestrator.commands.heirs import heirs
from Daddy.cluster.orchestrator.commands.verdict import SILENT_S, boots, is_suspended, leaves
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

Record = Mapping[str, Any]


def draw(run_name: str, status: Record, now: float, width: int = 160) -> RenderableType:
    """The whole screen, ``width`` columns wide; ``now`` in wall seconds."""
    parts: list[RenderableType] = [_verdict(run_name, status, now, width)]
    parts += [_indented(Text(line, "yellow")) for line in _troubles(status)]
    if status["slots"]:
        parts += [Text(), _indented(_slots(status, now, wide=width >= WIDE))]
    if status["others"]["jobs"]:
        parts += [Text(), _indented(_others(status["others"]["jobs"]))]
    parts += [Text(), _indented(facts(status, now, wide=width >= WIDE))]
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
    """What is not as it should be, beyond the verdict, each once."""
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


def _slots(status: Record, now: float, *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    columns = [
        ("slot", "right"), ("state", "left"), ("job", "right"), ("node", "left"),
        ("steps/s", "right"), ("leaves in", "right"), ("checkpoint", "left"), ("beat", "right"),
    ]  # fmt: skip
    columns += [("then", "left")] if wide else []
    for title, side in columns:
        table.add_column(
            title,
            justify="right" if side == "right" else "left",
            no_wrap=title != "then",
            overflow="fold",
        )
    followed = heirs(status)
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


def _then(slot: Record, heir: Record | None, status: Record, now: float) -> Text:
    """The successor and why it waits; or which release runs, where that is not the wanted one."""
    text = Text()
    if differs(slot, status):
        text.append(f"runs {slot['release']}; ", "magenta")
    if heir is not None:
        return text.append(told_heir(heir, status, now))
    return text.append("nobody waits" if status["mode"] == "run" else "", "dim")


def _others(jobs: Sequence[Record]) -> Table:
    """Other accounts' jobs, as far as their heartbeats and the newest version tell."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("account", "job", "state", "on", "steps", "beat"):
        side: Literal["left", "right"] = "right" if title in ("steps", "beat") else "left"
        table.add_column(title, justify=side, no_wrap=True)
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
