"""Entry: the state of shared weights, as one screen or one JSON object. Loads no torch.

`python -m Daddy.weights.status runs/slim_run`, or the folder that a laptop pulled. Reads only; the
exit code says whether anything had to be passed over.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from Daddy.core.clock import SystemClock
from Daddy.core.errors import ExitCode, run_entry
from Daddy.core.humanize import format_age, format_count, format_span, format_time, printable_line
from Daddy.weights.evaluations import describe_worse_version
from Daddy.weights.laptop.pulled_folder import describe_effect
from Daddy.weights.lineage import Record, refusal_text
from Daddy.weights.locate_weights import add_location_arguments, locate_from_args
from Daddy.weights.weights_report import report_laptop, report_run

_WIDE = 1000
"""Columns where there is no terminal: no path and no reason is broken for grep."""

MOST_REFUSALS, MOST_PENDING, MOST_PEERS, MOST_REVERTS = 5, 4, 16, 3
"""Lines of each that a screen has room for; the rest is counted."""
_STATES = {"lives": "green", "silent": "bold red", "left": "dim", "laptop": "cyan"}


def render_status(status: Record, now: float) -> RenderableType:
    """The whole screen; ``now`` in wall seconds. No line depends on a colour to be understood."""
    parts: list[RenderableType] = [
        Text(f"passed over: {flaw}", "bold red") for flaw in status["flaws"]
    ]
    is_run = status["kind"] == "run"
    if is_run:
        parts += [Text(), _peers(status["peers"], status["version"])]
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, line in _run_rows(status, now) if is_run else _laptop_rows(status, now):
        facts.add_row(name, Text(line))  # not markup: strangers wrote parts of it
    parts += [Text(), facts]
    indented = (Padding(part, (0, 0, 0, 2), expand=False) for part in parts)
    return Group(_verdict(status), *indented)


def _verdict(status: Record) -> Text:
    is_run = status["kind"] == "run"
    lives = sum(one["state"] == "lives" for one in status.get("peers", ()))
    mark, style = ("●", "bold green") if lives or not is_run else ("○", "bold")
    if status["flaws"]:
        mark, style = "◐", "bold yellow"
    text = Text.assemble(
        (f"{mark} {printable_line(status['run']) or status['folder']}", style), ": "
    )
    if status["ts"] is None:
        return text.append("no version can be read here")
    helped = f", assists {', '.join(status['assists'])}" if status["assists"] else ""
    text.append(f"v{status['version']}, merged {format_age(status['age_s'])} ago, ")
    text.append(
        f"{format_count(status['fleet_steps'])} steps of "
        f"{printable_line(status['workload'])}{helped}"
    )
    at_work = f"{lives} job{'s' * (lives != 1)} at work" if lives else "nobody is at work"
    return text.append(f"; {at_work}" * is_run)


def _peers(peers: Sequence[Record], newest: int) -> Table:
    """Peers, the versions they stand on, their steps, and their mean share of late versions."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("peer", "state", "on", "steps", "share", "counted", "refused"):
        right = title in ("steps", "share", "refused")
        table.add_column(title, justify="right" if right else "left", no_wrap=True)
    for one in peers[:MOST_PEERS]:
        separator = ", " if one["state"] == "lives" else " "
        beat = "" if one["beat_s"] is None else f"{separator}{format_age(one['beat_s'])}"
        table.add_row(
            one["peer"],
            Text(f"{one['state']}{beat}", _STATES[one["state"]]),
            _behind(one["stands_on"], newest),
            f"{one['steps']:,}",
            f"{100 * one['share']:.0f} %",
            _behind(one["counted"], newest),
            str(one["refused"] or ""),
        )
    if len(peers) > MOST_PEERS:
        table.add_row(f"and {len(peers) - MOST_PEERS} more")
    return table


def _behind(version: int | None, newest: int) -> str:
    if version is None:
        return "-"
    return f"v{version}" if version >= newest else f"v{version} (-{newest - version})"


