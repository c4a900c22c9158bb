"""Draw the guide's film of an episode: an asciicast of ``Daddy.terminal`` as an animated GIF.

Type ``python -m scripts.terminal_film runs/terminal/EPISODE/terminal.cast``. Each screen is shown
for 0.6 to 2 s, and the last for 4 s.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from rich.segment import Segment

from Daddy.core.arguments import ArgumentParser
from Daddy.core.entry_point import run_entry
from scripts.fanout_picture import draw

_CLEAR = "\x1b[H\x1b[2J"
_SHORTEST_S, _LONGEST_S, _LAST_S = 0.6, 2.0, 4.0


def film_of(cast: Path) -> tuple[list[Image.Image], list[float]]:
    """Return a frame for each screen of an asciicast, and its seconds."""
    header, *events = map(json.loads, cast.read_text().splitlines())
    frames, shown_s = [], []
    for (began, _, text), (ended, *_) in zip(events, [*events[1:], [1e9]], strict=True):
        lines = text.removeprefix(_CLEAR).split("\r\n")
        lines += [""] * (header["height"] - len(lines))
        frames.append(draw([[Segment(line)] for line in lines]))
        shown_s.append(min(max(ended - began, _SHORTEST_S), _LONGEST_S))
    return frames, [*shown_s[:-1], _LAST_S]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the film."""
    parser = ArgumentParser(prog="scripts.terminal_film", description=__doc__)
    parser.add_argument("cast", type=Path, help="terminal.cast of an episode, 80 columns wide")
    parser.add_argument("--out", type=Path, default=Path("docs/terminal.gif"), help="GIF to write")
    args = parser.parse_args(argv)
    (first, *rest), shown_s = film_of(args.cast)
    times = [round(1000 * seconds) for seconds in shown_s]
    first.save(args.out, save_all=True, append_images=rest, duration=times, loop=0, optimize=True)
    print(f"{args.out}: {args.out.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
