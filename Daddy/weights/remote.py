"""The ssh side of a transfer: options, one shared connection, and what a failure means to a person.

One master connection per host and key serves all transfers of a run, so that polling every few
seconds is not thousands of logins a day. A master that died in its sleep is found (``-O check``
with a short limit) and replaced; ours ends with us. ssh never asks: a laptop's agent has nobody to
answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from Daddy.core import process
from Daddy.core.errors import DaddyError, FileError, NetworkError
from Daddy.weights.sync_settings import SETUP, Remote

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


class HostKeyChangedError(NetworkError):
    """The host shows another key than before: nothing is tried again until a person has looked."""


@dataclass(frozen=True, slots=True)
class Ssh:
    """How to reach one remote. ``socket`` is the control socket's path, without ``%C``."""

    remote: Remote
    socket: Path

    def options(self) -> list[str]:
        """Everything between ``ssh`` and the host."""
        remote = self.remote
        words = ["-F", str(Path(remote.ssh_config).expanduser())] if remote.ssh_config else []
        words += ["-p", remote.port] if remote.port else []
        if remote.key:
            words += ["-i", str(Path(remote.key).expanduser()), "-o", "IdentitiesOnly=yes"]
        for option in (*OPTIONS, *MASTER, f"ControlPath={self.socket}-%C"):
            words += ["-o", option]
        return words

    def command(self) -> str:
        """For rsync's ``-e``, which splits it like a shell does."""
        return shlex.join(["ssh", *self.options()])

    def run(self, words: Sequence[str], timeout_s: float) -> process.Completed:
        """Run a command there; ``words`` are quoted for the shell over there."""
        argv = ["ssh", *self.options(), "--", self.remote.login, shlex.join(words)]
        return process.run(argv, timeout_s)

    def drop_dead_master(self) -> None:
        """End and unlink a master that no longer answers; harmless when there is none."""
        if not list(self.socket.parent.glob(f"{self.socket.name}-*")):
            return
        if self._control("check"):
            return
        self._control("exit")
        for path in self.socket.parent.glob(f"{self.socket.name}-*"):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """End the shared connection."""
        self._control("exit")

    def _control(self, verb: str) -> bool:
        argv = ["ssh", *self.options(), "-O", verb, "--", self.remote.login]
        with contextlib.suppress(process.ProcessTimeoutError):
            return process.run(argv, CHECK_S).returncode == 0
        return False


def connect(remote: Remote) -> Ssh:
    """An :class:`Ssh` with a private socket folder; nothing is connected yet.

    The name holds host and key (``%C`` leaves the key out: a push would go over the pull key's
    master) and stays short, because socket paths end at about 100 characters.
    """
    text = f"{remote.login} {remote.port} {remote.key} {remote.ssh_config}"
    return Ssh(remote, _private_folder() / hashlib.sha256(text.encode()).hexdigest()[:8])


def _private_folder() -> Path:
    folder = Path("/tmp") / f".daddy-{os.getuid()}"  # noqa: S108 - checked below
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise FileError(f"{folder} is not a private folder of yours", f"remove {folder}")
    return folder


def explain(stderr: str, remote: Remote) -> DaddyError:
    """What went wrong between here and there, and what to do about it."""
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
    ("Permission denied", "{login} refuses our key",
     f"install the key once: ssh-copy-id {{login}} (or run: {SETUP})"),
    ("Could not resolve hostname", "the name of {login} cannot be resolved",
     "check the spelling of SYNC_CLUSTER_HOST and whether you are online (or need a VPN)"),
    ("Connection refused", "{login} refuses connections", "is the port right (SYNC_SSH_PORT)?"),
    ("timed out", "{login} does not answer", "are you online, and does the host need a VPN?"),
    ("No route to host", "there is no route to {login}", "are you online?"),
    ("rsync: command not found", "rsync is not installed on {login}",
     "ask for it there, or go without: export SYNC_TRANSPORT=sftp"),
    ("rsync: not found", "rsync is not installed on {login}",
     "ask for it there, or go without: export SYNC_TRANSPORT=sftp"),
    ("No such file or directory", "{folder} does not exist on {login}",
     "check SYNC_REMOTE_DIR: it is the run's shared_weights folder; has a learner started yet?"),
)  # fmt: skip
