"""``clean``: show files of a run that nobody needs any more, and remove them when told so.

Kept in any case: events, shared weights, the ledger, every release that something runs or could
fall back to, the newest checkpoints, and the output of jobs that live.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from Daddy.cluster.orchestrator.commands.disk_space import format_bytes
from Daddy.cluster.orchestrator.commands.run_selection import Request, try_read_intent
from Daddy.cluster.orchestrator.ledger_file import read_ledger
from Daddy.cluster.orchestrator.slot_status import read_slots
from Daddy.core.atomic_files import read_json_or_empty
from Daddy.core.clock import SystemClock
from Daddy.core.errors import ExitCode, FileError
from Daddy.core.lease import read_lease
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import KEPT_CHECKPOINTS

_FALL_BACK = 2
"""Proven releases that are kept for a release that fails."""
DAY_S = 86_400.0
_TEMP_S = 3600.0
"""Age at which an unfinished file was left by a crash."""
_LOG = re.compile(r"logs/slurm-(\d+)\.(?:out|err)")
_SCRIPT = re.compile(r"scripts/attempt-(\d+)\.sbatch")
_RELEASE = re.compile(r"releases/([^/.][^/]*)")
_CHECKPOINT = re.compile(r"slots/(\d+)/checkpoints/(t\d{6}-s\d{12})\.(json|safetensors)")
_BROKEN = re.compile(r"slots/\d+/checkpoints/.*\.broken")
_ENDED_JOB = re.compile(r"queue/ended/[^/]+")
_TEMP = re.compile(r"(?:.*/)?\.(?:tmp|probe)-[^/]*")


@dataclass(frozen=True, slots=True)
class StaleFile:
    """A file, or a folder that goes as a whole: path in the run directory, bytes, wall seconds."""

    path: str
    size: int
    changed_ts: float


@dataclass(frozen=True, slots=True)
class InUse:
    """Names that must stay."""

    releases: frozenset[str]
    jobs: frozenset[str]
    attempts: frozenset[str]
    keep_checkpoints: int


def run_clean(request: Request, *, days: float, yes: bool) -> int:
    """List leftovers older than ``days``; with ``yes`` remove them."""
    run, clock = request.find_run()[1], SystemClock()
    if not run.root.is_dir():
        raise FileError(f"there is no run in {run.root}", "name its config with --config")
    found = find_leftovers(_listing(run), _in_use(run), clock.now(), days)
    for why, things in found.items():
        size = format_bytes(sum(thing.size for thing in things))
        first, last = things[0].path, things[-1].path
        span = first if len(things) == 1 else f"{first} … {last}"
        print(f"{size:>9}  {len(things):4d} × {why}: {span}")
    if not found:
        print("nothing is left over")
    elif yes:
        freed = sum(_remove(run.root / thing.path, thing.size) for thing in chain(*found.values()))
        print(f"removed: {format_bytes(freed)} are free again")
    else:
        print("nothing was removed: say clean --yes to do it")
    return ExitCode.DONE


def _in_use(run: RunPaths) -> InUse:
    """Everything that something still names; a doubt keeps."""
    ledger = read_ledger(run.ledger)
    intent, _ = try_read_intent(run)
    releases = {attempt.release for attempt in ledger.live} | set(ledger.proven[-_FALL_BACK:])
    releases |= {view.release for view in read_slots(run, 64)}
    if intent is not None:
        releases.add(intent.release)
    controller = read_lease(run.controller_lease)
    if controller is not None:  # its code, also where it still starts companions from it
        releases.add(str(controller.holder.get("release", "")))
    releases |= {str(name) for name in read_json_or_empty(run.orders).get("slots", {}).values()}
    return InUse(
        releases=frozenset(releases),
        jobs=frozenset(str(attempt.job_id) for attempt in ledger.live),
        attempts=frozenset(str(attempt.number) for attempt in ledger.live),
        keep_checkpoints=KEPT_CHECKPOINTS,
    )


def _listing(run: RunPaths) -> Iterator[StaleFile]:
    """Candidates; folders of releases and of ended jobs count as one thing each."""
    folders = [run.logs, run.scripts, run.releases, run.queue / "ended", run.controller]
    for folder in (*folders, *sorted(run.slots.glob("*/checkpoints"))):
        for path in sorted(folder.glob("*")):
            with contextlib.suppress(OSError):  # it is on its way out already
                facts = path.lstat()
                inside = path.rglob("*") if stat.S_ISDIR(facts.st_mode) else ()
                size = facts.st_size + sum(below.lstat().st_size for below in inside)
                yield StaleFile(str(path.relative_to(run.root)), size, facts.st_mtime)


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


def find_leftovers(
    things: Iterable[StaleFile], use: InUse, now: float, days: float
) -> dict[str, list[StaleFile]]:
    """Reason → files that may go for it, in the order of the listing; ``now`` in wall seconds."""
    listed, old_s, nothing = list(things), days * DAY_S, frozenset[str]()
    surplus = _surplus(listed, use)
    rules = (
        (_TEMP, nothing, _TEMP_S, "left by a crash"),
        (_RELEASE, use.releases, _TEMP_S, "a release that nothing runs"),
        (_LOG, use.jobs, old_s, "output of an ended job"),
        (_SCRIPT, use.attempts, old_s, "script of an ended attempt"),
        (_BROKEN, nothing, old_s, "a damaged checkpoint, set aside"),
        (_ENDED_JOB, nothing, old_s, "an ended job of the local queue"),
    )
    found: dict[str, list[StaleFile]] = defaultdict(list)
    for thing in listed:
        if thing.path in surplus:
            found[f"more than the newest {use.keep_checkpoints} checkpoints of its slot"] += [thing]
        for form, used, after_s, why in rules:
            match = form.fullmatch(thing.path)
            if match and match[match.re.groups] not in used and now - thing.changed_ts > after_s:
                found[why].append(thing)
    return found


def _surplus(things: list[StaleFile], use: InUse) -> set[str]:
    """Checkpoints beyond the newest of each slot; a slot that is no more keeps as many.

    Only whole checkpoints count as kept: one without its manifest does not exist.
    """
    matches = [match for thing in things if (match := _CHECKPOINT.fullmatch(thing.path))]
    oldest_kept: dict[str, str] = {}
    for slot in {match[1] for match in matches}:
        whole = sorted(match[2] for match in matches if match[1] == slot and match[3] == "json")
        oldest_kept[slot] = (
            whole[-use.keep_checkpoints] if len(whole) >= use.keep_checkpoints else ""
        )
    return {match[0] for match in matches if match[2] < oldest_kept[match[1]]}
