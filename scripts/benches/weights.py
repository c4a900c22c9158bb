"""Shared weights: what a sync costs against bare writing, and how many merges get lost.

Cost: four learners of the game's own network publish, merge and adopt through a folder on X

Loss: four processes merge as fast as they can, once through the exchange and once, as a positive
control, through one shared file that each reads, blends and replaces (what many scripts do). A
merge is lost when what it added is not in the end result.

Wire: bytes and seconds per version of a policy of 3 M parameters, beside real rsync (``_wire``).
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.core.clock import SystemClock
from Daddy.core.config import load
from Daddy.core.names import new_incarnation
from Daddy.core.paths import SharedPaths
from Daddy.learning.device import limit_threads
from Daddy.weights.codec import decode, encode
from Daddy.weights.exchange import SharedExchange
from Daddy.weights.history import read_history
from Daddy.weights.manifest import Version
from Daddy.weights.polyak import StateDict, add, move
from Daddy.weights.settings import ExchangeSettings
from Daddy.workloads import WORKLOADS

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

PEERS = 4
START_S = 120.0
"""Longest time until every process has loaded torch and stands at the line."""
CLOCK = SystemClock()


class _Quiet:
    """Events of a bench are nobody's."""

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        """Drop it."""


def run(quick: bool) -> dict[str, object]:
    """Figures of all parts; ``ratio`` compares with the limit, ``lost`` with the control."""
    from scripts.benches import _wire  # the racing children do without a learner

    limit_threads(1)  # as a learner on a shared machine: idle threads that spin distort the figures
    with tempfile.TemporaryDirectory(prefix="daddy-bench-") as folder:
        root = Path(folder)
        return {
            "cost": _cost(root / "cost", 3 if quick else 10),
            "loss": _loss(root / "loss", 25 if quick else 100),
            "wire": _wire.measure(root / "wire", 1 if quick else 5),
        }


def _policy_state() -> StateDict:
    """The weights that a learner of the game shares."""
    config = load()
    row = WORKLOADS["pokemon_red"]
    env = row.make_env(config)()
    try:
        policy = row.make_policy(env.observation_space, env.action_space)  # type: ignore[arg-type]
    finally:
        env.close()  # type: ignore[no-untyped-call]
    return {name: one.detach().clone() for name, one in policy.state_dict().items()}


def _timed(work: Callable[[], object]) -> float:
    begun = CLOCK.monotonic()
    work()
    return CLOCK.monotonic() - begun


def _exchange(root: Path, number: int, *, wan: bool = True) -> SharedExchange:
    settings = ExchangeSettings(run="bench", workload="bench", period_s=0.0, wan=wan)
    peer = f"slot-{number}"
    return SharedExchange(SharedPaths(root), peer, new_incarnation(), settings, CLOCK, _Quiet())


