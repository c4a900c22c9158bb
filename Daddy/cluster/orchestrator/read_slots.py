"""Adapter for the slots' leases and checkpoints: reads their state without the learner's code.

The name of a checkpoint (``t<term>-s<step>.json``) has the term of its slot's lease: an attempt has
made progress when a checkpoint of its own term exists; no clocks are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator.controller_types import SlotView
from Daddy.core.clock import Clock
from Daddy.core.lease import is_holder_alive, read_lease
from Daddy.core.run_paths import RunPaths

_MAX_GAP_S = 180.0
"""Seconds: more than between two passes, and less than the silence that counts as a hang."""
CHECKPOINT_FILES = "*/checkpoints/*.safetensors"
"""Pattern of the checkpoints' large files below ``run.slots``."""
_CHECKPOINT = re.compile(r"t(\d{6})-s(\d{12})_*\.json")


def read_slots(
    run: RunPaths, count: int, silence: HeartbeatSilence | None = None
) -> tuple[SlotView, ...]:
    """Return the state of each of the first ``count`` slots that has a lease."""
    views = (_read_slot(run, number, silence) for number in range(count))
    return tuple(view for view in views if view is not None)


class HeartbeatSilence:
    """Measures for how long slots' heartbeats have not moved, on this process's own clock.

    All durations start at 0, so a new controller ends no job for a silence that it did not measure.
    The time between two measurements adds at most ``longest_s``: a shared disk that hangs keeps
    learners from writing heartbeats as well as this process from reading them.
    """

    def __init__(self, clock: Clock, longest_s: float = _MAX_GAP_S) -> None:
        self._clock = clock
        self._longest_s = longest_s
        self._measured: dict[int, tuple[tuple[int, object], float, float]] = {}

    def export_durations(self) -> dict[str, list[object]]:
        """Return the durations for another process: slot → [term, counter, seconds]."""
        return {
            str(slot): [*mark, round(still, 1)] for slot, (mark, still, _) in self._measured.items()
        }

    def import_durations(self, durations: Mapping[str, Sequence[Any]]) -> None:
        """Continue from the durations that another process exported."""
        now = self._clock.monotonic()
        for slot, (term, counter, still) in durations.items():
            self._measured[int(slot)] = ((term, counter), float(still), now)

    def forget(self, slots: Iterable[int]) -> None:
        """Restart the durations of these slots at 0."""
        for slot in slots:
            self._measured.pop(slot, None)

    def measure_silence(self, slot: int, term: int, counter: object) -> float:
        """Return the seconds for which ``counter`` of ``term`` has kept its value."""
        now, mark = self._clock.monotonic(), (term, counter)
        before, still, previous = self._measured.get(slot, (None, 0.0, now))
        still = still + min(now - previous, self._longest_s) if before == mark else 0.0
        self._measured[slot] = (mark, still, now)
        return still


def _read_slot(run: RunPaths, number: int, silence: HeartbeatSilence | None) -> SlotView | None:
    paths = run.slot(number)
    lease = read_lease(paths.lease)
    if lease is None:
        return None
    term, step = newest_checkpoint(paths.checkpoints)
    counter = lease.beat.get("counter")
    still = silence.measure_silence(number, lease.term, counter) if silence else 0.0
    restarts = lease.holder.get("restarts", 0)
    return SlotView(
        slot=number,
        term=lease.term,
        token=str(lease.holder.get("token", "")),
        end_reason=lease.ended,
        holder_alive=is_holder_alive(lease.holder),
        checkpoint_term=term,
        checkpoint_step=step,
        release=str(lease.holder.get("release", "")),
        restarts=restarts if isinstance(restarts, int) else 0,
        silent_s=still,
        beat=counter if isinstance(counter, int) else None,
    )


def newest_checkpoint(folder: Path) -> tuple[int, int]:
    """Return (term, step) of the newest checkpoint in a folder; (0, 0) if it has none."""
    if not folder.is_dir():
        return 0, 0
    names = (_CHECKPOINT.fullmatch(path.name) for path in folder.iterdir())
    checkpoints = ((int(match[1]), int(match[2])) for match in names if match)
    return max(checkpoints, default=(0, 0))
