"""Checks of ``start``: everything that stands in the way, told at once before anything is done.

Nothing here changes anything, but that the folders are made that jobs will need: Slurm fails a job
without a word when the folder of its log is missing.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import resource
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from Daddy.cluster.orchestrator.commands.disk_space import (
    FreeSpace,
    Mount,
    describe_forecast,
    describe_private_disk,
    find_mount,
    find_place_errors,
    find_shortage,
    forecast_disk_use,
    parse_quota,
)
from Daddy.cluster.orchestrator.executors import SpecMaker, run_id
from Daddy.cluster.orchestrator.plan_actions import Submit
from Daddy.cluster.orchestrator.slurm_commands import SlurmCommands
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.cluster.release_build import Release
from Daddy.core.atomic_files import create_exclusive
from Daddy.core.child_process import run_command as run_program
from Daddy.core.clock import SystemClock
from Daddy.core.errors import DaddyError, FileError, RomError, SchedulerError
from Daddy.core.friend_accounts import (
    account_folders,
    check_run_readable,
    find_own_entry,
    make_readable_folder,
    permission_commands,
)
from Daddy.core.humanize import format_duration, parse_duration
from Daddy.core.load_config import run_paths, shared_paths
from Daddy.core.machine_info import boot_time, command_lines, mounts
from Daddy.core.name_validation import new_incarnation
from Daddy.core.rom_identity import load_rom
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config, SlurmSettings
from Daddy.core.shared_weights_paths import JoinedPaths, SharedPaths

_SINFO_TIMEOUT_S = 15.0
_QUOTA_TIMEOUT_S = 5.0
_FORMAT = "%R|%a|%l|%N"
"""Partition, its state, its time limit, and a node of it: one line for each node."""
_BOOTED = re.compile(r"\bBootTime=(\d+)\b")
_SAME_BOOT_S = 5.0
_REAPERS = frozenset({"arbiter", "arbiter2", "loginreaper"})
"""Programs that login nodes run to end what uses much for long."""


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

    def raise_found(self) -> None:
        """Raise what was found, if anything: all is told, the first one's exit code counts."""
        if len(self.wrong) == 1:
            raise self.wrong[0]
        if self.wrong:
            said = "".join(f"\n  {n}. {error.message}" for n, error in enumerate(self.wrong, 1))
            fixes = "".join(f"\n  {n}. {error.fix}" for n, error in enumerate(self.wrong, 1))
            all_of_them = DaddyError(f"{len(self.wrong)} things stand in the way:{said}", fixes)
            all_of_them.exit_code = self.wrong[0].exit_code
            raise all_of_them


def describe_game(config: Config, executor: str) -> str:
    """The game and its assists in words; RomError where it cannot be played or is not meant."""
    training, game = config.training, "the free cartridge (no ROM is configured)"
    if training.workload != "pokemon_red":
        game = training.workload
    elif training.rom is not None:
        path = Path(training.rom)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the name says that it is unknown
            game = f"{load_rom(path, training.allow_unknown_rom).name} ({path.name})"
    elif executor == "slurm" and not training.cartridge:
        raise RomError(
            "no ROM is configured, and GPU jobs would play the free test cartridge",
            "set training.rom or DADDY_ROM to your own PokemonRed.gb, or say --cartridge",
        )
    helps = ", ".join(training.assists)
    return f"{game}, with the assists {helps}" if helps else game


