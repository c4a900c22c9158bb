"""Lost merges: writers and mergers work on one folder as fast as they can.

Once through the exchange and once, as a positive control, through one shared file that each writer
reads, blends and replaces (what many scripts do). Each contribution moves one number, its writer's
own, by one: the end result shows how many were lost.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.core.clock import SystemClock
from Daddy.core.name_validation import new_incarnation
from Daddy.core.process_pool import interrupts_blocked
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.learning.device import limit_threads
from Daddy.weights.encoding.state_arithmetic import StateDict, add_deltas
from Daddy.weights.encoding.state_codec import decode, encode
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.merge.merger import Merger
from Daddy.weights.store.weight_records import Version
from Daddy.weights.store.weight_store import Store
from Daddy.weights.weight_exchange import SharedExchange
from scripts.version_history import read_history

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

WRITERS = 4
START_S = 120.0
"""Longest time until every process has loaded torch and stands at the line."""
CLOCK = SystemClock()
Work = Callable[[Path, int], None]


class Quiet:
    """An event writer that writes nothing."""

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        """Write nothing."""


def bare_exchange(root: Path, number: int, *, wan: bool = True) -> SharedExchange:
    """Return writer `number`'s exchange with folder `root`, which waits for no others."""
    settings = ExchangeSettings(run="bench", workload="bench", period_s=0.0, wan=wan)
    peer = f"slot-{number}"
    return SharedExchange(SharedPaths(root), peer, new_incarnation(), settings, CLOCK, Quiet())


def loss(root: Path, merges: int, mergers: int = 0, size: int = 0) -> dict[str, object]:
    """Four writers merge `merges` times each, beside `mergers` processes that do nothing else.

    Weights have `size` numbers besides the writers' own.
    """
    ours, control = root / "ours", root / "control"
    for folder in (ours, control):
        folder.mkdir(parents=True)
    through = partial(_share_through_exchange, merges=merges, size=size)
    beside = partial(_merge_only, merges=merges)
    exact = _race([through] * WRITERS + [beside] * mergers, ours)
    naive = _race([partial(_share_through_one_file, merges=merges, size=size)] * WRITERS, control)
    total, left = WRITERS * merges, _counted(control)
    versions = read_history(SharedPaths(ours)).versions
    return {
        "lost": total - _merged(versions),
        "merges": total,
        "offers_put_off": dict(_put_off(versions)),
        "processes": WRITERS,
        **({"mergers": mergers} if mergers else {}),
        "ours_chained": read_history(SharedPaths(ours)).chained,
        "ours_off_by": round(_off_by(ours, versions), 6),
        "versions": len(versions) - 1,
        "merged_by": len({version.merger for version in versions[1:]}),
        "ours_s": round(exact, 2),
        "control_lost": total - left,
        "control_s": round(naive, 2),
        "control_lost_share": round(1 - left / total, 3),
    }


def _race(works: list[partial[None]], folder: Path) -> float:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(len(works) + 1)
    children = [
        context.Process(target=_start_together, args=(start, work, folder, number), daemon=True)
        for number, work in enumerate(works)
    ]
    with interrupts_blocked():
        for child in children:
            child.start()
    start.wait(START_S)
    begun = CLOCK.monotonic()
    for child in children:
        child.join()
        if child.exitcode:
            raise RuntimeError(f"a bench process ended with {child.exitcode}")
    return CLOCK.monotonic() - begun


def _start_together(start: Barrier, work: Work, folder: Path, number: int) -> None:
    limit_threads(1)
    start.wait(START_S)
    work(folder, number)


def _counts(size: int, number: int | None = None) -> StateDict:
    """Return a state of one count per writer, one of them 1, and `size` constant numbers."""
    import numpy as np
    from safetensors.numpy import save

    counts = np.zeros(WRITERS, dtype=np.float32)
    if number is not None:
        counts[number] = 1.0
    body = {"body": np.zeros(size, dtype=np.float32)} if size else {}
    return decode(save({"count": counts, **body}))


def _share_through_exchange(folder: Path, number: int, merges: int, size: int) -> None:
    peer, step = bare_exchange(folder, number, wan=False), _counts(size, number)
    own = dict(peer.join_fleet(lambda: _counts(size), None).weights)
    for done in range(1, merges + 1):
        own = add_deltas(own, step)
        peer.publish(own, done, done)
        adoption = peer.adopt(own)
        if adoption is not None:
            own = dict(adoption.weights)
    for _ in range(200):  # until the last ones are merged
        if not _pending(folder):
            break
        peer.adopt(own)


def _merge_only(folder: Path, number: int, merges: int) -> None:
    """Merge pending contributions until all were merged once."""
    settings = ExchangeSettings(run="bench", workload="bench", period_s=0.0, wan=False)
    store = Store(SharedPaths(folder))
    merger = Merger(store, settings, CLOCK, f"merger-{number}/{new_incarnation()}")
    judged = 0
    while judged < WRITERS * merges:
        merger.try_merge(0.0)
        newest = store.newest()
        if newest is not None:
            judged = sum(pair[0] for pair in store.version(newest).consumed.values())


def _pending(folder: Path) -> bool:
    return any(SharedPaths(folder).peers.glob("*/*/0*.json"))


def _merged(versions: tuple[Version, ...]) -> int:
    """Return the number of merged contributions; -1 if one was merged twice.

    A writer whose offer came too late adds it to its next one.
    """
    inputs = [merged for version in versions for merged in version.inputs]
    once = len({(entry.peer, entry.sequence) for entry in inputs}) == len(inputs)
    return round(sum(item.norm for item in inputs)) if once else -1


def _put_off(versions: tuple[Version, ...]) -> Counter[str]:
    """Return counts of refused offers, by fault."""
    return Counter(refusal.fault for version in versions for refusal in version.refused)


def _off_by(folder: Path, versions: tuple[Version, ...]) -> float:
    """Return the largest difference between the end result and the records, over the writers."""
    store = Store(SharedPaths(folder))
    state = decode(store.read_blob(versions[-1].state))["count"]
    said = [0.0] * WRITERS
    for entry in (merged for version in versions for merged in version.inputs):
        said[int(entry.peer.removeprefix("slot-"))] += entry.share * entry.clip * entry.norm
    return max(abs(float(state[number]) - said[number]) for number in range(WRITERS))


def _share_through_one_file(folder: Path, number: int, merges: int, size: int) -> None:
    """Read, add one's own, replace: each write is atomic, the sequence is not."""
    path, temp, step = folder / "latest.st", folder / f".{number}", _counts(size, number)
    for _ in range(merges):
        shared = decode(path.read_bytes()) if path.exists() else _counts(size)
        temp.write_bytes(encode(add_deltas(shared, step)))
        temp.replace(path)


def _counted(folder: Path) -> int:
    return int(decode((folder / "latest.st").read_bytes())["count"].sum())
