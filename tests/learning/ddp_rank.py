"""Runs one rank of the tests of DDP: `python -m tests.learning.ddp_rank FOLDER MODE TIMEOUT_S`."""

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from Daddy.core.entry_point import run_entry
from Daddy.core.rank_address import read_rank
from Daddy.learning.adam import FlatAdam
from Daddy.learning.cartpole import CartPole
from Daddy.learning.ddp import GlooGroup
from Daddy.learning.policy import make_policy
from Daddy.learning.ppo import PpoUpdater
from Daddy.learning.rollout_buffer import Minibatch
from tests.learning.helpers import SETTINGS

STEPS, SEQUENCES, LENGTH = 50, 4, 16
CPU = torch.device("cpu")


class Batches:
    """Stands for a rollout: yields given minibatches."""

    def __init__(self, batches):
        self.batches = batches

    def minibatches(self, *_):
        yield from self.batches


def minibatch(rank, step):
    """Return a minibatch whose advantages have another mean and scale on each rank."""
    draw = torch.Generator().manual_seed(1000 * rank + step)
    shape = (LENGTH, SEQUENCES)
    normal = [torch.randn(shape, generator=draw) for _ in range(3)]
    return Minibatch(
        {"state": torch.randn((*shape, 4), generator=draw)},
        torch.zeros(2, SEQUENCES, 0),
        torch.zeros(shape, dtype=torch.bool),
        torch.randint(2, shape, generator=draw),
        torch.full(shape, 0.5).log() + 0.1 * normal[0],
        normal[1],
        (rank + 1) * normal[2] + rank,
        normal[1] + 0.5 * rank,
    )


def updater(seed, group=None):
    """Return a PPO updater whose first weights come from `seed`."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    game = CartPole()
    policy = make_policy(game.observation_space, game.action_space.n, 64, 0)
    optimizer = FlatAdam(policy.named_parameters(), group)
    settings = replace(SETTINGS, update_epochs=1)
    extra = {} if group is None else {"group": group}
    return PpoUpdater(policy, optimizer, settings, torch.Generator(), CPU, **extra)


def main(argv=None):
    folder, mode, timeout_s = (argv or sys.argv[1:])[:3]
    at = read_rank(os.environ)
    group = GlooGroup(at, 300.0)
    ours = updater(at.rank, group)
    ours.optimizer.broadcast()
    group.timeout_s = float(timeout_s)
    skipped = 0.0
    for step in range(STEPS):
        batch = minibatch(at.rank, step)
        if at.rank == 1 and step == 10:
            trouble(mode, batch, Path(folder))
        skipped += ours.update(Batches([batch]), 1e-3)["skipped_minibatches"]
    kept = [ours.optimizer.mean, ours.optimizer.square, torch.tensor([skipped])]
    flat = torch.cat([*(p.detach().flatten() for p in ours.policy.parameters()), *kept])
    (Path(folder) / f"rank-{at.rank}.bin").write_bytes(flat.numpy().tobytes())
    return 0


def trouble(mode, batch, folder):
    if mode == "nan":
        batch.returns[0, 0] = float("nan")
    if mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    while mode == "hangs" and not (folder / "end").exists():
        time.sleep(0.1)


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
