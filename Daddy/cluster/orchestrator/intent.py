"""What the person wants of the run, durable before anything else: ``controller/intent.json``.

Written by the commands, read by the controller at every pass. It works across login hosts, where
a signal would not, and without a controller alive.
"""

from __future__ import annotations

from dataclasses import dataclass

from Daddy.cluster.orchestrator.records import Desired, Mode
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

    @property
    def desired(self) -> Desired:
        return Desired(self.mode, self.slots)


def read_intent(run: RunPaths) -> Intent | None:
    """The last thing asked for; None when ``start`` was never said here. FileError if damaged."""
    try:
        record = read_json(run.intent)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Intent(
        mode=Mode(record["mode"]),
        slots=int(record["slots"]),
        executor=str(record["executor"]),
        release=str(record["release"]),
        game=str(record["game"]),
        reason=str(record.get("reason", "")),
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
    }
    write_json(run.intent, record)
