"""Reads the slots' leases and checkpoints: cheap, without the learner's code.

Names of checkpoints (``t<term>-s<step>.json``) carry the term, so that progress of an attempt is
the existence of a checkpoint of its own term, whatever any clock says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator.controller_records import SlotView
from Daddy.core.clock import Clock
from Daddy.core.lease import is_holder_alive, read_lease
from Daddy.core.run_paths import RunPaths

_LOOK_S = 180.0
"""More than passes are apart, and less than the silence that counts as a hang."""
_CHECKPOINT = re.compile(r"t(\d{6})-s(\d{12})\.json")


def read_slots(
    run: RunPaths, count: int, silence: HeartbeatSilence | None = None
) -> tuple[SlotView, ...]:
    """Every slot that was ever held, of the first ``count``."""
    views = (_read_slot(run, number, silence) for number in range(count))
    return tuple(view for view in views if view is not None)


class HeartbeatSilence:
    """Durations for which slots' beats have stood still, on this process's own clock.

    A controller that has just begun knows of no silence yet: nobody is ended for what was not seen.
    Nor for a time in which we saw nothing ourselves: of the time between two looks ``longest_s``
    count at most, because a shared disk that hangs keeps us from looking and learners from beating.
    """

    def __init__(self, clock: Clock, longest_s: float = _LOOK_S) -> None:
        self._clock = clock
        self._longest_s = longest_s
        self._seen: dict[int, tuple[tuple[int, object], float, float]] = {}

    def export_durations(self) -> dict[str, list[object]]:
        """The durations, for another process of this host: slot → [term, counter, seconds]."""
        return {
            str(slot): [*mark, round(still, 1)] for slot, (mark, still, _) in self._seen.items()
        }

    def import_durations(self, told: Mapping[str, Sequence[Any]]) -> None:
        """Go on from what another process :meth:`export_durations`."""
        now = self._clock.monotonic()
        for slot, (term, counter, still) in told.items():
            self._seen[int(slot)] = ((term, counter), float(still), now)

    def forget(self, slots: Iterable[int]) -> None:
        """Begin anew with these: their silence was excused."""
        for slot in slots:
            self._seen.pop(slot, None)

    def measure(self, slot: int, term: int, counter: object) -> float:
        """Seconds for which ``counter`` of ``term`` was seen to stay at this value."""
        now, mark = self._clock.monotonic(), (term, counter)
        before, still, looked = self._seen.get(slot, (None, 0.0, now))
        still = still + min(now - looked, self._longest_s) if before == mark else 0.0
        self._seen[slot] = (mark, still, now)
        return still


def _read_slot(run: RunPaths, number: int, silence: HeartbeatSilence | None) -> SlotView | None:
    paths = run.slot(number)
    lease = read_lease(paths.lease)
    if lease is None:
        return None
    term, step = newest_checkpoint(paths.checkpoints)
    still = silence.measure(number, lease.term, lease.beat.get("counter")) if silence else 0.0
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
    )


def newest_checkpoint(folder: Path) -> tuple[int, int]:
    """(term, step) of the newest checkpoint in a folder; (0, 0) where there is none."""
    if not folder.is_dir():
        return 0, 0
    names = (_CHECKPOINT.fullmatch(path.name) for path in folder.iterdir())
    found = ((int(match[1]), int(match[2])) for match in names if match)
    return max(found, default=(0, 0))
