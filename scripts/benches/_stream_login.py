"""Runs a real sshd, and a real ``ssh -R`` into it over the test cluster's shaped link."""

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.errors import SchedulerError
from Daddy.core.load_config import CHECKOUT

_SYSTEM = ":/usr/sbin:/usr/local/sbin:/sbin"
_SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/client.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
AllowTcpForwarding yes
"""
_SSH = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "no",
    "UserKnownHostsFile": "/dev/null",
    "ExitOnForwardFailure": "yes",
    "IdentitiesOnly": "yes",
    "LogLevel": "ERROR",
}
_UP_S = 60.0


@dataclass(frozen=True)
class Line:
    """A link between laptop and login node: ``mbit_s`` each way, ``rtt_ms`` there and back."""

    mbit_s: float
    rtt_ms: float

    def __str__(self) -> str:
        return f"{self.mbit_s:g} Mbit/s {self.rtt_ms:g} ms"


@dataclass(frozen=True)
class Login:
    """The port of a running sshd, and the folder with its keys."""

    folder: Path
    port: int

    def ssh(self, line: Line | None, *options: str) -> list[str]:
        """Return an ssh command, which goes over ``line`` if one is given."""
        flags = [part for name, value in _SSH.items() for part in ("-o", f"{name}={value}")]
        if line:
            flags += ["-o", f"ProxyCommand={_proxy(line)} %h %p"]
        key = ("-i", str(self.folder / "client"), "-p", str(self.port))
        return ["ssh", "-F", "none", *flags, *key, *options, f"{getpass.getuser()}@127.0.0.1"]


def _proxy(line: Line) -> str:
    shape = f"--delay-ms {line.rtt_ms / 2} --kilobytes {line.mbit_s * 125}"
    return f"{shlex.quote(str(CHECKOUT / 'cluster' / 'testbed' / 'door'))} shape {shape}"


@contextmanager
def login_node(folder: Path) -> Iterator[Login]:
    """Start sshd on a free port; SchedulerError if it is not installed."""
    program = shutil.which("sshd", path=os.environ.get("PATH", "") + _SYSTEM)
    if program is None or shutil.which("ssh") is None:
        raise SchedulerError("no sshd and ssh on this machine", "apt-get install openssh-server")
    folder.mkdir(parents=True)
    for name in ("host", "client"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(key, check=True, timeout=60)
    port = free_port()
    (folder / "sshd_config").write_text(_SSHD.format(port=port, folder=folder))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    argv = [program, "-D", "-e", "-f", str(folder / "sshd_config")]
    with (folder / "log").open("wb") as log, child(argv, stderr=log):
        wait_for(lambda: is_open(port), f"sshd did not start: see {folder / 'log'}")
        yield Login(folder, port)


@contextmanager
def tunnel(login: Login, line: Line | None, local: int) -> Iterator[tuple[int, int]]:
    """Run ``ssh -N -R remote:127.0.0.1:local``; yield the remote port and ssh's pid."""
    remote = free_port()
    argv = login.ssh(line, "-N", "-R", f"{remote}:127.0.0.1:{local}")
    with child(argv) as ssh:
        wait_for(lambda: is_open(remote), "ssh -R did not come up")
        yield remote, ssh.pid


@contextmanager
def ours(
    module: str, *args: object, home: Path, log: Path, **more: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a module of this project as a process with a home of its own."""
    env = {
        **os.environ,
        "HOME": str(home),
        "PYTHONPATH": str(CHECKOUT),
        "PYTHONUNBUFFERED": "1",
        **more,
    }
    argv = [sys.executable, "-m", module, *map(str, args)]
    with log.open("wb") as out, child(argv, stdout=out, stderr=out, env=env) as process:
        yield process


@contextmanager
def child(argv: list[str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a child process that ends with the block, also if it was stopped or the block failed."""
    process = subprocess.Popen(argv, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def free_port() -> int:
    """Return a loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_open(port: int) -> bool:
    """Return True if the port accepts connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition: Callable[[], object], message: str) -> None:
    """Wait until the condition is true; SchedulerError after a minute."""
    give_up = time.monotonic() + _UP_S
    while not condition():
        if time.monotonic() > give_up:
            raise SchedulerError(message)
        time.sleep(0.02)
