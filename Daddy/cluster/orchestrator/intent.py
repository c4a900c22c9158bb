"""What the person wants of the run, durable before anything else: ``controller/intent.json``.

Written by the commands, read by the controller at every pass. It works across login hosts, where
a signal would not, and without a controller alive.
"""

from __future__ import annotations

from dataclasses import dataclass

from Daddy.cluster.orchestrator.records import Desired, Mode
from Daddy.core.errors import FileError
from Daddy.core.files import read_json, write_json
from Daddy.core.paths import RunPaths

VERSION = 1


@dataclass(frozen=True, slots=True)
class Intent:
    """Mode and size of the fleet, where it runs, from which release, and the game it plays."""

    mode: Mode
    slots: int
    executor: str
    release: str
    game: str
    reason: str = ""
    started_ts: float = 0.0
    """When ``start`` was last said, wall seconds: failures before that are forgiven."""
    daemon: bool = True
    """Whether a controller is to live on a login node; if not, the jobs make its passes."""

    @property
    def desired(self) -> Desired:
        return Desired(self.mode, self.slots, self.release)


def read_intent(run: RunPaths) -> Intent | None:
    """The last thing asked for; None when ``start`` was never said here. FileError if damaged."""
    try:
        record = read_json(run.intent)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except FileError as error:
        raise _damaged(run, error.message) from error
    try:
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
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(run, f"{run.intent}: {error!r}") from error


def _damaged(run: RunPaths, what: str) -> FileError:
    return FileError(
        f"what was last asked for cannot be read: {what}",
        f"say start or stop again: either writes {run.intent} anew, and the jobs go on meanwhile",
    )


def write_intent(run: RunPaths, intent: Intent, now: float) -> None:
    """Replace the intent; on disk when this returns."""
    record = {
        "v": VERSION,
        "ts": round(now, 3),
        "mode": intent.mode.value,
        "slots": intent.slots,
        "executor": intent.executor,
        "release": intent.release,
        "game": intent.game,
        "reason": intent.reason,
        "started_ts": round(intent.started_ts, 3),
        "daemon": intent.daemon,
    }
    write_json(run.intent, record)
