"""Tests the test cluster: limits, signals, login node, and that ``down`` leaves nothing."""

import hashlib
import json
import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.testbed import layout, login_texts
from Daddy.core.load_config import load_config
from tests.patience import PATIENCE_S, until
from tests.real.conftest import CHECKOUT, TESTBED, Cluster, run_testbed, start

LIMIT_JOB = """
trap 'echo warned $(($(date +%s) - begun))' USR1
begun=$(date +%s); echo begun
while :; do sleep 0.2; done
"""


@pytest.fixture(scope="module")
def job_over_its_limit(shared_cluster: Cluster) -> Iterator[tuple[str, Path]]:
    """Submit a job that exceeds its time limit, which takes Slurm more than a minute."""
    output = shared_cluster.dir / "limit.out"
    script = shared_cluster.dir / "limit.sh"
    script.write_text(f"#!/bin/bash\n{LIMIT_JOB}")
    job = shared_cluster.out(
        "sbatch", "--parsable", "--time=1", "--signal=B:USR1@30", "--comment", "token 7/a",
        "--job-name", "slim_run-slot0", "-o", str(output), str(script),
    )  # fmt: skip
    started = ("squeue", "-h", "-t", "running", "-o", "%i")
    assert until(lambda: job in shared_cluster.out(*started).split())
    # Slurm checks limits every 30 s: set the end shortly before the second check.
    shared_cluster.out("scontrol", "update", f"jobid={job}", "EndTime=now+45")
    yield job, output
    shared_cluster.run("scancel", job)


@pytest.mark.usefixtures("job_over_its_limit")
def test_up_again_changes_nothing_and_says_the_same(cluster: Cluster) -> None:
    again = run_testbed("up", "--dir", str(cluster.dir), "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["supervisor_pid"] == cluster.facts["supervisor_pid"]


def test_the_partition_is_the_one_of_the_guide(cluster: Cluster) -> None:
    assert cluster.out("sinfo", "-h", "-o", "%P %l %D %c %G") == "gpu-linuxlab* 4:00:00 4 8 gpu:1"
    status = run_testbed("status", "--dir", str(cluster.dir), "--json")
    assert status.returncode == 0
    facts = json.loads(status.stdout)
    assert facts["state"] == "up"
    assert len(facts["nodes"]) == 4


def test_sourcing_the_env_file_is_enough_even_after_another_cluster(cluster: Cluster) -> None:
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"source {cluster.facts['env_file']}; squeue -h -t all -o %j; echo $DADDY_SITE",
        ],
        env={**os.environ, "SQUEUE_STATES": "nonsense", "SLURM_CONF": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "testbed"
    assert "slim_run-slot0" in done.stdout


def test_a_fifth_job_waits_for_a_slot_and_gets_the_first_that_is_free(cluster: Cluster) -> None:
    jobs = [cluster.submit("sleep 60", "-o", "/dev/null") for _ in range(5)]

    def running() -> list[str]:
        return [job for job, state in cluster.states().items() if state.startswith("RUNNING")]

    assert until(lambda: len(running()) == 4)
    time.sleep(1.5)
    assert len(running()) == 4
    waiting = [job for job in jobs if cluster.states()[job].startswith("PENDING")]
    capped = "PENDING QOSMaxJobsPerUserLimit"
    assert until(lambda: {cluster.states()[job] for job in waiting} == {capped})
    cluster.out("scancel", jobs[0])
    assert until(lambda: waiting[0] in running(), 30)
    assert len(running()) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--time=4:00:01",), "Requested time limit is invalid"),
        (("--gres=gpu:2",), "Requested node configuration is not available"),
        (("--cpus-per-task=9",), "not available|CPU count"),
        (("--partition=nowhere",), "invalid partition"),
    ],
)
def test_what_the_site_does_not_have_is_refused_at_submission(
    cluster: Cluster, options: tuple[str, ...], message: str
) -> None:
    refused = cluster.run("sbatch", *options, "--wrap", "true")
    assert refused.returncode == 1
    assert re.search(message, refused.stderr), refused.stderr


def test_the_real_sites_account_exists_and_no_other(cluster: Cluster) -> None:
    account = json.loads((CHECKOUT / "cluster/sites/engr.json").read_text())["slurm"]["account"]
    job = cluster.submit("true", "-A", account, "-o", "/dev/null")
    refused = cluster.run("sbatch", "-A", "nobodys", "--wrap", "true")
    assert refused.returncode == 1
    assert "Invalid account" in refused.stderr
    told = ("sacct", "-n", "-P", "-X", "-j", job, "-o", "State,Account")
    assert until(lambda: cluster.out(*told) == f"COMPLETED|{account}", 15)


