"""A live run is closed to other accounts, and open to a friend as far as it must be."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from Daddy.core.errors import ExitCode
from Daddy.core.host_and_processes import command_lines
from Daddy.core.run_paths import RUN_NAMES, RunPaths
from Daddy.weights.store.weight_store import Store
from scripts.version_history import read_history
from tests.patience import until
from tests.streaming.helpers import free_port
from tests.weights.accounts import FRIEND, OWNER, ROOT, STRANGER, Account

TRY = """
import os, sys
for path in open(sys.argv[1]).read().split("\\0"):
    try:
        found = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        continue
    print(path)
"""
"""Prints those of the paths in a file that can be listed or read."""
CONTROLLER = "Daddy.cluster.orchestrator.run_controller"


def controls(account: Account, word: str, *more: str) -> str:
    """Type a command of ``run_controller``; return its output."""
    code, said = account.does(
        "-m", CONTROLLER, word, *more, "--config", str(account.home / "config.json")
    )
    assert code in (ExitCode.DONE, 20), said
    return said


def trains(account: Account) -> None:
    """Let the account's run have one slot on the local queue, and a relay."""
    path = account.home / "config.json"
    config = json.loads(path.read_text())
    config["slurm"] = {"time_limit": "0:02:00", "max_running": 1}
    config["training"]["stream_port"] = free_port()
    config["controller"] = {"executor": "local", "poll_seconds": 1}
    path.write_text(json.dumps(config))


@pytest.fixture
def accounts():
    base = Path(tempfile.mkdtemp(prefix="daddy-closed-run-"))
    base.chmod(0o755)
    (base / "python").mkdir()
    owner = Account(base / "owner", OWNER, 0o022).settle()
    friend = Account(base / "anna", FRIEND, 0o022, str(owner.shared.root)).settle()
    for account in (owner, friend):
        trains(account)
        account.home.chmod(0o711)
    try:
        yield owner, friend
    finally:
        for account in (owner, friend):
            if RunPaths(account.run).intent.exists():
                controls(account, "stop", "--now")
            account.kill()
        # a controller's last files would make the folder again
        assert until(lambda: not any(str(base) in line for line in command_lines().values()))
        shutil.rmtree(base)


def seen_by(account: Account, uid: int, gid: int) -> set[str]:
    """Return the names in the account's run that a user can list or read, "" for the folder."""
    paths = [account.run, *account.run.rglob("*")]
    listing = account.home.parent / "listing"
    listing.write_text("\0".join(map(str, paths)))
    _, said = Account(account.home, uid, 0o022, gid=gid).does("-c", TRY, str(listing))
    return {str(Path(line).relative_to(account.run)) for line in said.splitlines()}


def check_closed(account: Account, *passed: str) -> None:
    """Check that nobody else sees anything of a run but the names ``passed``."""
    made = {path.name for path in account.run.iterdir()} - {"notes", *passed}
    assert {name for name in made if not name.startswith(".tmp-")} <= RUN_NAMES
    for path in [account.run / name for name in made]:
        assert not path.lstat().st_mode & 0o077, path
    if ROOT:
        for gid in (STRANGER, account.uid):  # also one in the owner's group
            seen = seen_by(account, STRANGER, gid)
            assert {Path(name).parts[0] for name in seen if name != "."} <= {*passed}
            assert "." not in seen


def test_a_stranger_sees_nothing_of_a_live_run_and_a_friend_takes_part(accounts):
    owner, friend = accounts
    run = RunPaths(owner.run)
    # what a release before left, open, and a file of the person's
    for folder in (run.archive / "a1", owner.run / "notes"):
        folder.mkdir(parents=True)
        (folder / "state").write_bytes(b"\0")
    (run.archive / "link").symlink_to(owner.run / "notes" / "state")
    for path in (owner.run, *owner.run.rglob("*")):
        os.chown(path, OWNER, OWNER if ROOT else -1, follow_symlinks=False)
    owner.run.chmod(0o2755)
    controls(owner, "start")
    assert until(lambda: run.shared_weights.exists() and Store(owner.shared).newest())
    check_closed(owner)
    assert owner.run.stat().st_mode & 0o7777 == 0o2700
    assert (owner.run / "notes" / "state").stat().st_mode & 0o777 == 0o644
    assert (run.archive / "a1" / "state").stat().st_mode & 0o777 == 0o600
    # the friend is added: the owner types the printed lines
    friend.shared.root.mkdir(parents=True)
    for path in (friend.run, friend.shared.root):
        os.chown(path, FRIEND, FRIEND if ROOT else -1)
    line = ("-m", "Daddy.weights.friends", "add", "anna", str(friend.shared.root),
            "--of", str(owner.shared.root))  # fmt: skip
    code, said = owner.does(*line)
    assert code == ExitCode.DONE, said
    typed = [line.strip() for line in said.splitlines() if line.strip().startswith("chmod")]
    assert typed == [f"chmod go+x {owner.run}", f"chmod -R go+rX {owner.shared.root}"]
    seen = Store(owner.shared).newest() or 0
    assert until(lambda: (Store(owner.shared).newest() or 0) >= seen + 2)  # begun with the friend
    for line in typed:
        subprocess.run(shlex.split(line), check=True)
    controls(owner, "start")
    assert owner.run.stat().st_mode & 0o7777 == 0o2711
    controls(friend, "start")
    assert until(lambda: "anna.slot-0" in read_history(owner.shared).contributors)
    check_closed(owner, "shared_weights", "notes")
    check_closed(friend, "shared_weights")
    # the friend's viewer comes by the friend's own run
    attach = RunPaths(friend.run).stream / "attach"
    assert until(attach.exists)
    viewer = friend.spawn("-c", f"import os; os.execvp('sh', ['sh', {str(attach)!r}])")
    assert viewer.stdout is not None
    assert viewer.stdout.readline().startswith("daddy")
    viewer.send_signal(signal.SIGTERM)
    # without friends all is closed again
    code, said = owner.does("-m", "Daddy.weights.friends", "remove", "anna",
                            "--of", str(owner.shared.root))  # fmt: skip
    assert code == ExitCode.DONE, said
    controls(owner, "start")
    check_closed(owner)
