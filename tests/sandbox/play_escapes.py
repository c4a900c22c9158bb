"""Entry: plays the table of escapes in bubblewrap.

``python -m tests.sandbox.play_escapes [WORDS] [--as UID] [--controls] [--json FILE]`` plays the
rows whose text holds all WORDS, or their controls, and prints the results; ``--as`` as another
account. ``--page`` writes docs/escapes.md instead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from typing import TextIO

from Daddy.sandbox.bubblewrap import BubblewrapBackend
from tests.sandbox.escape_rows import ROWS
from tests.sandbox.escapes import (
    ROOT,
    Host,
    Result,
    Row,
    memory_group,
    play_controls,
    play_table,
)

PAGE = ROOT / "docs" / "escapes.md"
_HEAD = """\
# Escapes that are tried

Each row is an attempt that a test makes in a bubblewrap sandbox, as root and as an ordinary user, in
a fresh sandbox and in a persistent one with a writable root, and judges from the host: a listener
that was not reached, a file that did not change, the host's memory (`tests/sandbox/test_escapes.py`, on request:
DADDY_ESCAPES=1, since the controls attack the machine that they run on). After each attempt the next
snippet must work. The control is the same attempt without the protection: there it succeeds, so
the row can fail. Rows marked *fresh* try what a persistent sandbox allows.

| attempt | control, which succeeds |
| --- | --- |
"""


def page() -> str:
    """Return the page of escapes."""
    return _HEAD + "".join(
        f"| {row.attempt}{_mode_of(row)} | {row.control.text} |\n" for row in ROWS
    )


def _mode_of(row: Row) -> str:
    return "" if len(row.modes) > 1 else f" ({row.modes[0]})"


def play(rows: Sequence[Row], controls: bool) -> list[Result]:
    """Play rows, or their controls, on things planted for them."""
    host, player = Host(), play_controls if controls else play_table
    try:
        return asyncio.run(player(BubblewrapBackend().create, host, rows))
    finally:
        host.close()


def _play_as(uid: int, rows: Sequence[Row], controls: bool, output: TextIO) -> int:
    """Play in a child that gives up root, but reads our modules as root loaded them."""
    with tempfile.TemporaryDirectory(prefix="escapes-home-") as home:
        os.chown(home, uid, uid)
        pid = os.fork()
        if not pid:
            os.environ["HOME"] = home
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            _show(play(rows, controls), output)
            output.flush()
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _show(results: Sequence[Result], output: TextIO) -> None:
    if output is not sys.stdout:
        json.dump([asdict(result) for result in results], output)
        return
    for result in results:
        print(result)
        if not result.held or len(results) < 9:
            print("   ", result.text.strip().replace("\n", "\n    "))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="words of the rows to play (default: all)")
    parser.add_argument("--as", type=int, dest="uid")
    parser.add_argument("--controls", action="store_true")
    parser.add_argument("--json", type=argparse.FileType("w"), default=sys.stdout)
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args(argv)
    if args.page:
        return 0 if PAGE.write_text(page()) else 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # all that was planted is taken away
    rows = [row for row in ROWS if all(word in row.attempt for word in args.words)]
    with memory_group():
        if args.uid:
            return _play_as(args.uid, rows, args.controls, args.json)
        _show(play(rows, args.controls), args.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
