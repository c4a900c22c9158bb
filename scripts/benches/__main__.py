"""Entry: ``scripts/bench NAME [--quick] [--json FILE]`` runs one bench and shows its figures.

A bench may declare OPTIONS: a help text (for a folder), or argparse's arguments, by option name.
The JSON file holds its figures under ``figures``, or at the top level if the bench is FLAT.
"""

import argparse
import importlib
import json
import platform
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from Daddy.core import host_and_processes
from Daddy.core.arguments import ArgumentParser
from Daddy.core.entry_point import run_entry

FOLDER = Path(__file__).parent
TEXT_WIDTH = 100


def _names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


def _machine() -> dict[str, object]:
    total, _ = host_and_processes.memory_bytes()
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "cores": host_and_processes.usable_cores(),
        "memory_gib": round(total / 2**30, 1),
    }


def _show(figures: Mapping[str, object], indent: str = "  ") -> None:
    for name, value in figures.items():
        if isinstance(value, Mapping):
            print(f"{indent}{name}")
            _show(value, indent + "  ")
        else:
            text = f"{value:,.4g}" if isinstance(value, float) else str(value)
            first, *more = wrap(text, TEXT_WIDTH) or [""]
            print(f"{indent}{name:<38} {first}")
            for line in more:
                print(f"{indent}{'':<38} {line}")


def handle_signals() -> None:
    """Make TERM end the program as Ctrl-C does, together with all child processes."""
    for number in (signal.SIGTERM, signal.SIGINT):  # a background job ignores INT
        signal.signal(number, _interrupt)


def _interrupt(*_: object) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # a second one would leave parts running
        signal.signal(number, lambda *_: None)  # children would inherit SIG_IGN
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Run the named bench; its figures go to the terminal and, if asked, to a JSON file."""
    parser = ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("name", choices=_names())
    parser.add_argument(
        "--quick", action="store_true", help="shorter and less exact run (default: full run)"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="file for the figures (default: terminal only)"
    )
    # argparse's own method: the named bench adds flags, which this parser would refuse
    name = argparse.ArgumentParser.parse_known_args(parser, argv)[0].name
    bench = importlib.import_module(f"scripts.benches.{name}")
    options: Mapping[str, str | Mapping[str, Any]] = getattr(bench, "OPTIONS", {})
    for option, value in options.items():
        folder = {"type": Path, "metavar": "DIR", "help": value}
        parser.add_argument(f"--{option}", **(folder if isinstance(value, str) else value))
    args = parser.parse_args(argv)
    handle_signals()
    result = {"bench": args.name, "quick": args.quick, "machine": _machine()}
    figures = bench.run(args.quick, **{name: getattr(args, name) for name in options})
    result |= figures if getattr(bench, "FLAT", False) else {"figures": figures}
    _show(result)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
