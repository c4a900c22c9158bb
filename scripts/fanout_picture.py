"""Draw the guide's picture of ``run_demo``: the live table of a run and its summary, as one PNG.

Type ``python -m scripts.fanout_picture scripts/examples/runs/NAME`` after a run. The table is the
one that the screen showed when half of the sandboxes were done.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw
from rich.console import Console, Group, RenderableType
from rich.segment import Segment
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from Daddy.core.arguments import ArgumentParser
from Daddy.core.entry_point import run_entry
from Daddy.core.event_log import EventTail
from Daddy.fanout.fanout_files import FanoutPaths, read_settings
from Daddy.fanout.fanout_screen import draw_live, draw_summary
from Daddy.fanout.fanout_settings import settings_from
from Daddy.fanout.fanout_state import FanoutState
from scripts.readme_picture import INK, PAPER, monospaced

COLUMNS, ROWS = 80, 24
_MARGIN, _LINE, _CELL = 24, 22, 10.24
_COLOURS = 32


def screens_of(run_dir: Path) -> RenderableType:
    """Return the live table at half of a run, and its summary."""
    paths = FanoutPaths(run_dir)
    events: list[Any] = sorted(EventTail(paths.events).read_new(), key=lambda event: event["ts"])
    token, began = events[-1]["data"]["token"], events[0]["ts"]
    state = FanoutState(settings_from({}, read_settings(paths)), token)
    live: RenderableType = ""
    for event in events:
        state.add_events([event])
        if not live and 2 * state.count()["done"] > len(state.rows):
            live = _drawn(draw_live(state, event["ts"] - began, ROWS))
    command = Text("$ python run_demo.py\n", "green")
    return Group(command, live, "", draw_summary(state, events[-1]["ts"] - began))


def _drawn(picture: RenderableType) -> Text:
    """Return a table as text, since its rows change later."""
    console = Console(
        file=io.StringIO(), width=COLUMNS, force_terminal=True, color_system="standard"
    )
    console.print(picture)
    assert isinstance(console.file, io.StringIO)
    return Text.from_ansi(console.file.getvalue())


def draw(lines: Sequence[Sequence[Segment]]) -> Image.Image:
    """Return lines of a terminal as a picture in a palette of few colours."""
    size = round(2 * _MARGIN + COLUMNS * _CELL), 2 * _MARGIN + _LINE * len(lines)
    picture = Image.new("RGB", size, PAPER)
    pen, font = ImageDraw.Draw(picture), monospaced()
    for number, line in enumerate(lines):
        column = 0
        for text, style, _ in line:
            colour = style.color.get_truecolor(DIMMED_MONOKAI) if style and style.color else INK
            pen.text(
                (_MARGIN + column * _CELL, _MARGIN + number * _LINE), text, tuple(colour), font
            )
            column += len(text)
    return picture.quantize(_COLOURS)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the picture."""
    parser = ArgumentParser(prog="scripts.fanout_picture", description=__doc__)
    parser.add_argument("run_dir", type=Path, help="folder of a run that has ended")
    parser.add_argument("--out", type=Path, default=Path("docs/fanout.png"), help="PNG to write")
    args = parser.parse_args(argv)
    console = Console(file=io.StringIO(), width=COLUMNS, force_terminal=True)
    draw(console.render_lines(screens_of(args.run_dir), pad=False)).save(args.out, optimize=True)
    print(f"{args.out}: {args.out.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
