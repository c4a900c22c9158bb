"""``controller/failover.json``: whether jobs of this run may make the controller's passes.

Written by the first job that tried, read by ``status`` and by every sidecar. Version 1:
``v, may_submit, why, by, ts``. An answer from before the last ``start`` does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

from Daddy.core.errors import FileError
from Daddy.core.files import read_json, write_json
from Daddy.core.paths import RunPaths

VERSION = 1


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found out; ``by`` says where, ``ts`` when (wall seconds)."""

    may_submit: bool
    why: str
    by: str
    ts: float


def read_probe(run: RunPaths) -> Probe | None:
    """What is known; None when nobody has tried or the file cannot be read."""
    try:
        record = read_json(run.failover)
        return Probe(
            bool(record["may_submit"]), str(record["why"]), str(record["by"]), float(record["ts"])
        )
    except (FileNotFoundError, NotADirectoryError, FileError, KeyError, TypeError, ValueError):
        return None


def write_probe(run: RunPaths, probe: Probe) -> None:
    """Replace what is known."""
    record = {"may_submit": probe.may_submit, "why": probe.why, "by": probe.by}
    write_json(run.failover, {"v": VERSION, "ts": round(probe.ts, 3), **record})
