"""Checks everything that could keep ``start`` from working, and reports all errors together.

Nothing is changed, except that the folders of the run are made: Slurm fails a job without a message
when the folder of its log is missing.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import resource
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple

from Daddy.cluster.orchestrator.action_types import Submit
from Daddy.cluster.orchestrator.commands.storage_checks import (
    FreeSpace,
    Mount,
    describe_forecast,
    describe_private_disk,
    describe_purging,
    find_mount,
    find_place_errors,
    find_shortage,
    forecast_disk_use,
    parse_quota,
)
from Daddy.cluster.orchestrator.controller_types import UnknownQueue
from Daddy.cluster.orchestrator.read_slots import CHECKPOINT_FILES
from Daddy.cluster.orchestrator.scheduler_factory import SpecMaker, run_id
from Daddy.cluster.orchestrator.slurm_commands import SlurmCommands
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.cluster.release_build import Release
from Daddy.core.agreed_settings import Contract, contract_from_pairs
from Daddy.core.atomic_files import create_exclusive, largest_file, read_json_or_empty
from Daddy.core.clock import SystemClock
from Daddy.core.errors import (
    ConfigError,
    DaddyError,
    ExitCode,
    FileError,
    RomError,
    SchedulerError,
    UsageError,
)
from Daddy.core.friend_accounts import (
    account_folders,
    check_run_readable,
    find_own_entry,
    make_readable_folder,
    permission_commands,
)
from Daddy.core.host_and_processes import boot_time, command_lines, mounts
from Daddy.core.humanize import format_duration, parse_duration
from Daddy.core.hyperparameters import resolve_settings
from Daddy.core.load_config import run_paths, shared_paths
from Daddy.core.log_setup import LEVEL
from Daddy.core.name_validation import new_incarnation
from Daddy.core.rom_identity import Rom, load_rom
from Daddy.core.run_paths import RunPaths
from Daddy.core.run_subprocess import run_command as run_program
from Daddy.core.settings import Config, SlurmSettings
from Daddy.core.shared_weights_paths import JoinedPaths, SharedPaths

JOB_ID = "SLURM_JOB_ID"
"""Variable that Slurm sets in the shell of each job and allocation."""
_OLDEST_SLURM = "20.02"
"""First release whose squeue has ``--me`` and a suffix in a field's format."""
_SINFO_TIMEOUT_S = 15.0
_QUOTA_TIMEOUT_S = 5.0
_TORCH_TIMEOUT_S = 120.0
_FORMAT = "%R|%a|%l|%N"
"""Partition, state, time limit and node, one line per node."""
_BOOTED = re.compile(r"\bBootTime=(\w+)")
_SAME_BOOT_S, _LATE_BOOT_S = 5.0, 60.0
"""Slurm subtracts a node's uptime from the time at which it reads it, which is late under load."""
NodePlace = Literal["here", "unsure", "elsewhere"]
"""This host, another one, or unknown."""
_REAPERS = frozenset({"arbiter", "arbiter2", "loginreaper"})
"""Programs with which login nodes end processes of long heavy use."""


