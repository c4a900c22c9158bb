"""Pure: a person's own ``sacct`` export as a workload of the simulator.

Made with ``sacct -P -X -S now-90days -o Submit,Eligible,Start,End,State``; more columns are let be.
Of every job that ever started, the time from when it was eligible until it started is one wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from statistics import median

from Daddy.cluster.orchestrator.simulate.scenario import Workload

_NEEDED = ("Eligible", "Start")
_FEWEST = 20
"""Waits without which a distribution is a guess."""


class ExportError(ValueError):
    """The text is no export that waits can be read from; says why."""


def read_export(text: str, name: str = "own site") -> Workload:
    """The workload of one export; ExportError when it holds too little."""
    lines = [line for line in text.splitlines() if line.strip()]
    heads = lines[0].split("|") if lines else []
    missing = [one for one in _NEEDED if one not in heads]
    if missing:
        raise ExportError(f"the first line has no column {' and no column '.join(missing)}")
    waits = sorted(_waits(lines[1:], heads))
    if len(waits) < _FEWEST:
        raise ExportError(f"{len(waits)} jobs started, and {_FEWEST} are needed")
    middle = median(waits)
    return Workload(name, middle, 0.0, longest_s=waits[-1], measured_s=tuple(waits))


def _waits(lines: list[str], heads: list[str]) -> Iterator[float]:
    """Steps (``123.batch``) have no Eligible of their own and fall out with what cannot be read."""
    eligible, start = heads.index("Eligible"), heads.index("Start")
    submit = heads.index("Submit") if "Submit" in heads else eligible
    for line in lines:
        parts = line.split("|")
        if len(parts) < len(heads):
            continue
        began = _stamp(parts[start])
        ready = _stamp(parts[eligible]) or _stamp(parts[submit])
        if began is not None and ready is not None and began >= ready:
            yield began - ready


def _stamp(text: str) -> float | None:
    """Seconds; what was not (``Unknown``, ``None``) is None. Time zones cancel out."""
    if text.isdigit():
        return float(text)
    try:
        return (datetime.fromisoformat(text) - datetime(1970, 1, 1)).total_seconds()  # noqa: DTZ001
    except ValueError:
        return None
