"""Pure. Makes tables of text for a screen: on a narrow one columns go, never digits of a number."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from Daddy.core.humanize import GAP, kept_columns


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
    used = [
        place
        for place, head in enumerate(heads)
        if head not in expendable or any(line[place] for line in lines)
    ]
    broad = [max(map(len, head.split("\n"))) for head in heads]
    widths = [max([broad[place], *(line[place].cell_len for line in lines)]) for place in used]
    fits = kept_columns([heads[place] for place in used], widths, width, expendable)
    kept = [used[place] for place in fits]
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
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