def _cost(root: Path, rounds: int) -> dict[str, object]:
    state = _policy_state()
    size = sum(one.numel() * one.element_size() for one in state.values())
    peers = [_exchange(root, number) for number in range(PEERS)]
    weights = [dict(peer.begin(lambda: state, None).weights) for peer in peers]
    publish, adopt, bare = [], [], []
    for round_ in range(1, rounds + 1):
        bare.append(_timed(lambda: _write_bare(root.parent, (size, size, size // 2))))
        for number, peer in enumerate(peers):
            own = move(weights[number], [weights[number]], [1e-3])
            steps = 1000 * round_
            publish.append(_timed(lambda p=peer, o=own, s=steps: p.publish(o, s, s)))  # type: ignore[misc]
            taken: list[StateDict] = []
            adopt.append(_timed(lambda p=peer, o=own, t=taken: _adopt(p, o, t)))  # type: ignore[misc]
            weights[number] = taken[0] if taken else own
    versions = len(read_history(SharedPaths(root)).versions) - 1
    return {
        "parameters": size // 4,
        "megabytes": round(size / 1e6, 2),
        "versions": versions,
        "publish_and_merge_s": round(statistics.median(publish), 4),
        "adopt_s": round(statistics.median(adopt), 4),
        "bare_write_s": round(statistics.median(bare), 4),
        "ratio": round(
            (statistics.median(publish) + statistics.median(adopt)) / statistics.median(bare), 2
        ),
    }


def _adopt(peer: SharedExchange, own: StateDict, taken: list[StateDict]) -> None:
    adoption = peer.adopt(own)
    if adoption is not None:
        taken.append(dict(adoption.weights))


def _write_bare(folder: Path, sizes: tuple[int, ...]) -> None:
    """The least that making files of these sizes durable under a name can cost."""
    block, temp = bytes(range(256)) * 4096, folder / "bare.part"
    for size in sizes:
        with temp.open("wb") as stream:
            for start in range(0, size, len(block)):
                stream.write(block[: size - start])
            stream.flush()
            os.fsync(stream.fileno())
        temp.replace(folder / "bare")


def _loss(root: Path, merges: int) -> dict[str, object]:
    ours, control = root / "ours", root / "control"
    for folder in (ours, control):
        folder.mkdir(parents=True)
    exact = _race(_share_through_exchange, ours, merges)
    naive = _race(_share_through_one_file, control, merges)
    chained = read_history(SharedPaths(ours)).chained
    return {
        "processes": PEERS,
        "merges_each": merges,
        "ours_lost": PEERS * merges - _merged(ours),
        "ours_chained": chained,
        "ours_s": round(exact, 2),
        "control_lost": PEERS * merges - _counted(control),
        "control_s": round(naive, 2),
        "control_lost_share": round(1 - _counted(control) / (PEERS * merges), 3),
    }


def _race(target: Callable[[Path, int, int], None], folder: Path, merges: int) -> float:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(PEERS + 1)
    children = [
        context.Process(target=_start_together, args=(start, target, folder, number, merges))
        for number in range(PEERS)
    ]
    for child in children:
        child.start()
    start.wait(START_S)
    begun = CLOCK.monotonic()
    for child in children:
        child.join()
        if child.exitcode:
            raise RuntimeError(f"a bench process ended with {child.exitcode}")
    return CLOCK.monotonic() - begun


def _start_together(
    start: Barrier, target: Callable[[Path, int, int], None], folder: Path, number: int, merges: int
) -> None:
    limit_threads(1)
    start.wait(START_S)
    target(folder, number, merges)


def _counts(number: int | None = None) -> StateDict:
    """A state of one count per process; one of them is 1."""
    import numpy as np
    from safetensors.numpy import save

    counts = np.zeros(PEERS, dtype=np.float32)
    if number is not None:
        counts[number] = 1.0
    return decode(save({"count": counts}))


def _share_through_exchange(folder: Path, number: int, merges: int) -> None:
    peer, step = _exchange(folder, number, wan=False), _counts(number)
    own = dict(peer.begin(_counts, None).weights)
    for done in range(1, merges + 1):
        own = add(own, step)
        peer.publish(own, done, done)
        adoption = peer.adopt(own)
        if adoption is not None:
            own = dict(adoption.weights)
    for _ in range(200):  # the last ones wait for nobody
        if not _pending(folder):
            break
        peer.adopt(own)


def _pending(folder: Path) -> bool:
    return any(SharedPaths(folder).peers.glob("*/*/0*.json"))


def _merged(folder: Path) -> int:
    """Contributions that are in exactly one version."""
    versions: tuple[Version, ...] = read_history(SharedPaths(folder)).versions
    inputs = [(one.peer, one.sequence) for version in versions for one in version.inputs]
    return len(set(inputs)) if len(set(inputs)) == len(inputs) else -1


def _share_through_one_file(folder: Path, number: int, merges: int) -> None:
    """Read, add one's own, replace: each write is atomic, the whole is not."""
    path, temp, step = folder / "latest.st", folder / f".{number}", _counts(number)
    for _ in range(merges):
        shared = decode(path.read_bytes()) if path.exists() else _counts()
        temp.write_bytes(encode(add(shared, step)))
        temp.replace(path)


def _counted(folder: Path) -> int:
    return int(decode((folder / "latest.st").read_bytes())["count"].sum())
