"""Pure. File systems that can hold a run, and the disk space that the run will need.

Two kinds of place are refused: one whose rights expire with a ticket (a job or a daemon outlives
the login that got it), and one that only this host sees. Space is forecast item by item: what has a
bound (checkpoints, shared weights, releases), and a month of what grows (logs and events).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from Daddy.core.errors import FileError
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
_CHECKPOINT_BYTES = 3_900_000
"""A checkpoint without its environments: the default policy's weights and Adam's two moments."""
_ENVIRONMENT_BYTES = 20_000
"""Added by one environment: the emulator's state and the recurrent memory."""
_WEIGHTS_BYTES = 1_300_000
"""A version or a contribution of the default policy."""
_RELEASES_BYTES = 6 * 11_000_000
"""Six, kept by a person who says ``clean`` now and then: code twice, readable and as a bundle."""
_LOG_BYTES_A_MONTH = 30 * 6_000_000
"""Output and events of one slot."""
_TIGHT_SHARE = 0.9
"""Of the free space: what is used up beyond that is worth a warning."""


class Mount(NamedTuple):
    """One mounted file system."""

    device: str
    point: str
    kind: str
    options: str
    """Separated by commas."""


def find_mount(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The file system that holds an absolute path: the longest mount point above it, the last one
    mounted there; None where nothing is known.
    """
    above = [mount for mount in mounts if f"{path}/".startswith(f"{mount.point.rstrip('/')}/")]
    return max(reversed(above), key=lambda mount: len(mount.point), default=None)


def _needs_ticket(mount: Mount) -> str:
    """Why rights on it expire; empty when they do not."""
    if mount.kind in _TICKETED:
        return f"{mount.kind} wants a token that expires"
    for option in mount.options.split(","):
        if option.startswith("sec=krb5"):
            return f"{mount.kind} is mounted with {option}: rights go with the Kerberos ticket"
    return ""


def _only_here(path: str, mount: Mount) -> str:
    """Why other hosts cannot see the path; empty when they may."""
    if mount.kind in _IN_MEMORY:
        return f"{mount.point} is this host's memory ({mount.kind})"
    scratch = next((top for top in _SCRATCH if f"{path}/".startswith(f"{top}/")), None)
    own = scratch is not None and mount.kind in _OF_DISKS
    return f"{scratch} is this host's own ({mount.kind})" if own else ""


def describe_private_disk(path: str, mounts: Sequence[Mount]) -> str:
    """A doubt in words: a disk of this host, which others see only if it is the file server."""
    mount = find_mount(path, mounts)
    if mount is None or mount.kind not in _OF_DISKS | _IN_MEMORY:
        return ""
    return f"{path} is on a disk of this host ({mount.kind} at {mount.point}): do all nodes see it?"


def find_place_errors(
    what: str, path: str, mounts: Sequence[Mount], *, one_host: bool
) -> list[FileError]:
    """Objections to having ``what`` (such as "the run directory") at ``path``."""
    mount, found = find_mount(path, mounts), list[FileError]()
    if mount is not None and (why := _needs_ticket(mount)):
        said = f"{what} {path} needs a ticket that expires while jobs run: {why}"
        fix = "put it on storage that needs none (sites call it scratch, project or work)"
        found.append(FileError(said, fix))
    if mount is not None and not one_host and (why := _only_here(path, mount)):
        said = f"{what} {path} cannot be seen from the nodes where jobs run: {why}"
        fix = "put it on storage that all hosts share (your home or the project's scratch)"
        found.append(FileError(said, fix))
    return found


class FreeSpace(NamedTuple):
    """Bytes that are free at a place, as the disk or a quota says (``by``)."""

    free: int
    by: str


def forecast_disk_use(config: Config, checkpoint: int | None, blob: int | None) -> dict[str, int]:
    """Bytes that the run will need, by use; arguments are sizes seen in it, None: not yet."""
    slots, kept = config.slurm.max_running, KEPT_CHECKPOINTS + KEPT_HOURS
    each = checkpoint or _CHECKPOINT_BYTES + _ENVIRONMENT_BYTES * config.training.num_envs
    items = {"checkpoints": slots * (kept + 1) * each}  # one more is being written
    if config.collaboration.enabled:
        version = blob or _WEIGHTS_BYTES
        items["shared weights"] = KEPT_VERSIONS * (1 + slots) * version
        items["older versions"] = min(HISTORY_VERSIONS * version, HISTORY_MB * 1_000_000)
    return items | {"releases": _RELEASES_BYTES, "logs and events": slots * _LOG_BYTES_A_MONTH}


def describe_forecast(items: Mapping[str, int], room: FreeSpace) -> str:
    """The forecast in two lines: the sum, and what it is made of."""
    parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in items.items())
    needed, free = format_bytes(sum(items.values())), format_bytes(room.free)
    return f"disk: {needed} in a month, {free} free by {room.by}\n  {parts}"


def find_shortage(items: Mapping[str, int], room: FreeSpace, place: str) -> FileError | None:
    """The finding that there is not enough room; None when there is."""
    needed, largest = sum(items.values()), max(items, key=lambda name: items[name])
    if needed <= room.free * _TIGHT_SHARE:
        return None
    return FileError(
        f"{place} has room for {format_bytes(room.free)} by {room.by}, and the run will need "
        f"{format_bytes(needed)}, {largest} most ({format_bytes(items[largest])})",
        "free some space, or set run_dir elsewhere",
    )


def parse_quota(text: str, device: str) -> FreeSpace | None:
    """Room on ``device`` by ``quota -w -p``; None where no limit is told for it.

    Columns: file system, blocks used (KiB, a ``*`` when over), soft limit, hard limit, …
    """
    for line in text.splitlines():
        name, *columns = line.split() or [""]
        numbers = [int(word.rstrip("*")) for word in columns[:3] if word.rstrip("*").isdigit()]
        if name == device and len(numbers) == 3:  # noqa: PLR2004 - the columns above
            used, soft, hard = numbers
            limit = soft or hard
            return (
                FreeSpace(1024 * max(0, limit - used), f"your quota on {device}") if limit else None
            )
    return None


def format_bytes(size: float) -> str:
    """Bytes as a person says them, in decimal units, as disks are sold."""
    power = min(4, (len(str(int(size))) - 1) // 3)
    return f"{size / 1000**power:.{int(power > 1)}f} {('B', 'KB', 'MB', 'GB', 'TB')[power]}"
