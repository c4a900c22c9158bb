"""Two accounts of one machine, real learners: umask 077, closed homes, a friend turning hostile.

As root each account is a separate user (a uid needs no entry in /etc/passwd); an interpreter in a
closed home is made visible to them by a mount of their own. Without root, both are the user who
runs the tests: the same steps, without the kernel's checks.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from Daddy.core.errors import ExitCode
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.store.rebuild_version import rebuild_state
from Daddy.weights.store.weight_store import Store
from scripts.version_history import read_history
from tests.patience import PATIENCE_S

CHECKOUT = Path(__file__).resolve().parents[2]
CLOSED = [str(parent) for parent in Path(sys.base_prefix).parents if not parent.stat().st_mode & 1][
    -1:
]
SHOWN = """
mkdir -p "$1" && mount --bind "$2" "$1" && mount -t tmpfs -o mode=755 tmpfs "$3" &&
mkdir -p "$2" && mount --bind "$1" "$2" && shift 3 && exec setpriv --reuid "$0" --regid "$0" \
--clear-groups "$@"
"""


def as_user(uid: int, place: Path) -> list[str]:
    """Return the prefix that runs a command as another user; ``place`` is an empty folder."""
    if not CLOSED:
        return ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    shown = ["sh", "-c", SHOWN, str(uid), str(place), sys.base_prefix, CLOSED[0]]
    return ["unshare", "--mount", "--propagation", "private", *shown]


def can_be_another() -> bool:
    """Return True if this process may start others as separate users."""
    if os.getuid():
        return False
    with tempfile.TemporaryDirectory() as place, contextlib.suppress(OSError):
        tried = [*as_user(20_011, Path(place)), sys.executable, "-c", "import Daddy"]
        return not subprocess.run(tried, cwd=CHECKOUT, check=False).returncode
    return False


ROOT = can_be_another()
OWNER, FRIEND = (20_011, 20_012) if ROOT else (os.getuid(), os.getuid())

HOSTILE = """
import os, pathlib, sys
os.umask(0o022)  # it is all to be read
anna = pathlib.Path(sys.argv[1])
slot = anna / "peers" / "anna.slot-1"
slot.mkdir(exist_ok=True)
real = sorted(anna.glob("peers/anna.slot-0/*"))[0]
for number, kind in enumerate(["link", "pipe", "sparse", "pickle", "elsewhere"]):
    folder = slot / f"{number:08x}"
    if kind == "elsewhere":
        folder.symlink_to("/proc/self")
        continue
    folder.mkdir()
    os.mkfifo(folder / "hb.json")
    path = folder / "000001.json"
    if kind == "link":
        path.symlink_to("/etc/shadow")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "sparse":
        with path.open("wb") as stream:
            stream.truncate(10 << 30)
    else:
        path.write_bytes(b"cos\\nsystem\\n(S'touch /tmp/owned'\\ntR.")
for number in range(100_000 if len(sys.argv) > 2 else 2_000):
    (anna / "peers" / f"x{number}").touch()
    (slot / f"x{number}").touch()
