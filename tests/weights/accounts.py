"""Accounts of one machine: homes of their own and, as root, users of their own.

As root each account is a separate user (a uid needs no entry in /etc/passwd); an interpreter in a
closed home is made visible to them by a mount of their own. Without root, all are the user who
runs the tests: the same steps, without the kernel's checks.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from Daddy.core.shared_weights_paths import SharedPaths
from tests.patience import PATIENCE_S

CHECKOUT = Path(__file__).resolve().parents[2]
CLOSED = [str(parent) for parent in Path(sys.base_prefix).parents if not parent.stat().st_mode & 1][
    -1:
]
SHOWN = """
mkdir -p "$0" && mount --bind "$1" "$0" && mount -t tmpfs -o mode=755 tmpfs "$2" &&
mkdir -p "$1" && mount --bind "$0" "$1" && shift 2 && exec "$@"
"""


def as_user(uid: int, gid: int, place: Path) -> list[str]:
    """Return the prefix that runs a command as another user; ``place`` is an empty folder."""
    user = ["setpriv", "--reuid", str(uid), "--regid", str(gid), "--clear-groups"]
    if not CLOSED:
        return user
    shown = ["sh", "-c", SHOWN, str(place), sys.base_prefix, CLOSED[0]]
    return ["unshare", "--mount", "--propagation", "private", *shown, *user]


def can_be_another() -> bool:
    """Return True if this process may start others as separate users."""
    if os.getuid():
        return False
    with tempfile.TemporaryDirectory() as place, contextlib.suppress(OSError):
        tried = [*as_user(20_011, 20_011, Path(place)), sys.executable, "-c", "import Daddy"]
        return not subprocess.run(tried, cwd=CHECKOUT, check=False).returncode
    return False


ROOT = can_be_another()
OWNER, FRIEND, STRANGER = (20_011, 20_012, 20_013) if ROOT else (os.getuid(),) * 3


@dataclass
class Account:
    """A person with a home, a uid and a umask."""

    home: Path
    uid: int
    umask: int
    join: str = ""
    gid: int = 0
    """The group, if not the account's own."""
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
        user = as_user(self.uid, self.gid or self.uid, self.home.parent / "python") if ROOT else []
        child = subprocess.Popen(
            [*user, sys.executable, "-W", "ignore", *argv],
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
