"""Entry: how shared weights stand, as one screen or one JSON object. Loads no torch.

`python -m Daddy.weights.status runs/slim_run`, or the folder that a laptop pulled. Reads only; the
exit code says whether anything had to be passed over.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from Daddy.core.clock import SystemClock
from Daddy.core.errors import ExitCode, run_entry
from Daddy.core.humanize import age, amount, clock, one_line, span
from Daddy.weights.evaluations import worse_said
from Daddy.weights.laptop.pulled_folder import told
from Daddy.weights.lineage import Refused
from Daddy.weights.weights_report import Record, report_laptop, report_run
from Daddy.weights.whereabouts import Whereabouts, add_place, find

_WIDE = 1000
"""Columns where there is no terminal: no path and no reason is broken for grep."""

MOST_REFUSALS, MOST_PENDING, MOST_PEERS, MOST_REVERTS = 5, 4, 16, 3
"""Lines of each that a screen has room for; the rest is counted."""
_STATES = {"lives": "green", "silent": "bold red", "left": "dim", "laptop": "cyan"}
_DISK = {
    "blobs": "states and deltas",
    "wan": "for laptops",
    "merged": "records",
    "inbox": "inbox",
    "quarantine": "quarantine",
    "outbox": "outbox",
}


def draw(status: Record, now: float) -> RenderableType:
    """The whole screen; ``now`` in wall seconds. No line depends on a colour to be understood."""
    parts: list[RenderableType] = [_verdict(status)]
    parts += [_indented(Text(f"passed over: {flaw}", "bold red")) for flaw in status["flaws"]]
    if status["kind"] == "run":
        parts += [Text(), _indented(_peers(status["peers"], status["version"]))]
    return Group(*parts, Text(), _indented(_facts(status, now)))


def _indented(what: RenderableType) -> Padding:
    return Padding(what, (0, 0, 0, 2), expand=False)


def _verdict(status: Record) -> Text:
    lives = sum(one["state"] == "lives" for one in status.get("peers", ()))
    mark, style = ("●", "bold green") if lives or status["kind"] == "laptop" else ("○", "bold")
    if status["flaws"]:
        mark, style = "◐", "bold yellow"
    name = one_line(status["run"]) or status["folder"]
    text = Text.assemble((f"{mark} {name}", style), ": ")
    if status["ts"] is None:
        return text.append("no version can be read here")
    helped = f", assists {', '.join(status['assists'])}" if status["assists"] else ""
    text.append(f"v{status['version']}, merged {age(status['age_s'])} ago, ")
    text.append(f"{amount(status['fleet_steps'])} steps of {one_line(status['workload'])}{helped}")
    if status["kind"] == "run":
        text.append(
            f"; {lives} job{'s' * (lives != 1)} at work" if lives else "; nobody is at work"
        )
    return text


def _peers(peers: Sequence[Record], newest: int) -> Table:
    """Peers, the versions they stand on, their steps, and their mean share of late versions."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    titles = ("peer", "state", "on", "steps", "share", "counted", "refused")
    for title in titles:
        left = title in ("peer", "state", "on", "counted")
        table.add_column(title, justify="left" if left else "right", no_wrap=True)
    for one in peers[:MOST_PEERS]:
        table.add_row(
            one["peer"],
            Text(_state(one), _STATES[one["state"]]),
            _behind(one["stands_on"], newest),
            f"{one['steps']:,}",
            f"{100 * one['share']:.0f} %",
            _behind(one["counted"], newest),
            str(one["refused"] or ""),
        )
    if len(peers) > MOST_PEERS:
        table.add_row(f"and {len(peers) - MOST_PEERS} more")
    return table


def _state(one: Record) -> str:
    if one["state"] == "laptop":
        return "laptop"
    told = age(one["beat_s"])
    return f"lives, {told}" if one["state"] == "lives" else f"{one['state']} {told}"


def _behind(version: int | None, newest: int) -> str:
    if version is None:
        return "-"
    return f"v{version}" if version >= newest else f"v{version} (-{newest - version})"


def _facts(status: Record, now: float) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    rows = _run_rows(status, now) if status["kind"] == "run" else _laptop_rows(status, now)
    for name, line in rows:
        table.add_row(name, Text(line))  # not markup: strangers wrote parts of it
    return table


