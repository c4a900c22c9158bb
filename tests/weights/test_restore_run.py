"""A run of real learners is purged file by file, restored by the command, and continues."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.read_slots import newest_checkpoint
from Daddy.core.run_paths import RunPaths
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.store.weight_store import Store, version_numbers

CHECKOUT = Path(__file__).resolve().parents[2]


class Site:
    """A scratch folder, a home, and commands as a person types them."""

    def __init__(self, folder: Path) -> None:
        self.run = RunPaths(folder / "scratch" / "run")
        self.shared = SharedPaths(self.run.shared_weights)
        self.config = folder / "config.json"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY", "SLURM"))}
        self.env |= {"PYTHONPATH": str(CHECKOUT), "XDG_DATA_HOME": str(folder / "home")}

    def say(self, module: str, *flags: str, code: int = 0) -> str:
        argv = [sys.executable, "-W", "ignore", "-m", f"Daddy.{module}", *flags]
        done = subprocess.run(
            argv, env=self.env, capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def learn(self, total_steps: int) -> None:
        training = {
            "workload": "cartpole", "device": "cpu", "num_envs": 4, "total_steps": total_steps,
            "vector_backend": "serial",
            "checkpoint_interval": 512, "stream": False,
        }  # fmt: skip
        settings = {
            "run_dir": str(self.run.root),
            "training": training,
            "slurm": {"time_limit": "0:00:02"},
            "collaboration": {"sync_interval_steps": 512},
        }
        self.config.write_text(json.dumps(settings))
        self.say("train_slim", "--config", str(self.config))

    def newest(self):
        store = Store(self.shared)
        return store.version(store.newest())

    def own_steps(self) -> int:
        """Return the learner's own count of steps, which no purge of the shared folder changes."""
        return newest_checkpoint(self.run.slot(0).checkpoints)[1]

    def totals(self) -> int:
        return self.newest().fleet_steps


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def test_a_purged_run_of_real_learners_goes_on(site):
    site.learn(6_000)
    site.say("weights.mirror", "--config", str(site.config))
    site.learn(9_000)  # hands over to a second process
    before, known = site.totals(), site.newest().version
    dice = random.Random(1)
    files = sorted(path for path in site.shared.root.rglob("*") if path.is_file())
    newest = site.shared.blob(site.newest().state)
    doomed = [*dice.sample(files, k=len(files) // 2), site.shared.head, newest]
    for path in doomed:
        path.unlink(missing_ok=True)
    told = site.say("weights.restore", "--config", str(site.config), "--dry-run")
    assert "would put back" in told
    told = site.say("weights.restore", "--config", str(site.config))
    restored = site.newest()
    assert restored.version >= known + 10_000
    assert f"the run goes on from v{restored.version}" in told
    assert restored.fleet_steps <= before
    own = site.own_steps()  # its checkpoint is from before the purge, which cost the fleet more
    site.learn(max(restored.fleet_steps, own) + 4_000)
    after = site.newest()
    assert after.version > restored.version
    made = after.fleet_steps - restored.fleet_steps
    # no step twice; a busy machine's last may come too late
    assert 2_000 <= made <= 4_000 + 1_024, (restored.fleet_steps, own)
    assert "lacks nothing" in site.say("weights.restore", "--config", str(site.config))


def test_a_scratch_that_vanished_comes_back_from_the_home(site):
    site.learn(5_000)
    site.say("weights.mirror", "--config", str(site.config))
    before, known = site.totals(), version_numbers(site.shared)[-1]
    subprocess.run(["rm", "-rf", str(site.run.root.parent)], check=True)
    told = site.say("weights.restore", "--config", str(site.config))
    assert f"goes on from v{known}" in told
    assert site.totals() == before
    site.learn(before + 3_000)
    assert site.totals() >= before + 1_500
    assert site.newest().version > 20_000
