"""What the slots' leases and checkpoints say: read-only, cheap, without the learner's code.

Names of checkpoints (``t<term>-s<step>.json``) carry the term, so that progress of an attempt is
the existence of a checkpoint of its own term, whatever any clock says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator.records import SlotView
from Daddy.core.lease import read_lease
from Daddy.core.machine import ProcessId, host_name, is_alive
from Daddy.core.paths import RunPaths

_CHECKPOINT = re.compile(r"t(\d{6})-s(\d{12})\.json")


def read_slots(run: RunPaths, count: int) -> tuple[SlotView, ...]:
    """Every slot that was ever held, of the first ``count``."""
    views = (_read_slot(run, number) for number in range(count))
    return tuple(view for view in views if view is not None)


def _read_slot(run: RunPaths, number: int) -> SlotView | None:
    paths = run.slot(number)
    lease = read_lease(paths.lease)
    if lease is None:
        return None
    term, step = newest_checkpoint(paths.checkpoints)
    return SlotView(
        slot=number,
        term=lease.term,
        token=str(lease.holder.get("token", "")),
        goodbye=lease.ended,
        holder_alive=holder_alive(lease.holder),
        checkpoint_term=term,
        checkpoint_step=step,
    )


def holder_alive(holder: Mapping[str, Any]) -> bool | None:
    """Whether a lease's holder lives, by pid and creation time; None when it is on another host."""
    if holder.get("host") != host_name():
        return None
    try:
        return is_alive(ProcessId(int(holder["pid"]), float(holder["created"])))
    except (KeyError, TypeError, ValueError):
        return None


def newest_checkpoint(folder: Path) -> tuple[int, int]:
    """(term, step) of the newest checkpoint in a folder; (0, 0) where there is none."""
    if not folder.is_dir():
        return 0, 0
    names = (_CHECKPOINT.fullmatch(path.name) for path in folder.iterdir())
    found = ((int(match[1]), int(match[2])) for match in names if match)
    return max(found, default=(0, 0))
