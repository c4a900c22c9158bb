"""Pure. Draws a fan-out: the live table, a line for each change, and the summary."""

from collections.abc import Sequence
from statistics import fmean

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from Daddy.core.confidence_intervals import Interval
from Daddy.core.humanize import format_span, printable_line
from Daddy.fanout.fanout_settings import sandbox_id
from Daddy.fanout.fanout_state import FanoutState, SandboxRow
from Daddy.fanout.rate_summary import RateResult, compare_rates, results_by_rate

MOST_ROWS = 20
_OTHER_LINES = 4
"""Header, column heads, the line of the other sandboxes, and the cursor's line."""
_STYLES = {"pending": "dim", "running": "green", "done": "bold", "error": "red"}
_FIRST = ("running", "error", "done", "pending")
"""States in the order in which their rows get a place."""


def draw_live(state: FanoutState, elapsed_s: float, height: int) -> RenderableType:
    """Return header and table; at most 20 rows, in `height` lines at most."""
    shown = choose_rows(list(state.rows.values()), min(MOST_ROWS, max(1, height - _OTHER_LINES)))
    table = Table(box=None, pad_edge=False, expand=True, header_style="bold cyan")
    for head in ("#", "sandbox", "state"):
        table.add_column(head, no_wrap=True)
    for head in ("episode", "avg(100)", "best", "solved", "rate"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in shown:
        table.add_row(*_cells(state, row), style=_STYLES[row.state])
    parts: list[RenderableType] = [draw_header(state, elapsed_s), table]
    if others := len(state.rows) - len(shown):
        parts.append(Text(f"{others:,} more", style="dim"))
    return Group(*parts)


def choose_rows(rows: Sequence[SandboxRow], most: int) -> list[SandboxRow]:
    """Return at most `most` rows by index: running ones, errors, the newest done, pending ones."""
    chosen: list[SandboxRow] = []
    for state in _FIRST:
        fitting = [row for row in rows if row.state == state]
        left = most - len(chosen)
        chosen += fitting[max(0, len(fitting) - left) :] if state == "done" else fitting[:left]
    return sorted(chosen[:most], key=lambda row: row.index)


def draw_header(state: FanoutState, elapsed_s: float) -> Text:
    """Return one line: time, running, complete, share of solved ones, average, errors."""
    count, done = state.count(), state.in_state("done")
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{format_span(elapsed_s)} elapsed  ", "cyan")
    text.append(f"{count['running']:,} running  ", "green")
    text.append(f"{count['done']:,}/{len(state.rows):,} complete  ", "bold")
    text.append(f"{_solved(done)} solved  ", "yellow")
    text.append(f"average {_mean(done)}", "magenta")
    if count["error"]:
        text.append(f"  {count['error']:,} failed", "bold red")
    return text


def _solved(done: Sequence[SandboxRow]) -> str:
    return f"{100 * sum(r.solved_at is not None for r in done) / len(done):.0f} %" if done else "-"


def _mean(done: Sequence[SandboxRow]) -> str:
    return f"{fmean(row.average for row in done):.1f}" if done else "-"


def _cells(state: FanoutState, row: SandboxRow) -> list[str]:
    began = row.episode > 0
    return [
        str(row.index),
        sandbox_id(row.index),
        row.state,
        f"{row.episode:,}" if began else "-",
        f"{row.average:.1f}" if began else "-",
        "-" if row.best is None else f"{row.best:.1f}",
        "-" if row.solved_at is None else f"at {row.solved_at:,}",
        f"{state.settings.rate_of(row.index):g}",
    ]


def change_line(state: FanoutState, row: SandboxRow) -> str:
    """Return a change of a sandbox's state as one line of text."""
    name, rate = sandbox_id(row.index), state.settings.rate_of(row.index)
    if row.state == "error":
        return f"{name} error: {printable_line(row.message)}"
    if row.state != "done":
        return f"{name} {row.state}, learning rate {rate:g}"
    solved = "not solved" if row.solved_at is None else f"solved at {row.solved_at:,}"
    return f"{name} done: average {row.average:.1f} of {row.episode:,} episodes, {solved}"


def draw_summary(state: FanoutState, elapsed_s: float) -> RenderableType:
    """Return totals, the table by learning rate, and the comparison of the rates."""
    done, count = state.in_state("done"), state.count()
    lines = [
        f"sandboxes  {len(state.rows):,}: {count['done']:,} done, {count['error']:,} failed",
        f"solved     {sum(row.solved_at is not None for row in done):,} ({_solved(done)})",
        f"average    {_mean(done)}",
        f"time       {format_span(elapsed_s)}, {format_span(_cpu(state))} of CPU time",
    ]
    if not done:
        return Text("\n".join(lines))
    results = results_by_rate(done, state.settings)
    return Group(Text("\n".join(lines)), _rate_table(results), Text(compare_rates(results)))


def _cpu(state: FanoutState) -> float:
    return sum(row.cpu_s for row in state.rows.values())


def _rate_table(results: Sequence[RateResult]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold cyan")
    for head in ("rate", "sandboxes", "solved", "95 %", "average", "95 %"):
        table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        share, average = result.solved_share, result.average
        table.add_row(
            f"{result.rate:g}",
            f"{result.sandboxes:,}",
            f"{100 * share.middle:.0f} %",
            f"{100 * share.low:.0f} to {100 * share.high:.0f} %",
            f"{average.middle:.1f}",
            _limits(average) if result.sandboxes > 1 else "only one",
        )
    return table


def _limits(interval: Interval) -> str:
    return f"{interval.low:.1f} to {interval.high:.1f}"
