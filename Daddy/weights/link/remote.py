"""The ssh side of a transfer: options, one shared connection, and what a failure means to a person.

One master connection per host and key serves all transfers of a run, so that polling every few
seconds is not thousands of logins a day. A master that died in its sleep is found (``-O check``
with a short limit) and replaced; ours ends with us. ssh never asks: a laptop's agent has nobody to
answer. Where a person has opened the connection (``login``), everything goes over that one or not
at all, and its end is said.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from Daddy.core import process
from Daddy.core.errors import DaddyError, NetworkError
from Daddy.core.masters import master_socket, opened_socket
from Daddy.core.remembered import SETUP
from Daddy.weights.link.sync_settings import Remote

CONNECT_S = 10
CHECK_S = 5.0
OPTIONS = (
    "BatchMode=yes",
    f"ConnectTimeout={CONNECT_S}",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=2",
    "StrictHostKeyChecking=yes",
)
MASTER = ("ControlMaster=auto", "ControlPersist=90")
LOGIN = "./Daddy/cluster/sync_weights.sh login"


class HostKeyChangedError(NetworkError):
    """The host shows another key than before: nothing is tried again until a person has looked."""


@dataclass(frozen=True, slots=True)
class Ssh:
    """How to reach one remote. ``socket`` is the control socket's path, without ``%C``."""

    remote: Remote
    socket: Path

    @property
    def opened(self) -> Path:
        """Control socket of the connection that a person opens."""
        return opened_socket(self.socket)

    def options(self) -> list[str]:
        """Everything between ``ssh`` and the host."""
        return [*self.whom(), *_as_options((*OPTIONS, *self._way()))]

    def whom(self) -> list[str]:
        """The part of the options that says with which settings, port and key."""
        remote = self.remote
        words = ["-F", str(Path(remote.ssh_config).expanduser())] if remote.ssh_config else []
        words += ["-p", remote.port] if remote.port else []
        if remote.key:
            words += ["-i", str(Path(remote.key).expanduser()), "-o", "IdentitiesOnly=yes"]
        if remote.within is not None:  # an agent's keys would be tried before ours
            words += ["-o", "IdentityAgent=none"]
        return words

    def alone(self) -> list[str]:
        """Options for one command over a connection of its own."""
        return [*self.whom(), *_as_options((*OPTIONS, "ControlMaster=no", "ControlPath=none"))]

    def asking(self) -> list[str]:
        """Options to open the person's connection: ssh may ask, and stays behind as a master."""
        told = [word for word in OPTIONS if word != "BatchMode=yes"]
        stay = ("ControlMaster=yes", "ControlPersist=yes", f"ControlPath={self.opened}")
        return [*self.whom(), *_as_options((*told, *stay)), "-f", "-N"]

    def _way(self) -> tuple[str, ...]:
        if self.remote.opened:  # no other way: ssh would try a login of its own
            return ("ControlMaster=no", f"ControlPath={self.opened}", "ProxyCommand=false")
        return (*MASTER, f"ControlPath={self.socket}-%C")

    def command(self) -> str:
        """For rsync's ``-e``, which splits it like a shell does."""
        return shlex.join(["ssh", *self.options()])

    def run(self, words: Sequence[str], timeout_s: float) -> process.Completed:
        """Run a command there; ``words`` are quoted for the shell over there."""
        argv = ["ssh", *self.options(), "--", self.remote.login, shlex.join(words)]
        return process.run(argv, timeout_s)

    def drop_dead_master(self) -> None:
        """End and unlink a master that no longer answers; harmless when there is none.

        One that a person opened cannot be replaced: NetworkError says that it has ended.
        """
        if self.remote.opened:
            self._must_be_open()
            return
        if not list(self.socket.parent.glob(f"{self.socket.name}-*")):
            return
        if self._control("check"):
            return
        self._control("exit")
        for path in self.socket.parent.glob(f"{self.socket.name}-*"):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """End the shared connection, unless a person opened it."""
        if not self.remote.opened:
            self._control("exit")

    def is_open(self) -> bool:
        """Whether the shared connection lives."""
        return self._control("check")

    def _must_be_open(self) -> None:
        if not self.is_open():
            raise NetworkError(
                f"the connection to {self.remote.login} that you opened has ended",
                f"open it again: {LOGIN}; if a key alone is enough there: {SETUP}",
            )

    def _control(self, verb: str) -> bool:
        argv = ["ssh", *self.options(), "-O", verb, "--", self.remote.login]
        with contextlib.suppress(process.ProcessTimeoutError):
            return process.run(argv, CHECK_S).returncode == 0
        return False


