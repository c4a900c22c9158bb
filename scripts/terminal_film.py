"""Draw the guide's film of an episode: an asciicast of ``Daddy.terminal`` as an animated GIF.

Type ``python -m scripts.terminal_film runs/terminal/EPISODE/terminal.cast``. Each screen is shown
for 0.6 to 2 s, and the last for 4 s.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rich.segment import Segment

from Daddy.core.arguments import ArgumentParser
from Daddy.core.entry_point import run_entry
from scripts.fanout_picture import draw

_CLEAR, _LINE_END = "\x1b[H\x1b[2J", "\r\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the film."""
    parser = ArgumentParser(prog="scripts.terminal_film", description=__doc__)
    parser.add_argument("cast", type=Path, help="terminal.cast of an episode, 80 columns wide")
    parser.add_argument("--out", type=Path, default=Path("docs/terminal.gif"), help="GIF to write")
    args = parser.parse_args(argv)
    header, *events = map(json.loads, args.cast.read_text().splitlines())
    height = header["height"]
    whole = [text.removeprefix(_CLEAR) + height * _LINE_END for *_, text in events]
    first, *rest = (
        draw([[Segment(line)] for line in text.split(_LINE_END)[:height]]) for text in whole
    )
    waits = [after[0] - before[0] for before, after in pairwise(events)]
    shown_ms = [*(round(1000 * min(max(wait, 0.6), 2.0)) for wait in waits), 4000]
    first.save(
        args.out, save_all=True, append_images=rest, duration=shown_ms, loop=0, optimize=True
    )
    print(f"{args.out}: {args.out.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
