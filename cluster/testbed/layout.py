"""Every path of a test cluster's folder, and the file that remembers what was started.

``base`` is the folder as the person named it; ``root`` is the name that goes into configuration
files: the same, or a short link to it where the path is too long for a unix socket (108 bytes) or
holds characters that Slurm's files cannot express.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

FORMAT = 1
STATE_FILE = "testbed.json"
STATE_FILE_BEFORE = "sandbox.json"
"""Of a test cluster that the release before started, for one release."""
LONGEST_ROOT = 60
"""A step's socket adds 38 characters at most; 70 is where jobs silently fail to start."""
_PLAIN = re.compile(r"[A-Za-z0-9/._-]+")


@dataclass(frozen=True)
class Layout:
    """Paths below one root."""

    base: Path
    root: Path

    def __getattr__(self, name: str) -> Path:
        """Folders: ``etc run log state spool munge ssh home users db``."""
        if name in FOLDERS:
            return self.root / name
        raise AttributeError(name)

    @property
    def slurm_conf(self) -> Path:
        """What ``SLURM_CONF`` points at."""
        return self.root / "etc" / "slurm.conf"

    @property
    def ssh_config(self) -> Path:
        """For ``ssh -F``; in the base, because people type it."""
        return self.base / "ssh_config"

    @property
    def env_file(self) -> Path:
        """For ``source``."""
        return self.base / "env.sh"

    @property
    def state_file(self) -> Path:
        """What ``up`` knows."""
        return self.base / STATE_FILE

    @property
    def daemons_file(self) -> Path:
        """What the supervisor started."""
        return self.base / "run" / "daemons.json"

    @property
    def munge_socket(self) -> Path:
        """Where clients ask for credentials."""
        return self.root / "run" / "munge.socket"

    @property
    def user_files(self) -> Path:
        """The login node's passwd, shadow, group, hosts."""
        return self.base / "users"


FOLDERS = ("etc", "run", "log", "state", "spool", "munge", "ssh", "home", "users", "db")


@dataclass(frozen=True)
class State:
    """One testbed: how it was set up and who supervises it."""

    root: str
    mode: str
    """``namespace`` (a login node of its own) or ``loopback`` (an sshd on 127.0.0.1)."""
    slurm: bool
    host: str
    port: int
    user: str
    remote_port: int
    """Where ``ssh -R`` should listen on the login node."""
    friend: str
    """Second user of the login node, empty where there is none."""
    network: int
    """Number of the network of its own, 0 in loopback mode."""
    ports: list[int]
    """slurmctld, then one per node."""
    max_jobs: int
    path: str
    """What goes in front of PATH; empty where all programs are the system's."""
    slurm_version: str
    boot: str
    reason: str
    """Why this mode."""
    private_users: bool = False
    """passwd and its kin are the test cluster's own, seen by its processes only (root)."""
    made_run_sshd: bool = False
    """/run/sshd, which a root sshd insists on, is ours to remove."""
    database_port: int = 0
    """slurmdbd's."""
    packages: str = ""
    """Where programs and a copy of the accounting database are kept."""
    supervisor_pid: int = 0
    supervisor_start: int = 0
    format: int = FORMAT
    tools: dict[str, str] = field(default_factory=dict)


def open_layout(base: Path) -> Layout:
    """The layout of an existing folder, with the root its state names."""
    state = load_state(base)
    return Layout(base, Path(state.root) if state else base)


def choose_root(base: Path) -> Path:
    """``base`` itself, or a short link to it in the temporary folder."""
    if len(str(base)) <= LONGEST_ROOT and _PLAIN.fullmatch(str(base)):
        return base
    folder = Path(tempfile.mkdtemp(prefix="daddy-testbed-", dir="/tmp"))
    folder.chmod(0o755)
    link = folder / "s"
    link.symlink_to(base)
    return link


def drop_root(base: Path, root: str) -> None:
    """Remove the short link, if there is one."""
    link = Path(root)
    if link != base and link.is_symlink():
        link.unlink()
        link.parent.rmdir()


def save_state(base: Path, state: State) -> None:
    """Write the state whole or not at all."""
    write_text(base / STATE_FILE, json.dumps(asdict(state), indent=2) + "\n")


def load_state(base: Path) -> State | None:
    """The remembered state; None without one, or with one of another format or boot."""
    ours = base / STATE_FILE
    try:
        found = json.loads((ours if ours.exists() else base / STATE_FILE_BEFORE).read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        return None
    known = {key: value for key, value in found.items() if key in State.__dataclass_fields__}
    try:
        return State(**known)
    except TypeError:
        return None


def boot_id() -> str:
    """Names this boot of the machine: process ids of another boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def write_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file by rename, with these permissions."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    part.chmod(mode)
    part.replace(path)
