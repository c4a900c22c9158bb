"""Adapter for ssh to the cluster: settings, options, one shared connection, explained failures.

``SYNC_CLUSTER_USER``, ``SYNC_CLUSTER_HOST`` and ``SYNC_REMOTE_DIR`` name the cluster; ``setup``
saves them. One master connection per host and key serves all transfers, so that polling every few
seconds does not make thousands of logins a day. A master that died while the machine slept is found
(``-O check`` with a short limit) and replaced. ssh never asks for input, because a background
process has nobody to answer. If a person has opened the connection (``login``, for a second
factor), everything uses that one, and an error says when it has ended.
"""

import contextlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.core import run_subprocess
from Daddy.core.atomic_files import write_json
from Daddy.core.errors import ConfigError, DaddyError, FileError, NetworkError, UsageError
from Daddy.core.humanize import printable_line
from Daddy.core.saved_cluster import SETUP, login_socket, master_socket, short_path

CONNECT_S = 10
CHECK_S = 5.0
OPTIONS = (
    "BatchMode=yes",
    f"ConnectTimeout={CONNECT_S}",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=2",
    "StrictHostKeyChecking=yes",
    "RequestTTY=no",
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
"""Environment variable of each field of a remote; ``setup`` saves the fields under these names."""

_FOUND = (
    *("pull_key", "pull_by", "pull_peer", "push_key", "push_by", "tunnel_key", "tunnel_by"),
    *("peer", "opened", "transport", "own_folder", "receiver"),
)
_FORMS = {
    "host": (r"(?:[A-Za-z0-9]|::)[A-Za-z0-9._:%-]{0,252}", "write user@host"),
    "user": (r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}", "write user, or user@host"),
    "port": (
        r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]",
        "use a number from 1 to 65535",
    ),
    "folder": (r"(?!-)[A-Za-z0-9_.~/+@=,-]+", "use letters, digits and _ . ~ / + @ = , - in it"),
}
"""Patterns and remedies; no shell on either side can read such a text as anything else."""


class HostKeyChangedError(NetworkError):
    """The host has another key than before; repeated exchanges end until a person checks it."""


@contextlib.contextmanager
def needs_ssh() -> Iterator[None]:
    """Raise FileError with the remedy if the `with` block finds no ssh on this machine."""
    try:
        yield
    except run_subprocess.ProgramMissingError as error:
        raise FileError(
            "ssh is not installed on this machine",
            "install it: sudo apt install openssh-client (Debian, Ubuntu)",
        ) from error


