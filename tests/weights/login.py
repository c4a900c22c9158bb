"""A real sshd on loopback with keys of its own: a "cluster" for one test session."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.patience import PATIENCE_S

CHECKOUT = Path(__file__).resolve().parents[2]
SCRIPT = CHECKOUT / "Daddy" / "cluster" / "sync_weights.sh"


@dataclass(frozen=True)
class Login:
    folder: Path
    port: int
    user: str

    @property
    def key(self) -> Path:
        return self.folder / "client"

    @property
    def config(self) -> Path:
        return self.folder / "ssh_config"

    def environment(self, home: Path, shared: Path) -> dict[str, str]:
        """Return the variables that a person would export, in an empty home."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {
            **kept,
            "HOME": str(home),
            "SYNC_CLUSTER_HOST": "cluster",
            "SYNC_CLUSTER_USER": self.user,
            "SYNC_REMOTE_DIR": str(shared),
            "SYNC_SSH_CONFIG": str(self.config),
        }


@contextlib.contextmanager
def running_sshd(folder: Path, sshd: str, settings: str = "") -> Iterator[Login]:
    """Run sshd; ``settings``: lines for sshd_config that take precedence."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("host", "client"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, timeout=PATIENCE_S)
    shutil.copy(folder / "client.pub", folder / "authorized_keys")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    login = Login(folder, port, getpass.getuser())
    _write_configs(login, settings)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    log = (folder / "sshd.log").open("wb")
    child = subprocess.Popen(
        [sshd, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log, stdin=subprocess.DEVNULL
    )
    try:
        _wait_for(port, child)
        yield login
    finally:
        child.terminate()
        child.wait(timeout=PATIENCE_S)
        log.close()


def _write_configs(login: Login, settings: str) -> None:
    folder = login.folder
    (folder / "sshd_config").write_text(
        f"{settings}\nPort {login.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\n"
        f"PidFile {folder}/sshd.pid\n"
        f"AuthorizedKeysFile {folder}/authorized_keys {folder}/home/.ssh/authorized_keys\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\n"
        "KexAlgorithms curve25519-sha256\n"  # the usual one takes a third of a login's time
        + "Subsystem sftp internal-sftp\n"
        * ("Subsystem" not in settings)
    )
    host_key = (folder / "host.pub").read_text().split()[:2]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{login.port} {' '.join(host_key)}\n")
    login.config.write_text(
        f"Host cluster\n  HostName 127.0.0.1\n  Port {login.port}\n"
        f"  IdentityFile {login.key}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known_hosts\n"
    )


def _wait_for(port: int, child: subprocess.Popen[bytes]) -> None:
    for _ in range(100):
        assert child.poll() is None, "sshd ended at once"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError("sshd does not listen")
