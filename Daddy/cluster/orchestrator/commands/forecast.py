"""Pure: the disk that a run will need, item by item, each with where its figure comes from.

Two kinds: what has a bound (checkpoints, shared weights, releases) and what grows with time (logs
and events), which is counted for a month.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from Daddy.core.errors import FileError
from Daddy.core.settings import KEPT_HOURS, KEPT_VERSIONS, Config

CHECKPOINT_BYTES = 3_900_000
"""A checkpoint without its environments: the default policy's weights and Adam's two moments."""
ENVIRONMENT_BYTES = 20_000
"""What one environment adds to it: the emulator's state and the recurrent memory."""
WEIGHTS_BYTES = 1_300_000
"""A version or a contribution of the default policy."""
RELEASE_BYTES = 11_000_000
"""Its code twice: readable, and as the parcel that jobs unpack."""
RELEASES = 6
"""Kept at a time by a person who edits now and then and says ``clean``."""
LOG_BYTES_A_DAY = 6_000_000
"""Output and events of one slot in a day."""
MONTH_DAYS = 30
TIGHT_SHARE = 0.9
"""Of the free space: what is used up beyond that is worth a warning."""


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
    """What the run will take; ``checkpoint`` and ``blob`` are sizes seen in it, None: not yet."""
    slots = config.slurm.max_running
    keep = config.checkpointing.max_keep + KEPT_HOURS
    one = checkpoint or CHECKPOINT_BYTES + ENVIRONMENT_BYTES * config.training.num_envs
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
        versions, each = KEPT_VERSIONS, blob or WEIGHTS_BYTES
        blobs = versions * (1 + slots)
        items.append(
            Item(
                "shared weights",
                blobs * each,
                f"{versions} versions × (1 + {slots}) × {human(each)} "
                f"({'measured here' if blob else 'estimated'})",
            )
        )
    grows = slots * LOG_BYTES_A_DAY * MONTH_DAYS
    items += [
        Item("releases", RELEASES * RELEASE_BYTES, f"{RELEASES} × {human(RELEASE_BYTES)}"),
        Item("logs, events", grows, f"{MONTH_DAYS} days × {slots} × {human(LOG_BYTES_A_DAY)}"),
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
    if needed(items) <= room.free * TIGHT_SHARE:
        return None
    largest = max(items, key=lambda item: item.size)
    return FileError(
        f"{place} has room for {human(room.free)} by {room.by}, and the run will need "
        f"{human(needed(items))}, {largest.name} most ({largest.how})",
        "free some space, set run_dir elsewhere, or lower checkpointing.max_keep",
    )


def parse_quota(text: str, device: str) -> Room | None:
    """What ``quota -w -p`` leaves on ``device``; None where no limit is told for it.

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
