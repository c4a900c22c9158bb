"""Implements ``clean``: lists files of a run that nothing needs any more; ``--yes`` removes them.

Never listed are events, shared weights, the ledger, every release that runs or may be fallen back
to, the newest checkpoints, and the output of live jobs.
"""

import contextlib
import re
import shutil
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from Daddy.cluster.orchestrator.commands.run_selection import Request, load_intent
from Daddy.cluster.orchestrator.commands.storage_checks import format_bytes
from Daddy.cluster.orchestrator.ledger_file import read_ledger
from Daddy.cluster.orchestrator.read_slots import read_slots
from Daddy.core.atomic_files import read_json_or_empty
from Daddy.core.clock import SystemClock
from Daddy.core.errors import ExitCode, FileError
from Daddy.core.lease import read_lease
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import KEPT_CHECKPOINTS

_FALL_BACK = 2
"""Proven releases kept to fall back to."""
DAY_S = 86_400.0
_TEMP_S = 3600.0
"""Age in seconds from which an unfinished file counts as left by a crash."""
_LOG = re.compile(r"logs/slurm-(\d+)\.(?:out|err)")
_SCRIPT = re.compile(r"scripts/attempt-(\d+)\.sbatch")
_RELEASE = re.compile(r"releases/([^/.][^/]*)")
_CHECKPOINT = re.compile(r"slots/(\d+)/checkpoints/(t\d{6}-s\d{12})\.(json|safetensors)")
_BROKEN = re.compile(r"slots/\d+/checkpoints/.*\.broken")
_ENDED_JOB = re.compile(r"queue/ended/[^/]+")
_TEMP = re.compile(r"(?:.*/)?\.(?:tmp|probe)-[^/]*")


@dataclass(frozen=True, slots=True)
class StaleFile:
    """Describes a file or folder: path below the run directory, bytes, time of last change."""

    path: str
    size: int
    changed_ts: float


@dataclass(frozen=True, slots=True)
class InUse:
    """Holds the releases, job ids and attempt numbers whose files must stay."""

    releases: frozenset[str]
    jobs: frozenset[str]
    attempts: frozenset[str]
    keep_checkpoints: int


def run_clean(request: Request, *, days: float, yes: bool) -> int:
    """Print unneeded files, logs and scripts only if older than ``days``; ``yes``: remove them."""
    run, clock = request.find_run()[1], SystemClock()
    if not run.root.is_dir():
        raise FileError(f"there is no run in {run.root}", "name its configuration: --config FILE")
    leftovers = find_leftovers(_listing(run), _in_use(run), clock.now(), days)
    for why, files in leftovers.items():
        size = format_bytes(sum(file.size for file in files))
        first, last = files[0].path, files[-1].path
        span = first if len(files) == 1 else f"{first} … {last}"
        print(f"{size:>9}  {len(files):4d} × {why}: {span}")
    if not leftovers:
        print("nothing to remove: every file is in use or recent")
    elif yes:
        freed = sum(_remove(run.root / file.path, file.size) for file in chain(*leftovers.values()))
        print(f"removed: {format_bytes(freed)} are free again")
    else:
        print("nothing was removed: type `run_controller clean --yes` to remove these files")
    return ExitCode.DONE


def _in_use(run: RunPaths) -> InUse:
    """Return the releases, job ids and attempt numbers that ledger, leases or intent name."""
    ledger = read_ledger(run.ledger)
    intent, _ = load_intent(run)
    releases = {attempt.release for attempt in ledger.live} | set(ledger.proven[-_FALL_BACK:])
    releases |= {view.release for view in read_slots(run, 64)}
    if intent is not None:
        releases.add(intent.release)
    controller = read_lease(run.controller_lease)
    if controller is not None:  # it may still start programs from it
        releases.add(str(controller.holder.get("release", "")))
    releases |= {str(name) for name in read_json_or_empty(run.orders).get("slots", {}).values()}
    return InUse(
        releases=frozenset(releases),
        jobs=frozenset(str(attempt.job_id) for attempt in ledger.live),
        attempts=frozenset(str(attempt.number) for attempt in ledger.live),
        keep_checkpoints=KEPT_CHECKPOINTS,
    )


def _listing(run: RunPaths) -> Iterator[StaleFile]:
    """Yield the files that ``clean`` may remove; a release's or ended job's folder is one."""
    folders = [run.logs, run.scripts, run.releases, run.queue / "ended", run.controller]
    for folder in (*folders, *sorted(run.slots.glob("*/checkpoints"))):
        for path in sorted(folder.glob("*")):
            with contextlib.suppress(OSError):  # another process removes it
                facts = path.lstat()
                inside = path.rglob("*") if stat.S_ISDIR(facts.st_mode) else ()
                size = facts.st_size + sum(below.lstat().st_size for below in inside)
                yield StaleFile(str(path.relative_to(run.root)), size, facts.st_mtime)


def _remove(path: Path, size: int) -> int:
    """Remove a file or folder and return ``size``; if that fails, print the reason, return 0."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        print(f"{path} cannot be removed: {error.strerror}")
        return 0
    return size


def find_leftovers(
    files: Iterable[StaleFile], in_use: InUse, now: float, days: float
) -> dict[str, list[StaleFile]]:
    """Return reason → removable files, in the order of ``files``; ``now`` in wall seconds."""
    listed, old_s, none = list(files), days * DAY_S, frozenset[str]()
    surplus = _surplus(listed, in_use)
    rules = (
        (_TEMP, none, _TEMP_S, "left by a crash"),
        (_RELEASE, in_use.releases, _TEMP_S, "a release that nothing runs"),
        (_LOG, in_use.jobs, old_s, "output of an ended job"),
        (_SCRIPT, in_use.attempts, old_s, "script of an ended attempt"),
        (_BROKEN, none, old_s, "a damaged checkpoint, set aside"),
        (_ENDED_JOB, none, old_s, "an ended job of the local queue"),
    )
    leftovers: dict[str, list[StaleFile]] = defaultdict(list)
    for file in listed:
        if file.path in surplus:
            count = in_use.keep_checkpoints
            leftovers[f"more than the newest {count} checkpoints of its slot"] += [file]
        for form, used, after_s, why in rules:
            match = form.fullmatch(file.path)
            if match and match[match.re.groups] not in used and now - file.changed_ts > after_s:
                leftovers[why].append(file)
    return leftovers


def _surplus(files: list[StaleFile], in_use: InUse) -> set[str]:
    """Return checkpoint paths older than each slot's newest ``keep_checkpoints`` complete ones."""
    matches = [match for file in files if (match := _CHECKPOINT.fullmatch(file.path))]
    oldest_kept: dict[str, str] = {}
    for slot in {match[1] for match in matches}:
        whole = sorted(match[2] for match in matches if match[1] == slot and match[3] == "json")
        oldest_kept[slot] = (
            whole[-in_use.keep_checkpoints] if len(whole) >= in_use.keep_checkpoints else ""
        )
    return {match[0] for match in matches if match[2] < oldest_kept[match[1]]}