@dataclass(frozen=True, slots=True)
class Remote:
    """The cluster's shared weights, and ssh to them; ``user`` may be empty (ssh then decides).

    ``within``: the folder to which a key is confined, relative to ``folder`` ("": that folder
    itself); None for a login that sees everything. ``peer``: the one whose receipts the key reads
    ("": all). ``opened``: use the connection that a person opened. ``run``: the shared weights of
    another account's run, if ``folder`` is the own one of its friend.
    """

    host: str
    user: str
    folder: str
    ssh_config: str = ""
    port: str = ""
    key: str = ""
    within: str | None = None
    opened: bool = False
    peer: str = ""
    run: str = ""

    @property
    def login(self) -> str:
        """User and host, or the host alone."""
        return f"{self.user}@{self.host}" if self.user else self.host

    @property
    def rsync_login(self) -> str:
        """User and host for rsync, for which a ``:`` ends a host without brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}" if self.user else host

    @property
    def socket(self) -> Path:
        """Path of the shared connection's control socket, without ``%C``; its folder is private."""
        return master_socket(self.login, self.port, self.key, self.ssh_config)

    @property
    def opened_socket(self) -> Path:
        """Path of the control socket of the connection that a person opens."""
        return login_socket(self.socket)

    def path(self, name: str) -> str:
        """Return the remote path of ``name`` in the shared folder. Raise UsageError if a confined
        key may not use it. A confined key's paths begin with ``/``: every rrsync reads that as its
        folder, and an account that is not confined after all may not write to ``/``.
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
        """Return all ssh options before the host; a person's own forwardings stay closed."""
        options = (*OPTIONS, "ClearAllForwardings=yes")
        if self.opened:  # otherwise ssh would try a login of its own
            path = f"ControlPath={self.opened_socket}"
            return self._options(*options, "ControlMaster=no", path, "ProxyCommand=false")
        path = f"ControlPath={self.socket}-%C"
        return self._options(*options, "ControlMaster=auto", "ControlPersist=90", path)

    def single_use_options(self) -> list[str]:
        """Return ssh options for one command over a connection that nothing else uses."""
        return self._options(*OPTIONS, "ControlMaster=no", "ControlPath=none")

    def interactive_options(self) -> list[str]:
        """Return ssh options to open the person's connection: ssh may ask, and keeps it open."""
        base = [option for option in OPTIONS if option != "BatchMode=yes"]
        path = f"ControlPath={self.opened_socket}"
        return [*self._options(*base, "ControlMaster=yes", "ControlPersist=yes", path), "-f", "-N"]

    def _options(self, *more: str) -> list[str]:
        """Return ssh arguments for config, port and key, then ``more`` as ``-o`` options."""
        arguments = ["-F", str(Path(self.ssh_config).expanduser())] if self.ssh_config else []
        arguments += ["-i", str(Path(self.key).expanduser())] if self.key else []
        options = [f"Port={self.port}"] if self.port else []
        options += ["IdentitiesOnly=yes"] if self.key else []
        if self.within is not None:  # ssh would try an agent's keys before ours
            options.append("IdentityAgent=none")
        return arguments + [part for option in (*options, *more) for part in ("-o", option)]

    def typed(self, program: str = "ssh") -> str:
        """Return the command that a person types to log in, with config, port and own key."""
        key = self.key if self.within is None else ""
        flags = {"-F": self.ssh_config, "-p": self.port, "-i": key}
        words = [word for flag, text in flags.items() if text for word in (flag, text)]
        return " ".join([program, *(short_path(word, Path.home()) for word in words), self.login])

    def command(self) -> str:
        """Return the ssh command for rsync's ``-e``, which splits it as a shell does."""
        return shlex.join(["ssh", *self.options()])

    def run_command(
        self, words: Sequence[str], timeout_s: float, stdin: str | None = None
    ) -> run_subprocess.Completed:
        """Run a remote command; ``words`` are quoted for the remote shell."""
        argv = ["ssh", *self.options(), "--", self.login, shlex.join(words)]
        return run_subprocess.run_command(argv, timeout_s, stdin=stdin)

    def drop_dead_connection(self) -> None:
        """End and unlink a shared connection that no longer answers; do nothing without one. Raise
        NetworkError when a connection that a person opened has ended: only a person can open it.
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
        """Return True if the shared connection answers."""
        return self._control("check")

    def _control(self, verb: str) -> bool:
        argv = ["ssh", *self.options(), "-O", verb, "--", self.login]
        with contextlib.suppress(run_subprocess.ProcessTimeoutError):
            return run_subprocess.run_command(argv, CHECK_S).returncode == 0
        return False


def explain_error(stderr: str, remote: Remote) -> DaddyError:
    """Return the error that explains ssh's ``stderr``, with its remedy."""
    refused = re.search(r"Permission denied \(([a-z,-]+)\)", stderr)
    if refused and "publickey" not in refused[1]:  # the key was accepted, but is not enough
        return NetworkError(f"{remote.login} asks for more than a key", f"log in once: {LOGIN}")
    if refused and remote.within is not None:
        return NetworkError(f"{remote.login} refuses the key {remote.key}", f"run: {SETUP}")
    for sign, message, fix in _SIGNS:
        if re.search(sign, stderr):
            kind = HostKeyChangedError if sign == _CHANGED else NetworkError
            return kind(message.format(login=remote.login, folder=remote.folder),
                        fix.format(ssh=remote.typed(), copy_id=remote.typed("ssh-copy-id"),
                                   forget=_forget_host_key(stderr, remote)))  # fmt: skip
    if said := re.search(r"daddy-receiver: ([ -~]{1,200})", stderr):
        return NetworkError(f"the key's command on {remote.login} says: {said[1]}", f"see: {SETUP}")
    return NetworkError(
        f"{remote.login} cannot be reached: {telling_line(stderr)}",
        f"try: {remote.typed()} true; or run: {SETUP}",
    )


