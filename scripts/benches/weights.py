"""Shared weights: the cost of a sync against bare writing, and the number of lost merges.

Cost: four learners of the game's own network publish, merge and adopt through a folder on X

Loss: four processes merge as fast as they can, once through the exchange and once, as a positive
control, through one shared file that each reads, blends and replaces (what many scripts do). A
merge is lost when what it added is not in the end result.

Wire: bytes and seconds per version of a policy of 3 M parameters, beside real rsync (``_wire``).

Time: the share of four real learners' time that goes into shared weights (``_sharing_time``).

Operations: file operations of one merge and of one look without news, and their seconds at 20 ms
each, with 1, 4, 8 and 32 peers (``_sharing_operations``).
"""

import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from Daddy.core.clock import SystemClock
from Daddy.core.load_config import load_config
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.learning.device import limit_threads
from Daddy.weights.encoding.state_arithmetic import StateDict, add_scaled
from Daddy.weights.weight_exchange import SharedExchange
from Daddy.workloads import WORKLOADS
from scripts.benches._sharing_race import bare_exchange, loss
from scripts.version_history import read_history

PEERS = 4
CLOCK = SystemClock()


def run(quick: bool) -> dict[str, object]:
    """Return figures of all parts; ``ratio`` compares with the limit, ``lost`` with the control."""
    # the racing children do without a learner
    from scripts.benches import _sharing_operations, _sharing_time, _wire

    limit_threads(1)  # as a learner on a shared machine: idle threads that spin distort the figures
    with tempfile.TemporaryDirectory(prefix="daddy-bench-") as folder:
        root = Path(folder)
        return {
            "cost": _cost(root / "cost", 3 if quick else 10),
            "loss": loss(root / "loss", 25 if quick else 100),
            "wire": _wire.measure(root / "wire", 1 if quick else 5),
            "operations": _sharing_operations.measure((1, 4) if quick else (1, 4, 8, 32)),
            "time": _sharing_time.measure(root / "time", 30.0 if quick else 600.0),
        }


def _policy_state() -> StateDict:
    """Return the weights that a learner of the game shares."""
    config = load_config()
    row = WORKLOADS["pokemon_red"]
    env = row.make_env(config)()
    try:
        policy = row.make_policy(config.training, env.observation_space, env.action_space)  # type: ignore[arg-type]
    finally:
        env.close()  # type: ignore[no-untyped-call]
    return {name: entry.detach().clone() for name, entry in policy.state_dict().items()}


def _timed(work: Callable[[], object]) -> float:
    begun = CLOCK.monotonic()
    work()
    return CLOCK.monotonic() - begun


def _cost(root: Path, rounds: int) -> dict[str, object]:
    state = _policy_state()
    size = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    peers = [bare_exchange(root, number) for number in range(PEERS)]
    weights = [dict(peer.join_fleet(lambda: state, None).weights) for peer in peers]
    publish, adopt, bare = [], [], []
    for round_ in range(1, rounds + 1):
        bare.append(_timed(lambda: _write_bare(root.parent, (size, size, size // 2))))
        for number, peer in enumerate(peers):
            own = add_scaled(weights[number], [weights[number]], [1e-3])
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
    """Return the least time that making files of these sizes durable can take."""
    block, temp = bytes(range(256)) * 4096, folder / "bare.part"
    for size in sizes:
        with temp.open("wb") as stream:
            for start in range(0, size, len(block)):
                stream.write(block[: size - start])
            stream.flush()
            os.fsync(stream.fileno())
        temp.replace(folder / "bare")
