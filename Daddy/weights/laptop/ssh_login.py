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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.core import child_process
from Daddy.core.atomic_files import write_json
from Daddy.core.errors import ConfigError, DaddyError, FileError, NetworkError, UsageError
from Daddy.core.saved_cluster import SETUP, login_socket, master_socket

CONNECT_S = 10
CHECK_S = 5.0
OPTIONS = (
    "BatchMode=yes",
    f"ConnectTimeout={CONNECT_S}",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=2",
    "StrictHostKeyChecking=yes",
)
DEFAULT_LOCAL = "~/shared_weights"
LOGIN = "./Daddy/cluster/sync_weights.sh login"
VARIABLES = {
    "host": "SYNC_CLUSTER_HOST",
    "user": "SYNC_CLUSTER_USER",
    "folder": "SYNC_REMOTE_DIR",
    "ssh_config": "SYNC_SSH_CONFIG",
    "port": "SYNC_SSH_PORT",
    "key": "SYNC_SSH_KEY",
}
"""Environment variable of each field of a remote; ``setup`` keeps the fields under these names."""

_FOUND = ("pull_key", "pull_by", "push_key", "tunnel_key", "peer", "opened")
_FORMS = {
    "host": (r"[A-Za-z0-9][A-Za-z0-9._:%-]{0,252}", "write user@host"),
    "user": (r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}", "write user, or user@host"),
    "port": (
        r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]",
        "use a number from 1 to 65535",
    ),
    "folder": (r"(?!-)[A-Za-z0-9_.~/+@=,-]+", "use letters, digits and _ . ~ / + @ = , - in it"),
}
"""Forms and remedies; no shell between here and there reads such a text as anything else."""


class HostKeyChangedError(NetworkError):
    """The host shows another key than before: nothing is tried again until a person has looked."""


@contextlib.contextmanager
def needs_ssh() -> Iterator[None]:
    """Raise FileError with the remedy when the body finds no ssh on this machine."""
    try:
        yield
    except child_process.ProgramMissingError as error:
        raise FileError(
            "ssh is not installed on this machine",
            "install it: sudo apt install openssh-client (Debian, Ubuntu)",
        ) from error


@dataclass(frozen=True, slots=True)
class Remote:
    """The cluster's shared weights, and ssh to them: ``user`` may be empty (ssh then decides).

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

    @property
    def socket(self) -> Path:
        """Control socket of the shared connection, without ``%C``; its folder is private."""
        return master_socket(self.login, self.port, self.key, self.ssh_config)

    @property
    def opened_socket(self) -> Path:
        """Control socket of the connection that a person opens."""
        return login_socket(self.socket)

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

    def options(self) -> list[str]:
        """Everything between ``ssh`` and the host."""
        if self.opened:  # no other way: ssh would try a login of its own
            path = f"ControlPath={self.opened_socket}"
            return self._options(*OPTIONS, "ControlMaster=no", path, "ProxyCommand=false")
        path = f"ControlPath={self.socket}-%C"
        return self._options(*OPTIONS, "ControlMaster=auto", "ControlPersist=90", path)

    def alone(self) -> list[str]:
        """Options for one command over a connection of its own."""
        return self._options(*OPTIONS, "ControlMaster=no", "ControlPath=none")

    def asking(self) -> list[str]:
        """Options to open the person's connection: ssh may ask, and stays behind as a master."""
        told = [option for option in OPTIONS if option != "BatchMode=yes"]
        path = f"ControlPath={self.opened_socket}"
        return [*self._options(*told, "ControlMaster=yes", "ControlPersist=yes", path), "-f", "-N"]

    def _options(self, *more: str) -> list[str]:
        """Settings, port and key, then ``more`` options."""
        words = ["-F", str(Path(self.ssh_config).expanduser())] if self.ssh_config else []
        words += ["-i", str(Path(self.key).expanduser())] if self.key else []
        options = [f"Port={self.port}"] if self.port else []
        options += ["IdentitiesOnly=yes"] if self.key else []
        if self.within is not None:  # an agent's keys would be tried before ours
            options.append("IdentityAgent=none")
        return words + [part for option in (*options, *more) for part in ("-o", option)]

    def command(self) -> str:
        """For rsync's ``-e``, which splits it like a shell does."""
        return shlex.join(["ssh", *self.options()])

    def run(self, words: Sequence[str], timeout_s: float) -> child_process.Completed:
        """Run a command there; ``words`` are quoted for the shell over there."""
        return child_process.run_command(
            ["ssh", *self.options(), "--", self.login, shlex.join(words)], timeout_s
        )

    def drop_dead_connection(self) -> None:
        """End and unlink a master that no longer answers; harmless when there is none.

        One that a person opened cannot be replaced: NetworkError says that it has ended.
        """
        if not self.opened:
            sockets = list(self.socket.parent.glob(f"{self.socket.name}-*"))
            if sockets and not self.is_open():
                self._control("exit")
                for path in sockets:
                    path.unlink(missing_ok=True)
        elif not self.is_open():
            raise NetworkError(
                f"the connection to {self.login} that you opened has ended",
                f"open it again: {LOGIN}; if a key alone is enough there: {SETUP}",
            )

    def close(self) -> None:
        """End the shared connection, unless a person opened it."""
        if not self.opened:
            self._control("exit")

    def is_open(self) -> bool:
        """True if the shared connection lives."""
        return self._control("check")

    def _control(self, verb: str) -> bool:
        argv = ["ssh", *self.options(), "-O", verb, "--", self.login]
        with contextlib.suppress(child_process.ProcessTimeoutError):
            return child_process.run_command(argv, CHECK_S).returncode == 0
        return False


