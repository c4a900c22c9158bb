"""Entry: beside a learner, plays the version on probation and its reference, a pair now and then.

`train_slim` starts it as a process of the lowest priority that ends with the job. It plays by
turns: after a pair it rests so long that it never takes more than its share of the job's cores.
Nothing heavy is loaded before there is something to play.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from Daddy.core.clock import SystemClock
from Daddy.core.config import load_effective, shared_paths
from Daddy.core.errors import run_entry
from Daddy.core.machine import die_with_parent, lower_priority, usable_cores
from Daddy.core.settings import Config
from Daddy.weights.store.store import Store
from Daddy.workloads import WORKLOADS

if TYPE_CHECKING:
    from Daddy.weights.polyak import StateDict
    from Daddy.weights.revert.examining import Examiner, PlayPair

LOOK_S = 30.0
"""Between two looks when there is nothing to play."""

EPISODE_STEPS = 2048
"""Steps of the longest episode: a collapse shows long before the end of a game."""

_NICENESS = 19


def main(argv: Sequence[str] | None = None) -> int:
    """Examine until the job ends; 0 only if it may not use any time at all."""
    args = _parser().parse_args(argv)
    die_with_parent(args.parent)
    lower_priority(_NICENESS)
    config = load_effective(args.config)
    fraction = min(1.0, config.collaboration.examine_share * usable_cores())
    clock, never = SystemClock(), threading.Event()
    examiner = None
    while fraction > 0.0:
        begun, busy = clock.monotonic(), time.process_time()
        try:
            if examiner is None and _has_work(config):
                examiner = _examiner(config, args.peer, args.incarnation)
            done = examiner.examine() if examiner is not None else None
        except Exception as error:  # noqa: BLE001 - an emulator's or torch's: the next pair may go
            done = None
            print(f"not examined: {error}", file=sys.stderr, flush=True)
        spent = time.process_time() - busy
        if done is not None:
            print(said(done), flush=True)
        took = clock.monotonic() - begun
        clock.wait(never, rest(spent, took, fraction, played=done is not None))
    return 0


def rest(spent_s: float, took_s: float, fraction: float, *, played: bool) -> float:
    """Seconds to rest after so much processor time, so that ``fraction`` of a core is not passed.

    ``took_s`` is how long it took by the clock.
    """
    owed = spent_s / fraction - took_s
    return max(owed, 0.0 if played else LOOK_S)


def said(done: Any) -> str:
    """One line about a pair."""
    ((seed, ours, theirs),) = done.pairs
    return f"v{done.version} {ours:g}, v{done.reference} {theirs:g} from start {seed}"


def _has_work(config: Config) -> bool:
    store = Store(shared_paths(config))
    newest = store.newest()
    return newest is not None and store.version(newest).probation.trial > 0


def _examiner(config: Config, peer: str, incarnation: str) -> Examiner:
    from Daddy.weights.revert.examining import Examiner

    store = Store(shared_paths(config))
    steps = min(EPISODE_STEPS, config.training.episode_steps)
    return Examiner(store, peer, incarnation, steps, player(config, steps))


def player(config: Config, most_steps: int) -> PlayPair:
    """Plays a pair in one environment of the run's own kind, without an archive."""
    from Daddy.learning.agent import agent_of
    from Daddy.learning.device import limit_threads

    limit_threads(1)
    alone = config.archive.model_copy(update={"mode": "off"})
    row = WORKLOADS[config.training.workload]
    game: Any = row.make_env(config.model_copy(update={"archive": alone}))()

    def play(weights: StateDict, seed: int) -> float:
        policy = row.make_policy(game.observation_space, game.action_space)
        return episode_return(game, agent_of(policy, weights, "a version"), seed, most_steps)

    return lambda ours, theirs, seed: (play(ours, seed), play(theirs, seed))


def episode_return(game: Any, agent: Any, seed: int, most_steps: int) -> float:
    """The return of one episode from ``seed``, cut after ``most_steps``."""
    observation, _ = game.reset(seed=seed)
    agent.begin(seed)
    total, step, over = 0.0, 0, False
    while not over and step < most_steps:
        observation, reward, ended, late, _ = game.step(agent.act(observation))
        total, step, over = total + float(reward), step + 1, ended or late
    return total


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m Daddy.errands.examiner", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="the job's configuration")
    parser.add_argument("--peer", required=True, help="the job's slot")
    parser.add_argument("--incarnation", required=True, help="the job's process start")
    parser.add_argument("--parent", type=int, required=True, help="ends when this process does")
    return parser


if __name__ == "__main__":
    sys.exit(run_entry(main))
