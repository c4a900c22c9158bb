"""Adapter for the small files by which person, controller and jobs tell each other what is wanted.

``intent.json``: what the person wants, durable before anything else, read at every pass; it works
across login hosts, where a signal would not, and without a controller alive. ``orders.json``: what
jobs are to know when they claim a slot, so that a waiting job never has to be changed.
``failover.json``: whether jobs may make the controller's passes. Formats: ``docs/formats.md``.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass

from Daddy.cluster.orchestrator.controller_records import Intent, Mode, Orders
from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.errors import FileError
from Daddy.core.run_paths import RunPaths

VERSION = 1
"""Of each of the three formats."""


def read_intent(run: RunPaths) -> Intent | None:
    """The last thing asked for; None when ``start`` was never said here. FileError if damaged."""
    try:
        record = read_json(run.intent)
        return Intent(
            mode=Mode(record["mode"]),
            slots=int(record["slots"]),
            executor=str(record["executor"]),
            release=str(record["release"]),
            game=str(record["game"]),
            reason=str(record.get("reason", "")),
            started_ts=float(record.get("started_ts", 0.0)),
            daemon=bool(record.get("daemon", True)),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except FileError as error:
        raise _damaged(run, error.message) from error
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(run, f"{run.intent}: {error!r}") from error


def _damaged(run: RunPaths, what: str) -> FileError:
    return FileError(
        f"what was last asked for cannot be read: {what}",
        f"say start or stop again: either writes {run.intent} anew, and the jobs go on meanwhile",
    )


def write_intent(run: RunPaths, intent: Intent, now: float) -> None:
    """Replace the intent; on disk when this returns."""
    record = {**asdict(intent), "started_ts": round(intent.started_ts, 3)}
    write_json(run.intent, {"v": VERSION, "ts": round(now, 3), **record})


def read_orders(run: RunPaths) -> Orders | None:
    """The newest orders; None where none were ever given. FileError if damaged."""
    try:
        record = read_json(run.orders)
        slots = {int(slot): str(release) for slot, release in dict(record["slots"]).items()}
        return Orders(slots, str(record.get("reason", "")))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (KeyError, TypeError, ValueError) as error:
        what = f"{run.orders} cannot be read: {error!r}"
        raise FileError(what, "the controller writes it anew at its next pass") from error


def write_orders(run: RunPaths, orders: Orders) -> None:
    """Replace the orders, unless they stand there already; damaged ones are written anew."""
    with contextlib.suppress(FileError):
        if read_orders(run) == orders:
            return
    slots = {str(slot): release for slot, release in orders.slots.items()}
    write_json(run.orders, {"v": VERSION, "slots": slots, "reason": orders.reason})


@dataclass(frozen=True, slots=True)
class Probe:
    """The answer to a trial of submitting from a job; ``by`` tried it at ``ts`` (wall seconds).

    An answer from before the last ``start`` does not count.
    """

    may_submit: bool
    why: str
    by: str
    ts: float


def read_probe(run: RunPaths) -> Probe | None:
    """The known answer; None when nobody has tried or the file cannot be read."""
    try:
        record = read_json(run.failover)
        return Probe(
            bool(record["may_submit"]), str(record["why"]), str(record["by"]), float(record["ts"])
        )
    except (FileNotFoundError, NotADirectoryError, FileError, KeyError, TypeError, ValueError):
        return None


def write_probe(run: RunPaths, probe: Probe) -> None:
    """Replace what is known."""
    record = {**asdict(probe), "ts": round(probe.ts, 3)}
    write_json(run.failover, {"v": VERSION, **record})
