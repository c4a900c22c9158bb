"""Arms of the bench `sharing`, each seed played in a process of its own and kept on disk.

A result's file is named after a hash of what was played, so that an interrupted bench goes on and
another length of run is another result. A run's length was chosen on seeds of its own (1001 and up)
so that learners on their own come to 55 to 65 % of the greatest possible area under the curve.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import canonical_json, read_json, sha256_hex, write_json
from Daddy.core.host_and_processes import usable_cores
from Daddy.core.process_pool import process_pool
from Daddy.learning.startup_preloading import prepare_imports

ROUNDS, QUICK_ROUNDS = 28, 3
"""Of one PPO update of each learner."""
_LIMIT = 1 << 20
_PRODUCT = 4
"""Raised when the product learns in another way: what was played before is another result."""


@dataclass(frozen=True, eq=False)
class Arm:
    """A group by name and how it differs from four learners that share."""

    name: str
    how: Mapping[str, Any] = field(default_factory=dict)


SHARED = Arm("four that share")
ALONE = Arm("four on their own", {"shares": False})
BIG = Arm("one with all environments", {"workers": 1, "size": 4, "shares": False})
LIES = ("nan", "noise", "x-10", "inflated")
HOSTILE = [
    Arm(f"{lie}, {'admission on' if gated else 'admission off'}", {"lie": lie, "gated": gated})
    for lie in LIES
    for gated in (True, False)
]
NEEDS: Mapping[str, tuple[Arm, ...]] = {"E1": (SHARED, ALONE, BIG), "E6": (SHARED, *HOSTILE)}
"""Experiment → arms, the reference first. E5 needs no learner."""


@dataclass(frozen=True)
class Task:
    """A seed of an arm, for a number of rounds, whose result lies below `root`."""

    root: Path
    arm: Arm
    seed: int
    rounds: int

    @property
    def path(self) -> Path:
        """The file of its result."""
        from scripts.benches._sharing_learner import PPO

        key = {"how": dict(self.arm.how), "rounds": self.rounds, **asdict(PPO), "product": _PRODUCT}
        words = self.arm.name.replace(",", "").replace(" ", "-")
        return self.root / f"{words}-{self.seed}-{sha256_hex(canonical_json(key))[:8]}.json"

    def result(self) -> dict[str, Any] | None:
        """Its result, if it was played."""
        return read_json(self.path, _LIMIT) if self.path.exists() else None


def play(task: Task) -> str:
    """Play it through and store its result; return a line for people."""
    prepare_imports()
    import torch

    from scripts.benches._sharing_group import LearnerGroup
    from scripts.benches._sharing_hostile import HostileGroup

    torch.set_num_threads(1)
    began = time.perf_counter()
    kind: type[LearnerGroup] = HostileGroup if "lie" in task.arm.how else LearnerGroup
    with tempfile.TemporaryDirectory(prefix="daddy-sharing-") as folder:
        group = kind(task.seed, Path(folder), task.rounds, **task.arm.how)
        each = [group.round() for _ in range(task.rounds)]
        wall_s = round(time.perf_counter() - began, 1)
        write_json(task.path, {"each": each, **group.told(), "wall_s": wall_s})
    mean = sum(map(sum, each)) / sum(map(len, each))
    return f"{task.arm.name}, seed {task.seed}: mean {mean:.3g}, {wall_s} s"


def play_all(tasks: Sequence[Task], tell: Callable[[str], None]) -> Iterator[int]:
    """Play the remaining tasks, one per core at a time; yield how many are left after each.

    KeyboardInterrupt ends the children; finished results are kept.
    """
    left = [task for task in tasks if not task.path.exists()]
    with process_pool(usable_cores()) as pool:
        for done, text in enumerate(pool.imap_unordered(play, left), 1):
            tell(f"{done} of {len(left)}: {text}")
            yield len(left) - done
