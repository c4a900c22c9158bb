"""Tests ``sync_weights.sh`` with real rsync and ssh to an sshd on this machine."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from Daddy.core.atomic_files import sha256_hex
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.laptop.laptop_exchange import LaptopExchange
from Daddy.weights.laptop.pulled_folder import newest_verified
from Daddy.weights.laptop.ssh_login import Remote
from tests.components import program
from tests.patience import PATIENCE_S
from tests.weights.helpers import ManualClock, Peer, begin, close, make_state, perturbed
from tests.weights.login import SCRIPT, Login, running_sshd


@pytest.fixture(scope="module")
def login(tmp_path_factory):
    sshd = program("sshd", "openssh-server")
    program("rsync", "rsync")
    with running_sshd(tmp_path_factory.mktemp("login"), sshd) as found:
        yield found


@dataclass
class Home:
    """A laptop's home and the cluster's folder."""

    login: Login
    home: Path
    shared: Path
    clock: ManualClock

    @property
    def local(self) -> Path:
        return self.home / "shared_weights"

    def stranger(self) -> Path:
        """Create a key that is not installed."""
        path = self.home / "stranger"
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
        subprocess.run(command, check=True)
        return path

    def job(self) -> Peer:
        return begin(self.shared, "slot-0", self.clock)

    def environment(self, **changes: str) -> dict[str, str]:
        return {
            **self.login.environment(self.home, self.shared),
            "DADDY_PYTHON": sys.executable,
            **changes,
        }

    def sync(self, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SCRIPT), *words],
            env=self.environment(**changes),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=self.home,
        )


@pytest.fixture
def home(login, tmp_path):
    (tmp_path / "home").mkdir()
    return Home(login, tmp_path / "home", tmp_path / "run" / "shared_weights", ManualClock())


def advance(job: Peer, seed: int) -> None:
    job.learn(seed)
    job.publish()
    job.adopt()


def test_pull_brings_the_newest_version_whole_and_verified(home):
    job = home.job()
    advance(job, 1)
    done = home.sync("pull")
    assert done.returncode == 0, done.stderr
    assert "pulled v1" in done.stdout
    found = newest_verified(home.local)
    assert found.version == 1
    assert sha256_hex(found.data) == found.sha256
    again = home.sync("pull")
    assert "v1 is here already" in again.stdout
    advance(job, 2)
    assert "pulled v2" in home.sync("pull", "", str(home.local)).stdout
    assert newest_verified(home.local).version == 2


def test_pull_every_second_follows_the_versions_and_ends_when_asked(home):
    job = home.job()
    events = home.home / "events"
    child = subprocess.Popen(
        [str(SCRIPT), "pull", "", str(home.local), "0.2"],
        env=home.environment(SYNC_EVENTS_DIR=str(events)),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        seen = []
        for seed in range(3):
            wait_until(lambda: newest_verified(home.local) or False)
            wait_until(lambda want=seed: newest_verified(home.local).version >= want)
            seen.append(newest_verified(home.local).version)
            advance(job, seed)
        wait_until(lambda: len(told(events)) >= len(seen))  # an event follows each pull
    finally:
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0
    assert seen == [0, 1, 2]
    assert "ended by SIGTERM" in out
    lines = told(events)
    assert {line["data"]["transport"] for line in lines} == {"rsync+ssh"}
    assert [line["data"]["version"] for line in lines][:3] == [0, 1, 2]
    wait_until(lambda: not masters(home))


def told(events: Path) -> list[dict[str, Any]]:
    """Return the pull events of a laptop's sync."""
    return [json.loads(line) for path in events.glob("laptop-*") for line in path.open()]


def wait_until(true, seconds: float = 30.0):
    for _ in range(int(seconds / 0.05)):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come true")


def masters(home) -> list[int]:
    """Return the process ids of this home's shared connections."""
    remote = Remote("cluster", home.login.user, "/", ssh_config=str(home.login.config))
    start = Path(f"{remote.socket}-")
    sockets = [path for path in start.parent.glob(f"{start.name}*") if path.is_socket()]
    asked = (
        subprocess.run(
            ["ssh", "-S", path, "-O", "check", "x"], capture_output=True, text=True, check=False
        )
        for path in sockets
    )
    found = (re.search(r"Master running \(pid=(\d+)\)", done.stderr) for done in asked)
    return [int(match[1]) for match in found if match]


