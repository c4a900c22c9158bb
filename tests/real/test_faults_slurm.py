"""Faults on a real Slurm, one after the other on one run: 1, 2, 6, 7, 13, 18, 19, 22, 29, 34 to 36.

The checkout is a copy with the small learner and with shorter patience (seconds for minutes);
everything else is the product, Slurm is real, and every fault is really done to it: daemons are
frozen and killed, nodes go down, processes are stopped. ``sbatch`` runs through a shim that passes
everything on and, when told so, lets the real thing go wrong.
"""

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from Daddy.cluster.orchestrator.control_files import read_orders, write_orders
from Daddy.cluster.orchestrator.controller_types import Orders
from Daddy.core.lease import LeaseView, is_holder_alive, read_lease
from Daddy.core.run_paths import RunPaths
from tests.cluster.conftest import Person, copied_checkout, small_config
from tests.patience import until
from tests.real.conftest import Cluster, run_testbed

PATIENCE = {
    "control_parameters.py": [
        ("absence_gap_s: float = 30.0", "absence_gap_s: float = 3.0"),
        ("recancel_s: float = 60.0", "recancel_s: float = 3.0"),
        ("SILENCE_S = 300.0", "SILENCE_S = 5.0"),
        ("_SLURM_QUIET_PASS_S = 150.0", "_SLURM_QUIET_PASS_S = 1.0"),
    ],
}
SHIM = """#!/bin/sh
# $HERE/how: the fault of the next submission
how=$(cat {here}/how 2>/dev/null)
case "$*" in *test-only*) how="";; esac
[ -n "$how" ] && echo "$how" >>{here}/done && rm -f {here}/how
lost="sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
case "$how" in
  short) exec {real} --time=1 "$@";;
  never) echo "$lost" >&2; exit 1;;
  freeze) kill -STOP {slurmctld}; {real} "$@"; rc=$?; kill -CONT {slurmctld}; exit $rc;;
  kill) {real} "$@" >/dev/null; kill -KILL $(cat {here}/victim); sleep 5; exit 1;;
  *) exec {real} "$@";;
esac
"""


def impatient_checkout(folder: Path) -> Path:
    copied_checkout(folder)
    for name, changes in PATIENCE.items():
        path = folder / "Daddy" / "cluster" / "orchestrator" / name
        text = path.read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)
    return folder


@dataclass
class Fleet:
    """A run of four slots on the test cluster, and its faults."""

    cluster: Cluster
    person: Person
    shim: Path
    short: int = 0
    """The job that got less time than it requested."""
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> RunPaths:
        return self.person.run

    def view(self, slot: int) -> LeaseView | None:
        view = read_lease(self.run.slot(slot).lease)
        return view if view is not None and view.ended is None else None

    def held(self) -> dict[int, int]:
        """Return slot → job of the training jobs."""
        views = {slot: self.view(slot) for slot in range(4)}
        return {
            slot: int(view.holder["job_id"])
            for slot, view in views.items()
            if view is not None and "step" in view.beat
        }

    def full(self) -> bool:
        return len(self.held()) == 4

    def queue(self) -> dict[int, tuple[str, str]]:
        """Return our jobs in the queue: id → (state, reason)."""
        rows = self.cluster.out("squeue", "-h", "--format=%i|%T|%r|%j").splitlines()
        cells = [row.split("|") for row in rows]
        return {int(c[0]): (c[1], c[2]) for c in cells if c[3].startswith("daddy-tiny-")}

    def waiting(self) -> list[int]:
        return sorted(job for job, (state, _) in self.queue().items() if state == "PENDING")

    def settled(self) -> bool:
        """Return True where four jobs train, four wait, and the controller has recorded it."""
        return self.full() and len(self.waiting()) == 4 == len(self.status()["waiting"])

    def status(self) -> dict[str, Any]:
        return json.loads(self.run.status.read_text())

    def victim(self) -> tuple[int, int]:
        """Return (slot, job) of a job that is neither the short job nor on its node."""
        held, spared = self.held(), ""
        if self.short in held.values():
            spared = self.node(self.short)
        return next((slot, job) for slot, job in held.items() if self.node(job) != spared)

    def node(self, job: int) -> str:
        return self.cluster.out("squeue", "-h", "-j", str(job), "--format=%N")

    def pid(self, slot: int) -> int:
        view = self.view(slot)
        assert view is not None
        return int(view.holder["pid"])

    def wrong(self, how: str) -> None:
        """Set the fault of the next submission."""
        (self.shim / "how").write_text(how)

    def went_wrong(self, how: str) -> bool:
        done = self.shim / "done"
        return done.exists() and how in done.read_text().split()

    def intents(self) -> int:
        return len(self.person.ledger("intent"))

    def ledger_of(self, kind: str, job: int) -> list[dict[str, Any]]:
        tokens = {
            entry["token"] for entry in self.person.ledger("submitted") if entry["job_id"] == job
        }
        return [entry for entry in self.person.ledger(kind) if entry.get("token") in tokens]

    def submitted(self, token: str) -> list[dict[str, Any]]:
        return [entry for entry in self.person.ledger("submitted") if entry["token"] == token]

    def end_one(self) -> int:
        """Kill a job's process; return the job id."""
        slot, job = self.victim()
        os.kill(self.pid(slot), signal.SIGKILL)
        return job

    def resume(self, node: str) -> None:
        """Resume a node, unless it has registered again by itself."""
        self.cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
        show = ("sinfo", "-h", "-n", node, "--format=%T")
        assert until(lambda: "down" not in self.cluster.out(*show), 20)

    def doubles(self) -> list[str]:
        names = self.cluster.out("squeue", "-h", "-t", "all", "--format=%j").splitlines()
        ours = [name for name in names if name.startswith("daddy-tiny-")]
        return [name for name in set(ours) if ours.count(name) > 1]


