"""Who may still write into a run: its controller, its learners, whoever beats in its folder.

One look cannot watch a counter stand still, and clocks of two machines are not compared: a beat's
age is told by the clock of the file system that holds it, next to a file that is written now.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from Daddy.core.lease import holder_alive, read_lease
from Daddy.core.paths import RunPaths
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights import beats
from Daddy.weights.store.store import Store
from Daddy.weights.weighting import SILENCE_S


def now_there(folder: Path) -> float | None:
    """The file system's own time at ``folder``, in wall seconds; None where it takes no file."""
    probe = folder / f".tmp-now-{os.getpid()}-{uuid.uuid4().hex}"
    try:
        probe.touch(exist_ok=False)
        return probe.stat().st_mtime
    except OSError:
        return None
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


def writers(run: RunPaths | None, shared: SharedPaths, now: float) -> list[str]:
    """Who is not known to be gone, in words; ``now`` by the clock of the folder's file system."""
    found = [] if run is None else [said for said in _holders(run, now) if said]
    for pulse in beats.pulses(Store(shared)):
        path = shared.peer(pulse.peer, pulse.incarnation) / "hb.json"
        if not pulse.left and (age := _age(path, now)) is not None and age < SILENCE_S:
            found.append(f"{pulse.peer} beat {max(0.0, age):.0f} s ago in {shared.root}")
    return found


def _holders(run: RunPaths, now: float) -> Iterator[str]:
    """The controller, and whoever fills a slot."""
    yield _holder("the controller", run.controller_lease, now)
    with contextlib.suppress(OSError):
        for slot in sorted(run.slots.iterdir()):
            yield _holder(f"the learner of slot {slot.name}", slot / "lease", now)


def _holder(name: str, folder: Path, now: float) -> str:
    """What to say of a lease's holder; "" for one that is gone: by its process, or by silence."""
    view = read_lease(folder)
    if view is None or view.ended is not None:
        return ""
    alive = holder_alive(view.holder)
    if alive:
        return f"{name} lives, process {view.holder.get('pid')} of this host"
    age = _age(folder / "beat.json", now)
    if alive is False or age is None or age >= SILENCE_S:
        return ""
    return f"{name} beat {max(0.0, age):.0f} s ago on {view.holder.get('host')}"


def _age(path: Path, now: float) -> float | None:
    try:
        return now - path.stat().st_mtime
    except OSError:
        return None
