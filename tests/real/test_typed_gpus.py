"""Tests requests on a Slurm with typed GPUs, features, licenses and a required account."""

import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.action_types import Submit
from Daddy.cluster.orchestrator.scheduler_factory import SpecMaker
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.cluster.release_build import Release
from Daddy.core.clock import SystemClock
from Daddy.core.errors import SchedulerError
from Daddy.core.load_config import run_paths
from Daddy.core.run_paths import RunPaths
from tests.cluster.conftest import config_of
from tests.patience import until
from tests.real.conftest import Cluster, Student, run_testbed, start

ACCOUNT = "research"


def make_typed(cluster: Cluster) -> None:
    """Give nodes types and features, partitions an account, and start Slurm's daemons anew."""
    conf = cluster.dir / "etc" / "slurm.conf"
    text = conf.read_text()
    for nodes, model, feature in (("12", "a100", "big"), ("34", "v100", "small")):
        line = rf"(NodeName=n[{nodes}] .*) Gres=gpu:1"
        text = re.sub(line, rf"\1 Gres=gpu:{model}:1 Feature={feature}", text)
    only = f"AllowAccounts={ACCOUNT} MaxTime="
    text = text.replace("MaxTime=", only)
    conf.write_text(f"{text}Licenses=sim:4\nPartitionName=short Nodes=ALL {only}1:00:00 State=UP\n")
    (conf.parent / "gres.conf").write_text(
        "AutoDetect=off\n"
        "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/null\n"
        "NodeName=n[3-4] Name=gpu Type=v100 File=/dev/null\n"
    )
    cluster.out("sacctmgr", "-i", "add", "account", ACCOUNT)
    own = (f"account={ACCOUNT}", "QOS=students", "DefaultQOS=students")
    cluster.out("sacctmgr", "-i", "add", "user", cluster.user, *own)
    for name in ("slurmctld", "slurmd-n1", "slurmd-n2", "slurmd-n3", "slurmd-n4"):
        os.kill(cluster.daemon(name), signal.SIGKILL)
    done = run_testbed("up", "--dir", str(cluster.dir))
    assert done.returncode == 0, done.stderr
    cluster.out(
        "scontrol", "create", "reservation", "reservationname=course", "starttime=now",
        "duration=120", "nodes=n1,n2", f"users={cluster.user}", "flags=ignore_jobs",
    )  # fmt: skip


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    """Start a second test cluster, which takes no job without an account."""
    folder = Path(tempfile.mkdtemp(prefix="daddy-typed-", dir="/tmp"))
    try:
        cluster = start(folder)
        make_typed(cluster)
        yield cluster
        cluster.run("sacctmgr", "-i", "delete", "account", ACCOUNT)
    finally:
        run_testbed("down", "--dir", str(folder), "--purge")
        shutil.rmtree(folder, ignore_errors=True)


def facts(cluster: Cluster, job: int) -> dict[str, str]:
    text = cluster.out("scontrol", "--oneliner", "show", "job", str(job))
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def test_a_fleet_gets_the_gpus_nodes_and_licenses_that_it_asks_for(
    cluster: Cluster, student: Student
) -> None:
    """Run it in a folder whose name Slurm would expand."""
    student.run = RunPaths(student.run.root.parent / "100%j of it")
    student.configure(
        partition=["short", "gpu-linuxlab"], account=ACCOUNT, qos="students", gpu_type="a100",
        constraint="big", licenses="sim:1", reservation="course", options=["--nice=7"],
    )  # fmt: skip
    said = student.run_controller("start")
    assert said.returncode == 0, said.stderr
    assert until(lambda: student.training == 2, 40)
    jobs = [slot["job_id"] for slot in student.status()["slots"]]
    for job in jobs:
        seen = facts(cluster, job)
        assert {name: seen[name] for name in ("Account", "QOS", "Features", "Licenses")} == {
            "Account": ACCOUNT, "QOS": "students", "Features": "big", "Licenses": "sim:1",
        }  # fmt: skip
        assert (seen["Reservation"], seen["Nice"]) == ("course", "7")
        assert seen["TresPerNode"] == "gres:gpu:a100:1"
        assert (student.run.logs / f"slurm-{job}.out").exists()
    assert {facts(cluster, job)["NodeList"] for job in jobs} == {"n1", "n2"}


