"""Sweeps on a real Slurm cluster: jobs outlive their driver, and trials outlive their jobs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from Daddy.core.errors import ExitCode
from Daddy.core.event_log import read_events
from Daddy.core.lease import read_lease
from Daddy.core.run_paths import RunPaths
from Daddy.learning.checkpoint import load_newest
from tests.patience import PATIENCE_S
from tests.real.conftest import CHECKOUT, Cluster, until

LIVING = ("PENDING", "RUNNING", "COMPLETING")
LATER = "begin=now+1day"
"""Keeps a job in the queue until the test lets it start."""


class SweepOwner:
    """Types the sweep's command in a folder, with its output in a file."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder, self.cluster = folder, cluster
        self.root = folder / "runs" / "sweeps" / "test"
        self.env = {**cluster.env, "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"}
        self.log = folder / "out"
        self.driver: subprocess.Popen[bytes] | None = None

    def type(self, steps: int, *words: str) -> "subprocess.Popen[bytes]":
        argv = [sys.executable, "-m", "Daddy.sweep_node", "run=test"]
        argv += [f"trainer.total_timesteps={steps}", *words, "--backend", "slurm"]
        with self.log.open("wb") as out:
            self.driver = subprocess.Popen(
                argv, cwd=self.folder, env=self.env, stdout=out, stderr=subprocess.STDOUT
            )
        return self.driver

    def says(self, text: str, times: int = 1) -> None:
        assert self.driver
        driver = self.driver
        until(lambda: self.told.count(text) >= times or driver.poll() is not None, 60)
        assert self.told.count(text) >= times, self.told

    @property
    def told(self) -> str:
        return self.log.read_text()

    def ends(self) -> int:
        assert self.driver
        return self.driver.wait(PATIENCE_S)

    def jobs(self) -> dict[str, str]:
        """Return the state of each job of the sweep, by id."""
        rows = self.cluster.out("squeue", "-h", "-t", "all", "-o", "%i %T %Z").splitlines()
        cells = [row.split(maxsplit=2) for row in rows]
        return {job: state for job, state, folder in cells if folder.startswith(str(self.root))}

    def living(self) -> list[str]:
        return [job for job, state in self.jobs().items() if state in LIVING]

    def steps(self, trial: str = "000001") -> list[int]:
        """Return the step of each event about a trial's episodes."""
        events = read_events(self.root / "trials" / trial / "events")
        return [event["step"] for event in events if event["data"].get("result") == "episodes"]

    def states(self, trial: RunPaths, rank: int) -> list[str]:
        """Return the states of a trial's rank."""
        events = read_events(trial.events)
        ours = [event["data"] for event in events if event["source"]["id"] == f"slot-{rank}"]
        return [data["state"] for data in ours if "state" in data]


@pytest.fixture
def owner(cluster: Cluster, tmp_path: Path) -> Iterator[SweepOwner]:
    before = set(cluster.states())
    owner = SweepOwner(tmp_path, cluster)
    try:
        yield owner
    finally:
        if owner.driver:
            owner.driver.kill()
            owner.driver.wait()
        cluster.jobs += set(cluster.states()) - before


def test_a_driver_takes_up_the_jobs_of_the_one_before_it(
    owner: SweepOwner, cluster: Cluster
) -> None:
    words = ("--max-rollouts", "2", "--jobs", "2")
    first = owner.type(1000, *words, "--sbatch", LATER)
    owner.says(": job ", 2)
    first.kill()
    first.wait()
    ended, waiting = sorted(owner.living(), key=int)
    cluster.out("scontrol", "update", f"JobId={ended}", "StartTime=now")
    assert until(lambda: owner.living() == [waiting], 60)
    owner.type(1000, *words)
    owner.says(f"test.r.2: goes on in job {waiting}")
    owner.says("test.r.1: rollout completed")
    cluster.out("scontrol", "update", f"JobId={waiting}", "StartTime=now")
    assert owner.ends() == 0, owner.told
    assert "sweep test: 2 complete, 0 failed" in owner.told
    assert len(owner.jobs()) == 2, "no trial was started twice"


def test_a_trial_goes_on_after_its_job_and_its_driver_were_ended(
    owner: SweepOwner, cluster: Cluster
) -> None:
    mark = ("--comment=daddy/mine-1a2b3c/1/0123456789ab", "--output=/dev/null")
    others = cluster.submit("sleep 600", *mark)
    words = ("--max-rollouts", "1")
    driver = owner.type(30_000, *words)
    owner.says("4 for the slots of mine-1a2b3c")
    assert owner.jobs() == {}
    cluster.out("scancel", others)
    owner.says("test.r.1: job ")
    assert until(owner.steps, 60)
    (job,) = owner.living()
    cluster.out("scancel", "--signal=TERM", "--batch", job)
    owner.says("cut off after")
    owner.says("test.r.1: job ", 2)
    assert owner.told.count("waits:") == 1, "a wait is told once"
    reached = max(owner.steps())
    assert until(lambda: max(owner.steps()) > reached, 60)
    driver.send_signal(signal.SIGINT)
    assert owner.ends() == 130, owner.told
    assert owner.living() == []
    owner.type(30_000, *words)
    assert owner.ends() == 0, owner.told
    assert len(owner.jobs()) == 3
    assert len(set(owner.steps())) == len(owner.steps()), "no step was trained twice"


def test_a_trial_trains_on_two_nodes_and_fails_when_one_rank_is_killed(owner: SweepOwner) -> None:
    words = ("training.horizon=64", "--nodes", "2", "--max-rollouts", "2")
    driver = owner.type(4000, *words)
    killed, trained = (RunPaths(owner.root / "trials" / f"00000{trial}") for trial in (1, 2))
    until(lambda: driver.poll() is not None or "first_update" in owner.states(killed, 1), 60)
    holders = [read_lease(killed.slot(rank).lease) for rank in (0, 1)]
    assert all(holders)
    first, second = (holder.holder for holder in holders if holder)
    assert first["token"] == second["token"]
    os.kill(int(str(second["pid"])), signal.SIGKILL)
    assert owner.ends() == ExitCode.PARTLY_FAILED, owner.told
    assert "test.r.1: FAILED: rank 1: it was lost (rank 0 of 2 waited" in owner.told
    assert "test.r.2: rollout completed" in owner.told
    assert len(owner.jobs()) == 2, "a job has both ranks"
    assert [owner.states(trained, rank)[-1] for rank in (0, 1)] == ["goodbye"] * 2
    found = (load_newest(trained.slot(rank).checkpoints) for rank in (0, 1))
    weights, others = (each.checkpoint.tensors for each in found if each)
    learnt = [name for name in weights if name.startswith("policy.")]
    assert learnt
    assert all(torch.equal(weights[name], others[name]) for name in learnt)