def test_a_contribution_goes_up_and_its_receipt_comes_down(home):
    job = home.job()
    home.sync("pull")
    laptop = LaptopExchange(home.local, "anna", os.urandom(4).hex(), home.clock)
    weights = laptop.join_fleet(make_state, None).weights
    laptop.publish(perturbed(weights, 7), 500, 20)
    done = home.sync("push")
    assert (done.returncode, done.stdout.strip()) == (0, "pushed 1 contribution(s)")
    assert home.sync("push").stdout.strip() == "nothing to push"
    advance(job, 3)
    both = home.sync("bidirectional")
    assert "nothing to push; pulled v1" in both.stdout
    (receipt,) = laptop.receipts()
    assert receipt.accepted
    assert "1 counted, 0 refused" in home.sync("status").stdout
    assert laptop.adopt(weights).version == 1


def test_without_rsync_sftp_carries_the_same_both_ways(home, tmp_path):
    job = home.job()
    lonely = {"SYNC_TRANSPORT": "sftp", "PATH": programs(tmp_path / "bin", "ssh", "sftp", "bash")}
    assert "pulled v0" in sync_python(home, "pull", **lonely).stdout
    laptop = LaptopExchange(home.local, "anna", os.urandom(4).hex(), home.clock)
    weights = laptop.join_fleet(make_state, None).weights
    laptop.publish(perturbed(weights, 7), 500, 20)
    assert "pushed 1" in sync_python(home, "push", **lonely).stdout
    advance(job, 3)
    done = sync_python(home, "bidirectional", **lonely)
    assert "pulled v1" in done.stdout, done.stderr
    assert laptop.receipts()[0].accepted
    assert newest_verified(home.local).version == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text, home: text.replace(str(home.login.port), "1"), "refuses connections"),
        (lambda text, home: text.replace(str(home.login.key), str(home.stranger())), "our key"),
        (lambda text, _: text.replace("known_hosts", "none"), "not known here"),
    ],
    ids=["refused", "stranger", "unknown"],
)
def test_sftp_says_in_words_what_is_wrong(home, change, said):
    config = home.home / "config"
    config.write_text(change(home.login.config.read_text(), home))
    done = home.sync("pull", SYNC_TRANSPORT="sftp", SYNC_SSH_CONFIG=str(config))
    assert done.returncode == 8, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def sync_python(home, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run ``sync_weights.sh`` with an almost empty PATH."""
    environment = {**home.environment(**changes), "PYTHONPATH": str(SCRIPT.parents[2])}
    return subprocess.run(
        [sys.executable, "-m", "Daddy.weights.sync", *words],
        env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def test_status_tells_both_ends_and_their_ages(home):
    job = home.job()
    home.sync("pull")
    advance(job, 1)
    advance(job, 2)
    said = home.sync("status").stdout
    assert "test: v0, merged" in said
    assert "v2 of run 'test'" in said
    assert "behind by 2" in said


def test_a_version_that_arrives_damaged_never_becomes_visible(home):
    job = home.job()
    home.sync("pull")
    advance(job, 1)
    for path in (home.shared / "wan").glob("*-00000001-*"):
        path.chmod(0o644)
        good = path.read_bytes()
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    done = home.sync("pull")
    assert done.returncode == 6
    assert "arrived damaged" in done.stderr
    assert newest_verified(home.local).version == 0


def test_a_head_of_absurd_size_never_crosses_the_line(home):
    home.job()
    home.sync("pull")
    os.truncate(home.shared / "wan" / "HEAD.json", 50_000_000)
    done = home.sync("pull")
    assert done.returncode == 6
    assert not [path for path in home.local.rglob("*") if path.stat().st_size > 1_000_000]
    assert newest_verified(home.local).version == 0


@pytest.mark.parametrize("transport", ["rsync", "sftp"])
def test_a_policy_worth_compressing_comes_whole_and_then_in_steps(home, transport):
    import torch

    own = {"w": torch.randn(100, 200, generator=torch.Generator().manual_seed(3)) * 0.05}
    job = begin(home.shared, "slot-0", home.clock, own=own)
    pulled = {}
    for seed in range(3):
        events = home.home / f"events-{seed}"
        done = home.sync("pull", SYNC_TRANSPORT=transport, SYNC_EVENTS_DIR=str(events))
        assert done.returncode == 0, done.stderr
        (line,) = [json.loads(line) for path in events.iterdir() for line in path.open()]
        pulled[line["data"]["version"]] = (line["data"]["route"], line["data"]["bytes"])
        found = newest_verified(home.local)
        assert found.data == (home.shared / "wan" / found.head.name).read_bytes()
        job.learn(seed, scale=1e-5)
        job.publish()
        job.adopt()
    assert [pulled[version][0] for version in range(3)] == [
        "whole", "a delta from the local version", "a delta from the local version",
    ]  # fmt: skip
    assert pulled[2][1] < pulled[0][1] < newest_verified(home.local).head.size


def test_a_truncated_file_at_home_is_fetched_again(home):
    home.job()
    home.sync("pull")
    found = newest_verified(home.local)
    path = home.local / "wan" / found.head.name
    path.chmod(0o644)
    path.write_bytes(found.data[:100])
    assert home.sync("pull").returncode == 0
    assert newest_verified(home.local).data == found.data


def test_a_stale_leftover_of_an_interrupted_transfer_does_not_stick(home):
    home.job()
    frame = json.loads((home.shared / "wan" / "HEAD.json").read_text())
    (home.local / "incoming").mkdir(parents=True)
    (home.local / "incoming" / frame["name"]).write_bytes(b"from another life")
    assert home.sync("pull").returncode == 0
    assert newest_verified(home.local).version == 0


def test_what_arrived_before_a_break_is_not_sent_again(home, tmp_path):
    import torch

    own = {"w": torch.randn(500, 500, generator=torch.Generator().manual_seed(3)) * 0.05}
    begin(home.shared, "slot-0", home.clock, own=own)
    frame = json.loads((home.shared / "wan" / "HEAD.json").read_text())
    (whole,) = (home.shared / "wan" / part["file"] for part in frame["parts"])
    partial = home.local / "incoming" / ".part"
    partial.mkdir(parents=True)
    (partial / whole.name).write_bytes(whole.read_bytes()[: whole.stat().st_size * 9 // 10])
    told, tools = tmp_path / "stats", tmp_path / "tools"
    tools.mkdir()
    counting = f'#!/bin/sh\nexec {shutil.which("rsync")} --stats "$@" >>{told}\n'
    (tools / "rsync").write_text(counting)
    (tools / "rsync").chmod(0o755)
    path = f"{tools}:{home.environment()['PATH']}"
    assert home.sync("pull", PATH=path).returncode == 0
    sent = [
        int(size.replace(",", ""))
        for size in re.findall(r"Literal data: ([\d,]+)", told.read_text())
    ]
    assert max(sent) < whole.stat().st_size // 5
    assert newest_verified(home.local).version == 0


def test_a_new_run_in_the_same_place_is_followed_although_its_numbers_are_lower(home):
    job = home.job()
    advance(job, 1)
    home.sync("pull")
    shutil.rmtree(home.shared)
    fresh = begin(home.shared, "slot-0", home.clock, seed=9)
    assert "pulled v0" in home.sync("pull").stdout
    from Daddy.weights.encoding.state_codec import decode

    assert close(decode(newest_verified(home.local).data), fresh.weights, 0.02)


def test_a_head_that_went_back_is_not_followed(home):
    job = home.job()
    old = (home.shared / "wan" / "HEAD.json").read_bytes()
    advance(job, 1)
    home.sync("pull")
    (home.shared / "wan" / "HEAD.json").write_bytes(old)
    done = home.sync("pull")
    assert done.returncode == 0
    assert "v1 is here already (the cluster's head shows v0 again)" in done.stdout


@pytest.mark.parametrize(
    ("words", "changes", "code", "said"),
    [
        (("pull",), {"SYNC_CLUSTER_HOST": ""}, 3, "SYNC_CLUSTER_HOST"),
        (("pull",), {"SYNC_REMOTE_DIR": ""}, 3, "SYNC_REMOTE_DIR"),
        (("pull", "", "~/w", "soon"), {}, 2, "'soon' is no number of seconds"),
        (("pull", "-oProxyCommand=x@h"), {}, 2, ""),
        (("pull", "a b@host"), {}, 2, "cannot be a user"),
        (("pull",), {"SYNC_REMOTE_DIR": "/x; rm -rf /"}, 2, "SYNC_REMOTE_DIR"),
        (("pull",), {"SYNC_SSH_PORT": "no"}, 2, "SYNC_SSH_PORT"),
        (("fetch",), {}, 2, "invalid choice"),
        (("pull",), {"SYNC_CLUSTER_HOST": "nowhere.invalid"}, 8, "cannot be resolved"),
        (("pull",), {"SYNC_REMOTE_DIR": "/not/there"}, 6, "offers no version"),
    ],
)
def test_bad_input_gives_one_message_and_the_documented_code(home, words, changes, code, said):
    done = home.sync(*words, **changes)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    if code != 2:
        assert done.stderr.count("error:") == 1
        assert "what to do:" in done.stderr


def test_an_unreachable_host_is_one_message_and_exit_8(home):
    refusing = home.home / "config"
    refusing.write_text(home.login.config.read_text().replace(str(home.login.port), "1"))
    done = home.sync("pull", SYNC_SSH_CONFIG=str(refusing))
    assert done.returncode == 8
    assert "refuses connections" in done.stderr


def test_an_unknown_and_a_changed_host_key_are_told_apart(home):
    known = home.home / "known"
    config = home.home / "config"
    text = home.login.config.read_text().replace(str(home.login.folder / "known_hosts"), str(known))
    config.write_text(text)
    known.write_text("")
    done = home.sync("pull", SYNC_SSH_CONFIG=str(config))
    assert (done.returncode, "not known here yet" in done.stderr) == (8, True)
    other = (home.login.folder / "client.pub").read_text().split()[:2]
    known.write_text(f"[127.0.0.1]:{home.login.port} {' '.join(other)}\n")
    done = home.sync("pull", "", str(home.local), "0.2", SYNC_SSH_CONFIG=str(config))
    assert (done.returncode, "another host key" in done.stderr) == (8, True)


def test_a_refused_key_names_the_line_that_helps(home):
    stranger = home.stranger()
    config = home.home / "config"
    config.write_text(home.login.config.read_text().replace(str(home.login.key), str(stranger)))
    done = home.sync("pull", SYNC_SSH_CONFIG=str(config))
    assert done.returncode == 8
    assert "ssh-copy-id" in done.stderr


def programs(folder: Path, *names: str) -> str:
    """Return a PATH with only these programs."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(shutil.which(name))
    return str(folder)


def test_without_rsync_sftp_pulls_and_the_message_says_how_to_install_it(home):
    home.job()
    path = programs(home.home / "bin", "ssh")
    done = sync_python(home, "pull", PATH=path)
    assert "pulled v0" in done.stdout
    for said in ("by SFTP from now on: rsync is not installed on this machine", "brew install"):
        assert said in done.stderr
    only = sync_python(home, "pull", PATH=path, SYNC_TRANSPORT="rsync")
    assert (only.returncode, "rsync is not installed" in only.stderr) == (9, True)


def test_setup_without_rsync_ends_with_the_pull_that_works(home):
    home.job()
    path = programs(home.home / "bin", "ssh", "ssh-keygen", "bash", "dirname")
    done = sync_python(home, "setup", PATH=path)
    assert "NO       rsync is installed here" in done.stdout
    assert "ok       sftp: carries files both ways" in done.stdout
    assert done.stdout.endswith("ready (by SFTP): ./Daddy/cluster/sync_weights.sh pull\n")
    pulled = sync_python(home, "pull", PATH=path)
    assert ("pulled v0" in pulled.stdout, pulled.stderr) == (True, "")


def test_without_an_installation_the_door_says_the_one_command(home, tmp_path):
    bare = tmp_path / "checkout" / "Daddy" / "cluster"
    bare.mkdir(parents=True)
    shutil.copy(SCRIPT, bare)
    done = subprocess.run(
        [str(bare / SCRIPT.name), "pull"], env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 9
    assert "./scripts/install" in done.stderr


def test_the_door_works_with_launchds_bare_path_and_through_a_link(home, tmp_path):
    home.job()
    link = tmp_path / "sync"
    link.symlink_to(SCRIPT)
    environment = home.environment(PATH="/usr/bin:/bin:/usr/sbin:/sbin")
    done = subprocess.run(
        [str(link), "pull"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_setup_tests_the_connection_and_remembers_it(home):
    home.job()
    done = home.sync("setup")
    assert done.returncode == 0, done.stderr
    for what in ("installed here", f"installed on {home.login.user}@cluster", "exists there"):
        assert any(line.startswith("ok") and what in line for line in done.stdout.splitlines())
    nothing = {"SYNC_CLUSTER_HOST": "", "SYNC_CLUSTER_USER": "", "SYNC_REMOTE_DIR": "",
               "SYNC_SSH_CONFIG": ""}  # fmt: skip
    again = home.sync("pull", **nothing)
    assert "pulled v0" in again.stdout, again.stderr


def test_setup_makes_a_key_when_there_is_none_and_says_how_to_install_it(home):
    home.job()
    changes = {"SYNC_SSH_CONFIG": "", "SYNC_SSH_PORT": str(home.login.port),
               "SYNC_CLUSTER_HOST": "127.0.0.1"}  # fmt: skip
    done = home.sync("setup", **changes)
    assert (home.home / ".ssh" / "id_ed25519").exists()
    assert f"ssh-copy-id -p {home.login.port} -i" in done.stdout
    assert 'restrict,command="python3 -I .config/daddy/receiver.py pull ' in done.stdout
    assert done.returncode == 8  # the key is not installed there, or the host not known, yet


def test_user_at_host_on_the_command_line_wins(home):
    home.job()
    done = home.sync("pull", f"{home.login.user}@cluster", str(home.local),
                     SYNC_CLUSTER_HOST="wrong.invalid", SYNC_CLUSTER_USER="nobody")  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("transport", ["rsync", "sftp"])
def test_an_ipv6_address_can_be_the_host(home, transport):
    home.job()
    config = home.home / "config"
    config.write_text(home.login.config.read_text().replace("Host cluster", "Host cluster ::1"))
    changes = {"SYNC_SSH_CONFIG": str(config), "SYNC_TRANSPORT": transport}
    done = home.sync("pull", SYNC_CLUSTER_HOST="::1", **changes)
    assert done.returncode == 0, done.stderr
    assert "pulled v0" in done.stdout


def test_ones_own_forwardings_are_not_opened(home):
    home.job()
    config = home.home / "config"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        forward = f"  LocalForward 127.0.0.1:{taken.getsockname()[1]} localhost:9\n"
        config.write_text(f"{home.login.config.read_text()}{forward}  ExitOnForwardFailure yes\n")
        done = home.sync("pull", SYNC_SSH_CONFIG=str(config))
    assert done.returncode == 0, done.stderr


def test_a_dead_shared_connection_is_replaced(home):
    home.job()
    child = subprocess.Popen(
        [str(SCRIPT), "pull", "", str(home.local), "0.2"],
        env=home.environment(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_until(lambda: newest_verified(home.local))
        wait_until(lambda: masters(home))
        for master in masters(home):
            os.kill(master, signal.SIGKILL)
        job = begin(home.shared, "slot-1", home.clock)
        advance(job, 4)
        home.clock.pass_by(60)
        job.adopt()
        wait_until(lambda: newest_verified(home.local).version >= 1)
    finally:
        child.terminate()
        child.communicate(timeout=PATIENCE_S)


def test_the_folder_paths_of_a_run_stay_as_they_were(home):
    """A pull changes nothing on the cluster."""
    home.job()
    before = {path: path.stat().st_mtime_ns for path in home.shared.rglob("*") if path.is_file()}
    home.sync("bidirectional")
    after = {path: path.stat().st_mtime_ns for path in home.shared.rglob("*") if path.is_file()}
    assert before == after
    assert SharedPaths(home.shared).head.exists()
