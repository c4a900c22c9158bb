"""Checks of ``start``: everything that stands in the way, told at once before anything is done.

Nothing here changes anything, but that the folders are made that jobs will need: Slurm fails a job
without a word when the folder of its log is missing.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from Daddy.cluster.orchestrator.actions import Submit
from Daddy.cluster.orchestrator.commands.storage import (
    Mount,
    Room,
    forecast,
    may_be_private,
    mount_of,
    parse_mounts,
    parse_quota,
    place_findings,
    shortage,
    told,
)
from Daddy.cluster.orchestrator.executors import SpecMaker, run_id
from Daddy.cluster.orchestrator.slurm_commands import SlurmCommands
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.cluster.release_build import Release
from Daddy.core.clock import SystemClock
from Daddy.core.config import run_paths, shared_paths
from Daddy.core.errors import DaddyError, FileError, RomError, SchedulerError
from Daddy.core.files import create_exclusive
from Daddy.core.friend_accounts import check_reach, make_readable, my_place, opening, outboxes
from Daddy.core.humanize import format_duration, parse_duration
from Daddy.core.machine import boot_time
from Daddy.core.names import new_incarnation
from Daddy.core.paths import RunPaths
from Daddy.core.process import run as run_program
from Daddy.core.rom import load_rom
from Daddy.core.settings import Config, Slurm
from Daddy.core.shared_paths import JoinedPaths, SharedPaths

_SINFO_TIMEOUT_S = 15.0
_QUOTA_TIMEOUT_S = 5.0
_FORMAT = "%R|%a|%l|%N"
"""Partition, whether it is up, its time limit, and a node of it: one line for each node."""
_BOOTED = re.compile(r"\bBootTime=(\d+)\b")
_SAME_BOOT_S = 5.0


@dataclass(slots=True)
class Findings:
    """Obstacles (``wrong``) and remarks (``notes``)."""

    wrong: list[DaddyError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def catching(self) -> Iterator[None]:
        """A DaddyError raised inside is one more finding."""
        try:
            yield
        except DaddyError as error:
            self.wrong.append(error)

    def refuse(self) -> None:
        """Raise what was found, if anything: all is told, the first one's exit code counts."""
        if len(self.wrong) == 1:
            raise self.wrong[0]
        if self.wrong:
            said = "".join(f"\n  {n}. {one.message}" for n, one in enumerate(self.wrong, 1))
            fixes = "".join(f"\n  {n}. {one.fix}" for n, one in enumerate(self.wrong, 1))
            error = DaddyError(f"{len(self.wrong)} things stand in the way:{said}", fixes)
            error.exit_code = self.wrong[0].exit_code
            raise error


def game_name(config: Config, executor: str) -> str:
    """The game and its assists in words; RomError where it cannot be played or is not meant."""
    helps = ", ".join(config.training.assists)
    return _game(config, executor) + (f", with the assists {helps}" if helps else "")


def _game(config: Config, executor: str) -> str:
    training = config.training
    if training.workload != "pokemon_red":
        return training.workload
    if training.rom is not None:
        path = Path(training.rom)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the name says that it is unknown
            return f"{load_rom(path, training.allow_unknown_rom).name} ({path.name})"
    if executor == "slurm" and not training.cartridge:
        raise RomError(
            "no ROM is configured, and GPU jobs would play the free test cartridge",
            "set training.rom or DADDY_ROM to your own PokemonRed.gb, or say --cartridge",
        )
    return "the free cartridge (no ROM is configured)"


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
    argv = ["sinfo", "--noheader", "--all", "--Node", f"--format={_FORMAT}"]
    known = parse_partitions(_ask(argv, run_paths(config), found))
    found.wrong += partition_findings(config.slurm, known)
    return known


def _ask(argv: list[str], run: RunPaths, found: Findings) -> str:
    """Output of one of Slurm's commands; a silent Slurm is a finding."""
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
    """True where the nodes are this very host; asked only where a place looks private to it."""
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
    """Room by ``quota``, where a site has it."""
    with contextlib.suppress(DaddyError):
        done = run_program(["quota", "-w", "-p"], _QUOTA_TIMEOUT_S)
        return parse_quota(done.stdout, mount.device)
    return None


def make_run_folders(run: RunPaths) -> None:
    """Make the run's folders; FileError where they cannot be written."""
    folders = (run.logs, run.scripts, run.controller, run.events, run.slots, run.releases)
    way_out = "set run_dir in the config to a folder of yours that all nodes share"
    _make(folders, f"the run directory {run.root}", way_out)


def make_shared_folder(folder: Path) -> None:
    """Make the folder of the shared weights; FileError where it cannot be written."""
    way_out = "name a folder of yours that all nodes share"
    _make((folder,), f"collaboration.shared_dir {folder}", way_out)


def _make(folders: Iterable[Path], place: str, way_out: str) -> None:
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            _try(folder)
    except OSError as error:
        raise FileError(f"{place} cannot be written: {error.strerror}", way_out) from error


def _try(folder: Path) -> None:
    """Write a file and remove it: a folder that is there may still be read-only."""
    probe = folder / f".probe-{new_incarnation()}"
    create_exclusive(probe, b"")
    probe.unlink()


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition; ``limit_s`` None: without an end."""

    name: str
    up: bool
    limit_s: int | None
    node: str
    """One of its nodes."""


def parse_partitions(text: str) -> tuple[Partition, ...]:
    """``sinfo --noheader --all --Node --format=FORMAT`` as records; other lines are passed over."""
    found: dict[str, Partition] = {}
    for line in text.splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) == 4 and words[0]:  # noqa: PLR2004 - the fields of FORMAT
            made = Partition(words[0], words[1] == "up", _limit(words[2]), words[3])
            found.setdefault(words[0], made)
    return tuple(found.values())


def booted_with(text: str, booted_ts: float) -> bool:
    """True if a node (``scontrol show node``, times in seconds) booted when this host did: then it
    *is* this host, and nothing has to be shared with it.
    """
    match = _BOOTED.search(text)
    return match is not None and abs(int(match[1]) - booted_ts) <= _SAME_BOOT_S


def _limit(text: str) -> int | None:
    try:
        return parse_duration(text)
    except ValueError:
        return None  # infinite, n/a


def partition_findings(slurm: Slurm, known: Sequence[Partition]) -> list[SchedulerError]:
    """Why a job of ours could never start in its partition; nothing is said where none is known."""
    if not known:
        return []
    ours = next((one for one in known if one.name == slurm.partition), None)
    if ours is None:
        return [_unknown(slurm.partition, [one.name for one in known])]
    found = []
    if not ours.up:
        found.append(
            SchedulerError(
                f"partition {ours.name} is not up: no job starts there",
                "ask sinfo which one is, and set slurm.partition",
            )
        )
    wanted = parse_duration(slurm.time_limit)
    if ours.limit_s is not None and wanted > ours.limit_s:
        found.append(
            SchedulerError(
                f"slurm.time_limit {slurm.time_limit} is over the "
                f"{format_duration(ours.limit_s)} that partition {ours.name} allows",
                f"set slurm.time_limit to {format_duration(ours.limit_s)}: jobs hand over",
            )
        )
    return found


def _unknown(name: str, names: Sequence[str]) -> SchedulerError:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
    listed = ", ".join(sorted(names)[:20])
    return SchedulerError(
        f"there is no partition {name} here; there are: {listed}",
        f"set slurm.partition or say --partition {near[0]}",
    )
