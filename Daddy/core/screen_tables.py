"""Pure. Makes tables of text for a screen: on a narrow one columns go, never digits of a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

_GAP = 2
_LEAST = 16
"""Columns that the last column keeps, in which text is wrapped."""


def make_table(
    titles: Sequence[str],
    rows: Iterable[Sequence[Text | str]],
    width: int,
    expendable: Sequence[str] = (),
) -> Table:
    """Return a table; a title that begins with ``>`` aligns right, the last column wraps.

    Columns in ``expendable`` are left out if they are empty, and, the first of them first, until
    the rest fits ``width``.
    """
    lines = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    heads = [title.lstrip(">") for title in titles]
    widths = [
        max([len(head), *(line[place].cell_len for line in lines)])
        for place, head in enumerate(heads)
    ]
    kept = [
        place
        for place in kept_columns(heads, widths, width, expendable)
        if heads[place] not in expendable or any(line[place].cell_len for line in lines)
    ]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    table.show_header = any(titles)
    for place in kept:
        table.add_column(
            heads[place],
            justify="right" if titles[place].startswith(">") else "left",
            no_wrap=place != len(titles) - 1,
            overflow="fold",
        )
    for line in lines:
        table.add_row(*(line[place] for place in kept))
    return table


def kept_columns(
    heads: Sequence[str], widths: Sequence[int], width: int, expendable: Sequence[str]
) -> list[int]:
    """Return the columns that fit, by place; the last one may be wrapped to `_LEAST` columns."""
    kept, going = [*range(len(heads))], [*expendable]
    needed = [*widths[:-1], min(widths[-1], _LEAST)]
    while going and sum(needed[place] + _GAP for place in kept) - _GAP > width:
        head = going.pop(0)
        kept = [place for place in kept if heads[place] != head]
    return kept