def telling_line(stderr: str) -> str:
    """Return the line of ssh's or rsync's ``stderr`` that explains most: the last that is no mere
    summary; printable and short, because the other machine may have written it.
    """
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    reasons = [line for line in lines if _SUMMARY.match(line) is None]
    *_, last = ["no reason was given", *lines, *reasons]
    return printable_line(last)


_SUMMARY = re.compile(r"rsync error: |Disconnected from |\(see the rsync man")


def _forget_host_key(stderr: str, remote: Remote) -> str:
    """Return the action that removes a changed host key: the line that ssh names, or a command."""
    if found := re.search(r"Offending \S+ key in ([^\n\r]+):(\d+)", stderr):
        return f"remove line {found[2]} of {printable_line(found[1])}"
    entry = f"[{remote.host}]:{remote.port}" if remote.port else remote.host
    return f"ssh-keygen -R {shlex.quote(entry)}"


_CHANGED = "REMOTE HOST IDENTIFICATION HAS CHANGED"
_SIGNS = (
    (_CHANGED, "{login} shows another host key than before",
     "ask the cluster's people whether it changed; if so: {forget}, then {ssh}"),
    ("Too many authentication failures", "{login} was offered too many keys before the right one",
     "name the right one: SYNC_SSH_KEY; or IdentityFile and IdentitiesOnly in your ssh config"),
    ("Cannot execute command-line and remote command",
     "your ssh configuration sets RemoteCommand for {login}, so no other command can run there",
     "write a Host of another name for it without RemoteCommand; SYNC_CLUSTER_HOST is that name"),
    ("is your shell clean|protocol incompatibility",
     "{login} prints text before rsync begins: its shell's start file is not silent",
     "begin ~/.bashrc there with: [[ $- == *i* ]] || return; try: {ssh} true (prints nothing)"),
    ("Host key verification failed", "the host key of {login} is not known here yet",
     "run once: {ssh}; compare the fingerprint with the cluster's page and answer yes"),
    (r'Permission denied \(13\)|": Permission denied',
     "{login} may not read or write what was asked for in {folder}",
     f"see who may use the folder there; check the keys: {SETUP}"),
    ("Permission denied", "{login} refuses our key",
     f"install the key: {{copy_id}} (or: {SETUP}); if it asks for more: {LOGIN}"),
    ("Could not resolve hostname", "the name of {login} cannot be resolved",
     "check the spelling of SYNC_CLUSTER_HOST and whether you are online (or need a VPN)"),
    ("Connection refused", "{login} refuses connections", "is the port right (SYNC_SSH_PORT)?"),
    ("timed out|No route to host", "{login} does not answer",
     "are you online, and does the host need a VPN?"),
    ("Restricted directory does not exist|daddy-receiver: no folder",
     "{folder} does not exist on {login}",
     "check SYNC_REMOTE_DIR: it is the run's shared_weights folder; has a learner started yet?"),
    ("rrsync: |can't open file '[^']*receiver.py'",
     "{login} lacks the program that the key's line names", f"run: {SETUP}"),
    ("rsync: (command )?not found", "rsync is not installed on {login}",
     "ask for it there; SFTP works without"),
    ("No space left on device|Disk quota exceeded", "no space is left, here or on {login}",
     "remove files there or here; transfers go on by themselves"),
    ("No such file or directory", "{folder} does not exist on {login}",
     "check SYNC_REMOTE_DIR: it is the run's shared_weights folder; has a learner started yet?"),
)  # fmt: skip