def check_places(config: Config, executor: str, found: Findings) -> None:
    """Paths: seen by all hosts, without tickets, writable, with room for what is to come."""
    run, shared = run_paths(config), shared_paths(config)
    mounted = [Mount(*facts) for facts in mounts()]
    apart = config.collaboration.enabled and shared.root != run.shared_weights
    places = [("the run directory", run.root)]
    places += [("collaboration.shared_dir", shared.root)] if apart else []
    alone = executor != "slurm"
    if not alone:
        places += [("the Python environment", Path(sys.prefix).resolve())]
        rom = config.training.rom
        places += [("the ROM", Path(rom))] if rom is not None else []
        argv = ["sinfo", "--noheader", "--all", "--Node", f"--format={_FORMAT}"]
        known = parse_partitions(_ask(argv, run, found))
        found.wrong += find_partition_errors(config.slurm, known)
        doubtful = any(describe_private_disk(str(path), mounted) for _, path in places)
        alone = doubtful and _is_one_host(run, known)
    for what, path in places:
        found.wrong += find_place_errors(what, str(path), mounted, one_host=alone)
    if found.wrong:
        return
    if not alone and (doubt := describe_private_disk(str(run.root), mounted)):
        found.notes.append(doubt)
    ours = (run.logs, run.scripts, run.controller, run.events, run.slots, run.releases)
    with found.catching():
        make_folders(f"the run directory {run.root}", *ours)
    if apart:
        with found.catching():
            make_folders(f"collaboration.shared_dir {shared.root}", shared.root)
    check_accounts(shared, found)
    if not found.wrong:
        _check_room(config, run, mounted, found)


def check_accounts(shared: SharedPaths, found: Findings) -> None:
    """Another account's run can be read and knows us; those who take part can read what is ours."""
    with found.catching():
        if isinstance(shared, JoinedPaths):
            make_readable_folder(shared.root)
            check_run_readable(shared)
            me = find_own_entry(shared, os.getuid())
            found.notes.append(f"takes part in {shared.theirs.root} as {me.name}")
        boxes = account_folders(shared)
        found.notes += [f"{box.owner_name}: {why}" for box in boxes if (why := box.problem())]
        if boxes and (lines := permission_commands(shared.root)):
            what = "other accounts that take part may not be able to read what is ours; type"
            found.notes.append("\n  ".join([what, *lines]))


def check_login_host(found: Findings) -> None:
    """Note what ends a daemon on this host: a limit of CPU time, programs that end busy ones."""
    dangers = []
    limit_s, _ = resource.getrlimit(resource.RLIMIT_CPU)
    if limit_s != resource.RLIM_INFINITY:
        allowed = format_duration(limit_s)
        dangers.append(f"a process is ended after {allowed} of CPU time (ulimit -t)")
    words = (word for line in command_lines().values() for word in line.split()[:2])
    if running := sorted(_REAPERS.intersection(Path(word).stem for word in words)):
        dangers.append(f"{', '.join(running)} may end what is busy for long")
    if dangers:
        found.notes.append(
            f"on this host {' and '.join(dangers)}: have the controller started again by cron "
            "(ensure --print-units prints the line), or do without it (start --no-daemon)"
        )


def check_slurm(config: Config, release: Release, found: Findings) -> None:
    """Let Slurm judge the job script without queueing it."""
    run = run_paths(config)
    scheduler = SlurmScheduler(run_id(config, run), SystemClock(), calls=run.calls)
    with found.catching():
        scheduler.check_script(SpecMaker(config, run, release)("0" * 12, 0, Submit("to be judged")))


def _ask(argv: list[str], run: RunPaths, found: Findings) -> str:
    """Output of one of Slurm's commands; a silent Slurm is a finding."""
    with found.catching():
        calls = run.calls if run.controller.is_dir() else None  # refused, a run leaves nothing
        done = SlurmCommands(SystemClock(), os.environ, calls).run(argv, _SINFO_TIMEOUT_S)
        if done.returncode == 0:
            return done.stdout
        why = [*done.stderr.strip().splitlines(), "nothing"][0]
        said = f"Slurm cannot be asked: {argv[0]} says {why}"
        raise SchedulerError(said, "is Slurm up? try: sinfo")
    return ""


def _is_one_host(run: RunPaths, known: Mapping[str, Partition]) -> bool:
    """True where the nodes are this very host."""
    node = next((partition.node for partition in known.values()), "")
    argv = ["scontrol", "--oneliner", "show", "node", node]
    return bool(node) and is_same_boot(_ask(argv, run, Findings()), boot_time())