def explain_ssh_error(stderr: str, remote: Remote) -> DaddyError:
    """The error that ssh's stderr tells of, with its remedy."""
    refused = re.search(r"Permission denied \(([a-z,-]+)\)", stderr)
    if refused and "publickey" not in refused[1]:  # the key was taken, and did not do
        return NetworkError(f"{remote.login} asks for more than a key", f"log in once: {LOGIN}")
    if refused and remote.within is not None:
        return NetworkError(f"{remote.login} refuses the key {remote.key}", f"run: {SETUP}")
    for sign, message, fix in _SIGNS:
        if re.search(sign, stderr):
            kind = HostKeyChangedError if sign == _CHANGED else NetworkError
            return kind(message.format(login=remote.login, folder=remote.folder),
                        fix.format(login=remote.login, host=remote.host))  # fmt: skip
    *_, last = ["no reason was given", *stderr.strip().splitlines()]
    return NetworkError(
        f"{remote.login} cannot be reached: {last}",
        f"try: ssh {remote.login} true; or run: {SETUP}",
    )


_CHANGED = "REMOTE HOST IDENTIFICATION HAS CHANGED"
_SIGNS = (
    (_CHANGED, "{login} shows another host key than before",
     "ask the cluster's people whether it changed; if so: ssh-keygen -R {host}, then ssh {login}"),
    ("Host key verification failed", "the host key of {login} is not known here yet",
     "run once: ssh {login}; compare the fingerprint with the cluster's page and answer yes"),
    (r'Permission denied \(13\)|": Permission denied',
     "{login} may not read or write what was asked for in {folder}",
     f"see who may use the folder there; are the keys what they were? {SETUP}"),
    ("Permission denied", "{login} refuses our key",
     f"install the key: ssh-copy-id {{login}} (or: {SETUP}); if it asks for more: {LOGIN}"),
    ("Could not resolve hostname", "the name of {login} cannot be resolved",
     "check the spelling of SYNC_CLUSTER_HOST and whether you are online (or need a VPN)"),
    ("Connection refused", "{login} refuses connections", "is the port right (SYNC_SSH_PORT)?"),
    ("timed out|No route to host", "{login} does not answer",
     "are you online, and does the host need a VPN?"),
    ("Restricted directory does not exist", "{folder} does not exist on {login}",
     "check SYNC_REMOTE_DIR: it is the run's shared_weights folder; has a learner started yet?"),
    ("rrsync: ", "{login} has no rrsync where the key's line names one", f"run: {SETUP}"),
    ("rsync: (command )?not found", "rsync is not installed on {login}",
     "ask for it there, or go without: export SYNC_TRANSPORT=sftp"),
    ("No such file or directory", "{folder} does not exist on {login}",
     "check SYNC_REMOTE_DIR: it is the run's shared_weights folder; has a learner started yet?"),
)  # fmt: skip


def save_remote(path: Path, remote: Remote, found: Mapping[str, str] | None = None) -> None:
    """Keep host, user and folder for the next time, and what was ``found`` out about the keys."""
    fields = {name: getattr(remote, name) for name in VARIABLES}
    write_json(path, {**(found or {}), "format": 1, **fields})


def find_remote(given: str, environ: Mapping[str, str], kept: Mapping[str, str]) -> Remote:
    """The cluster from ``given`` (user or user@host, may be empty), environment, kept settings.

    ConfigError names every variable that is missing; UsageError what cannot be a user or a host.
    """
    told = {name: environ.get(it) or kept.get(name, "") for name, it in VARIABLES.items()}
    user, _, host = given.rpartition("@") if "@" in given else (given, "", "")
    told.update({name: text for name, text in (("user", user), ("host", host)) if text})
    wanted = {"host": "the login node", "folder": "the run's shared_weights folder there"}
    missing = [f"{VARIABLES[name]} ({what})" for name, what in wanted.items() if not told[name]]
    if missing:
        raise ConfigError(
            f"the cluster is not known: {' and '.join(missing)} not set",
            f"export it, or answer once: {SETUP}",
        )
    for name, (form, fix) in _FORMS.items():
        if told[name] and re.fullmatch(form, told[name]) is None:
            raise UsageError(f"{told[name]!r} cannot be a {name} ({VARIABLES[name]})", fix)
    path = told["folder"].rstrip("/") or "/"  # rsync, sftp and a shell there begin at home
    folder = "." if path == "~" else path.removeprefix("~/")
    return Remote(told["host"], told["user"], folder, told["ssh_config"], told["port"], told["key"])


def known_facts(remote: Remote, kept: Mapping[str, str]) -> dict[str, str]:
    """Facts that ``setup`` or ``login`` found out about this very remote; empty for any other."""
    if any(kept.get(name, "") != getattr(remote, name) for name in VARIABLES):
        return {}
    return {name: kept[name] for name in _FOUND if kept.get(name)}


def open_login(remote: Remote, settings: Path, kept: Mapping[str, str]) -> int:
    """Let the person log in, keep the connection, and remember that it is needed. NetworkError."""
    opened = replace(remote, opened=True)
    if not opened.is_open():
        opened.opened_socket.unlink(missing_ok=True)
        with needs_ssh():
            status = child_process.run_interactive(["ssh", *opened.asking(), "--", opened.login])
        if status or not opened.is_open():
            raise NetworkError(
                f"no connection to {opened.login} was opened", "ssh says why in the lines above"
            )
    save_remote(settings, remote, {**known_facts(remote, kept), "opened": "yes"})
    print(f"open     the connection to {remote.login}: pulls and pushes go over it until it ends")
    print(f"         to end it: ssh -O exit -S {opened.opened_socket} {remote.login}")
    return 0