def _run_rows(status: Record, now: float) -> Iterator[tuple[str, str]]:
    yield from _newest(status, now)
    if status.get("worse"):
        yield "warning", status["worse"]
    if status["versions_per_hour"] is not None:
        rate = f"{amount(status['versions_per_hour'])} versions an hour, "
        rate += f"{amount(status['steps_per_second'])} steps/s"
        yield "rate", f"{rate} over the last {span(status['rate_over_s'])} of merging"
    pending = [
        f"{one['peer']}/{one['sequence']} on v{one['base_version']}, {one['env_steps']:,} steps, "
        f"since {age(one['waits_s'])}"
        for one in status["pending"]
    ]
    yield from _list("pending", pending, MOST_PENDING)
    boxes = [f"{one['peer']}: {one['waiting']} ({size(one['bytes'])})" for one in status["inbox"]]
    yield "inbox", ", ".join(boxes) or "empty"
    if status["friends"]:
        friends = [f"{one['name']}: {one['trouble'] or one['folder']}" for one in status["friends"]]
        yield from _list("friends", [one_line(line) for line in friends], MOST_PEERS)
    yield from _refusals(status["refused"])
    took = [
        f"v{one['version']} took back v{one['first']} to v{one['last']}: {one_line(one['reason'])}"
        for one in reversed(status["reverted"])
    ]
    yield from _list("reverted", took, MOST_REVERTS) if took else ()
    yield "disk", _disk(status["disk"])


def _laptop_rows(status: Record, now: float) -> Iterator[tuple[str, str]]:
    yield from _newest(status, now)
    before = status["before"]
    if before is not None and before != status["version"]:
        yield "way back", f"v{before} is kept"
    if status["contributes_as"]:
        yield "peer", ", ".join(status["contributes_as"])
    yield "outbox", f"{status['outbox']} to push" if status["outbox"] else "empty"
    yield "receipts", f"{status['accepted']} counted, {len(status['refused'])} refused"
    yield from _refusals(status["refused"])
    for one in status["effect"][:MOST_PEERS]:
        yield f"{one['peer']} did", told(one)
    yield "disk", _disk(status["disk"])


def _newest(status: Record, now: float) -> Iterator[tuple[str, str]]:
    yield "folder", status["folder"]
    if status["ts"] is None:
        return
    proof = "its file has the right hash" if status["verified"] else "its file does not verify"
    by = one_line(f" by {status['merger']} (rule {status['rule']})") if status.get("merger") else ""
    when = clock(status["ts"], now)
    yield "newest", f"merged at {when}{by}, {size(status['bytes'])}, {proof}"


def _refusals(refused: Sequence[Record]) -> Iterator[tuple[str, str]]:
    lines = [
        f"v{one['version']} {Refused(one['peer'], one['sequence'], one['fault'], one['reason'])}"
        for one in reversed(refused)
    ]
    yield from _list("refused", lines, MOST_REFUSALS)


def _list(name: str, lines: Sequence[str], most: int) -> Iterator[tuple[str, str]]:
    if not lines:
        yield name, "none of late" if name == "refused" else "none"
    for place, line in enumerate(lines[:most]):
        yield (name if place == 0 else ""), line
    if len(lines) > most:
        yield "", f"and {len(lines) - most} more"


def _disk(disk: Mapping[str, Mapping[str, int]]) -> str:
    """All of it, then the folders a person knows by name."""
    total = sum(one["bytes"] for one in disk.values())
    known = [
        f"{word} {size(disk[name]['bytes'])}"
        for name, word in _DISK.items()
        if disk.get(name, {}).get("files")
    ]
    return f"{size(total)}: {', '.join(known)}" if known else size(total)


def size(count: float) -> str:
    """Bytes as people say them."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:  # noqa: PLR2004
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} GB"


# -- the command


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="status",
        description="State of shared weights: newest version, peers, refusals, disk.",
    )
    add_place(parser)
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Codes: 0 done, 2 usage, 3 config, 6 no version or something passed over, 9 files."""
    args = make_parser().parse_args(argv)
    now = SystemClock().now()
    report = read_report(find(args), now)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    if args.json:
        print(json.dumps(report), flush=True)
    else:
        _print(report, now)
    return int(report["exit_code"])


def read_report(place: Whereabouts, now: float) -> Record:
    """The record, with the exit code that it comes to; WeightsError when there is no version."""
    root = place.shared.root
    if place.pulled:
        report = report_laptop(root, now)
    else:
        report = {**report_run(place.shared, now), "worse": worse_said(place.shared, place.events)}
    return {**report, "exit_code": int(ExitCode.WEIGHTS if report["flaws"] else ExitCode.DONE)}


def _print(report: Record, now: float) -> None:
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(draw(report, now))
        return
    console = Console(highlight=False, width=_WIDE)
    with console.capture() as text:
        console.print(draw(report, now))
    print("\n".join(line.rstrip() for line in text.get().splitlines()), flush=True)


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
