"""``scripts/bench NAME [--quick] [--json FILE]``: run one bench and show its figures."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from Daddy.core import machine
from Daddy.core.errors import run_entry

FOLDER = Path(__file__).parent


def _names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


def _machine() -> dict[str, object]:
    total, _ = machine.memory_bytes()
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "cores": machine.usable_cores(),
        "memory_gib": round(total / 2**30, 1),
    }


def _show(figures: Mapping[str, object], indent: str = "  ") -> None:
    for name, value in figures.items():
        if isinstance(value, Mapping):
            print(f"{indent}{name}")
            _show(value, indent + "  ")
        else:
            text = f"{value:,.4g}" if isinstance(value, float) else str(value)
            print(f"{indent}{name:<38} {text}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the named bench; its figures go to the terminal and, if asked, to a JSON file."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("name", choices=_names())
    parser.add_argument("--quick", action="store_true", help="a fraction of the time, rougher")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    args = parser.parse_args(argv)
    bench = importlib.import_module(f"scripts.benches.{args.name}")
    result = {"bench": args.name, "quick": args.quick, "machine": _machine()}
    result["figures"] = bench.run(args.quick)
    _show(result)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