def test_a_kept_database_forgets_jobs_and_limits(own_folder: Path) -> None:
    testbed = start(own_folder)
    testbed.out("sacctmgr", "-i", "modify", "qos", "students", "set", "MaxSubmitJobsPerUser=1")
    job = testbed.submit("sleep 60", "-o", "/dev/null")
    limit = "QOSMaxSubmitJobPerUserLimit"
    assert until(
        lambda: limit in testbed.run("sbatch", "-o", "/dev/null", "--wrap", "true").stderr, 10
    )
    assert until(lambda: testbed.out("sacct", "-n", "-X", "-j", job, "-o", "JobID") == job, 15)
    assert run_testbed("down", "--dir", str(own_folder)).returncode == 0
    again = start(own_folder, "--max-jobs", "2")
    assert again.out("sacct", "-n", "-a", "-X", "-S", "now-1hours", "-o", "JobID") == ""
    limits = ("sacctmgr", "-n", "-P", "show", "qos", "students", "format=MaxJobsPU,MaxSubmitPU")
    assert again.out(*limits) == "2|"


def test_a_signal_reaches_the_batch_process(cluster: Cluster, tmp_path: Path) -> None:
    output = tmp_path / "out"
    job = cluster.submit(
        "trap 'echo warned; exit 0' USR1; echo begun; while :; do sleep 0.1; done",
        "-o",
        str(output),
    )
    assert until(lambda: output.exists() and "begun" in output.read_text())
    cluster.out("scancel", "--signal=USR1", "--batch", job)
    assert until(lambda: "warned" in output.read_text(), 5)
    assert until(lambda: cluster.states()[job].startswith("COMPLETED"), 5)


def test_a_job_sees_its_gpu_and_no_variable_of_ours(cluster: Cluster, tmp_path: Path) -> None:
    output = tmp_path / "out"
    cluster.submit("hostname; env", "--gres=gpu:1", "-c", "8", "-o", str(output))
    assert until(lambda: output.exists() and "SLURM_JOB_ID" in output.read_text())
    lines = output.read_text().splitlines()
    assert "CUDA_VISIBLE_DEVICES=0" in lines
    assert not [line for line in lines if line.startswith(("LD_LIBRARY_PATH=", "SSH_ORIGINAL"))]
    if cluster.alone:
        assert lines[0] in {"n1", "n2", "n3", "n4"}


def test_the_login_node_knows_slurm_and_takes_rsync(cluster: Cluster, tmp_path: Path) -> None:
    answer = cluster.ssh("hostname; squeue -h -t all -o %i; sinfo -h -o %D; echo $DADDY_SITE")
    assert answer.returncode == 0, answer.stderr
    host, *ids, nodes, site = answer.stdout.split()
    assert (nodes, site) == ("4", "testbed")
    assert sorted(ids) == sorted(cluster.out("squeue", "-h", "-t", "all", "-o", "%i").split())
    assert (host == "login") == cluster.alone
    (tmp_path / "weights").write_bytes(os.urandom(100_000))
    remote_shell = f"ssh -F {cluster.ssh_config}"
    for source, target in (
        (tmp_path / "weights", f"login:{cluster.dir}/weights"),
        (f"login:{cluster.dir}/weights", tmp_path / "back"),
    ):
        copied = cluster.run("rsync", "-a", "-e", remote_shell, str(source), str(target))
        assert copied.returncode == 0, copied.stderr
    assert (tmp_path / "back").read_bytes() == (tmp_path / "weights").read_bytes()


