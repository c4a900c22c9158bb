"""`--contribute` hands in by itself: a real sshd and rsync, a child that ends with its parent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from Daddy.background.laptop_tasks import PushLogReporter, push_contributions, push_rest
from Daddy.core.atomic_files import sha256_hex
from Daddy.core.clock import SystemClock
from Daddy.core.host_and_processes import ProcessId
from Daddy.weights import laptop_attachments
from Daddy.weights.laptop.pull_push import list_outbox
from Daddy.weights.merge.contributions import box_name
from Daddy.weights.store.weight_records import Contribution
from tests.components import program
from tests.patience import PATIENCE_S
from tests.weights.login import Login, running_sshd

OWN = "0a" * 4


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Login]:
    program("rsync", "rsync")
    with running_sshd(tmp_path_factory.mktemp("sshd"), program("sshd", "openssh-server")) as found:
        yield found


@pytest.fixture
def environment(login: Login, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = login.environment(tmp_path / "home", tmp_path / "run")
    (tmp_path / "home").mkdir()
    (tmp_path / "run" / "inbox" / "anna").mkdir(parents=True)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


def soon(what: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.1)


def test_what_lies_in_the_outbox_arrives(tmp_path: Path, environment: dict[str, str]) -> None:
    local, said = tmp_path / "shared", list[str]()
    sha = laptop_attachments.queue_attachment(local, "anna", OWN, 1, b"a milestone")
    log, home = tmp_path / "push.log", tmp_path / "home"
    box = tmp_path / "run" / "inbox" / "anna"
    before = set(psutil.Process().children(recursive=True))
    with push_contributions(local, log, environment, home, SystemClock(), said.append):
        soon(lambda: list(box.glob("*.claim")))
        child = set(psutil.Process().children(recursive=True)) - before
        assert child
    assert [path.read_bytes() for path in box.iterdir()] == [b"a milestone"]
    assert laptop_attachments.queued_hashes(local, "anna") == {sha}
    assert said == [f"contributions are pushed every 15 s (log: {log})"]
    soon(lambda: not any(p.is_running() and p.status() != "zombie" for p in child), 20)


def offer_in_outbox(local: Path) -> Path:
    offer = Contribution(
        run_id="a" * 16, schema="a" * 64, peer="anna", incarnation=OWN, sequence=1,
        blob=sha256_hex(b"x"), size=1, base_version=0, base_state="b" * 64,
        env_steps=1, new_steps=1, optimizer_steps=1,
    )  # fmt: skip
    box = local / "outbox" / "anna"
    box.mkdir(parents=True, exist_ok=True)
    (box / f"{box_name(offer)}.st").write_bytes(b"x")
    record = box / f"{box_name(offer)}.json"
    record.write_bytes(offer.to_json_bytes())
    return record


def test_the_last_contribution_is_pushed_when_the_session_ends(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    local, said = tmp_path / "shared", list[str]()
    log, box = tmp_path / "push.log", tmp_path / "run" / "inbox" / "anna"
    laptop_attachments.queue_attachment(local, "anna", OWN, 1, b"a milestone")
    with push_contributions(local, log, environment, tmp_path / "home", SystemClock(), said.append):
        soon(lambda: list(box.glob("*.claim")))  # the next push is 15 s away
        record = offer_in_outbox(local)
    assert said[1:] in ([], ["pushing the last contribution"])  # []: a slow machine's next push
    assert (box / record.name).exists()
    assert list_outbox(local) == []


def test_contributions_that_cannot_be_pushed_at_the_end_are_told(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNC_SSH_CONFIG", str(tmp_path / "none"))
    offer_in_outbox(tmp_path)
    said = list[str]()
    push_rest(tmp_path, said.append)
    assert said[1] == (
        f"contributions that stay in {tmp_path}/outbox: 1; the next session pushes them"
    )


def test_without_a_cluster_it_says_that_work_waits_and_where(tmp_path: Path) -> None:
    said = list[str]()
    with push_contributions(tmp_path, tmp_path / "log", {}, tmp_path, SystemClock(), said.append):
        pass
    assert f"wait in {tmp_path}/outbox" in said[0]
    assert "setup" in said[1]
    assert not (tmp_path / "log").exists()


def test_trouble_on_the_way_is_one_line(tmp_path: Path, environment: dict[str, str]) -> None:
    said, far = list[str](), {**environment, "SYNC_SSH_CONFIG": str(tmp_path / "ssh_config")}
    (tmp_path / "ssh_config").write_text("Host *\n  ProxyCommand false\n")
    laptop_attachments.queue_attachment(tmp_path / "shared", "anna", OWN, 1, b"x")
    os.environ["SYNC_SSH_CONFIG"] = far["SYNC_SSH_CONFIG"]
    try:
        where = (tmp_path / "shared", tmp_path / "log", far, tmp_path / "home")
        with push_contributions(*where, SystemClock(), said.append):
            soon(lambda: len(said) > 1)
    finally:
        os.environ["SYNC_SSH_CONFIG"] = environment["SYNC_SSH_CONFIG"]
    assert said[1].startswith("push: ")
    assert len(said[1]) < 320


def test_that_it_ended_is_said_once(tmp_path: Path) -> None:
    said, log = list[str](), tmp_path / "log"
    log.write_text("pushed 1 contribution(s)\nerror: the host key changed")
    watcher = PushLogReporter(ProcessId(2**22 + 7, 0.0), log, said.append)
    watcher.report_new_lines()
    watcher.report_new_lines()
    assert said == [
        "push: error: the host key changed",
        "push has ended; contributions wait in the outbox",
    ]


def test_the_child_ends_when_its_parent_is_killed(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    code = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from Daddy.core.clock import SystemClock\n"
        "from Daddy.background.laptop_tasks import push_contributions\n"
        "root = Path(sys.argv[1])\n"
        "where = (root / 's', root / 'log', os.environ, root, SystemClock(), print)\n"
        "with push_contributions(*where):\n"
        "    print('up', flush=True)\n"
        "    time.sleep(60)\n"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    env = {**environment, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        soon(lambda: "up" in parent.stdout.readline())
        children = psutil.Process(parent.pid).children()
        soon(lambda: (tmp_path / "log").exists() and (tmp_path / "log").stat().st_size)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait(PATIENCE_S)
        assert children
        soon(lambda: not any(p.is_running() and p.status() != "zombie" for p in children))
