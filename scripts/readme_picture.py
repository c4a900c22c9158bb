"""Draw the README's picture: the viewer and ``status`` of a run, as one small PNG.

Type ``python -m scripts.readme_picture runs/demo`` while ``scripts/demo`` is in its live part. The
upper half is the picture that the demo's viewer keeps (``viewer.png``), the lower half the output
of ``run_controller status`` at the same moment.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from Daddy.core.arguments import ArgumentParser
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import FileError

PAPER, INK, LIGHT = (18, 22, 27), (226, 232, 240), (74, 222, 128)
WIDTH = 1180
"""Pixels; the status text needs 100 columns of 11 pixels and a margin."""
_MARGIN, _LINE, _VIEWER = 24, 22, 800
_COLOURS = 64


def status_of(run_dir: Path) -> list[str]:
    """Return the lines that ``status`` prints of the run; FileError where there are none."""
    argv = [sys.executable, "-m", "Daddy.cluster.orchestrator.run_controller", "status"]
    done = subprocess.run(
        [*argv, "--config", str(run_dir / "config.json")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "100", "HOME": str(Path.home())},
    )
    if not done.stdout.strip():
        raise FileError(f"there is no status of {run_dir}: {done.stderr.strip()}", "start the demo")
    return done.stdout.rstrip().splitlines()


def draw(viewer: Image.Image, lines: Sequence[str]) -> Image.Image:
    """Return the viewer's window above the status text, in a palette of 64 colours."""
    height = round(viewer.height * _VIEWER / viewer.width)
    shown = viewer.resize((_VIEWER, height), Image.Resampling.LANCZOS)
    top = shown.height + 2 * _MARGIN
    picture = Image.new("RGB", (WIDTH, top + _LINE * (len(lines) + 1) + _MARGIN), PAPER)
    picture.paste(shown, ((WIDTH - _VIEWER) // 2, _MARGIN))
    font = monospaced()
    pen = ImageDraw.Draw(picture)
    pen.text((_MARGIN, top), "$ run_controller status", LIGHT, font)
    for number, line in enumerate(lines, 1):
        pen.text((_MARGIN, top + number * _LINE), line, INK, font)
    return picture.quantize(_COLOURS)


def monospaced() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return the monospaced font that matplotlib ships, so that every machine draws the same."""
    import matplotlib as mpl

    return ImageFont.truetype(str(Path(mpl.get_data_path()) / "fonts/ttf/DejaVuSansMono.ttf"), 17)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the picture; FileError without a viewer's picture or a status."""
    parser = ArgumentParser(prog="scripts.readme_picture", description=__doc__)
    parser.add_argument("run_dir", type=Path, help="folder of the run, such as runs/demo")
    parser.add_argument("--out", type=Path, default=Path("docs/daddy.png"), help="PNG to write")
    args = parser.parse_args(argv)
    seen = args.run_dir / "viewer.png"
    if not seen.exists():
        raise FileError(f"there is no {seen} yet", "wait until the demo's viewer shows agents")
    with Image.open(seen) as viewer:
        draw(viewer.convert("RGB"), status_of(args.run_dir)).save(args.out, optimize=True)
    print(f"{args.out}: {args.out.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