def test_the_slow_alias_is_slow_and_whole(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(os.urandom(1_500_000))
    begun = time.monotonic()
    copied = cluster.run(
        "rsync",
        "-e",
        f"ssh -F {cluster.ssh_config}",
        f"{tmp_path}/blob",
        f"slow:{cluster.dir}/blob",
    )
    assert copied.returncode == 0, copied.stderr
    assert time.monotonic() - begun > 1.5
    assert (cluster.dir / "blob").read_bytes() == (tmp_path / "blob").read_bytes()


def test_a_link_can_be_stalled_and_cut(cluster: Cluster, tmp_path: Path) -> None:
    stall, cut = tmp_path / "stall", tmp_path / "cut"
    shape = f"ProxyCommand={TESTBED}/run_testbed shape --stall-file {stall} --cut-file {cut} %h %p"
    login = ["ssh", "-F", str(cluster.ssh_config), "-o", shape, "login"]
    with subprocess.Popen(
        [*login, "echo on; read x; echo $x; cat"],
        env=cluster.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as link:  # fmt: skip
        assert link.stdin
        assert link.stdout
        assert link.stdout.readline() == "on\n"
        stall.touch()
        link.stdin.write("late\n")
        link.stdin.flush()
        assert not select.select([link.stdout], [], [], 1.0)[0]
        stall.unlink()
        assert link.stdout.readline() == "late\n"
        cut.touch()
        assert link.stdout.read() == ""
        assert link.wait(PATIENCE_S) == 255


def test_an_interactive_login_has_slurm_on_its_path(cluster: Cluster) -> None:
    shell = subprocess.run(
        ["ssh", "-F", str(cluster.ssh_config), "-tt", "login"],
        env=cluster.env, input="sinfo -h -o nodes=%D\nexit\n", capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert "nodes=4" in shell.stdout, shell.stdout + shell.stderr


def test_a_host_that_shows_another_key_is_not_talked_to(cluster: Cluster, tmp_path: Path) -> None:
    wrong = tmp_path / "known_hosts"
    own = (cluster.dir / "ssh" / f"key_{cluster.user}.pub").read_text().split()
    right = (cluster.dir / "ssh" / "known_hosts").read_text().split()
    wrong.write_text(f"{right[0]} {own[0]} {own[1]}\n")
    refused = cluster.ssh("true", "-o", f"UserKnownHostsFile={wrong}")
    assert refused.returncode == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in refused.stderr


def open_to_all(folder: Path) -> bool:
    """Return True where other users may enter the folder of the unpacked programs."""
    return all(place.stat().st_mode & stat.S_IXOTH for place in (folder, *folder.parents))


def test_a_second_person_logs_in_and_has_own_slots(cluster: Cluster) -> None:
    if not cluster.facts["friend"]:
        assert not (cluster.alone and open_to_all(CHECKOUT))
        return
    friend = ("ssh", "-F", str(cluster.ssh_config), "friend")
    assert cluster.out(*friend, "id -un; pwd; srun id -un").split() == [
        "friend", f"{cluster.dir}/home/friend", "friend",
    ]  # fmt: skip
    assert "friend:" not in Path("/etc/passwd").read_text()
    assert cluster.run(*friend, f"cat {cluster.dir}/munge/key").returncode != 0


class Echo(threading.Thread):
    """Run a server in the viewer's place that sends back each line."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", port))
        self.port = self.server.getsockname()[1]

    def run(self) -> None:
        while True:
            try:
                link, _ = self.server.accept()
            except OSError:
                return
            with link:
                link.sendall(b"echo " + link.recv(100))


def test_a_reverse_tunnel_ends_on_the_login_node_only(cluster: Cluster, tmp_path: Path) -> None:
    viewer = Echo(free_or_any(cluster.remote_port) if cluster.alone else 0)
    viewer.start()
    forward = f"{cluster.remote_port}:localhost:{viewer.port}"
    tunnel = subprocess.Popen(
        ["ssh", "-F", str(cluster.ssh_config), "-N", "-R", forward, "login"], env=cluster.env
    )
    ask = f"exec 3<>/dev/tcp/localhost/{cluster.remote_port}; echo frame >&3; cat <&3"
    try:
        assert until(lambda: "echo frame" in cluster.ssh(f"bash -c '{ask}'").stdout, 10, 0.2)
        if cluster.alone:
            output = tmp_path / "out"
            cluster.submit(f"bash -c '{ask}'; echo done", "-o", str(output))
            assert until(lambda: output.exists() and "done" in output.read_text())
            assert "Connection refused" in output.read_text()
    finally:
        tunnel.terminate()
        tunnel.wait(PATIENCE_S)
        viewer.server.close()


def free_or_any(port: int) -> int:
    """Return the viewer's port, or any free one where it is in use."""
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return 0
        return port


def test_a_daemon_that_died_is_seen_and_up_starts_it_again(cluster: Cluster) -> None:
    os.kill(cluster.daemon("sshd"), signal.SIGKILL)
    assert until(lambda: run_testbed("status", "--dir", str(cluster.dir)).returncode == 20, 5)
    repaired = run_testbed("up", "--dir", str(cluster.dir))
    assert repaired.returncode == 0, repaired.stderr
    assert "starting again: sshd" in repaired.stderr
    assert cluster.ssh("true").returncode == 0


def test_a_node_that_slurm_drained_is_resumed_by_up(cluster: Cluster) -> None:
    cluster.out("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=batch job failure")
    assert run_testbed("up", "--dir", str(cluster.dir)).returncode == 0
    assert cluster.out("sinfo", "-h", "-n", "n3", "-o", "%T") == "idle"


def fingerprint() -> dict[str, str]:
    """Return the state of /etc and of other files that a test cluster must not change."""
    found = {}
    for place in ("/etc", "/run/sshd", "/root/.ssh", str(Path.home() / ".ssh")):
        for path in sorted(Path(place).rglob("*")):
            if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK):
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def processes_of(folder: Path) -> list[str]:
    """Return the command lines with the folder, and those of its daemons' descendants."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in text and int(entry.name) != os.getpid():
            found.append(f"{entry.name} {text[:80]!r}")
    return found


def interfaces() -> list[str]:
    """Return this host's network interfaces, without other test clusters'."""
    return [name for _, name in socket.if_nameindex()]


DETACHING = "setsid sleep 50001 & (setsid env -i /bin/sleep 50002 &) ; sleep 50003"


@pytest.mark.parametrize("crashed", [False, True], ids=["clean", "crashed supervisor"])
def test_down_leaves_nothing(own_folder: Path, *, crashed: bool) -> None:
    before = fingerprint()
    testbed = start(own_folder)
    cable = f"daddy{testbed.host.split('.')[2]}"
    assert testbed.alone == (cable in interfaces())
    job = testbed.submit(DETACHING, "-o", "/dev/null")
    session = subprocess.Popen(
        ["ssh", "-F", str(testbed.ssh_config), "login", "sleep 50004"], stdin=subprocess.DEVNULL
    )
    assert until(lambda: testbed.states()[job].startswith("RUNNING"))
    assert until(lambda: len(sleepers()) == 4), sleepers()
    if crashed:
        os.kill(int(str(testbed.facts["supervisor_pid"])), signal.SIGKILL)
    ended = run_testbed("down", "--dir", str(own_folder))
    session.wait(PATIENCE_S)
    assert ended.returncode == 0, ended.stderr
    assert until(lambda: not processes_of(own_folder), 2), processes_of(own_folder)
    # Without a mount namespace a detached job process without environment is not recognised.
    if testbed.alone or not crashed:
        assert not sleepers()
    assert cable not in interfaces()
    assert fingerprint() == before
    assert sorted(path.name for path in own_folder.iterdir()) == sorted(
        [".lock", "db", "etc", "home", "log", "munge", "ssh", "users"]
    )
    assert run_testbed("status", "--dir", str(own_folder)).returncode == 21


def sleepers() -> list[str]:
    """Return the running processes of DETACHING and of the ssh session."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if (
            words[0].endswith(b"sleep")
            and words[1:2]
            and words[1] in {b"50001", b"50002", b"50003", b"50004"}
        ):
            found.append(entry.parent.name)
    return found


def test_down_ends_a_half_started_testbed(own_folder: Path) -> None:
    starting = subprocess.Popen(
        [str(TESTBED / "up"), "--dir", str(own_folder)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert until((own_folder / "run" / "daemons.json").exists, 60, 0.001)
    os.killpg(starting.pid, signal.SIGKILL)
    starting.wait(PATIENCE_S)
    assert run_testbed("down", "--dir", str(own_folder)).returncode == 0
    assert until(lambda: not processes_of(own_folder), 2), processes_of(own_folder)


def test_a_login_node_without_slurm_and_in_an_awkward_folder(own_folder: Path) -> None:
    folder = own_folder / ("a folder whose name is too long for a socket" * 2)
    folder.mkdir()
    try:
        testbed = start(folder, "--login-only")
        assert testbed.facts["slurm_conf"] == ""
        assert testbed.ssh("echo here; command -v rsync").stdout.startswith("here\n/")
    finally:
        assert run_testbed("down", "--dir", str(folder)).returncode == 0
    assert not [path for path in Path("/tmp").glob("daddy-cluster-*/s") if not path.exists()]


def test_on_the_hosts_own_loopback_the_tunnel_ends_on_another_port(own_folder: Path) -> None:
    privsep = Path("/run/sshd").exists()
    said = run_testbed("up", "--dir", str(own_folder), "--login-only", "--no-namespace")
    assert said.returncode == 0, said.stderr
    assert "-R 9998:localhost:9999" in said.stdout
    assert "the remote end listens on 9998" in said.stdout
    testbed = start(own_folder, "--login-only", "--no-namespace")
    assert (testbed.host, testbed.remote_port) == ("127.0.0.1", 9998)
    assert testbed.ssh("id -un").stdout.strip() == testbed.user
    assert run_testbed("down", "--dir", str(own_folder)).returncode == 0
    assert Path("/run/sshd").exists() == privsep


def test_down_of_nothing_is_no_error(tmp_path: Path) -> None:
    answer = run_testbed("down", "--dir", str(tmp_path / "never"))
    assert answer.returncode == 0
    assert "was not running" in answer.stderr


def test_what_belongs_to_another_boot_is_never_ended(tmp_path: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        stat = Path(f"/proc/{bystander.pid}/stat").read_text()
        old = layout.State(
            root=str(tmp_path), mode="loopback", reason="", network=0,
             private_users=False, slurm=True, host="127.0.0.1",
            port=1, ports=[1], user="nobody", friend="", remote_port=9998, max_jobs=4, path="",
            slurm_version="22.05.8", boot="another", supervisor_pid=bystander.pid,
            supervisor_start=int(stat[stat.rindex(")") + 2 :].split()[19]),
        )  # fmt: skip
        layout.save_state(tmp_path, old)
        assert run_testbed("down", "--dir", str(tmp_path)).returncode == 0
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_down_ends_a_test_cluster_that_the_release_before_started(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    supervisor = subprocess.Popen(argv)
    outlived = subprocess.Popen(argv, env={**os.environ, "DADDY_SANDBOX_NODE": str(tmp_path)})
    try:
        stat = Path(f"/proc/{supervisor.pid}/stat").read_text()
        state = layout.State(
            root=str(tmp_path), mode="loopback", reason="", network=0,
            slurm=False, host="127.0.0.1", port=1, ports=[], user="nobody", friend="",
            remote_port=9998, max_jobs=4, path="", slurm_version="", boot=layout.boot_id(),
            supervisor_pid=supervisor.pid,
            supervisor_start=int(stat[stat.rindex(")") + 2 :].split()[19]),
        )  # fmt: skip
        layout.save_state(tmp_path, state)
        (tmp_path / "testbed.json").rename(tmp_path / "sandbox.json")
        assert run_testbed("down", "--dir", str(tmp_path)).returncode == 0
        assert supervisor.wait(PATIENCE_S) == outlived.wait(PATIENCE_S) == -signal.SIGTERM
        assert not (tmp_path / "sandbox.json").exists()
    finally:
        supervisor.kill()
        outlived.kill()


def test_no_password_hash_of_the_host_is_copied() -> None:
    users = login_texts.passwd("root:x:0:0::/root:/bin/bash\n", "friend", "/h", 20001)
    assert [line.split(":")[0] for line in users.splitlines()] == ["root", "sshd", "friend"]
    assert all(line.split(":")[1] == "*" for line in login_texts.shadow(users).splitlines())


def test_both_site_profiles_are_valid_configurations() -> None:
    from Daddy.core.load_config import load_config

    cluster, real = load_config(site="testbed"), load_config(site="engr")
    assert (cluster.training.device, cluster.training.cartridge) == ("cpu", True)
    assert (real.training.device, real.training.cartridge) == ("cuda", False)
    assert {site.slurm.partition for site in (cluster, real)} == {"gpu-linuxlab"}
    assert (CHECKOUT / "cluster" / "sites" / "engr.json").exists()


def test_a_job_is_warned_and_ends_at_its_limit(
    cluster: Cluster, job_over_its_limit: tuple[str, Path]
) -> None:
    job, output = job_over_its_limit
    shown = cluster.out("scontrol", "show", "job", job)
    assert "Comment=token 7/a" in shown
    assert until(lambda: cluster.states()[job].startswith("TIMEOUT"), 130, 0.5)
    warned = re.search(r"warned (\d+)", output.read_text())
    assert warned
    assert int(warned.group(1)) <= 60


def test_the_names_of_the_release_before_still_lead_there(tmp_path: Path) -> None:
    """The old names cluster/sandbox and DADDY_SITE=sandbox work for one more release."""
    before = TESTBED.with_name("sandbox") / "status"
    asked = subprocess.run([before, "--dir", tmp_path / "none"], timeout=PATIENCE_S, check=False)
    assert asked.returncode == 21
    old, new = load_config(site="sandbox"), load_config(site="testbed")
    assert old == new