def test_an_account_of_the_shell_is_kept_in_the_release_and_said(
    cluster: Cluster, student: Student
) -> None:
    refused = student.run_controller("start")
    assert refused.returncode == 4
    assert "Invalid account" in refused.stderr
    assert "correct slurm.account, slurm.partition" in refused.stderr
    shell = {"SBATCH_ACCOUNT": ACCOUNT, "SBATCH_QOS": "students", "SBATCH_TIMELIMIT": "1"}
    student.env |= shell
    said = student.run_controller("start")
    assert said.returncode == 0, said.stderr
    kept = "from your shell (SBATCH_*), kept in the release: "
    assert f"{kept}slurm.account research, slurm.qos students\n" in said.stdout
    assert "not used: SBATCH_TIMELIMIT;" in said.stdout
    assert json.loads(student.run.config.read_text())["slurm"]["account"] == ACCOUNT
    assert until(lambda: student.training == 2, 40)
    job = student.status()["slots"][0]["job_id"]
    assert facts(cluster, job)["Account"] == ACCOUNT
    assert facts(cluster, job)["TimeLimit"] == "00:05:00"
    del student.env["SBATCH_QOS"]
    said = student.run_controller("start")
    assert "changed since the last start: slurm.qos none (was students)\n" in said.stdout


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"account": None}, "slurm.account"),
        ({"account": "nobody"}, "slurm.account"),
        ({"qos": "nope"}, "slurm.qos"),
        ({"partition": "nope"}, "slurm.partition"),
        ({"gpu_type": "h100"}, "slurm.gpu_type"),
        ({"gpu_type": "h100", "gpu_option": "gpus"}, "slurm.gpu_type"),
        ({"gpus_per_job": 2}, "slurm.gpus_per_job"),
        ({"constraint": "huge"}, "slurm.constraint"),
        ({"reservation": "none"}, "slurm.reservation"),
        ({"licenses": "sim:5"}, "slurm.licenses"),
        ({"cpus_per_job": 99}, "slurm.cpus_per_job"),
        ({"memory": "900G"}, "slurm.memory"),
        ({"time_limit": "9:00:00"}, "slurm.time_limit"),
        ({"exclude": ["n99"]}, "slurm.exclude"),
        ({"options": ["--foo=3"]}, "slurm.options"),
        ({"gpu_type": "v100", "gpu_option": "gpus"}, ""),
        ({"gpu_type": "v100", "gpu_option": "gpus-per-node", "options": ["--exclusive"]}, ""),
        ({"partition": ["short", "gpu-linuxlab"], "time_limit": "0:30:00"}, ""),
    ],
)
def test_slurm_s_error_is_answered_with_the_setting(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wishes: dict[str, object],
    words: str,
) -> None:
    monkeypatch.setenv("PATH", cluster.env["PATH"])
    usual = {"account": ACCOUNT, "partition": "gpu-linuxlab", "cpus_per_job": 1}
    config = config_of(tmp_path, slurm={**usual, **wishes})
    run = run_paths(config)
    for folder in (run.logs, run.scripts):
        folder.mkdir(parents=True)
    scheduler = SlurmScheduler("typed-000000", SystemClock(), cluster.env)
    spec = SpecMaker(config, run, Release("r1", tmp_path))("0" * 12, 1, Submit("a test"))
    with pytest.raises(SchedulerError) if words else nullcontext() as refused:
        scheduler.check_script(spec)
    assert refused is None or words in refused.value.fix, refused
