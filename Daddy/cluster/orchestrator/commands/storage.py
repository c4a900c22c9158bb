"""Pure. File systems that can hold a run, and the disk space that the run will need.

Two kinds of place are refused: one whose rights expire with a ticket (a job or a daemon outlives
the login that got it), and one that only this host sees. Space is forecast item by item: what has a
bound (checkpoints, shared weights, releases), and a month of what grows (logs and events).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from Daddy.core.errors import FileError
from Daddy.core.settings import (
    HISTORY_MB,
    HISTORY_VERSIONS,
    KEPT_CHECKPOINTS,
    KEPT_HOURS,
    KEPT_VERSIONS,
    Config,
)

_OCTAL = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}
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
_RELEASE_BYTES = 11_000_000
"""Its code twice: readable, and as the parcel that jobs unpack."""
_RELEASES = 6
"""Kept at a time by a person who edits now and then and says ``clean``."""
_LOG_BYTES_A_DAY = 6_000_000
"""Output and events of one slot in a day."""
_MONTH_DAYS = 30
_TIGHT_SHARE = 0.9
"""Of the free space: what is used up beyond that is worth a warning."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One mounted file system."""

    device: str
    point: str
    kind: str
    options: tuple[str, ...]


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """``/proc/mounts`` as records; lines that are none are passed over."""
    rows = (line.split() for line in text.splitlines())
    return tuple(
        Mount(_plain(row[0]), _plain(row[1]), row[2], tuple(row[3].split(",")))
        for row in rows
        if len(row) >= 4  # noqa: PLR2004 - device, point, kind, options
    )


def _plain(text: str) -> str:
    for code, letter in _OCTAL.items():
        text = text.replace(code, letter)
    return text


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """The file system that holds an absolute path: the longest mount point above it, the last one
    mounted there; None where nothing is known.
    """
    above = [one for one in mounts if one.point == "/" or f"{path}/".startswith(f"{one.point}/")]
    return max(reversed(above), key=lambda one: len(one.point), default=None)


def _needs_ticket(mount: Mount) -> str:
    """Why rights on it expire; empty when they do not."""
    if mount.kind in _TICKETED:
        return f"{mount.kind} wants a token that expires"
    for option in mount.options:
        if option.startswith("sec=krb5"):
            return f"{mount.kind} is mounted with {option}: rights go with the Kerberos ticket"
    return ""


def _only_here(path: str, mount: Mount, *, one_host: bool) -> str:
    """Why other hosts cannot see the path; empty when they may, or there are none."""
    if one_host:
        return ""
    if mount.kind in _IN_MEMORY:
        return f"{mount.point} is this host's memory ({mount.kind})"
    scratch = next((top for top in _SCRATCH if f"{path}/".startswith(f"{top}/")), None)
    if scratch is not None and mount.kind in _OF_DISKS:
        return f"{scratch} is this host's own ({mount.kind})"
    return ""


def may_be_private(path: str, mounts: tuple[Mount, ...]) -> str:
    """A doubt in words: a disk of this host, which others see only if it is the file server."""
    mount = mount_of(path, mounts)
    if mount is None or mount.kind not in _OF_DISKS | _IN_MEMORY:
        return ""
    return f"{path} is on a disk of this host ({mount.kind} at {mount.point}): do all nodes see it?"


def place_findings(
    what: str, path: str, mounts: tuple[Mount, ...], *, one_host: bool
) -> list[FileError]:
    """Objections to having ``what`` (such as "the run directory") at ``path``."""
    mount = mount_of(path, mounts)
    if mount is None:
        return []
    found = []
    if why := _needs_ticket(mount):
        found.append(
            FileError(
                f"{what} {path} needs a ticket that expires while jobs run: {why}",
                "put it on storage that needs none (sites call it scratch, project or work)",
            )
        )
    if why := _only_here(path, mount, one_host=one_host):
        found.append(
            FileError(
                f"{what} {path} cannot be seen from the nodes where jobs run: {why}",
                "put it on storage that all hosts share (your home or the project's scratch)",
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that takes room: bytes, how they are counted, and whether they were measured."""

    name: str
    size: int
    how: str


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes that are free at a place, and who says so (the disk, or a quota)."""

    free: int
    by: str


def forecast(config: Config, checkpoint: int | None, blob: int | None) -> tuple[Item, ...]:
    """Space for the run; ``checkpoint`` and ``blob`` are sizes seen in it, None: not yet."""
    slots = config.slurm.max_running
    keep = KEPT_CHECKPOINTS + KEPT_HOURS
    one = checkpoint or _CHECKPOINT_BYTES + _ENVIRONMENT_BYTES * config.training.num_envs
    seen = "measured here" if checkpoint else f"estimated for {config.training.num_envs} envs"
    items = [
        # one more than kept: the next is written before the oldest goes
        Item(
            "checkpoints",
            slots * (keep + 1) * one,
            f"{slots} slots × {keep} kept × {human(one)} ({seen})",
        )
    ]
    if config.collaboration.enabled:
        versions, each = KEPT_VERSIONS, blob or _WEIGHTS_BYTES
        blobs = versions * (1 + slots)
        items.append(
            Item(
                "shared weights",
                blobs * each,
                f"{versions} versions × (1 + {slots}) × {human(each)} "
                f"({'measured here' if blob else 'estimated'})",
            )
        )
        history = min(HISTORY_VERSIONS * each, HISTORY_MB * 1_000_000)
        items.append(
            Item("older versions", history, f"{HISTORY_VERSIONS} of hours and days, to go back to")
        )
    grows = slots * _LOG_BYTES_A_DAY * _MONTH_DAYS
    items += [
        Item("releases", _RELEASES * _RELEASE_BYTES, f"{_RELEASES} × {human(_RELEASE_BYTES)}"),
        Item("logs, events", grows, f"{_MONTH_DAYS} days × {slots} × {human(_LOG_BYTES_A_DAY)}"),
    ]
    return tuple(items)


def needed(items: Sequence[Item]) -> int:
    """All of them in bytes."""
    return sum(item.size for item in items)


def told(items: Sequence[Item], room: Room) -> str:
    """The forecast in two lines: the sum, and what it is made of."""
    parts = "; ".join(f"{item.name} {human(item.size)} = {item.how}" for item in items)
    total = f"{human(needed(items))} in a month, {human(room.free)} free by {room.by}"
    return f"disk: {total}\n  {parts}"


def shortage(items: Sequence[Item], room: Room, place: str) -> FileError | None:
    """The finding that there is not enough room; None when there is."""
    if needed(items) <= room.free * _TIGHT_SHARE:
        return None
    largest = max(items, key=lambda item: item.size)
    return FileError(
        f"{place} has room for {human(room.free)} by {room.by}, and the run will need "
        f"{human(needed(items))}, {largest.name} most ({largest.how})",
        "free some space, or set run_dir elsewhere",
    )


def parse_quota(text: str, device: str) -> Room | None:
    """Room on ``device`` by ``quota -w -p``; None where no limit is told for it.

    Columns: file system, blocks used (KiB, a ``*`` when over), soft limit, hard limit, …
    """
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[0] == device:  # noqa: PLR2004 - the columns above
            numbers = [word.rstrip("*") for word in words[1:4]]
            if all(number.isdigit() for number in numbers):
                used, soft, hard = (int(number) * 1024 for number in numbers)
                limit = soft or hard
                return Room(max(0, limit - used), f"your quota on {device}") if limit else None
    return None


def human(size: float) -> str:
    """Bytes as a person says them."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:  # noqa: PLR2004 - decimal units, as disks are sold
            return f"{size:.0f} {unit}" if unit in ("B", "KB") else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
