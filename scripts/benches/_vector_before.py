"""Runs the vector of another checkout in a process of its own, for a comparison in the same run."""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, cast

from Daddy.core.errors import UsageError

_CHILD = """
import sys, time
import numpy as np
from Daddy.learning.make_vector import make_vector
from Daddy.pokemon.env import PokemonRedEnv
from scripts.benches._uneven_steps import UnevenEnv
env, count, *backend = sys.argv[1:]
envs = {"PokemonRedEnv": PokemonRedEnv, "UnevenEnv": UnevenEnv}
vector = make_vector(envs[env], int(count), *backend)
vector.reset(range(int(count)))
rng = np.random.default_rng(0)
def send(group):
    members = vector.groups[group]
    vector.send(group, rng.integers(7, size=members.stop - members.start))
print(type(vector).__name__, flush=True)
while line := sys.stdin.readline().strip():
    start, steps, playing = time.perf_counter(), 0, len(vector.groups)
    for group in range(playing):
        send(group)
    while playing:
        group, transition = vector.recv()
        steps += len(transition.rewards)
        if time.perf_counter() - start < float(line):
            send(group)
        else:
            playing -= 1
    print(steps / (time.perf_counter() - start), flush=True)
vector.close()
"""
"""Uses only the names that every release has had: `make_vector`, groups, `send` and `recv`."""


class Before:
    """The vector that `folder`, a checkout or a release's folder, makes by default."""

    def __init__(self, folder: Path, env: type, num_envs: int, *backend: str) -> None:
        """Start a child whose imports come from `folder`; UsageError if it makes no vector."""
        fix = "name a checkout or a release's folder of the commit before with --before"
        if not (folder / "Daddy" / "learning" / "make_vector.py").is_file():
            raise UsageError(f"{folder} holds no Daddy", fix)  # Python would take this one's
        self._child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, env.__name__, str(num_envs), *backend],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(folder.resolve())},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        self.backend = self._pipe("stdout").readline().strip()
        if not self.backend:
            raise UsageError(f"the Daddy in {folder} makes no vector", fix)

    def rate(self, seconds: float) -> float:
        """Return environment steps per second; see `Contender`."""
        self._pipe("stdin").write(f"{seconds}\n")
        return float(self._pipe("stdout").readline())

    def close(self) -> None:
        """End the child by an empty line: forked peers may hold its standard input open."""
        self._pipe("stdin").write("\n")
        self._child.wait()
        self._pipe("stdin").close()
        self._pipe("stdout").close()

    def _pipe(self, name: str) -> IO[Any]:
        return cast("IO[Any]", getattr(self._child, name))
