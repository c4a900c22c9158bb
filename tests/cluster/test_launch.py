"""Tests the launcher as a real process, with the small learner and orders of the test."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.control_files import write_orders
from Daddy.cluster.orchestrator.controller_types import Orders
from Daddy.cluster.release_build import Release, freeze_release
from Daddy.core.event_log import read_events
from Daddy.core.host_and_processes import current_process, host_name
from Daddy.core.lease import Lease, read_lease
from Daddy.core.load_config import load_config
from Daddy.core.run_paths import RunPaths
from Daddy.dashboard import add_events
from tests.cluster.conftest import small_config, until
from tests.patience import PATIENCE_S


@dataclass
class Site:
    """A run whose jobs the test starts, each with its own temporary folder."""

    run: RunPaths
    release: Release
    node: Path
    jobs: list = field(default_factory=list)

    def job(self, token: str, **env: str) -> subprocess.Popen:
        argv = [sys.executable, "-m", "Daddy.cluster.launch", "--run", str(self.run.root)]
        argv += ["--config", str(self.release.config), "--attempt", token]
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY", "SLURM"))}
        own = {"PYTHONPATH": str(self.release.path), "TMPDIR": str(self.node)}
        child = subprocess.Popen(
            argv,
            cwd=self.run.root,
            env={**kept, **own, "DADDY_JOB_ID": str(100 + len(self.jobs)), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.jobs.append(child)
        return child

    def holder(self, slot: int) -> dict:
        view = read_lease(self.run.slot(slot).lease)
        return dict(view.holder) if view is not None and view.ended is None else {}

    def trains(self, slot: int, token: str) -> bool:
        view = read_lease(self.run.slot(slot).lease)
        return view is not None and view.holder.get("token") == token and "step" in view.beat

    @property
    def attempts(self):
        return add_events(read_events(self.run.events)).attempts


def settings(run: RunPaths, folder: Path, **changes: dict) -> object:
    path = folder / "run.json"
    training = {"workload": "cartpole", "device": "cpu", "max_runtime_seconds": 60}
    controller = {"failover": False}
    changes = {"training": training, "controller": controller, **changes}
    path.write_text(json.dumps(small_config(run.root, **changes)))
    return load_config(path)


@pytest.fixture(scope="module")
def release(checkout, tmp_path_factory):
    """Return a run and its release, which is made once: that compiles all modules."""
    folder = tmp_path_factory.mktemp("launch")
    run = RunPaths(folder / "run")
    run.releases.mkdir(parents=True)
    return run, freeze_release(run, settings(run, folder), checkout)


@pytest.fixture
def site(release, tmp_path):
    """Yield the run, empty but for its releases."""
    run, own = release
    (tmp_path / "node").mkdir()
    run.logs.mkdir()
    found = Site(run, own, tmp_path / "node")
    yield found
    for job in found.jobs:
        if job.poll() is None:
            job.kill()
        job.communicate()
    for path in run.root.iterdir():
        if path != run.releases:
            shutil.rmtree(path)


def other_release(site, checkout, tmp_path, seed) -> Release:
    training = {"workload": "cartpole", "device": "cpu", "max_runtime_seconds": 60, "seed": seed}
    return freeze_release(site.run, settings(site.run, tmp_path, training=training), checkout)


def test_without_orders_jobs_fill_the_slots_in_order_and_a_token_only_once(site):
    first = site.job("a" * 12)
    until(lambda: site.trains(0, "a" * 12))
    assert site.job("a" * 12).wait(PATIENCE_S) == 11
    assert site.holder(1) == {}
    second = site.job("b" * 12)
    until(lambda: site.trains(1, "b" * 12))
    assert site.holder(0)["pid"] == first.pid
    assert site.holder(1)["pid"] == second.pid
    assert site.holder(0)["release"] == site.release.ident
    third = site.job("c" * 12)
    assert third.wait(PATIENCE_S) == 11
    assert "no free slot" in third.stdout.read()
    assert site.attempts["c" * 12].facts_of("goodbye")["exit_code"] == 11


def test_orders_say_which_slots_may_be_had_and_what_runs_there(site, checkout, tmp_path):
    other = other_release(site, checkout, tmp_path, seed=99)
    write_orders(site.run, Orders({1: other.ident}, "one slot tries it"))
    site.job("a" * 12)
    until(lambda: site.trains(1, "a" * 12))
    assert site.holder(0) == {}
    assert site.holder(1)["release"] == other.ident
    claimed = [e for e in read_events(site.run.events) if e["data"].get("state") == "claimed"]
    assert [event["data"]["release"] for event in claimed] == [other.ident]


def test_where_no_slot_is_to_be_had_a_job_leaves_at_once(site):
    write_orders(site.run, Orders({}, "the breaker is open"))
    job = site.job("a" * 12)
    assert job.wait(PATIENCE_S) == 11
    assert not site.run.slots.exists()


def test_orders_that_cannot_be_read_do_not_stop_a_job(site):
    site.run.orders.parent.mkdir(parents=True)
    site.run.orders.write_text("{")
    site.job("a" * 12)
    until(lambda: site.trains(0, "a" * 12))
    errors = [e for e in read_events(site.run.events) if e["event"] == "error"]
    assert "orders" in errors[0]["data"]["text"]


def test_a_release_that_is_gone_is_replaced_by_the_jobs_own(site):
    write_orders(site.run, Orders({0: "0123456789ab"}, "by hand"))
    site.job("a" * 12)
    until(lambda: site.trains(0, "a" * 12))
    assert site.holder(0)["release"] == site.release.ident


def test_the_predecessor_that_writes_its_last_checkpoint_is_waited_for(site):
    me = current_process()
    holder = {"token": "old", "host": host_name(), "pid": me.pid, "created": me.created}
    leases = [Lease.acquire(site.run.slot(slot).lease, holder) for slot in range(2)]
    for lease in leases:
        lease.beat({"stage": "leaving"})
    job = site.job("a" * 12)
    time.sleep(2.0)
    assert job.poll() is None
    leases[1].release("wall time")
    until(lambda: site.trains(1, "a" * 12))


def test_a_requeued_job_takes_its_own_slot_from_a_node_nobody_can_see(site):
    gone = {"token": "a" * 12, "job_id": "100", "host": "elsewhere", "pid": 1, "created": 1.0}
    Lease.acquire(site.run.slot(0).lease, {**gone, "restarts": 0})
    site.job("a" * 12, SLURM_RESTART_COUNT="1")
    until(lambda: site.trains(0, "a" * 12))
    assert site.holder(0)["restarts"] == 1
    assert read_lease(site.run.slot(0).lease).term == 2


def test_it_runs_from_this_nodes_own_copy_which_the_next_job_uses_again_or_mends(site):
    first = site.job("a" * 12)
    until(lambda: site.trains(0, "a" * 12))
    (copy,) = (site.node / f"daddy-{os.getuid()}").iterdir()
    assert (site.node / f"daddy-{os.getuid()}").stat().st_mode & 0o777 == 0o700
    environ = Path(f"/proc/{first.pid}/environ").read_bytes().decode().split("\0")
    assert f"PYTHONPATH={copy}" in environ
    made = (copy / "Daddy/train_slim.py").stat().st_mtime_ns
    site.job("b" * 12)
    until(lambda: site.trains(1, "b" * 12))
    assert (copy / "Daddy/train_slim.py").stat().st_mtime_ns == made
    assert len(list(copy.parent.iterdir())) == 1
    (copy / "Daddy/train_slim.py").unlink()  # as a cleaner of temporary files does
    first.terminate()
    first.wait(PATIENCE_S)
    site.job("c" * 12)
    until(lambda: site.trains(0, "c" * 12))
    assert (copy / "Daddy/train_slim.py").exists()


def test_without_a_place_on_the_node_it_runs_from_the_shared_copy(site, tmp_path):
    (site.node / f"daddy-{os.getuid()}").mkdir(mode=0o755)
    (site.node / f"daddy-{os.getuid()}").chmod(0o755)  # readable by other users
    from Daddy.cluster.release_node_copy import find_node_copy
    from Daddy.core.run_paths import ReleasePaths

    places = {"TMPDIR": str(site.node), "SLURM_TMPDIR": str(tmp_path / "missing")}
    folder, why = find_node_copy(ReleasePaths(site.release.path), places, os.getuid() + 1)
    assert folder == site.release.path
    assert why


def test_a_parcel_that_was_damaged_is_not_unpacked(site):
    parcel = site.release.path / "package.tar"
    parcel.chmod(0o644)
    whole = parcel.read_bytes()
    parcel.write_bytes(whole[:-512] + b"x" * 512)
    job = site.job("a" * 12)
    until(lambda: site.trains(0, "a" * 12))
    parcel.write_bytes(whole)
    environ = Path(f"/proc/{job.pid}/environ").read_bytes().decode().split("\0")
    assert f"PYTHONPATH={site.release.path}" in environ


def test_a_signal_that_comes_while_it_loads_drains_the_learner(site):
    """The launcher blocks the signal, and the learner gets it once it handles signals."""
    job = site.job("a" * 12)
    until(lambda: site.holder(0))
    job.send_signal(signal.SIGUSR1)
    assert job.wait(PATIENCE_S) in (10, 11)
    assert read_lease(site.run.slot(0).lease).ended is not None


def test_a_job_that_waits_for_a_slot_leaves_when_it_is_asked_to(site):
    me = current_process()
    holder = {"token": "old", "host": host_name(), "pid": me.pid, "created": me.created}
    for slot in range(2):
        Lease.acquire(site.run.slot(slot).lease, holder).beat({"stage": "leaving"})
    job = site.job("a" * 12)
    until(lambda: "a" * 12 in site.attempts)
    time.sleep(0.5)
    job.send_signal(signal.SIGTERM)
    assert job.wait(PATIENCE_S) == 11
    assert site.attempts["a" * 12].facts_of("goodbye")["reason"] == "signal SIGTERM"


def test_the_launcher_is_light(site):
    code = (
        "import sys, Daddy.cluster.launch as launch\n"
        "heavy = {'pydantic', 'torch', 'numpy', 'submitit'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=site.release.path, check=True)
