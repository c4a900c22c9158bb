"""A learner's emulators as fast as they go, for the bench of inputs: ``STREAM``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from Daddy.core.machine import die_with_parent
from Daddy.core.vocabulary import AgentReport
from Daddy.learning.vector_threads import SerialVector
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.rom import cartridge_path
from Daddy.streaming.tunnel_client import FrameSender

AGENTS, STEPS = 2, 600


def main(stream: Path) -> None:
    """Random keys in two environments until the parent ends."""
    die_with_parent()
    vector = SerialVector(lambda: PokemonRedEnv(cartridge_path(), episode_steps=STEPS), AGENTS)
    vector.reset(list(range(AGENTS)))
    dice, step = np.random.default_rng(1), 0
    with FrameSender(stream, "slot-0") as sender:
        while True:
            step += 1
            vector.tape(sender.taped())
            vector.watch(sender.wanted())
            vector.step(dice.integers(0, 7, AGENTS))
            for agent, piece in vector.pieces(slice(0, AGENTS)).items():
                sender.play(agent, piece)
            for agent, picture in vector.frames().items():
                sender.offer(agent, picture)
            sender.report(
                [AgentReport(one, 0, 0, 0.0, 0, 0, "nowhere", 5, step) for one in range(AGENTS)]
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
