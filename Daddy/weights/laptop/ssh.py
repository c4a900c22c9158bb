"""Logins to the cluster: settings, ssh options, one shared connection, and failures explained.

``SYNC_CLUSTER_USER``, ``SYNC_CLUSTER_HOST`` and ``SYNC_REMOTE_DIR`` say the cluster; ``setup``
remembers it. One master connection per host and key serves all transfers, so that polling every few
seconds is not thousands of logins a day. A master that died in its sleep is found (``-O check``
with a short limit) and replaced. ssh never asks: a laptop's agent has nobody to answer. Where a
person has opened the connection (``login``, for a second factor), everything goes over that one or
not at all, and its end is said.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.core import process
from Daddy.core.errors import ConfigError, DaddyError, FileError, NetworkError, UsageError
from Daddy.core.files import write_json
from Daddy.core.saved_cluster import SETUP, master_socket, opened_socket

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
_FOUND = ("pull_key", "pull_by", "push_key", "tunnel_key", "peer", "opened")
LOGIN = "./Daddy/cluster/sync_weights.sh login"


class HostKeyChangedError(NetworkError):
    """The host shows another key than before: nothing is tried again until a person has looked."""


@dataclass(frozen=True, slots=True)
class Ssh:
    """ssh to one remote. ``socket`` is the control socket's path, without ``%C``."""

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
        words += ["-o", f"Port={remote.port}"] if remote.port else []
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
        """True if the shared connection lives."""
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
    """The error that ssh's stderr tells of, with its remedy."""
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
    *((sign, "{login} may not read or write what was asked for in {folder}",
       f"see who may use the folder there; are the keys what they were? {SETUP}")
      for sign in ("Permission denied (13)", '": Permission denied')),
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


DEFAULT_LOCAL = "~/shared_weights"

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:%-]{0,252}")


@dataclass(frozen=True, slots=True)
class Remote:
    """The cluster's shared weights: ``user`` may be empty (ssh then decides).

    ``within`` is where the world of a confined key begins, seen from the folder (empty: there);
    None for a login that sees everything. ``opened``: over the connection that a person opened.
    """

    host: str
    user: str
    folder: str
    ssh_config: str = ""
    port: str = ""
    key: str = ""
    within: str | None = None
    opened: bool = False

    @property
    def login(self) -> str:
        """``user@host``, or the host alone."""
        return f"{self.user}@{self.host}" if self.user else self.host

    def path(self, name: str) -> str:
        """The path of ``name`` of the shared folder for this login; UsageError where it may not go.

        A confined key's paths begin with ``/``: every rrsync takes that for the folder it confines
        to, and an account that is not confined after all may not write there.
        """
        if self.within is None:
            return f"{self.folder}/{name}"
        inside = f"{name}/".removeprefix(f"{self.within}/" if self.within else "")
        if self.within and inside == f"{name}/":
            raise UsageError(
                f"this laptop's key may write {self.within} alone, not {name}",
                f"SYNC_USER_ID={name.rpartition('/')[2]} {SETUP}; or push with a key of your own: "
                "SYNC_SSH_KEY",
            )
        return f"/{inside}".rstrip("/") or "/"


def remember(path: Path, remote: Remote, found: Mapping[str, str] | None = None) -> None:
    """Keep host, user and folder for the next time, and what was ``found`` out about the keys."""
    write_json(path, {
        **(found or {}),
        "format": 1,
        "host": remote.host,
        "user": remote.user,
        "folder": remote.folder,
        "ssh_config": remote.ssh_config,
        "port": remote.port,
        "key": remote.key,
    })  # fmt: skip


def find_remote(given: str, environ: Mapping[str, str], kept: Mapping[str, str]) -> Remote:
    """The cluster from ``given`` (user or user@host, may be empty), environment, kept settings.

    ConfigError names every variable that is missing; UsageError what cannot be a user or a host.
    """
    user, _, host = given.rpartition("@") if "@" in given else (given, "", "")
    host = host or environ.get("SYNC_CLUSTER_HOST") or kept.get("host", "")
    user = user or environ.get("SYNC_CLUSTER_USER") or kept.get("user", "")
    folder = environ.get("SYNC_REMOTE_DIR") or kept.get("folder", "")
    missing = [name for name, value in (
        ("SYNC_CLUSTER_HOST (the login node)", host),
        ("SYNC_REMOTE_DIR (the run's shared_weights folder there)", folder),
    ) if not value]  # fmt: skip
    if missing:
        raise ConfigError(
            f"the cluster is not known: {' and '.join(missing)} not set",
            f"export it, or answer once: {SETUP}",
        )
    return Remote(
        host=_checked("host", host, _HOST),
        user=_checked("user", user, _USER) if user else "",
        folder=check_folder(folder),
        ssh_config=environ.get("SYNC_SSH_CONFIG") or kept.get("ssh_config", ""),
        port=check_port(environ.get("SYNC_SSH_PORT") or kept.get("port", "")),
        key=environ.get("SYNC_SSH_KEY") or kept.get("key", ""),
    )


def _checked(what: str, text: str, form: re.Pattern[str]) -> str:
    if form.fullmatch(text) is None:
        raise UsageError(f"{text!r} cannot be a {what}", "write user, or user@host")
    return text


def check_port(text: str) -> str:
    """A port number as text, or empty."""
    if text and not (text.isdigit() and 0 < int(text) < 65536):  # noqa: PLR2004
        raise UsageError(f"SYNC_SSH_PORT is {text!r}", "use a number from 1 to 65535")
    return text


def check_folder(text: str) -> str:
    """A remote path that no shell between here and there reads as anything else.

    ``~/x`` becomes ``x``: rsync, sftp and a login shell all begin in the home folder.
    """
    if not re.fullmatch(r"[A-Za-z0-9_.~/+@=,-]+", text) or text.startswith("-"):
        raise UsageError(
            f"SYNC_REMOTE_DIR is {text!r}", "use letters, digits and any of _ . ~ / + @ = , - in it"
        )
    path = text.rstrip("/") or "/"
    return "." if path == "~" else path.removeprefix("~/")


def found_out(remote: Remote, kept: Mapping[str, str]) -> dict[str, str]:
    """Facts that ``setup`` or ``login`` found out about this very remote; empty for any other."""
    facts = {name: kept[name] for name in _FOUND if kept.get(name)}
    same = all(kept.get(name, "") == getattr(remote, name) for name in
               ("host", "user", "folder", "ssh_config", "port", "key"))  # fmt: skip
    return facts if same else {}


def open_login(remote: Remote, settings: Path, kept: Mapping[str, str]) -> int:
    """Let the person log in, keep the connection, and remember that it is needed. NetworkError."""
    ssh = connect(replace(remote, opened=True))
    if not ssh.is_open():
        _log_in(ssh)
    remember(settings, remote, {**found_out(remote, kept), "opened": "yes"})
    print(f"open     the connection to {remote.login}: pulls and pushes go over it until it ends")
    print(f"         to end it: ssh -O exit -S {ssh.opened} {remote.login}")
    return 0


def _log_in(ssh: Ssh) -> None:
    ssh.opened.unlink(missing_ok=True)
    try:
        status = process.attended(["ssh", *ssh.asking(), "--", ssh.remote.login])
    except process.ProgramMissingError as error:
        raise FileError("ssh is not installed on this machine", "install openssh-client") from error
    if status or not ssh.is_open():
        raise NetworkError(
            f"no connection to {ssh.remote.login} was opened", "ssh says why in the lines above"
        )