def _run_rows(status: Record, now: float) -> Iterator[tuple[str, str]]:
    yield from _newest(status, now)
    if status.get("worse"):
        yield "warning", status["worse"]
    if status["versions_per_hour"] is not None:
        rate = f"{format_count(status['versions_per_hour'])} versions an hour, "
        rate += f"{format_count(status['steps_per_second'])} steps/s"
        yield "rate", f"{rate} over the last {format_span(status['rate_over_s'])} of merging"
    pending = [
        f"{one['peer']}/{one['sequence']} on v{one['base_version']}, {one['env_steps']:,} steps, "
        f"since {format_age(one['waits_s'])}"
        for one in status["pending"]
    ]
    yield from _list("pending", pending or ["none"], MOST_PENDING)
    boxes = [
        f"{one['peer']}: {one['waiting']} ({decimal(one['bytes'])})" for one in status["inbox"]
    ]
    yield "inbox", ", ".join(boxes) or "empty"
    friends = [f"{one['name']}: {one['trouble'] or one['folder']}" for one in status["friends"]]
    yield from _list("friends", friends, MOST_PEERS)
    yield from _refusals(status)
    reverted = [
        f"v{one['version']} took back v{one['first']} to v{one['last']}: {one['reason']}"
        for one in reversed(status["reverted"])
    ]
    yield from _list("reverted", reverted, MOST_REVERTS)
    yield "disk", _disk(status)


def _laptop_rows(status: Record, now: float) -> Iterator[tuple[str, str]]:
    yield from _newest(status, now)
    if status["contributes_as"]:
        yield "peer", ", ".join(status["contributes_as"])
    yield "outbox", f"{status['outbox']} to push" if status["outbox"] else "empty"
    yield "receipts", f"{status['accepted']} counted, {len(status['refused'])} refused"
    yield from _refusals(status)
    for one in status["effect"][:MOST_PEERS]:
        yield f"{one['peer']} did", describe_effect(one)
    yield "disk", _disk(status)


def _newest(status: Record, now: float) -> Iterator[tuple[str, str]]:
    yield "folder", status["folder"]
    if status["ts"] is not None:
        by = f" by {status['merger']} (rule {status['rule']})" if status.get("merger") else ""
        proof = "has the right hash" if status["verified"] else "does not verify"
        when = f"merged at {format_time(status['ts'], now)}{printable_line(by)}"
        yield "newest", f"{when}, {decimal(status['bytes'])}, its file {proof}"


def _refusals(status: Record) -> Iterator[tuple[str, str]]:
    lines = [f"v{one['version']} {refusal_text(one)}" for one in reversed(status["refused"])]
    return _list("refused", lines or ["none of late"], MOST_REFUSALS)


def _list(name: str, lines: Sequence[str], most: int) -> Iterator[tuple[str, str]]:
    for place, line in enumerate(lines[:most]):
        yield (name if place == 0 else ""), printable_line(line, _WIDE)
    if len(lines) > most:
        yield "", f"and {len(lines) - most} more"


def _disk(status: Record) -> str:
    """All of it, then each folder."""
    sizes = {name: one["bytes"] for name, one in status["disk"].items() if one["bytes"]}
    folders = ", ".join(f"{name} {decimal(size)}" for name, size in sorted(sizes.items()))
    return f"{decimal(sum(sizes.values()))}: {folders}"


# -- the command


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="status",
        description="State of shared weights: newest version, peers, refusals, disk.",
    )
    add_location_arguments(parser)
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Codes: 0 done, 2 usage, 3 config, 6 no version or something passed over, 9 files."""
    args = make_parser().parse_args(argv)
    now, place = SystemClock().now(), locate_from_args(args)
    if place.pulled:
        report = report_laptop(place.shared.root, now)
    else:
        report = report_run(place.shared, now)
        report["worse"] = describe_worse_version(place.shared, place.events)
    report["exit_code"] = int(ExitCode.WEIGHTS if report["flaws"] else ExitCode.DONE)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    if args.json:
        print(json.dumps(report), flush=True)
    else:
        print_status(report, now)
    return int(report["exit_code"])


def print_status(report: Record, now: float) -> None:
    """Print the screen; in full width where there is no terminal."""
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(render_status(report, now))
        return
    console = Console(highlight=False, width=_WIDE)
    with console.capture() as text:
        console.print(render_status(report, now))
    print("\n".join(line.rstrip() for line in text.get().splitlines()), flush=True)


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
