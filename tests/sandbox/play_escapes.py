"""Entry: plays the table of escapes as this account.

``python -m tests.sandbox.play_escapes [WORDS] [--controls] [--json FILE] [--page]``: plays the rows
whose text holds all WORDS, or their controls, and prints them; ``--page`` writes docs/escapes.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.sandbox.escape_rows import ROWS
from tests.sandbox.escapes import (
    ROOT,
    Host,
    MakeSandbox,
    Result,
    Row,
    memory_group,
    play_controls,
    play_table,
)

PAGE = ROOT / "docs" / "escapes.md"


def make_sandbox() -> MakeSandbox:
    try:
        from Daddy.sandbox.bubblewrap import BubblewrapBackend
    except ImportError:
        return None

    return BubblewrapBackend().create


async def play(rows: Sequence[Row], controls: bool = False) -> list[Result]:
    """Play rows, or their controls, on things planted for them."""
    host = Host()
    try:
        player = play_controls if controls else play_table
        return await player(make_sandbox(), host, rows)
    finally:
        host.close()


def page() -> str:
    """Return the page of escapes."""
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="words of the rows to play (default: all)")
    parser.add_argument("--controls", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args(argv)
    if args.page:
        PAGE.write_text(page())
        return 0
    rows = [row for row in ROWS if all(word in row.attempt for word in args.words)]
    with memory_group():
        results = asyncio.run(play(rows, args.controls))
    if args.json:
        args.json.write_text(json.dumps([asdict(result) for result in results]))
        return 0
    for result in results:
        print(result)
        if not result.held or args.words:
            print("   ", result.text.strip().replace("\n", "\n    "))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
