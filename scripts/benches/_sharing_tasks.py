"""One seed of one arm of the bench `sharing`: played in a process of its own, kept on disk.

A result's file is named after a hash of what was played, so that an interrupted bench goes on and
another length of run is another result.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from Daddy.core.files import read_json, sha256_hex, to_json, write_json
from Daddy.core.machine import usable_cores
from scripts.benches._sharing_arms import Arm
from scripts.benches._sharing_child import begin
from scripts.benches._sharing_learner import PPO
from scripts.benches._sharing_wire import wire

_LIMIT = 1 << 20
_PRODUCT = 3
"""Raised when the product learns in another way: what was played before is another result."""


@dataclass(frozen=True)
class Task:
    """A seed of an arm, for so many rounds, whose result lies below `root`."""

    root: Path
    arm: Arm
    seed: int
    rounds: int

    @property
    def path(self) -> Path:
        """Where its result is kept."""
        crew, how = self.arm.crew.__name__, dict(self.arm.how)
        what = {"crew": crew, "how": how, "rounds": self.rounds, **asdict(PPO), "product": _PRODUCT}
        words = self.arm.name.replace(",", "").replace(" ", "-")
        return self.root / f"{words}-{self.seed}-{sha256_hex(to_json(what))[:8]}.json"

    def result(self) -> dict[str, Any] | None:
        """What it came to, if it was played."""
        return read_json(self.path, _LIMIT) if self.path.exists() else None


def play(task: Task) -> str:
    """Play it through and keep what it came to; returns a line for people."""
    import torch

    torch.set_num_threads(1)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="daddy-sharing-") as folder:
        crew = task.arm.make(task.seed, Path(folder), task.rounds)
        each = [crew.round(number) for number in range(task.rounds)]
        result: dict[str, Any] = {"each": each, **crew.told()}
        if task.arm.name == "four that share":
            result["wire"] = wire(crew.newest(), task.seed)
    result["wall_s"] = round(time.perf_counter() - began, 1)
    write_json(task.path, result)
    mean = sum(map(sum, each)) / sum(map(len, each))
    return f"{task.arm.name}, seed {task.seed}: mean {mean:.3g}, {result['wall_s']} s"


def play_all(tasks: Sequence[Task], tell: Callable[[str], None]) -> Iterator[int]:
    """Play what is left, as many at once as there are cores; yields how many are left after each.

    KeyboardInterrupt ends the children; what had ended is kept.
    """
    left = [task for task in tasks if not task.path.exists()]
    with ProcessPoolExecutor(usable_cores(), get_context("spawn"), begin) as pool:
        futures = [pool.submit(play, task) for task in left]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                tell(f"{done} of {len(left)}: {future.result()}")
                yield len(left) - done
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                child.terminate()
            raise
