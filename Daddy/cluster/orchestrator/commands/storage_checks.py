"""Pure. Checks file systems that may hold a run, and estimates the disk space that it needs.

Two kinds of file system are refused: those whose access expires with a ticket (jobs and daemons
outlive the login that got it), and those that only this host can see. The estimate adds what has a
bound (checkpoints, shared weights, releases) and a month of what grows (logs and events).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from Daddy.core.errors import FileError
from Daddy.core.humanize import has_control_character
from Daddy.core.settings import (
    HISTORY_MB,
    HISTORY_VERSIONS,
    KEPT_CHECKPOINTS,
    KEPT_HOURS,
    KEPT_VERSIONS,
    Config,
)

_TICKETED = frozenset({"afs", "openafs", "auristorfs", "kafs", "coda", "ncpfs"})
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
_OF_DISKS = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "overlay", "jfs"})
_SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - named to be refused
_TEMPORARY = ("tmp", "temp")
_ENVIRONMENT_BYTES = 20_000
"""One environment's share of a checkpoint: emulator state and recurrent state."""
_CONVOLUTIONS, _INPUTS = 65_000, 1_330
"""Weights of the game's network that no setting changes, and inputs of its encoder's last layer."""
_STATES = 3
"""Copies of the weights in a checkpoint: themselves and Adam's two moments."""
_RELEASES_BYTES = 6 * 11_000_000
"""Six releases between two uses of ``clean``, each with its code as files and as a bundle."""
_LOG_BYTES_A_MONTH = 30 * 6_000_000
"""One slot's output and events in 30 days."""
_TIGHT_SHARE = 0.9
"""Largest share of the free space that the run may need."""


class Mount(NamedTuple):
    """Describes one mounted file system."""

    device: str
    point: str
    kind: str
    options: str
    """Separated by commas."""


