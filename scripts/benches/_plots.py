"""Adapter for matplotlib: the look that all pictures of the benches share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COLOURS = ("#2f855a", "#2b6cb0", "#dd9f2b", "#c05621", "#6b46c1")
INK, FAINT = "#1f2933", "#cbd2d9"


@contextmanager
def picture(path: Path, columns: int, rows: int = 1, height: float = 4.6) -> Iterator[list[Any]]:
    """The axes of a figure, row by row; written to ``path`` as PNG at the end. Sizes in inches."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.edgecolor": FAINT, "text.color": INK})
    figure, grid = plt.subplots(
        rows,
        columns,
        figsize=(6 * columns, height * rows),
        dpi=110,
        layout="constrained",
        squeeze=False,
    )
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=FAINT, alpha=0.4, linewidth=0.6)
    yield list(grid.flat)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
