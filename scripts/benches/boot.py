"""From a job's first line to its first optimizer step: boot time is GPU time.

A real job with the demo's settings behind the real launcher, on the free cartridge: alone, with
2 ms added to every file that it opens (a network file system on a bad day), and four at once. Each
figure is the median of the repeats; phases are what the learner waited for, in seconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from Daddy.cluster.release_build import freeze
from Daddy.core.config import load
from Daddy.core.errors import DaddyError
from Daddy.core.events import read_events
from Daddy.core.machine import cpu_seconds
from Daddy.core.names import new_token
from Daddy.core.paths import RunPaths
from Daddy.dashboard import Attempt, fold

LONGEST_S = 120.0
SLOW_OPEN_S = 0.002
HOOK = f"""
import sys, time
def slow(event, arguments):
    if event == "open":
        time.sleep({SLOW_OPEN_S})
sys.addaudithook(slow)
"""
"""Python's own audit hook: in every interpreter of the job, without a foreign library."""


@dataclass(frozen=True)
class Booted:
    """One job at its first step, and the processor time it took so far, seconds."""

    attempt: Attempt
    cpu_s: float


class Site:
    """A run directory, its release, and a folder that stands for the node's own disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hook = root / "hook"
        self.hook.mkdir(parents=True)
        (self.hook / "sitecustomize.py").write_text(HOOK)
        (root / "node").mkdir()
        self.run = RunPaths(root / "run")
        self.run.releases.mkdir(parents=True)
        self.run.logs.mkdir()
        settings = {"run_dir": str(self.run.root), "training.stream": False}
        self.release = freeze(self.run, load(None, settings, {}, "demo"))

    def boot(self, jobs: int, *, slow: bool = False) -> list[Booted]:
        """Start so many jobs at once; they end with their first step."""
        children = {token: self._start(token, slow=slow) for token in map(_token, range(jobs))}
        try:
            attempts = self._first_steps(set(children))
            return [Booted(one, cpu_seconds(children[one.token].pid)) for one in attempts]
        finally:
            for child in children.values():
                child.send_signal(signal.SIGKILL)
                child.wait()

    def _start(self, token: str, *, slow: bool) -> subprocess.Popen[bytes]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY", "SLURM"))}
        path = os.pathsep.join([str(self.release.path), *([str(self.hook)] if slow else [])])
        launcher = [sys.executable, "-m", "Daddy.cluster.launch", "--run", str(self.run.root)]
        with (self.run.logs / "jobs.log").open("ab") as log:
            return subprocess.Popen(
                [*launcher, "--config", str(self.release.config), "--attempt", token],
                cwd=self.run.root,
                env={**kept, "PYTHONPATH": path, "TMPDIR": str(self.root / "node")},
                stdout=log,
                stderr=log,
            )

    def _first_steps(self, tokens: set[str]) -> list[Attempt]:
        until = time.monotonic() + LONGEST_S
        while time.monotonic() < until:
            attempts = fold(read_events(self.run.events)).attempts.values()
            done = [one for one in attempts if one.boot_s is not None and one.token in tokens]
            if len(done) == len(tokens):
                return done
            time.sleep(0.1)
        log = self.run.logs / "jobs.log"
        raise DaddyError(f"no first step within {LONGEST_S:g} s", f"read {log}")


def _token(_: int) -> str:
    return new_token()


def figures(jobs: Sequence[Booted]) -> dict[str, object]:
    """Medians over jobs: the whole, each phase, and processor time, which a busy machine spares."""
    attempts = [one.attempt for one in jobs]
    phases = {
        name: round(median(one.boot.get(name, 0.0) for one in attempts), 3)
        for name in attempts[0].boot
    }
    whole = [one.boot_s or 0.0 for one in attempts]
    return {
        "boot_s": round(median(whole), 2),
        "slowest_s": round(max(whole), 2),
        "cpu_s": round(median(one.cpu_s for one in jobs), 2),
        "phases": phases,
    }


def run(quick: bool) -> dict[str, object]:
    """Boot times by phase: the first on a node, the next ones, slow files, four at once."""
    root = Path(tempfile.mkdtemp(prefix="daddy-boot-"))
    repeats = 1 if quick else 5
    site = Site(root)
    try:
        first = site.boot(1)
        warm = [one for _ in range(repeats) for one in site.boot(1)]
        slow = [one for _ in range(repeats) for one in site.boot(1, slow=True)]
        four = [one for _ in range(min(2, repeats)) for one in site.boot(4)]
        return {
            "first_on_this_node": figures(first),
            "alone": figures(warm),
            "with_2_ms_per_file": figures(slow),
            "four_at_once": figures(four),
        }
    finally:
        shutil.rmtree(root, ignore_errors=True)