def _as_options(words: Sequence[str]) -> list[str]:
    return [part for word in words for part in ("-o", word)]


def connect(remote: Remote) -> Ssh:
    """An :class:`Ssh` with a private socket folder; nothing is connected yet."""
    socket = master_socket(remote.login, remote.port, remote.key, remote.ssh_config)
    return Ssh(remote, socket)


def explain(stderr: str, remote: Remote) -> DaddyError:
    """What went wrong between here and there, and what to do about it."""
    refused = re.search(r"Permission denied \(([a-z,-]+)\)", stderr)
    if refused and "publickey" not in refused[1]:  # the key was taken, and did not do
        return NetworkError(f"{remote.login} asks for more than a key", f"log in once: {LOGIN}")
    if refused and remote.within is not None:
        return NetworkError(f"{remote.login} refuses the key {remote.key}", f"run: {SETUP}")
    for sign, message, fix in _SIGNS:
        if sign in stderr:
            kind = HostKeyChangedError if sign == _CHANGED else NetworkError
            return kind(message.format(login=remote.login, folder=remote.folder),
                        fix.format(login=remote.login, host=remote.host))  # fmt: skip
    last = next((line for line in reversed(stderr.strip().splitlines()) if line.strip()), "")
    return NetworkError(
        f"{remote.login} cannot be reached: {last or 'no reason was given'}",
        f"try: ssh {remote.login} true; or run: {SETUP}",
    )


_CHANGED = "REMOTE HOST IDENTIFICATION HAS CHANGED"
_SIGNS = (
    (_CHANGED, "{login} shows another host key than before",
     "ask the cluster's people whether it changed; if so: ssh-keygen -R {host}, then ssh {login}"),
    ("Host key verification failed", "the host key of {login} is not known here yet",
     "run once: ssh {login}; compare the fingerprint with the cluster's page and answer yes"),
    ("Permission denied (13)", "{login} may not read or write what was asked for in {folder}",
     f"see who may use the folder there; are the keys what they were? {SETUP}"),
    ("Permission denied", "{login} refuses our key",
     f"install the key: ssh-copy-id {{login}} (or: {SETUP}); if it asks for more: {LOGIN}"),
    ("Could not resolve hostname", "the name of {login} cannot be resolved",
     "check the spelling of SYNC_CLUSTER_HOST and whether you are online (or need a VPN)"),
    ("Connection refused", "{login} refuses connections", "is the port right (SYNC_SSH_PORT)?"),
    ("timed out", "{login} does not answer", "are you online, and does the host need a VPN?"),
    ("No route to host", "there is no route to {login}", "are you online?"),
    ("Restricted directory does not exist", "{folder} does not exist on {login}",
     "check SYNC_REMOTE_DIR: it is the run's shared_weights folder; has a learner started yet?"),
    ("rrsync: ", "{login} has no rrsync where the key's line names one", f"run: {SETUP}"),
    ("rsync: command not found", "rsync is not installed on {login}",
     "ask for it there, or go without: export SYNC_TRANSPORT=sftp"),
    ("rsync: not found", "rsync is not installed on {login}",
     "ask for it there, or go without: export SYNC_TRANSPORT=sftp"),
    ("No such file or directory", "{folder} does not exist on {login}",
     "check SYNC_REMOTE_DIR: it is the run's shared_weights folder; has a learner started yet?"),
)  # fmt: skip