@dataclass(slots=True)
class Findings:
    """Collects errors (``wrong``) and remarks (``notes``)."""

    wrong: list[DaddyError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def catching(self) -> Iterator[None]:
        """Append a DaddyError raised in the ``with`` block to ``wrong``, and go on."""
        try:
            yield
        except DaddyError as error:
            self.wrong.append(error)

    def print_notes(self) -> None:
        """Print ``notes``, and forget them."""
        while self.notes:
            print(self.notes.pop(0))

    def raise_found(self) -> None:
        """Raise one error with all of ``wrong``, if any; its exit code is that of the first."""
        if len(self.wrong) == 1:
            raise self.wrong[0]
        if self.wrong:
            messages = "".join(f"\n  {n}. {error.message}" for n, error in enumerate(self.wrong, 1))
            fixes = "".join(f"\n  {n}. {error.fix}" for n, error in enumerate(self.wrong, 1))
            combined = DaddyError(f"{len(self.wrong)} errors prevent a start:{messages}", fixes)
            combined.exit_code = self.wrong[0].exit_code
            raise combined


def load_game(config: Config) -> Rom | None:
    """Load the configured ROM; None without one. RomError, and a UserWarning as `load_rom`."""
    training = config.training
    if training.workload != "pokemon_red" or training.rom is None:
        return None
    return load_rom(Path(training.rom), training.allow_unknown_rom)


def read_contract(shared: SharedPaths) -> Contract:
    """Return the settings on which the run's learners agreed; {} if none has started."""
    with contextlib.suppress(TypeError, ValueError, UsageError):
        return contract_from_pairs(read_json_or_empty(shared.run).get("terms", ()))
    return {}


def describe_game(config: Config, executor: str, rom: Rom | None) -> str:
    """Return game and assists in words; raise RomError if ``rom`` is missing."""
    training, game = config.training, "the free cartridge (no ROM is configured)"
    if training.workload != "pokemon_red":
        game = training.workload
    elif rom is not None:
        game = f"{rom.name} ({Path(training.rom or '').name})"
    elif executor == "slurm" and not training.cartridge:
        raise RomError(
            "no ROM is configured, and GPU jobs would play the free test cartridge",
            "set training.rom or DADDY_ROM to your own PokemonRed.gb, or pass --cartridge",
        )
    helps = ", ".join(training.assists)
    return f"{game}, with the assists {helps}" if helps else game


def check_places(config: Config, executor: str, findings: Findings) -> None:
    """Make the run's folders; check that all hosts see them, and tickets, rights and space."""
    run, shared = run_paths(config), shared_paths(config)
    mounted = [Mount(*facts) for facts in mounts()]
    separate = config.collaboration.enabled and shared.root != run.shared_weights
    places = [("the run directory", run.root)]
    places += [("collaboration.shared_dir", shared.root)] if separate else []
    nodes: NodePlace = "elsewhere" if executor == "slurm" else "here"
    kept = [("the Python environment", Path(sys.prefix).resolve())]
    kept += [("the ROM", Path(config.training.rom))] if config.training.rom is not None else []
    if executor == "slurm":
        places += kept
        if "\\" in str(run.root):
            message = f"Slurm writes no output of jobs below a backslash: {run.root}"
            findings.wrong.append(FileError(message, "set run_dir to a path without one"))
        argv = ["sinfo", "--noheader", "--all", "--Node", f"--format={_FORMAT}"]
        partitions = parse_partitions(_run_slurm(argv, run, findings))
        findings.wrong += find_partition_errors(config.slurm, partitions)
        if any(describe_private_disk(str(path), mounted) for _, path in places):
            nodes = _locate_first_node(run, partitions)
    one_host = nodes != "elsewhere"
    for name, path in places:
        findings.wrong += find_place_errors(name, str(path), mounted, one_host=one_host)
    if findings.wrong:
        return
    findings.notes += filter(None, (describe_purging(name, str(path)) for name, path in kept))
    asked = {"here": [], "unsure": places, "elsewhere": places[:1]}[nodes]
    doubts = (describe_private_disk(str(path), mounted) for _, path in asked)
    findings.notes += filter(None, doubts)
    ours = (run.logs, run.scripts, run.controller, run.events, run.slots, run.releases)
    with findings.catching():
        make_folders(f"the run directory {run.root}", *ours)
    if separate:
        with findings.catching():
            make_folders(f"collaboration.shared_dir {shared.root}", shared.root)
    check_accounts(shared, findings)
    if not findings.wrong:
        _check_space(config, run, mounted, findings)


def check_accounts(shared: SharedPaths, findings: Findings) -> None:
    """Check that a joined run can be read and lists our folder, and that friends can read it."""
    with findings.catching():
        if isinstance(shared, JoinedPaths):
            make_readable_folder(shared.root)
            check_run_readable(shared)
            member = find_own_entry(shared, os.getuid())
            findings.notes.append(f"takes part in {shared.theirs.root} as {member.name}")
        accounts = account_folders(shared)
        findings.notes += [f"{box.owner_name}: {why}" for box in accounts if (why := box.problem())]
        if accounts and (lines := permission_commands(shared.root)):
            note = "other accounts that take part may not be able to read your files; type"
            findings.notes.append("\n  ".join([note, *lines]))


def check_login_host(findings: Findings, environ: Mapping[str, str], *, yes: bool) -> None:
    """Refuse a daemon inside a job unless ``yes``; note CPU-time limits and reaper programs."""
    if (job := environ.get(JOB_ID)) and not yes:
        node = environ.get("SLURMD_NODENAME") or "its node"
        message = f"this shell is in Slurm job {job} on {node}: the controller would end with it"
        fix = "type start on a login node; or add --yes, or --no-daemon (jobs make the passes)"
        findings.wrong.append(UsageError(message, fix))
    dangers = []
    limit_s, _ = resource.getrlimit(resource.RLIMIT_CPU)
    if limit_s != resource.RLIM_INFINITY:
        allowed = format_duration(limit_s)
        dangers.append(f"a process is ended after {allowed} of CPU time (ulimit -t)")
    words = (word for line in command_lines().values() for word in line.split()[:2])
    if running := sorted(_REAPERS.intersection(Path(word).stem for word in words)):
        dangers.append(f"{', '.join(running)} may end busy processes")
    if dangers:
        findings.notes.append(
            f"on this host {' and '.join(dangers)}: have the controller started again by cron "
            "(ensure --print-units prints the line), or do without it (start --no-daemon)"
        )


def check_hyperparameters(config: Config, findings: Findings) -> None:
    """Check that jobs accept the hyperparameters; if they choose the device, as on a GPU."""
    device = config.training.device
    with findings.catching():
        resolve_settings(config.training, "cuda" if device == "auto" else device)


def check_device(config: Config, executor: str, findings: Findings) -> None:
    """Check that torch finds the device of jobs on this machine; a child loads torch for it."""
    device = config.training.device
    if executor == "slurm" or device in ("auto", "cpu"):  # a node has what the login node lacks
        return
    print(f"checking that torch can use {device} on this machine")
    with findings.catching():
        argv = [sys.executable, "-m", "Daddy.learning.device", device]
        result = run_program(argv, _TORCH_TIMEOUT_S)
        if result.returncode == ExitCode.CONFIGURATION:
            raise ConfigError(*result.stderr.rpartition("error: ")[2].split("\n  what to do: "))
        if result.returncode:
            raise ConfigError(f"torch does not load here: {result.fault}", "type ./scripts/install")


def check_slurm(config: Config, release: Release, findings: Findings) -> None:
    """Let Slurm check the job script (``sbatch --test-only``) and list the queue; add errors."""
    run = run_paths(config)
    scheduler = SlurmScheduler(run_id(config, run), SystemClock(), calls=run.calls)
    with findings.catching():
        scheduler.check_script(SpecMaker(config, run, release)("0" * 12, 0, Submit("script test")))
    reading = scheduler.snapshot()
    if isinstance(reading, UnknownQueue):
        message = f"the controller could not read the queue: {reading.error}"
        fix = f"Daddy needs Slurm {_OLDEST_SLURM} or newer (see `squeue --version`, `squeue --me`)"
        findings.wrong.append(SchedulerError(message, fix))


def _run_slurm(argv: list[str], run: RunPaths, findings: Findings) -> str:
    """Return a Slurm command's output; if it fails, add an error to ``findings``, return ""."""
    with findings.catching():
        calls = run.calls if run.controller.is_dir() else None  # a refused start leaves no file
        result = SlurmCommands(SystemClock(), os.environ, calls).run(argv, _SINFO_TIMEOUT_S)
        if result.returncode == 0:
            return result.stdout
        why = [*result.stderr.strip().splitlines(), "nothing"][0]
        message = f"Slurm does not answer: {argv[0]} printed {why}"
        raise SchedulerError(message, "type `sinfo` to see if Slurm is up")
    return ""


def _locate_first_node(run: RunPaths, partitions: Mapping[str, Partition]) -> NodePlace:
    node = next((partition.node for partition in partitions.values()), "")
    argv = ["scontrol", "--oneliner", "show", "node", node]
    return locate_node(_run_slurm(argv, run, Findings()) if node else "", boot_time())


def _check_space(
    config: Config, run: RunPaths, mounted: Sequence[Mount], findings: Findings
) -> None:
    checkpoint = largest_file(run.slots, CHECKPOINT_FILES)
    blob = largest_file(shared_paths(config).blobs, "*/*.st")
    items = forecast_disk_use(config, checkpoint, blob)
    space = _free_space(run.root, mounted)
    total, parts = describe_forecast(items, space)
    findings.notes += [total, *([parts] if os.environ.get(LEVEL) == "DEBUG" else [])]
    if error := find_shortage(items, space, str(run.root)):
        findings.wrong.append(error)


def _free_space(folder: Path, mounted: Sequence[Mount]) -> FreeSpace:
    """Return the free space of the disk or of the user's ``quota`` there, the smaller of both."""
    mount, quota = find_mount(str(folder), mounted), None
    free = shutil.disk_usage(folder).free
    disk = FreeSpace(free, f"the disk at {mount.point if mount else folder}")
    with contextlib.suppress(DaddyError):
        result = run_program(["quota", "-w", "-p"], _QUOTA_TIMEOUT_S)
        quota = parse_quota(result.stdout, mount.device if mount else "")
    return min(disk, quota or disk)


def make_folders(place: str, *folders: Path) -> None:
    """Make folders and write a test file in each; on failure FileError with the text ``place``."""
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".probe-{new_incarnation()}"
            create_exclusive(probe, b"")
            probe.unlink()
    except OSError as error:
        fix = "set run_dir or collaboration.shared_dir to a folder of yours that all nodes share"
        raise FileError(f"{place} cannot be written: {error.strerror}", fix) from error


class Partition(NamedTuple):
    """Describes a partition; ``limit_s``: time limit or None; ``node``: one of its nodes."""

    up: bool
    limit_s: int | None
    node: str


def parse_partitions(text: str) -> dict[str, Partition]:
    """Return name → partition from ``sinfo`` output in ``_FORMAT``; skip other lines."""
    partitions: dict[str, Partition] = {}
    for line in text.splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) == 4 and words[0]:  # noqa: PLR2004 - the fields of FORMAT
            limit_s = None
            with contextlib.suppress(ValueError):  # infinite, n/a
                limit_s = parse_duration(words[2])
            partitions.setdefault(words[0], Partition(words[1] == "up", limit_s, words[3]))
    return partitions