"""


@dataclass
class Account:
    """A person with a home, a uid and a umask."""

    home: Path
    uid: int
    umask: int
    join: str = ""
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def shared(self) -> SharedPaths:
        return SharedPaths(self.run / "shared_weights")

    def settle(self) -> Account:
        """Make a home that is closed to everybody else, with a config."""
        self.home.mkdir(mode=0o700)
        config = {
            "run_dir": str(self.run),
            "training": {
                "workload": "cartpole", "device": "cpu", "num_envs": 4, "total_steps": 0,
                "vector_backend": "serial",
                "rollout": 256, "batch_size": 128,
            },
            "collaboration": {"join": self.join, "sync_interval_steps": 256},
            "slurm": {"time_limit": "0:00:20"},
        }  # fmt: skip
        (self.home / "config.json").write_text(json.dumps(config))
        for path in (self.home, self.home / "config.json"):
            os.chown(path, self.uid, self.uid if ROOT else -1)
        return self

    def spawn(self, *argv: str) -> subprocess.Popen[str]:
        """Start a process of this account."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY", "SLURM"))}
        place = self.home.parent / "python"
        child = subprocess.Popen(
            [*(as_user(self.uid, place) if ROOT else []), sys.executable, "-W", "ignore", *argv],
            cwd=self.home.parent, umask=self.umask,
            env={**kept, "HOME": str(self.home), "USER": "x", "PYTHONPATH": str(CHECKOUT),
                 "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.started.append(child)
        return child

    def does(self, *argv: str) -> tuple[int, str]:
        child = self.spawn(*argv)
        out, _ = child.communicate(timeout=PATIENCE_S)
        return child.returncode, out

    def learner(self) -> subprocess.Popen[str]:
        return self.spawn("-m", "Daddy.train_slim", "--config", str(self.home / "config.json"))

    def learn_briefly(self) -> tuple[int, str]:
        return self.does("-m", "Daddy.train_slim", "--config", str(self.home / "config.json"))

    def kill(self) -> None:
        for child in self.started:
            if child.poll() is None:
                child.kill()
                child.wait()


@pytest.fixture
def accounts():
    base = Path(tempfile.mkdtemp(prefix="daddy-two-accounts-"))
    base.chmod(0o755)
    (base / "python").mkdir()
    owner = Account(base / "owner", OWNER, 0o022).settle()
    friend = Account(base / "anna", FRIEND, 0o077, str(owner.shared.root)).settle()
    try:
        yield owner, friend
    finally:
        for entry in (owner, friend):
            entry.kill()
        shutil.rmtree(base)


def wait_until(true, *children):
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        for child in children:
            assert child.poll() is None, child.communicate()[0]
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.2)


def versions(owner: Account) -> int:
    with contextlib.suppress(OSError):
        return Store(owner.shared).newest() or 0
    return 0


def contributors(owner: Account) -> list[str]:
    return read_history(owner.shared).contributors


def owners_below(folder: Path) -> set[int]:
    found = set()
    for path in [folder, *folder.rglob("*")]:
        with contextlib.suppress(FileNotFoundError):
            found.add(path.lstat().st_uid)
    return found


def test_two_accounts_learn_one_policy_and_neither_writes_at_the_others(accounts):
    owner, friend = accounts
    first = owner.learner()
    wait_until(lambda: versions(owner) >= 1, first)
    # closed homes are said by name, each with the line to type
    if ROOT:
        code, said = friend.learn_briefly()
        assert code == ExitCode.WEIGHTS, said
        assert f"chmod o+x {owner.home}" in said
    owner.home.chmod(0o711)
    code, said = friend.learn_briefly()
    assert code == ExitCode.WEIGHTS, said
    assert f"friends add YOUR-NAME {friend.shared.root} --of {owner.shared.root}" in said
    line = ("-m", "Daddy.weights.friends", "add", "anna", str(friend.shared.root),
            "--of", str(owner.shared.root))  # fmt: skip
    if ROOT:
        code, said = owner.does(*line)
        assert code != 0
        assert "chmod o+x" in said
    friend.home.chmod(0o711)
    friend.run.chmod(0o711)
    code, said = owner.does(*line)
    assert code == ExitCode.DONE, said
    if ROOT:
        friend.home.chmod(0o700)
        _, said = owner.does("-m", "Daddy.weights.friends", "list", "--of", str(owner.shared.root))
        assert f"ask for chmod o+x {friend.home}" in said
        friend.home.chmod(0o711)
    # both learn: the friend under umask 077
    second = friend.learner()
    wait_until(lambda: "anna.slot-0" in contributors(owner), first, second)
    seen = versions(owner)
    wait_until(lambda: versions(owner) >= seen + 2, first, second)
    assert {"slot-0", "anna.slot-0"} <= set(contributors(owner))
    for entry in (owner, friend):
        place = str(entry.shared.root)
        code, page = entry.does("-m", "Daddy.weights.status", place)
        assert code == ExitCode.DONE, page
        assert "2 jobs at work" in page
        assert {"slot-0", "anna.slot-0"} <= set(page.split())
    # neither has written at the other's, nor can
    assert owners_below(owner.home) == {OWNER}
    assert owners_below(friend.home) == {FRIEND}
    if ROOT:
        for item, other in ((owner, friend), (friend, owner)):
            for place in (other.shared.root, other.shared.blobs, other.shared.peers):
                code, said = item.does("-c", f"open({str(place / 'x')!r}, 'w')")
                assert code != 0
                assert "PermissionError" in said
    # the friend turns hostile, the owner goes on
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=PATIENCE_S)
    code, said = friend.does("-c", HOSTILE, str(friend.shared.root))
    assert code == 0, said
    seen = versions(owner)
    wait_until(lambda: versions(owner) >= seen + 3, first)
    wait_until(lambda: "holds more than 256 names" in told_by(owner), first)
    first.send_signal(signal.SIGTERM)
    out, _ = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == ExitCode.DRAINED, out
    history, store = read_history(owner.shared), Store(owner.shared)
    assert history.chained
    assert history.contributors == ["anna.slot-0", "slot-0"]
    assert rebuild_state(store, history.versions[-1]) == store.read_blob(history.versions[-1].state)
    assert owners_below(owner.home) == {OWNER}
    assert told_by(owner).count("holds more than 256 names") == 1


def told_by(account) -> str:
    return "".join(path.read_text() for path in (account.run / "events").glob("learner-*.jsonl"))
