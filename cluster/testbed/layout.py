"""Defines every path of a test cluster's folder, and its state file.

``base`` is the folder that the person named. ``root`` is its path in configuration files: the same,
or a short symbolic link to it where the path is too long for a unix socket (108 bytes) or has
characters that Slurm's files do not allow.
"""

import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

FORMAT = 1
STATE_FILE = "testbed.json"
STATE_FILE_BEFORE = "sandbox.json"
"""State file of a test cluster that the previous release started; read for one release."""
LONGEST_ROOT = 60
"""Longest root, in characters; from 70 on a step's socket (38 more) fails and jobs never start."""
_PLAIN = re.compile(r"[A-Za-z0-9/._-]+")


@dataclass(frozen=True)
class Layout:
    """Holds the paths below one root."""

    base: Path
    root: Path

    def __getattr__(self, name: str) -> Path:
        """Return a folder: ``etc run log state spool munge ssh home users db``."""
        if name in FOLDERS:
            return self.root / name
        raise AttributeError(name)

    @property
    def slurm_conf(self) -> Path:
        """The file for ``SLURM_CONF``."""
        return self.root / "etc" / "slurm.conf"

    @property
    def ssh_config(self) -> Path:
        """The file for ``ssh -F``; in ``base``, because people type its path."""
        return self.base / "ssh_config"

    @property
    def env_file(self) -> Path:
        """The file for ``source``."""
        return self.base / "env.sh"

    @property
    def state_file(self) -> Path:
        """The file with the state that ``up`` saves."""
        return self.base / STATE_FILE

    @property
    def daemons_file(self) -> Path:
        """The file with the supervisor's running daemons."""
        return self.base / "run" / "daemons.json"

    @property
    def munge_socket(self) -> Path:
        """The socket of munged."""
        return self.root / "run" / "munge.socket"

    @property
    def user_files(self) -> Path:
        """The folder of the login node's passwd, shadow, group and hosts."""
        return self.base / "users"


FOLDERS = ("etc", "run", "log", "state", "spool", "munge", "ssh", "home", "users", "db")


@dataclass(frozen=True)
class State:
    """Holds the settings and the supervisor of a started test cluster."""

    root: str
    mode: str
    """``namespace`` (a login node of its own) or ``loopback`` (an sshd on 127.0.0.1)."""
    slurm: bool
    host: str
    port: int
    user: str
    remote_port: int
    """Port on the login node for ``ssh -R``."""
    friend: str
    """Second user of the login node, empty where there is none."""
    network: int
    """Number of its own network, 0 in loopback mode."""
    ports: list[int]
    """Port of slurmctld, then one per node."""
    max_jobs: int
    path: str
    """Folder to put in front of PATH; empty where all programs are the system's."""
    slurm_version: str
    boot: str
    reason: str
    """Reason for the mode."""
    private_users: bool = False
    """The test cluster's processes see its own passwd, shadow and group (root only)."""
    made_run_sshd: bool = False
    """``up`` created /run/sshd, which root's sshd needs, so ``down`` removes it."""
    database_port: int = 0
    """Port of slurmdbd."""
    packages: str = ""
    """Folder of the programs and of the accounting database's copy."""
    supervisor_pid: int = 0
    supervisor_start: int = 0
    format: int = FORMAT
    tools: dict[str, str] = field(default_factory=dict)


def open_layout(base: Path) -> Layout:
    """Return the layout of an existing folder, with the root of its state."""
    state = load_state(base)
    return Layout(base, Path(state.root) if state else base)


def choose_root(base: Path) -> Path:
    """Return ``base``, or a new short link to it in the temporary folder."""
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
    """Write the state file by rename."""
    write_text(base / STATE_FILE, json.dumps(asdict(state), indent=2) + "\n")


def load_state(base: Path) -> State | None:
    """Read the state file; None where it is missing, damaged or of another format."""
    path = base / STATE_FILE
    try:
        record = json.loads((path if path.exists() else base / STATE_FILE_BEFORE).read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        return None
    fields = {key: value for key, value in record.items() if key in State.__dataclass_fields__}
    try:
        return State(**fields)
    except TypeError:
        return None


def boot_id() -> str:
    """Return the id of this boot: process ids of an earlier boot are not valid."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def write_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file by rename, with these permissions."""
    temp = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temp.chmod(mode)
    temp.replace(path)
