"""Whether the learner learns, where everybody can check it: CartPole-v1, beside SB3's PPO.

Two tasks: everything seen (solved at a mean of 475 over 100 episodes), and positions only (450),
which needs a memory: a feed-forward policy must fail there. Ours runs through its real loop; the
peers, where installed (extra ``bench``), with the settings their own zoo tuned. Every run is a
process of one thread, as many at once as there are cores, and stops when it has solved its task.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from multiprocessing import active_children, get_context

from Daddy.core.config import CHECKOUT
from Daddy.core.machine import usable_cores
from scripts.benches import _cartpole_peers
from scripts.benches._curves import Curve, draw, figures

PICTURE = CHECKOUT / "runs" / "benches" / "cartpole.png"
SEEDS, QUICK_SEEDS = 5, 2
ZOO_STEPS = 100_000
"""The peers' budget in their zoo, over which their rates fall."""
TASKS = {"everything seen": 475.0, "positions only": 450.0}


@dataclass(frozen=True)
class Contender:
    """Who learns what: `module` has a function `learn`."""

    name: str
    task: str
    module: str
    memory: bool
    limit: int

    @property
    def is_peer(self) -> bool:
        return self.module == "_cartpole_peers"


CONTENDERS = (
    Contender(
        "sb3-contrib RecurrentPPO",
        "positions only",
        "_cartpole_peers",
        memory=True,
        limit=ZOO_STEPS,
    ),
    Contender("SB3 PPO", "everything seen", "_cartpole_peers", memory=False, limit=ZOO_STEPS),
    Contender("ours", "everything seen", "_cartpole_ours", memory=False, limit=300_000),
    Contender("ours, LSTM", "positions only", "_cartpole_ours", memory=True, limit=300_000),
    Contender("ours, no memory", "positions only", "_cartpole_ours", memory=False, limit=300_000),
)
"""The longest first, so that the last minutes are not one core's."""


def run(quick: bool) -> dict[str, object]:
    """Solved seeds, steps and seconds to get there; after Ctrl-C, of the runs that had ended."""
    absent = _cartpole_peers.missing()
    contenders = [one for one in CONTENDERS if not (absent and one.is_peer)]
    seeds = range(1, 1 + (QUICK_SEEDS if quick else SEEDS))
    jobs = [(one, seed) for one in contenders for seed in seeds]
    found = _all(jobs)
    return {
        **_told(found),
        "peers": absent or _versions(),
        "side_by_side": usable_cores(),
        "unfinished": len(jobs) - len(found),
        "picture": str(PICTURE),
    }


Found = dict[tuple[Contender, int], Curve]


def _all(jobs: Sequence[tuple[Contender, int]]) -> Found:
    """Every job's curve; the picture grows with each."""
    found: Found = {}
    with ProcessPoolExecutor(usable_cores(), get_context("spawn")) as pool:
        running = {pool.submit(learn, *job): job for job in jobs}
        try:
            for future in as_completed(running):
                found[running[future]] = future.result()
                draw(PICTURE, _by_task(found), list(TASKS.values()))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                child.terminate()
    return found


def _by_task(found: Found) -> dict[str, dict[str, list[Curve]]]:
    by_task: dict[str, dict[str, list[Curve]]] = {task: {} for task in TASKS}
    for one, _ in sorted(found, key=lambda job: (CONTENDERS.index(job[0]), job[1])):
        by_task[one.task].setdefault(one.name, [])
    for (one, _), curve in sorted(found.items(), key=lambda item: item[0][1]):
        by_task[one.task][one.name].append(curve)
    return by_task


def _told(found: Found) -> dict[str, object]:
    return {
        task: {name: figures(curves, TASKS[task]) for name, curves in contenders.items()}
        for task, contenders in _by_task(found).items()
    }


def learn(contender: Contender, seed: int) -> Curve:
    """One run, in a process of its own."""
    from Daddy.learning.prepare import prepare

    prepare()
    module = import_module(f"scripts.benches.{contender.module}")
    curve: Curve = module.learn(
        seed,
        TASKS[contender.task],
        contender.limit,
        memory=contender.memory,
        velocities=contender.task == "everything seen",
    )
    solved = f"solved at {curve.solved_at:,}" if curve.solved_at else "not solved"
    print(
        f"  {contender.task}: {contender.name}, seed {seed}: {solved}, {curve.wall_s} s", flush=True
    )
    return curve


def _versions() -> str:
    names = ("stable-baselines3", "sb3-contrib", "torch", "gymnasium", "numpy")
    return ", ".join(f"{name} {version(name)}" for name in names)
