"""A laptop on a thin line that breaks: how far behind the run's newest version does it fall?

340 kbit/s, 300 ms there and back, cut every two minutes on average; one version a minute of a
policy of three million numbers. The exchange, sshd, ssh, rsync and ``sync_weights.sh`` are the real
ones; the line is the test cluster's own, as ssh's ProxyCommand.
"""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from cluster.testbed.login_texts import HOME_LINK
from Daddy.core.clock import SystemClock
from Daddy.core.config import CHECKOUT
from Daddy.core.errors import SchedulerError
from Daddy.core.names import new_incarnation
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights.exchange import SharedExchange
from Daddy.weights.laptop.pulled_folder import read_frame
from Daddy.weights.settings import ExchangeSettings
from scripts.demonstration.login_node import LoginNode, lower_login_node, raise_login_node

KBIT_S, DELAY_MS = 340.0, 150.0
PARAMETERS = 3_000_000
VERSION_S, CUT_S, POLL_S = 60.0, 120.0, 5.0
"""Seconds between two versions; between two cuts, on average; between two looks of the laptop."""
MOST_BEHIND = 3
_RATE, _STEPS, _GAIN = 2e-4, 160, 0.4
"""Of the optimizer, its steps from one version to the next, and how far one of them goes as a share
of the rate: together they make a step from version to version as large as a learner's really is
(2.6 MB, `./scripts/bench weights`)."""


@dataclass
class Watch:
    """What was seen of both sides."""

    lags: list[int] = field(default_factory=list)
    first_s: float = math.nan
    arrived: list[int] = field(default_factory=list)
    cuts: int = 0

    def look(self, newest: int, here: int | None, seconds: float) -> None:
        """Note how far behind the laptop is; before its first version it is nowhere."""
        if here is None:
            return
        if not self.arrived:
            self.first_s = seconds
        if not self.arrived or self.arrived[-1] != here:
            self.arrived.append(here)
        self.lags.append(newest - here)

    def figures(self, newest: int) -> dict[str, Any]:
        """For the report; ``broken`` says what must not be."""
        late = sum(lag > MOST_BEHIND for lag in self.lags)
        broken = [f"more than {MOST_BEHIND} versions behind for {late} s"] if late else []
        broken += [] if self.lags else ["no version ever arrived"]
        return {
            "kbit_per_s": KBIT_S,
            "round_trip_ms": 2 * DELAY_MS,
            "parameters": PARAMETERS,
            "cuts": self.cuts,
            "versions": newest,
            "versions_pulled": len(self.arrived),
            "first_after_s": round(self.first_s, 1),
            "behind_at_most": max(self.lags, default=None),
            "behind_on_average": round(sum(self.lags) / max(1, len(self.lags)), 2),
            "broken": broken,
        }


class Cluster:
    """The run's side: one learner that commits a version whenever it is told to."""

    def __init__(self, shared: Path, seed: int) -> None:
        self._dice = torch.Generator().manual_seed(seed)
        self._steps = 0
        settings = ExchangeSettings(run="soak", workload="soak", period_s=0.0)
        facts = (SharedPaths(shared), "slot-0", new_incarnation(), settings)
        self._exchange = SharedExchange(*facts, SystemClock(), _Quiet())
        size = math.isqrt(PARAMETERS)
        first = {"layer.weight": torch.randn(size, size, generator=self._dice) / math.sqrt(size)}
        adoption = self._exchange.begin(lambda: first, None)
        self.weights, self.version = adoption.weights, adoption.version

    def commit(self) -> None:
        """One version more, as far from the last as an optimizer goes meanwhile."""
        far = _GAIN * _RATE * math.sqrt(_STEPS)
        moved = {
            name: one + far * torch.randn(one.shape, generator=self._dice)
            for name, one in self.weights.items()
        }
        self._steps += 1_000
        self._exchange.publish(moved, self._steps, self._steps)
        adoption = self._exchange.adopt(moved)
        if adoption is None:
            raise SchedulerError("the soak's own learner committed no version")
        self.weights, self.version = adoption.weights, adoption.version


class _Quiet:
    """Events of a soak's learner are nobody's."""

    def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
        """Drop it."""


def run(minutes: float, seed: int, keep: Path | None) -> dict[str, Any]:
    """Let a laptop follow for so long; the figures."""
    with tempfile.TemporaryDirectory(prefix="daddy-soak-") as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        node = raise_login_node(folder / "testbed", slurm=False)
        if not node.by_ssh:
            raise SchedulerError("this soak needs sshd", "cluster/testbed/install says what lacks")
        try:
            return _follow(node, folder, minutes * 60.0, random.Random(seed), seed)
        finally:
            lower_login_node(node)


def _follow(
    node: LoginNode, folder: Path, seconds: float, dice: random.Random, seed: int
) -> dict[str, Any]:
    cut, local, watch = folder / "cut", folder / "laptop", Watch()
    cluster = Cluster(folder / "shared", seed)
    begun = time.monotonic()
    version_at = cut_at = begun
    with _laptop(node, folder, cut, local):
        while (now := time.monotonic()) < begun + seconds:
            if now >= version_at:
                cluster.commit()
                version_at += VERSION_S
            if now >= cut_at:
                cut_at = now + dice.expovariate(1 / CUT_S)
                watch.cuts += _cut(cut)
            watch.look(cluster.version, _here(local), now - begun)
            _tell(watch, cluster.version, now - begun, seconds)
            time.sleep(1.0)
    return watch.figures(cluster.version)


def _cut(file: Path) -> int:
    file.touch()
    time.sleep(0.3)
    file.unlink()
    return 1


def _here(local: Path) -> int | None:
    frame = read_frame(local / "wan" / "HEAD.json")
    return None if frame is None else frame.version


def _tell(watch: Watch, newest: int, passed: float, total: float) -> None:
    if int(passed) % 15 == 0:
        here = watch.arrived[-1] if watch.arrived else "nothing"
        said = f"  {passed:4.0f} of {total:.0f} s: v{newest} there, {here} here, {watch.cuts} cuts"
        print(said, file=sys.stderr, flush=True)


@contextmanager
def _laptop(node: LoginNode, folder: Path, cut: Path, local: Path) -> Iterator[None]:
    """``sync_weights.sh pull`` in a loop, in a home of its own, over the line."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SYNC_")}
    env = {
        **kept,
        "HOME": str(home),
        "PATH": node.path,
        "SYNC_CLUSTER_HOST": "slow",
        "SYNC_CLUSTER_USER": str(node.facts["user"]),
        "SYNC_REMOTE_DIR": str(folder / "shared"),
        "SYNC_SSH_CONFIG": str(_ssh_config(node, folder, cut)),
        "DADDY_PYTHON": sys.executable,
    }
    script = CHECKOUT / "Daddy" / "cluster" / "sync_weights.sh"
    with (folder / "laptop.log").open("wb") as log:
        child = subprocess.Popen(
            [str(script), "pull", "", str(local), str(POLL_S)], env=env, stdout=log, stderr=log
        )
        try:
            yield
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(30)


def _ssh_config(node: LoginNode, folder: Path, cut: Path) -> Path:
    """The test cluster's alias ``slow``, over a line that is thinner and breaks."""
    shape = f"--delay-ms {DELAY_MS} --kilobytes {KBIT_S / 8} --cut-file {cut}"
    config = Path(node.ssh_config).read_text()
    path = folder / "ssh_config"
    path.write_text(config.replace(f"shape {HOME_LINK}", f"shape {shape}"))
    return path