def locate_node(text: str, booted_ts: float) -> NodePlace:
    """Tell where a node is by its boot in ``scontrol show node``: "here" if it is ours.

    It is "unsure" where nothing is said, and up to a minute after ours. `booted_ts`: our boot.
    """
    match = _BOOTED.search(text)
    if match is None:
        return "unsure"
    later_s = int(match[1]) - booted_ts if match[1].isdecimal() else inf  # None: it never booted
    if abs(later_s) <= _SAME_BOOT_S:
        return "here"
    return "unsure" if 0 < later_s <= _LATE_BOOT_S else "elsewhere"


def find_partition_errors(
    slurm: SlurmSettings, partitions: Mapping[str, Partition]
) -> list[SchedulerError]:
    """Return errors: a partition missing, none up, limits too short; [] where none is known."""
    if not partitions or not slurm.partition:
        return []
    wanted_names, errors = slurm.partition.split(","), list[SchedulerError]()
    for name in wanted_names:
        if name not in partitions:
            (near,) = difflib.get_close_matches(name, partitions, n=1, cutoff=0.0)
            names = ", ".join(sorted(partitions)[:20])
            message = f"there is no partition {name}; Slurm lists: {names}"
            fix = f"set slurm.partition or pass --partition {near}"
            errors.append(SchedulerError(message, fix))
    if errors:
        return errors
    chosen = [partitions[name] for name in wanted_names]
    if not any(partition.up for partition in chosen):
        message = f"partition {slurm.partition} is not up: no job starts there"
        errors.append(SchedulerError(message, "set slurm.partition to one that `sinfo` shows up"))
    wanted, limits = slurm.time_limit, [partition.limit_s for partition in chosen]
    longest = max(inf if limit_s is None else limit_s for limit_s in limits)
    if parse_duration(wanted) > longest:
        limit = format_duration(int(longest))
        message = (
            f"slurm.time_limit {wanted} is over the {limit} that partition {slurm.partition} allows"
        )
        errors.append(SchedulerError(message, f"set slurm.time_limit to {limit}: successors go on"))
    return errors
