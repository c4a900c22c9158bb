"""Adapter for the small files through which person, controller and jobs exchange requests.

``intent.json``: the mode and size that the person asked for. Commands write it first and the
controller reads that file at every pass, so a request reaches a controller on another login host,
or one that starts later. ``orders.json``: the controller's list of slots and releases, read by each
job when it claims a slot. ``failover.json``: the result of a test if jobs may submit jobs, and so
make the controller's passes, and the newest listing that answered beside a controller that cannot
read the queue. ``identity.json``: the mark of the run's jobs in the queue. Formats:
``docs/formats.md``.
"""

import contextlib
from dataclasses import asdict, dataclass
from pathlib import Path

from Daddy.cluster.orchestrator.controller_types import DesiredRun, Mode, Orders
from Daddy.core.atomic_files import (
    canonical_json,
    create_exclusive,
    read_json,
    read_json_or_empty,
    write_json,
)
from Daddy.core.errors import FileError
from Daddy.core.run_paths import RunPaths

VERSION = 1
"""The version number of each of the four formats."""


def read_intent(run: RunPaths) -> DesiredRun | None:
    """Return the content of ``intent.json``; None if it does not exist. FileError if damaged."""
    try:
        record = read_json(run.intent)
        return DesiredRun(
            mode=Mode(record["mode"]),
            slots=int(record["slots"]),
            executor=str(record["executor"]),
            release=str(record["release"]),
            game=str(record["game"]),
            reason=str(record.get("reason", "")),
            started_ts=float(record.get("started_ts", 0.0)),
            daemon=bool(record.get("daemon", True)),
            stopped_slots=tuple(int(slot) for slot in record.get("stopped_slots", ())),
            environment={
                str(name): str(text) for name, text in record.get("environment", {}).items()
            },
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except FileError as error:
        raise _damaged(error.message) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(f"{run.intent}: {error!r}") from error


def _damaged(cause: str) -> FileError:
    fix = "type `run_controller start` or `run_controller stop`: either writes the intent anew"
    return FileError(
        f"the run's intent cannot be read: {cause}", f"{fix}; the jobs go on meanwhile"
    )


def write_intent(run: RunPaths, intent: DesiredRun, now: float) -> None:
    """Replace ``intent.json`` and wait for the disk; ``now``: wall seconds."""
    record = {**asdict(intent), "started_ts": round(intent.started_ts, 3)}
    write_json(run.intent, {"v": VERSION, "ts": round(now, 3), **record})


def read_orders(run: RunPaths) -> Orders | None:
    """Return the content of ``orders.json``; None if it does not exist. FileError if damaged."""
    try:
        record = read_json(run.orders)
        slots = {int(slot): str(release) for slot, release in dict(record["slots"]).items()}
        return Orders(slots, str(record.get("reason", "")))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (KeyError, TypeError, ValueError) as error:
        text = f"{run.orders} cannot be read: {error!r}"
        raise FileError(text, "do nothing: the controller's next pass writes the file") from error


def write_orders(run: RunPaths, orders: Orders) -> None:
    """Write ``orders.json``, unless it already holds ``orders``."""
    with contextlib.suppress(FileError):
        if read_orders(run) == orders:
            return
    slots = {str(slot): release for slot, release in orders.slots.items()}
    write_json(run.orders, {"v": VERSION, "slots": slots, "reason": orders.reason})


@dataclass(frozen=True, slots=True)
class Probe:
    """Holds the result of a test if jobs may submit jobs, by ``by`` at ``ts`` (wall seconds)."""

    may_submit: bool
    why: str
    by: str
    ts: float


def read_probe(run: RunPaths) -> Probe | None:
    """Return the content of ``failover.json``; None if it is missing or cannot be read."""
    try:
        record = read_json(run.failover)
        return Probe(
            bool(record["may_submit"]), str(record["why"]), str(record["by"]), float(record["ts"])
        )
    except (FileNotFoundError, NotADirectoryError, FileError, KeyError, TypeError, ValueError):
        return None


def write_probe(run: RunPaths, probe: Probe) -> None:
    """Write the test result to ``failover.json``."""
    record = {**asdict(probe), "ts": round(probe.ts, 3)}
    write_json(run.failover, {**read_json_or_empty(run.failover), "v": VERSION, **record})


def read_answered(run: RunPaths) -> object:
    """Return the record of the newest listing that answered beside a blind controller, or None."""
    return read_json_or_empty(run.failover).get("answered")


def write_answered(run: RunPaths, by: str, now: float) -> None:
    """Record in ``failover.json`` that a listing by the process ``by`` answered at ``now``."""
    answered = {"by": by, "ts": round(now, 3)}
    record = {**read_json_or_empty(run.failover), "v": VERSION, "answered": answered}
    write_json(run.failover, record)


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Holds the mark by which a run's jobs are found in the queue, whatever its settings say."""

    run_id: str
    run_dir: str
    """Path of the run directory when the mark was given."""
    cluster: str = ""
    """Name of the Slurm cluster that has the run's jobs; empty where it is not known."""
    asked: str = ""
    """The place (host, SLURM_CONF, squeue) where that cluster last told its name."""


def read_identity(run: RunPaths) -> RunIdentity | None:
    """Return the run's identity; None before its first start, and in a copy of another run.

    Raises FileError if the file is damaged: a guess would disown every running job.
    """
    try:
        record = read_json(run.identity)
        told = {name: str(record.get(name, "")) for name in ("cluster", "asked")}
        identity = RunIdentity(str(record["run_id"]), str(record["run_dir"]), **told)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (FileError, KeyError, TypeError) as error:
        fix = "remove the file and type `run_controller start`, which reads the mark from the queue"
        raise FileError(f"the run's identity cannot be read: {error!r}", fix) from error
    return None if _is_another(Path(identity.run_dir), run.root) else identity


def _is_another(first: Path, root: Path) -> bool:
    """Return True if ``first`` still is a run beside ``root``, so ``root`` was copied from it."""
    return RunPaths(first).identity.exists() and not first.samefile(root)


def update_identity(run: RunPaths, identity: RunIdentity) -> None:
    """Replace ``identity.json``."""
    write_json(run.identity, {"v": VERSION, **asdict(identity)})


def write_identity(run: RunPaths, identity: RunIdentity) -> RunIdentity:
    """Write ``identity.json`` unless another start was faster; return the run's identity."""
    data = canonical_json({"v": VERSION, **asdict(identity)})
    if not create_exclusive(run.identity, data) and read_identity(run) is None:
        update_identity(run, identity)  # it is of the run that this folder is a copy of
    return read_identity(run) or identity