@pytest.fixture(scope="module")
def fleet(shared_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Start the run; the first job gets one minute instead of ten."""
    folder = tmp_path_factory.mktemp("faults")
    env = {name: text for name, text in shared_cluster.env.items() if name != "DADDY_SITE"}
    checkout = impatient_checkout(folder / "checkout")
    run = RunPaths(folder / "runs" / "tiny")
    slurm = {"time_limit": "0:10:00", "max_running": 4, "partition": "gpu-linuxlab"}
    settings = small_config(
        run.root,
        training={"max_runtime_seconds": 900},
        slurm={**slurm, "cpus_per_job": 4, "gpus_per_job": 0},
        controller={"executor": "auto", "poll_seconds": 1, "failover": False},
    )
    (folder / "run.json").write_text(json.dumps(settings))
    shim = folder / "shim"
    shim.mkdir()
    real = shutil.which("sbatch", path=env["PATH"])
    words = {"here": shim, "real": real, "slurmctld": shared_cluster.daemon("slurmctld")}
    text = SHIM
    for name, value in words.items():
        text = text.replace("{" + name + "}", str(value))
    (shim / "sbatch").write_text(text)
    (shim / "sbatch").chmod(0o755)
    env.update(PYTHONPATH=str(checkout), PATH=f"{shim}:{env['PATH']}")
    made = Fleet(shared_cluster, Person(checkout, folder / "run.json", run, env), shim)
    try:
        made.wrong("short")
        said = made.person.run_controller("start")
        assert said.returncode == 0, said.stderr
        assert until(made.settled, 40), made.queue()
        made.short = made.person.ledger("submitted")[0]["job_id"]  # it may have left by now
        yield made
    finally:
        shared_cluster.run("scontrol", "delete", "ReservationName=maint")
        shared_cluster.run("scontrol", "update", "NodeName=n[1-4]", "State=RESUME")
        if run.intent.exists():
            assert made.person.run_controller("stop", "--now").returncode == 0


@pytest.fixture(autouse=True)
def whole(fleet: Fleet) -> Iterator[None]:
    """Wait for a full fleet before each fault, and check for duplicates after it."""
    assert until(fleet.settled, 40), (fleet.held(), fleet.queue(), fleet.status()["reasons"])
    yield
    assert fleet.doubles() == []
    running = [job for job, (state, _) in fleet.queue().items() if state == "RUNNING"]
    assert len(running) <= 4


def test_fault_29_the_person_cancels_one_job_by_hand(fleet: Fleet) -> None:
    _, job = fleet.victim()
    fleet.cluster.out("scancel", str(job))
    assert until(lambda: fleet.full() and job not in fleet.held().values(), 30)
    assert json.loads(fleet.run.intent.read_text())["mode"] == "run"


def test_fault_22_a_job_hangs(fleet: Fleet) -> None:
    """A stopped learner writes no heartbeat, is signalled, cancelled and replaced."""
    slot, job = fleet.victim()
    os.kill(fleet.pid(slot), signal.SIGSTOP)
    stopped = time.time()
    assert until(lambda: fleet.ledger_of("silent", job), 20)
    assert fleet.ledger_of("silent", job)[0]["ts"] - stopped >= 2.0, "patience is five seconds"
    assert until(lambda: fleet.full() and job not in fleet.held().values(), 40)
    assert fleet.ledger_of("signalled", job)
    assert until(lambda: fleet.ledger_of("ended", job), 20)  # a pass later than the claim
    (ended,) = fleet.ledger_of("ended", job)
    assert ended["outcome"] == "hung"


def test_fault_19_a_node_dies_and_its_job_is_not_requeued(fleet: Fleet) -> None:
    _, job = fleet.victim()
    node = fleet.node(job)
    others = {other for other in fleet.held().values() if fleet.node(other) != node}
    fleet.cluster.out("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    assert until(lambda: fleet.full() and job not in fleet.held().values(), 40)
    assert until(lambda: fleet.ledger_of("ended", job), 20)  # a pass later than the claim
    (ended,) = fleet.ledger_of("ended", job)
    assert ended["outcome"] == "node failed"
    assert others - set(fleet.held().values()) <= {fleet.short}, "nobody else was touched"
    fleet.resume(node)


def test_fault_18_a_node_dies_where_the_site_requeues(fleet: Fleet) -> None:
    """A site requeues in spite of --no-requeue, and no second job is submitted for it."""
    _, job = fleet.victim()
    fleet.cluster.out("scontrol", "update", f"JobId={job}", "Requeue=1")
    node, before = fleet.node(job), fleet.intents()
    fleet.cluster.out("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    assert until(lambda: fleet.queue().get(job, ("",))[0] == "PENDING", 20)
    assert until(fleet.full, 40), "a successor took the slot meanwhile"
    assert until(lambda: fleet.ledger_of("requeued", job), 20)
    fleet.resume(node)
    time.sleep(3)  # several passes
    fresh = fleet.person.ledger("intent")[before:]
    assert [entry["reason"] for entry in fresh if entry["reason"] == "a slot is empty"] == []
    assert len(fleet.queue()) <= 8, "the requeued job counts as one that waits"


def test_fault_34_a_shorter_limit_was_granted(fleet: Fleet) -> None:
    """A job that got one minute instead of ten left before its end.

    Slurm signals up to a minute early: a job that is still loading releases its slot (11).
    """
    left = {"10:0": "drained", "11:0": "not needed"}
    log = fleet.cluster.dir / "log" / "jobcomp.txt"
    mark = f"JobId={fleet.short} "
    assert until(lambda: mark in log.read_text(), 75)
    (row,) = [line for line in log.read_text().splitlines() if line.startswith(mark)]
    facts = dict(word.split("=", 1) for word in row.split() if "=" in word)
    assert facts["TimeLimit"] == "1"
    assert facts["ExitCode"] in left, row
    assert facts["JobState"] == "FAILED", "it was not the limit that ended it"
    assert until(lambda: fleet.ledger_of("ended", fleet.short), 20)
    (ended,) = fleet.ledger_of("ended", fleet.short)
    assert ended["outcome"] == left[facts["ExitCode"]]


def test_fault_01_sbatch_timed_out_and_the_job_was_created(fleet: Fleet) -> None:
    """sbatch times out at a suspended slurmctld; its job appears when that resumes."""
    before = fleet.intents()
    fleet.wrong("freeze")
    fleet.end_one()
    assert until(lambda: fleet.went_wrong("freeze"), 20)
    assert until(lambda: fleet.person.ledger("unanswered"), 30)
    lost = fleet.person.ledger("unanswered")[-1]["token"]
    assert until(lambda: fleet.submitted(lost), 40)
    assert [entry.get("adopted") for entry in fleet.submitted(lost)] == [True]
    assert until(fleet.settled, 30)
    assert fleet.intents() == before + 1, "exactly one job"


def test_fault_02_sbatch_timed_out_and_made_no_job(fleet: Fleet) -> None:
    before = fleet.intents()
    fleet.wrong("never")
    fleet.end_one()
    assert until(lambda: fleet.went_wrong("never"), 20)
    assert until(lambda: fleet.person.ledger("rejected"), 30)
    assert until(fleet.settled, 30)
    lost = fleet.person.ledger("unanswered")[-1]["token"]
    (given_up,) = [entry for entry in fleet.person.ledger("rejected") if entry["token"] == lost]
    absent = [entry for entry in fleet.person.ledger("absent") if entry["token"] == lost]
    assert given_up["ts"] - absent[0]["ts"] >= 3.0, "two listings apart (30 s in the product)"
    assert fleet.intents() == before + 2, "one retry"


def test_fault_13_controller_killed_between_sbatch_and_commit(fleet: Fleet) -> None:
    before = fleet.intents()
    lease = read_lease(fleet.run.controller_lease)
    assert lease is not None
    (fleet.shim / "victim").write_text(str(lease.holder["pid"]))
    fleet.wrong("kill")
    fleet.end_one()
    assert until(lambda: is_holder_alive(lease.holder) is False, 20)
    lost = fleet.person.ledger("intent")[-1]["token"]
    assert lost not in {entry["token"] for entry in fleet.person.ledger("submitted")}
    said = fleet.person.run_controller("ensure")
    assert said.returncode == 0, said.stderr
    assert until(lambda: fleet.submitted(lost), 40)
    assert [entry.get("adopted") for entry in fleet.submitted(lost)] == [True]
    assert until(fleet.settled, 30)
    assert fleet.intents() == before + 1


def test_fault_06_slurmctld_frozen(fleet: Fleet) -> None:
    """Suspend the real slurmctld; the simulated site tests twenty minutes of it."""
    before, held = fleet.intents(), fleet.held()
    with fleet.cluster.frozen("slurmctld"):
        assert until(lambda: fleet.status()["queue"]["known"] is False, 40)
        known = [slot["job_id"] for slot in fleet.status()["slots"]]
        assert sorted(known) == sorted(held.values()), "the last known is shown"
    assert until(lambda: fleet.status()["queue"]["known"] is True, 30), "it resumes alone"
    assert fleet.intents() == before
    assert fleet.held() == held


def test_fault_36_two_jobs_claim_one_slot(fleet: Fleet) -> None:
    """Without a controller and with orders for one slot, more than one successor starts."""
    os.kill(fleet.person.controller, signal.SIGKILL)
    slots = list(fleet.held())[:2]
    ordered = read_orders(fleet.run)
    assert ordered is not None
    write_orders(fleet.run, Orders({slots[0]: ordered.slots[slots[0]]}, "test"))
    rivals = fleet.waiting()
    for slot in slots:
        os.kill(fleet.pid(slot), signal.SIGUSR1)
    assert until(lambda: fleet.held().get(slots[0]) in rivals, 30)
    winner = fleet.held()[slots[0]]
    log = fleet.cluster.dir / "log" / "jobcomp.txt"
    losers = [f"JobId={job} " for job in rivals if job != winner]

    def sent_away() -> list[str]:
        lines = log.read_text().splitlines()
        return [line for line in lines if line.startswith(tuple(losers))]

    assert until(sent_away, 30)
    assert all("ExitCode=11:0" in row for row in sent_away())
    assert fleet.person.run_controller("ensure").returncode == 0
    assert until(fleet.full, 30)


def test_fault_35_a_maintenance_reservation(fleet: Fleet) -> None:
    """Jobs that would run into it wait, without duplicates, and start afterwards."""
    fleet.cluster.out(
        "scontrol", "create", "reservation", "ReservationName=maint", "Users=root",
        "StartTime=now+5minutes", "Duration=10", "Nodes=ALL", "Flags=MAINT,IGNORE_JOBS",
    )  # fmt: skip
    queued, before = fleet.waiting(), fleet.intents()
    killed = fleet.end_one()
    assert until(lambda: any("ReqNodeNotAvail" in why for _, why in fleet.queue().values()), 20)
    time.sleep(4)  # several passes
    assert len(fleet.held()) == 3
    assert set(queued) <= set(fleet.queue()), "nothing that waits was cancelled"
    assert fleet.intents() - before <= 1
    assert [entry["outcome"] for entry in fleet.ledger_of("ended", killed)] == ["crashed"]
    fleet.cluster.out("scontrol", "delete", "ReservationName=maint")
    assert until(fleet.full, 30)


def test_fault_07_slurmctld_down_across_a_handover(fleet: Fleet) -> None:
    """All four jobs end while slurmctld is down; the waiting ones start afterwards."""
    queued = set(fleet.waiting())
    pid = fleet.cluster.daemon("slurmctld")
    os.kill(pid, signal.SIGTERM)
    assert until(lambda: not Path(f"/proc/{pid}").exists(), 15)
    for slot in range(4):
        os.kill(fleet.pid(slot), signal.SIGUSR1)
    assert until(lambda: fleet.held() == {}, 10)
    done = run_testbed("up", "--dir", str(fleet.cluster.dir), "--json")
    assert done.returncode == 0, done.stderr
    assert until(fleet.full, 40)
    assert set(fleet.held().values()) <= queued, "those that were queued; none was lost"
    outcomes = {entry["outcome"] for entry in fleet.person.ledger("ended")[-4:]}
    assert until(lambda: fleet.status()["queue"]["known"] is True, 30)
    assert "lost" not in outcomes