def save_remote(path: Path, remote: Remote, facts: Mapping[str, str] | None = None) -> None:
    """Write the fields of ``remote`` and the ``facts`` on its keys into the file ``path``."""
    fields = {name: getattr(remote, name) for name in VARIABLES}
    write_json(path, {**(facts or {}), "format": 1, **fields})


def find_remote(given: str, environ: Mapping[str, str], saved: Mapping[str, str]) -> Remote:
    """Return the cluster from ``given`` (user or user@host, may be ""), environment and saved
    settings. Raise ConfigError with every missing variable or file; UsageError for what can be no
    user, host, port or folder.
    """
    of = {name: environ.get(key) or saved.get(name, "") for name, key in VARIABLES.items()}
    user, _, host = given.rpartition("@") if "@" in given else (given, "", "")
    of.update({name: text for name, text in (("user", user), ("host", host)) if text})
    wanted = {"host": "the login node", "folder": "the run's shared_weights folder there"}
    missing = [f"{VARIABLES[name]} ({text})" for name, text in wanted.items() if not of[name]]
    if missing:
        raise ConfigError(
            f"the cluster is not known: {' and '.join(missing)} not set",
            f"export it, or answer once: {SETUP}",
        )
    for name, (form, fix) in _FORMS.items():
        if of[name] and re.fullmatch(form, of[name]) is None:
            raise UsageError(f"{of[name]!r} cannot be a {name} ({VARIABLES[name]})", fix)
    for name, fix in (("key", f"ssh-keygen -f {of['key']}"), ("ssh_config", "write it, or unset")):
        if of[name] and not Path(of[name]).expanduser().exists():  # ssh would take another key
            raise ConfigError(f"{VARIABLES[name]} names {of[name]}, which does not exist", fix)
    path = of["folder"].rstrip("/") or "/"  # all start in the home folder
    folder = "." if path == "~" else path.removeprefix("~/")
    return Remote(of["host"], of["user"], folder, of["ssh_config"], of["port"], of["key"])


def is_folder(path: str) -> bool:
    """Return True for a path that no shell can read as anything else."""
    return re.fullmatch(_FORMS["folder"][0], path) is not None


def known_facts(remote: Remote, saved: Mapping[str, str]) -> dict[str, str]:
    """Return the facts that ``setup`` or ``login`` saved on exactly this remote, or {}."""
    if not _is_saved(remote, saved):
        return {}
    return {name: saved[name] for name in _FOUND if saved.get(name)}


def _is_saved(remote: Remote, saved: Mapping[str, str]) -> bool:
    return all(saved.get(name, "") == getattr(remote, name) for name in VARIABLES)


def remember_sftp(settings: Path, remote: Remote, saved: Mapping[str, str]) -> None:
    """Save that SFTP is to be used, if ``remote`` is the saved one; otherwise do nothing."""
    if _is_saved(remote, saved):
        save_remote(settings, remote, {**known_facts(remote, saved), "transport": "sftp"})


def open_login(remote: Remote, settings: Path, saved: Mapping[str, str]) -> int:
    """Let the person log in and save that the connection is open; NetworkError if it fails."""
    opened = replace(remote, opened=True)
    if not opened.is_open():
        opened.opened_socket.unlink(missing_ok=True)
        with needs_ssh():
            argv = ["ssh", *opened.interactive_options(), "--", opened.login]
            status = run_subprocess.run_interactive(argv)
        if status or not opened.is_open():
            raise NetworkError(
                f"no connection to {opened.login} was opened", "ssh says why in the lines above"
            )
    save_remote(settings, remote, {**known_facts(remote, saved), "opened": "yes"})
    print(f"open     the connection to {remote.login}: pulls and pushes go over it until it ends")
    print(f"         to end it: ssh -O exit -S {opened.opened_socket} {remote.login}")
    return 0
