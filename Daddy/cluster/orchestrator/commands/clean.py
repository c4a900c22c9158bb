"""``clean``: show what of a run nobody needs any more, and take it away when told so."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from Daddy.cluster.orchestrator.commands.forecast import human
from Daddy.cluster.orchestrator.commands.leftovers import InUse, Leftover, Thing, leftovers
from Daddy.cluster.orchestrator.commands.request import Request, known_intent
from Daddy.cluster.orchestrator.history import replay
from Daddy.cluster.orchestrator.ledger import read_entries
from Daddy.cluster.orchestrator.slots import read_slots
from Daddy.core.clock import SystemClock
from Daddy.core.config import run_paths
from Daddy.core.errors import ExitCode, FileError
from Daddy.core.files import read_json
from Daddy.core.lease import read_lease
from Daddy.core.paths import RunPaths
from Daddy.core.settings import Config

_FALL_BACK = 2
"""Proven releases that are kept for a release that fails."""


def clean(request: Request, *, days: float, yes: bool) -> int:
    """List leftovers older than ``days``; with ``yes`` remove them."""
    config, clock = request.load(), SystemClock()
    run = run_paths(config)
    if not run.root.is_dir():
        raise FileError(f"there is no run in {run.root}", "name its config with --config")
    found = leftovers(_listing(run), _in_use(config, run), clock.now(), days)
    for line in _summary(found):
        print(line)
    if not found:
        print("nothing is left over")
    elif yes:
        freed = sum(_remove(run.root / one.thing.path, one.thing.size) for one in found)
        print(f"removed: {human(freed)} are free again")
    else:
        print("nothing was removed: say clean --yes to do it")
    return ExitCode.DONE


def _summary(found: tuple[Leftover, ...]) -> Iterator[str]:
    groups: dict[str, list[Leftover]] = defaultdict(list)
    for one in found:
        groups[one.why].append(one)
    for why, members in groups.items():
        size = human(sum(one.thing.size for one in members))
        first, last = members[0].thing.path, members[-1].thing.path
        span = first if len(members) == 1 else f"{first} … {last}"
        yield f"{size:>9}  {len(members):4d} × {why}: {span}"


def _in_use(config: Config, run: RunPaths) -> InUse:
    """Everything that something still names; a doubt keeps."""
    ledger = replay(read_entries(run.ledger))
    intent, _ = known_intent(run)
    releases = {one.release for one in ledger.live} | set(ledger.proven[-_FALL_BACK:])
    releases |= {view.release for view in read_slots(run, 64)}
    if intent is not None:
        releases.add(intent.release)
    controller = read_lease(run.controller_lease)
    if controller is not None:  # its code, also where it still starts companions from it
        releases.add(str(controller.holder.get("release", "")))
    with contextlib.suppress(FileNotFoundError, FileError):
        releases |= {str(name) for name in read_json(run.orders).get("slots", {}).values()}
    jobs = {str(one.job_id) for one in ledger.live}
    return InUse(
        releases=frozenset(releases),
        jobs=frozenset(jobs),
        attempts=frozenset(str(one.number) for one in ledger.live),
        keep_checkpoints=config.checkpointing.max_keep,
    )


def _listing(run: RunPaths) -> Iterator[Thing]:
    """What could be left over; folders of releases and of ended jobs count as one thing each."""
    folders = [run.logs, run.scripts, run.releases, run.queue / "ended", run.controller]
    folders += sorted(run.slots.glob("*/checkpoints"))
    for folder in folders:
        if not folder.is_dir():
            continue
        for entry in sorted(os.scandir(folder), key=lambda one: one.name):
            with contextlib.suppress(OSError):
                yield _thing(Path(entry.path), run.root)


def _thing(path: Path, root: Path) -> Thing:
    stat = path.stat(follow_symlinks=False)
    size = _size(path) if path.is_dir() and not path.is_symlink() else stat.st_size
    return Thing(str(path.relative_to(root)), size, stat.st_mtime)


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat(follow_symlinks=False).st_size
    return total


def _remove(path: Path, size: int) -> int:
    """Bytes that were freed; what is gone already, or cannot go, is passed over with a word."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        print(f"kept {path}: {error.strerror}")
        return 0
    return size
