"""Entry: prints the state of shared weights, as one screen or one JSON object. Loads no torch.

`python -m Daddy.weights.status runs/slim_run`, or the folder that a laptop pulled. Reads only; exit
code 6 means that a file is damaged or missing.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial

from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from Daddy.core.arguments import ArgumentParser
from Daddy.core.clock import SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode
from Daddy.core.humanize import format_age, format_count, format_span, format_time, printable_line
from Daddy.core.screen_tables import make_table
from Daddy.core.terminal import UNLIMITED_WIDTH, print_screen
from Daddy.weights.evaluations import describe_worse_version
from Daddy.weights.laptop.laptop_totals import LaptopEffect
from Daddy.weights.lineage import Record, refusal_text
from Daddy.weights.locate_shared_weights import add_location, locate
from Daddy.weights.weights_status_record import report_laptop, report_run

MOST_REFUSALS, MOST_PENDING, MOST_PEERS, MOST_REVERTS = 5, 4, 16, 3
"""Most lines of each on a screen; of the rest only the number is printed."""
_MARGIN = 2
_LONGEST = 1000
"""Most letters of a line of the lists."""
_LEAST_PEERS = ("counted", "on", "refused", "share", "steps")
"""Columns that a narrow screen of the peers lacks, the first of them first."""
_STATES = {"lives": "green", "silent": "bold red", "left": "dim", "laptop": "cyan"}


def render_status(status: Record, now: float, width: int = UNLIMITED_WIDTH) -> RenderableType:
    """Return the whole screen; ``now`` in wall seconds. Every colour also has a text."""
    width -= _MARGIN
    parts: list[RenderableType] = [
        Text(f"passed over: {flaw}", "bold red") for flaw in status["flaws"]
    ]
    is_run = status["kind"] == "run"
    if is_run:
        parts += [Text(), _peers(status["peers"], status["version"], width)]
    facts = _run_rows(status, now) if is_run else _laptop_rows(status, now)
    parts += [
        Text(),
        make_table(["", ""], ((Text(name, "dim"), line) for name, line in facts), width),
    ]
    return Group(_verdict(status), Padding(Group(*parts), (0, 0, 0, _MARGIN)))


def _verdict(status: Record) -> Text:
    is_run = status["kind"] == "run"
    lives = sum(peer["state"] == "lives" for peer in status.get("peers", ()))
    mark, style = ("●", "bold green") if lives or not is_run else ("○", "bold")
    if status["flaws"]:
        mark, style = "◐", "bold yellow"
    text = Text.assemble(
        (f"{mark} {printable_line(status['run']) or status['folder']}", style), ": "
    )
    if status["ts"] is None:
        never = not is_run and not status["flaws"]
        return text.append("no version was pulled yet" if never else "no version can be read")
    helped = f", assists {', '.join(status['assists'])}" if status["assists"] else ""
    text.append(f"v{status['version']}, merged {format_age(status['age_s'])} ago, ")
    text.append(
        f"{format_count(status['fleet_steps'])} steps of "
        f"{printable_line(status['workload'])}{helped}"
    )
    at_work = f"{lives} job{'s' * (lives != 1)} at work" if lives else "nobody is at work"
    return text.append(f"; {at_work}" * is_run)


def _peers(peers: Sequence[Record], newest: int, width: int) -> Table:
    """Return a table of peers: state, version, steps, mean share of recent versions, refusals."""
    titles = ["peer", "state", "on", ">steps", ">share", "counted", ">refused"]
    rows = [_peer(peer, newest) for peer in peers[:MOST_PEERS]]
    if len(peers) > MOST_PEERS:
        rows.append([f"and {len(peers) - MOST_PEERS} more", *[""] * (len(titles) - 1)])
    return make_table(titles, rows, width, _LEAST_PEERS)


def _peer(peer: Record, newest: int) -> list[Text | str]:
    separator = ", " if peer["state"] == "lives" else " "
    age_text = "" if peer["beat_s"] is None else f"{separator}{format_age(peer['beat_s'])}"
    return [
        peer["peer"],
        Text(f"{peer['state']}{age_text}", _STATES[peer["state"]]),
        _behind(peer["stands_on"], newest),
        f"{peer['steps']:,}",
        f"{100 * peer['share']:.0f} %",
        _behind(peer["counted"], newest),
        str(peer["refused"] or ""),
    ]


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
        f"{offer['peer']}/{offer['sequence']} on v{offer['base_version']}, "
        f"{offer['env_steps']:,} steps, since {format_age(offer['waits_s'])}"
        for offer in status["pending"]
    ]
    yield from _list("pending", pending or ["none"], MOST_PENDING)
    boxes = [
        f"{box['peer']}: {box['waiting']} ({decimal(box['bytes'])} of {decimal(box['limit'])})"
        + f", {box['refused']} requests of its key refused today: {box['last']}"
        * bool(box["refused"])
        for box in status["inbox"]
    ]
    yield "inbox", ", ".join(boxes) or "empty"
    friends = [f"{box['name']}: {box['trouble'] or box['folder']}" for box in status["friends"]]
    yield from _list("friends", friends, MOST_PEERS)
    yield from _refusals(status)
    reverted = [
        f"v{back['version']} took back v{back['first']} to v{back['last']}: {back['reason']}"
        for back in reversed(status["reverted"])
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
    for effect in status["effect"][:MOST_PEERS]:
        yield f"{effect['peer']} did", LaptopEffect(**effect).describe()
    yield "disk", _disk(status)


def _newest(status: Record, now: float) -> Iterator[tuple[str, str]]:
    yield "folder", status["folder"]
    if status["ts"] is not None:
        by = f" by {status['merger']} (rule {status['rule']})" if status.get("merger") else ""
        proof = "has the right hash" if status["verified"] else "does not verify"
        when = f"merged at {format_time(status['ts'], now)}{printable_line(by)}"
        yield "newest", f"{when}, {decimal(status['bytes'])}, its file {proof}"


def _refusals(status: Record) -> Iterator[tuple[str, str]]:
    lines = [f"v{entry['version']} {refusal_text(entry)}" for entry in reversed(status["refused"])]
    return _list("refused", lines or ["none lately"], MOST_REFUSALS)


def _list(name: str, lines: Sequence[str], most: int) -> Iterator[tuple[str, str]]:
    for place, line in enumerate(lines[:most]):
        yield (name if place == 0 else ""), printable_line(line, _LONGEST)
    if len(lines) > most:
        yield "", f"and {len(lines) - most} more"


def _disk(status: Record) -> str:
    sizes = {name: usage["bytes"] for name, usage in status["disk"].items() if usage["bytes"]}
    folders = ", ".join(f"{name} {decimal(size)}" for name, size in sorted(sizes.items()))
    return f"{decimal(sum(sizes.values()))}: {folders}"


# -- the command


def make_parser() -> argparse.ArgumentParser:
    """Return the argument parser."""
    parser = ArgumentParser(
        prog="status",
        description="Print the state of shared weights: newest version, peers, refusals, disk.",
    )
    add_location(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a screen")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Codes: 0 done, 2 usage, 3 config, 6 no version or damage, 9 files."""
    args = make_parser().parse_args(argv)
    now, place = SystemClock().now(), locate(args)
    if place.pulled:
        report = report_laptop(place.shared.root, now)
    else:
        report = report_run(place.shared, now)
        report["worse"] = describe_worse_version(place.shared, place.events)
    report["exit_code"] = int(ExitCode.WEIGHTS if report["flaws"] else ExitCode.DONE)
    if args.json:
        print(json.dumps(report), flush=True)
    else:
        print_status(report, now)
    return int(report["exit_code"])


def print_status(report: Record, now: float) -> None:
    """Print the screen of ``report``; if stdout is no terminal, as unwrapped text."""
    print_screen(partial(render_status, report, now))


if __name__ == "__main__":
    sys.exit(run_entry(main))
