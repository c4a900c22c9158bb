"""Everything that can be wrong with a ``start``, found before anything is done, told all at once.

Nothing here changes anything, but that ``folders`` makes those that jobs will need.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from Daddy.cluster.orchestrator.actions import Submit
from Daddy.cluster.orchestrator.commands.folders import make_run_folders, make_shared_folder
from Daddy.cluster.orchestrator.commands.forecast import (
    Room,
    forecast,
    parse_quota,
    shortage,
    told,
)
from Daddy.cluster.orchestrator.commands.mounts import (
    Mount,
    may_be_private,
    mount_of,
    parse_mounts,
    place_findings,
)
from Daddy.cluster.orchestrator.commands.partitions import (
    FORMAT,
    Partition,
    booted_with,
    parse_partitions,
    partition_findings,
)
from Daddy.cluster.orchestrator.executors import run_id
from Daddy.cluster.orchestrator.slurm_commands import SlurmCommands
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.cluster.orchestrator.specs import SpecMaker
from Daddy.cluster.release_build import Release
from Daddy.core.clock import SystemClock
from Daddy.core.config import run_paths, shared_paths
from Daddy.core.errors import DaddyError, SchedulerError
from Daddy.core.friend_accounts import check_reach, make_readable, my_place, opening, outboxes
from Daddy.core.machine import boot_time
from Daddy.core.paths import RunPaths
from Daddy.core.process import run as run_program
from Daddy.core.settings import Config
from Daddy.core.shared_paths import JoinedPaths, SharedPaths

_SINFO_TIMEOUT_S = 15.0
_QUOTA_TIMEOUT_S = 5.0


@dataclass(slots=True)
class Findings:
    """What stands in the way (``wrong``), and what is worth saying (``notes``)."""

    wrong: list[DaddyError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def catching(self) -> Iterator[None]:
        """A DaddyError raised inside is one more finding."""
        try:
            yield
        except DaddyError as error:
            self.wrong.append(error)


def check_places(config: Config, executor: str, found: Findings) -> None:
    """Paths: seen by all hosts, without tickets, writable, with room for what is to come."""
    run, shared, mounts = run_paths(config), shared_paths(config), _mounts()
    apart = config.collaboration.enabled and shared.root != run.shared_weights
    places = [("the run directory", run.root)]
    places += [("collaboration.shared_dir", shared.root)] if apart else []
    known: tuple[Partition, ...] = ()
    if executor == "slurm":
        places += [("the Python environment", Path(sys.prefix).resolve())]
        rom = config.training.rom
        places += [("the ROM", Path(rom))] if rom is not None else []
        known = _partitions(config, found)
    alone = executor != "slurm" or _is_one_host(run, places, mounts, known)
    for what, path in places:
        found.wrong += place_findings(what, str(path), mounts, one_host=alone)
    if found.wrong:
        return
    if not alone and (doubt := may_be_private(str(run.root), mounts)):
        found.notes.append(doubt)
    with found.catching():
        make_run_folders(run)
    if apart:
        with found.catching():
            make_shared_folder(shared.root)
    check_others(shared, found)
    if not found.wrong:
        _check_room(config, run, mounts, found)


def check_others(shared: SharedPaths, found: Findings) -> None:
    """Another account's run can be read and knows us; whoever takes part can read what is ours."""
    with found.catching():
        if isinstance(shared, JoinedPaths):
            make_readable(shared.root)
            check_reach(shared)
            me = my_place(shared, os.getuid())
            found.notes.append(f"takes part in {shared.theirs.root} as {me.name}")
        boxes = outboxes(shared)
        found.notes += [f"{box.name}: {why}" for box in boxes if (why := box.trouble())]
        if boxes and (lines := opening(shared.root)):
            what = "other accounts that take part may not be able to read what is ours; type"
            found.notes.append("\n  ".join([what, *lines]))


def check_slurm(config: Config, release: Release, found: Findings) -> None:
    """Let Slurm judge the job script without queueing it."""
    run = run_paths(config)
    scheduler = SlurmScheduler(run_id(config, run), SystemClock(), calls=run.calls)
    with found.catching():
        scheduler.check(SpecMaker(config, run, release)("0" * 12, 0, Submit("to be judged")))


def _mounts() -> tuple[Mount, ...]:
    try:
        return parse_mounts(Path("/proc/mounts").read_text(errors="replace"))
    except OSError:  # not Linux
        return ()


def _partitions(config: Config, found: Findings) -> tuple[Partition, ...]:
    argv = ["sinfo", "--noheader", "--all", "--Node", f"--format={FORMAT}"]
    known = parse_partitions(_ask(argv, run_paths(config), found))
    found.wrong += partition_findings(config.slurm, known)
    return known


def _ask(argv: list[str], run: RunPaths, found: Findings) -> str:
    """What one of Slurm's commands prints; a silent Slurm is a finding."""
    with found.catching():
        calls = run.calls if run.controller.is_dir() else None  # refused, a run leaves nothing
        slurm = SlurmCommands(SystemClock(), os.environ, calls)
        done = slurm.run(argv, _SINFO_TIMEOUT_S)
        if done.returncode == 0:
            return done.stdout
        why = done.stderr.strip().splitlines()
        raise SchedulerError(
            f"Slurm cannot be asked: {argv[0]} says {why[0] if why else 'nothing'}",
            "is Slurm up? try: sinfo",
        )
    return ""


def _is_one_host(
    run: RunPaths,
    places: Sequence[tuple[str, Path]],
    mounts: tuple[Mount, ...],
    known: tuple[Partition, ...],
) -> bool:
    """Whether the nodes are this very host; asked only where a place looks private to it."""
    doubtful = any(may_be_private(str(path), mounts) for _, path in places)
    if not doubtful or not known:
        return False
    text = _ask(["scontrol", "--oneliner", "show", "node", known[0].node], run, Findings())
    return booted_with(text, boot_time())


def _check_room(config: Config, run: RunPaths, mounts: tuple[Mount, ...], found: Findings) -> None:
    checkpoint = _largest(run.slots, "*/checkpoints/*.safetensors")
    items = forecast(config, checkpoint, _largest(shared_paths(config).blobs, "*/*.st"))
    room = _room(run.root, mounts)
    found.notes.append(told(items, room))
    if short := shortage(items, room, str(run.root)):
        found.wrong.append(short)


def _largest(folder: Path, pattern: str) -> int | None:
    """Bytes of the largest of some files; None without any."""
    sizes = []
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            sizes.append(path.stat().st_size)
    return max(sizes, default=None)


def _room(folder: Path, mounts: tuple[Mount, ...]) -> Room:
    """The smaller of what the disk and a quota leave."""
    free = shutil.disk_usage(folder).free
    mount = mount_of(str(folder), mounts)
    disk = Room(free, f"the disk at {mount.point if mount else folder}")
    quota = _quota(mount) if mount is not None else None
    return min((disk, quota), key=lambda one: one.free) if quota is not None else disk


def _quota(mount: Mount) -> Room | None:
    """What ``quota`` says, where a site has it."""
    with contextlib.suppress(DaddyError):
        done = run_program(["quota", "-w", "-p"], _QUOTA_TIMEOUT_S)
        return parse_quota(done.stdout, mount.device)
    return None