def _check_room(config: Config, run: RunPaths, mounted: Sequence[Mount], found: Findings) -> None:
    checkpoint = _largest(run.slots, "*/checkpoints/*.safetensors")
    items = forecast_disk_use(config, checkpoint, _largest(shared_paths(config).blobs, "*/*.st"))
    room = _room(run.root, mounted)
    found.notes.append(describe_forecast(items, room))
    if short := find_shortage(items, room, str(run.root)):
        found.wrong.append(short)


def _largest(folder: Path, pattern: str) -> int | None:
    """Bytes of the largest of some files; None without any, or where one goes meanwhile."""
    with contextlib.suppress(OSError):
        return max((path.stat().st_size for path in folder.glob(pattern)), default=None)
    return None


def _room(folder: Path, mounted: Sequence[Mount]) -> FreeSpace:
    """The smaller of what the disk and, where a site has it, ``quota`` leave."""
    mount, quota = find_mount(str(folder), mounted), None
    free = shutil.disk_usage(folder).free
    disk = FreeSpace(free, f"the disk at {mount.point if mount else folder}")
    with contextlib.suppress(DaddyError):
        done = run_program(["quota", "-w", "-p"], _QUOTA_TIMEOUT_S)
        quota = parse_quota(done.stdout, mount.device if mount else "")
    return min(disk, quota or disk)


def make_folders(place: str, *folders: Path) -> None:
    """Make folders; FileError naming their ``place`` where they cannot be written.

    Each is tried by a file that is removed again: a folder that is there may be read-only.
    """
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".probe-{new_incarnation()}"
            create_exclusive(probe, b"")
            probe.unlink()
    except OSError as error:
        fix = "name a folder of yours that all nodes share (run_dir, collaboration.shared_dir)"
        raise FileError(f"{place} cannot be written: {error.strerror}", fix) from error


class Partition(NamedTuple):
    """One partition; ``limit_s`` None: without an end; ``node``: one of its nodes."""

    up: bool
    limit_s: int | None
    node: str


def parse_partitions(text: str) -> dict[str, Partition]:
    """Partitions by name from ``sinfo --format=FORMAT``; other lines are passed over."""
    found: dict[str, Partition] = {}
    for line in text.splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) == 4 and words[0]:  # noqa: PLR2004 - the fields of FORMAT
            limit_s = None
            with contextlib.suppress(ValueError):  # infinite, n/a
                limit_s = parse_duration(words[2])
            found.setdefault(words[0], Partition(words[1] == "up", limit_s, words[3]))
    return found


def is_same_boot(text: str, booted_ts: float) -> bool:
    """True if a node (``scontrol show node``, times in seconds) booted when this host did: then it
    *is* this host, and nothing has to be shared with it.
    """
    match = _BOOTED.search(text)
    return match is not None and abs(int(match[1]) - booted_ts) <= _SAME_BOOT_S


def find_partition_errors(
    slurm: SlurmSettings, known: Mapping[str, Partition]
) -> list[SchedulerError]:
    """Why a job of ours could never start in its partition; nothing is said where none is known."""
    if not known:
        return []
    name, ours, found = slurm.partition, known.get(slurm.partition), list[SchedulerError]()
    if ours is None:
        (near,) = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        said = f"there is no partition {name} here; there are: {', '.join(sorted(known)[:20])}"
        return [SchedulerError(said, f"set slurm.partition or say --partition {near}")]
    if not ours.up:
        said = f"partition {name} is not up: no job starts there"
        found.append(SchedulerError(said, "ask sinfo which one is, and set slurm.partition"))
    if ours.limit_s is not None and parse_duration(slurm.time_limit) > ours.limit_s:
        limit = format_duration(ours.limit_s)
        said = (
            f"slurm.time_limit {slurm.time_limit} is over the {limit} that partition {name} allows"
        )
        found.append(SchedulerError(said, f"set slurm.time_limit to {limit}: jobs hand over"))
    return found