def find_mount(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """Return the file system with the longest mount point above an absolute path, or None."""
    above = [mount for mount in mounts if f"{path}/".startswith(f"{mount.point.rstrip('/')}/")]
    return max(reversed(above), key=lambda mount: len(mount.point), default=None)


def _needs_ticket(mount: Mount) -> str:
    """Return the reason for which access to ``mount`` expires with a ticket, or ""."""
    if mount.kind in _TICKETED:
        return f"{mount.kind} wants a token that expires"
    for option in mount.options.split(","):
        if option.startswith("sec=krb5"):
            return f"{mount.kind} is mounted with {option}: access ends with the Kerberos ticket"
    return ""


def _only_here(path: str, mount: Mount) -> str:
    """Return the reason for which other hosts cannot see ``path``, or "" if they may."""
    if mount.kind in _IN_MEMORY:
        return f"{mount.point} is this host's memory ({mount.kind})"
    scratch = next((top for top in _SCRATCH if f"{path}/".startswith(f"{top}/")), None)
    own = scratch is not None and mount.kind in _OF_DISKS
    return f"{scratch} is this host's own ({mount.kind})" if own else ""


def describe_private_disk(path: str, mounts: Sequence[Mount]) -> str:
    """Return a question about a path on this host's own disk or memory, "" for other paths."""
    mount = find_mount(path, mounts)
    if mount is None or mount.kind not in _OF_DISKS | _IN_MEMORY:
        return ""
    return f"{path} is on a disk of this host ({mount.kind} at {mount.point}): do all nodes see it?"


def describe_purging(name: str, path: str) -> str:
    """Return a warning, with ``name``, if ``path`` is on storage that sites purge, else ""."""
    folders = path.lower().split("/")[:-1]
    at = next((part for part in folders if "scratch" in part or part in _TEMPORARY), None)
    if at is None:
        return ""
    danger = "many sites delete files there that were not read for some weeks"
    return f"warning: {name} {path} is below {at!r}: {danger}; keep it in your home if it fits"


def find_place_errors(
    name: str, path: str, mounts: Sequence[Mount], *, one_host: bool
) -> list[FileError]:
    """Return errors, with ``name``: control character, ticket needed, one host's own disk."""
    mount, errors = find_mount(path, mounts), list[FileError]()
    if has_control_character(path):
        message = f"{name} {path!r} contains a control character, such as a newline"
        errors.append(FileError(message, f"rename the folder, or choose another for {name}"))
    if mount is not None and (why := _needs_ticket(mount)):
        message = f"{name} {path} needs a ticket that expires while jobs run: {why}"
        fix = f"put {name} on storage without tickets (often called scratch, project or work)"
        errors.append(FileError(message, fix))
    if mount is not None and not one_host and (why := _only_here(path, mount)):
        message = f"{name} {path} cannot be seen from the nodes where jobs run: {why}"
        fix = f"put {name} on storage that all hosts share (your home or the project's scratch)"
        errors.append(FileError(message, fix))
    return errors


class FreeSpace(NamedTuple):
    """Holds a folder's free bytes; ``by`` names the disk or quota that limits them."""

    free: int
    by: str


def forecast_disk_use(config: Config, checkpoint: int | None, blob: int | None) -> dict[str, int]:
    """Return use → bytes in a month; ``checkpoint``, ``blob``: measured bytes, None: unknown."""
    slots, checkpoints = config.slurm.max_running, KEPT_CHECKPOINTS + KEPT_HOURS
    weights = _weights_bytes(config.training.encoder_size, config.training.lstm_size)
    each = checkpoint or _STATES * weights + _ENVIRONMENT_BYTES * config.training.num_envs
    items = {"checkpoints": slots * (checkpoints + 1) * each}  # one more is being written
    if config.collaboration.enabled:
        version = blob or weights
        items["shared weights"] = KEPT_VERSIONS * (1 + slots) * version
        items["older versions"] = min(HISTORY_VERSIONS * version, HISTORY_MB * 1_000_000)
    return items | {"releases": _RELEASES_BYTES, "logs and events": slots * _LOG_BYTES_A_MONTH}


def _weights_bytes(encoder: int, lstm: int) -> int:
    """Return the bytes of the game's network: float32, four gates of the LSTM with two biases."""
    return 4 * (_CONVOLUTIONS + _INPUTS * encoder + 4 * lstm * (encoder + lstm + 2))


def describe_forecast(items: Mapping[str, int], space: FreeSpace) -> tuple[str, str]:
    """Return two lines: the forecast's sum, and its parts."""
    parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in items.items())
    needed, free = format_bytes(sum(items.values())), format_bytes(space.free)
    return f"disk: {needed} in a month, {free} free by {space.by}", f"  {parts}"


def find_shortage(items: Mapping[str, int], space: FreeSpace, place: str) -> FileError | None:
    """Return a FileError if ``items`` need over 90 % of the free space at ``place``, or None."""
    needed, largest = sum(items.values()), max(items, key=lambda name: items[name])
    if needed <= space.free * _TIGHT_SHARE:
        return None
    return FileError(
        f"{place} has room for {format_bytes(space.free)} by {space.by}, and the run will need "
        f"{format_bytes(needed)}, {largest} most ({format_bytes(items[largest])})",
        f"free some space, or set run_dir to another disk than {place}",
    )


def parse_quota(text: str, device: str) -> FreeSpace | None:
    """Return the free space on ``device`` by ``quota -w -p``; None if it has no limit.

    Columns: file system, blocks used (KiB, a ``*`` when over), soft limit, hard limit, …
    """
    for line in text.splitlines():
        name, *columns = line.split() or [""]
        numbers = [int(word.rstrip("*")) for word in columns[:3] if word.rstrip("*").isdigit()]
        if name == device and len(numbers) == 3:  # noqa: PLR2004 - the columns above
            used, soft, hard = numbers
            limit = soft or hard
            free = 1024 * max(0, limit - used)
            return FreeSpace(free, f"your quota on {device}") if limit else None
    return None


def format_bytes(size: float) -> str:
    """Return a size in decimal units, such as 1.3 MB."""
    power = min(4, (len(str(int(size))) - 1) // 3)
    return f"{size / 1000**power:.{int(power > 1)}f} {('B', 'KB', 'MB', 'GB', 'TB')[power]}"
