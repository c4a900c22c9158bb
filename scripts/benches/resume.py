"""What a killed learner loses: SIGKILL every 30 s for ten minutes, and clean stops besides.

Two learners on the cartridge, side by side, one core each, with a checkpoint about every three
seconds. One is left alone; the other is killed without warning again and again and started anew at
once. Then the exactness of a clean stop: a run that is asked to leave wherever that falls, and goes
on, against one that is never stopped, compared by a hash of everything in their last checkpoints.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from Daddy.core.config import CHECKOUT
from Daddy.core.errors import DaddyError
from Daddy.core.events import read_events
from Daddy.core.paths import RunPaths
from Daddy.learning.checkpoint import Checkpoint, load_newest

KILL_EVERY_S, MINUTES = 30.0, 10.0
QUICK_KILL_EVERY_S, QUICK_MINUTES = 20.0, 1.0
CHECKPOINT_S = 3.0
CLEAN_STEPS, QUICK_CLEAN_STEPS = 8_192, 2_048
STOP_BETWEEN_S = (3.0, 8.0)
"""A clean stop comes so long after a start: somewhere inside a rollout."""
LONGEST_S = 600.0
TRAINING = {
    "workload": "pokemon_red",
    "cartridge": True,
    "device": "cpu",
    "profile": "cpu",
    "num_envs": 4,
    "total_steps": 0,
    "torch_threads": 1,
    "vector_backend": "serial",
    "tensorboard": False,
    "stream": False,
    "episode_steps": 1024,
    "checkpoint_interval": 1,
}


class Seat:
    """A run directory with one slot, and whoever sits in it."""

    def __init__(self, root: Path, checkpoint_s: float) -> None:
        self.run = RunPaths(root / "run")
        root.mkdir()
        self._config = root / "config.json"
        settings = {
            "run_dir": str(self.run.root),
            "training": TRAINING,
            "checkpointing": {"min_seconds": checkpoint_s},
            "collaboration": {"enabled": False},
        }
        self._config.write_text(json.dumps(settings))
        self._log = (root / "learner.log").open("ab")
        self.child: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str) -> subprocess.Popen[bytes]:
        """A learner goes on here."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY", "SLURM"))}
        self.child = subprocess.Popen(
            [sys.executable, "-m", "Daddy.train_slim", "--config", str(self._config), *flags],
            cwd=self.run.root.parent,
            env={**kept, "PYTHONPATH": str(CHECKOUT)},
            stdout=self._log,
            stderr=self._log,
        )
        return self.child

    def kill(self) -> None:
        """Without warning."""
        if self.child is not None:
            self.child.send_signal(signal.SIGKILL)
            self.child.wait()
            self.child = None

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that verifies."""
        found = load_newest(self.run.slot(0).checkpoints)
        return found.checkpoint if found else None

    def states(self, *names: str) -> list[tuple[str, int, float]]:
        """(state, step, stamp) of these states, by stamp."""
        events = [one for one in read_events(self.run.events) if one["event"] == "state"]
        found = [(str(e["data"]["state"]), int(e["step"]), float(e["ts"])) for e in events]
        return sorted((one for one in found if one[0] in names), key=lambda one: one[2])

    def milestones(self) -> set[str]:
        """Those that were ever told."""
        events = read_events(self.run.events)
        return {str(e["data"]["milestone"]) for e in events if e["event"] == "progress"}

    def close(self) -> None:
        self.kill()
        self._log.close()


def run(quick: bool) -> dict[str, object]:
    """Figures of the killed learner beside the undisturbed one, and hashes of the stopped one."""
    root = Path(tempfile.mkdtemp(prefix="daddy-resume-"))
    try:
        return {"killed": _killed(root, quick), "clean_stops": _stopped(root, quick)}
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _killed(root: Path, quick: bool) -> dict[str, object]:
    every = QUICK_KILL_EVERY_S if quick else KILL_EVERY_S
    seconds = 60.0 * (QUICK_MINUTES if quick else MINUTES)
    calm, shot = Seat(root / "calm", CHECKPOINT_S), Seat(root / "shot", CHECKPOINT_S)
    kept: list[tuple[int, frozenset[str]]] = []
    try:
        began = time.monotonic()
        calm.start()
        while (left := began + seconds - time.monotonic()) > 0.0:
            shot.start()
            time.sleep(min(every, left))
            shot.kill()
            kept.append(_kept(shot))
        calm.kill()
    finally:
        calm.close()
        shot.close()
    return {"minutes": seconds / 60.0, "kill_every_s": every, **_compare(calm, shot, kept)}


def _kept(seat: Seat) -> tuple[int, frozenset[str]]:
    """Steps and milestones in the newest checkpoint."""
    found = seat.newest()
    return (found.step, frozenset(found.facts["milestones"])) if found else (0, frozenset())


def _compare(
    calm: Seat, shot: Seat, kept: Sequence[tuple[int, frozenset[str]]]
) -> dict[str, object]:
    steps, undisturbed = kept[-1][0], _kept(calm)[0]
    written = [step for _, step, _ in shot.states("checkpointed")]
    return {
        "kills": len(kept),
        "steps": steps,
        "undisturbed_steps": undisturbed,
        "share": round(steps / max(1, undisturbed), 3),
        "checkpoints_written": len(written),
        "checkpointed_steps_monotone": all(a <= b for a, b in pairwise(written)),
        "resumed_where_the_newest_checkpoint_was": _resumed_well(shot),
        "most_seconds_repeated": _repeated(shot),
        "damaged_checkpoints": len(list(shot.run.slot(0).checkpoints.glob("*.broken"))),
        "milestones": len(kept[-1][1]),
        "milestones_undisturbed": len(_kept(calm)[1]),
        "milestones_kept": all(a[1] <= b[1] for a, b in pairwise(kept)),
        "milestones_told_but_not_checkpointed_yet": sorted(shot.milestones() - kept[-1][1]),
    }


def _resumed_well(seat: Seat) -> bool:
    """Each new learner went on at the last step that its predecessor had written."""
    pairs = pairwise(seat.states("checkpointed", "resumed"))
    return all(b[1] == a[1] for a, b in pairs if b[0] == "resumed" and a[0] == "checkpointed")


def _repeated(seat: Seat) -> float:
    """Longest time between two checkpoints of one learner: what a kill can cost at most."""
    told = seat.states("checkpointed", "resumed")
    gaps = [b[2] - a[2] for a, b in pairwise(told) if b[0] == "checkpointed"]
    return round(max(gaps, default=0.0), 1)


def _stopped(root: Path, quick: bool) -> dict[str, object]:
    steps = QUICK_CLEAN_STEPS if quick else CLEAN_STEPS
    straight, stopped = Seat(root / "straight", 3600.0), Seat(root / "stopped", 3600.0)
    flags = ("--total-steps", str(steps))
    dice, stops, inside = random.Random(5), 0, 0
    try:
        _wait(straight.start(*flags), LONGEST_S)
        while True:
            child = stopped.start(*flags)
            if _ended(child, dice.uniform(*STOP_BETWEEN_S)):
                break
            child.send_signal(signal.SIGTERM)
            _wait(child, LONGEST_S)
            stops += child.returncode == 10
            newest = stopped.newest()
            inside += bool(newest and newest.facts["rollout"])
        one, other = straight.newest(), stopped.newest()
    finally:
        straight.close()
        stopped.close()
    assert one is not None
    assert other is not None
    return {
        "steps": one.step,
        "stops": stops,
        "stops_inside_a_rollout": inside,
        "policy": [_digest(c, lambda name: name.startswith("policy.")) for c in (one, other)],
        "everything": [_digest(c, lambda _: True) for c in (one, other)],
        "bit_equal": _digest(one, lambda _: True) == _digest(other, lambda _: True),
        "counters_equal": one.facts == other.facts,
    }


def _ended(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    if child.returncode:
        raise DaddyError(f"a learner ended with exit code {child.returncode}", "run it by hand")
    return True


def _wait(child: subprocess.Popen[bytes], seconds: float) -> None:
    child.wait(seconds)
    if child.returncode not in (0, 10):
        raise DaddyError(f"a learner ended with exit code {child.returncode}", "run it by hand")


def _digest(checkpoint: Checkpoint, wanted: Callable[[str], bool]) -> str:
    """SHA-256 over names and bytes of the chosen tensors."""
    found = hashlib.sha256()
    for name in sorted(filter(wanted, checkpoint.tensors)):
        found.update(name.encode())
        found.update(checkpoint.tensors[name].contiguous().view(-1).numpy().tobytes())
    return found.hexdigest()[:16]
