"""Sets up a laptop's access to the cluster: keys, a connection, and a list of missing parts.

Asks only for unknown settings and only at a terminal. Never types a password and never installs a
key by itself: it prints the lines and the one command that does. Run again, it checks each of the
laptop's keys and saves the good ones for later use.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import which

from Daddy.core.atomic_files import read_bounded, write_atomic
from Daddy.core.errors import DaddyError, UsageError
from Daddy.core.friend_accounts import Friend, read_friends
from Daddy.core.host_and_processes import host_name
from Daddy.core.name_validation import LONGEST_PEER, check_peer, to_peer
from Daddy.core.run_paths import STREAM_TOKEN
from Daddy.core.saved_cluster import (
    RECEIVER,
    SETUP,
    key_folder,
    read_saved_cluster,
    settings_path,
    short_path,
)
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.laptop import key_receiver, ssh_keys
from Daddy.weights.laptop.pull_push import outbox_peers
from Daddy.weights.laptop.rsync_sftp import (
    INSTALL,
    TRANSPORTS,
    ReceiverTransport,
    choose_transport,
    in_own_folder,
    refuse_unknown_transport,
    try_transport,
)
from Daddy.weights.laptop.ssh_keys import PURPOSES, KeyCheck
from Daddy.weights.laptop.ssh_login import (
    CONNECT_S,
    DEFAULT_LOCAL,
    VARIABLES,
    Remote,
    explain_error,
    find_remote,
    is_folder,
    known_facts,
    needs_ssh,
    save_remote,
)


def run_setup(given: str, environ: Mapping[str, str], home: Path) -> int:
    """Make and check keys, save settings, print findings; return 0 if a pull would work."""
    asked = environ.get("SYNC_TRANSPORT", "")
    refuse_unknown_transport(asked)
    path = settings_path(environ, home)
    before = read_saved_cluster(path)
    remote = find_remote(given, environ, {**before, **_answers(given, environ, before)})
    key = _login_key(remote, home)
    print(f"cluster  {remote.login}, folder {remote.folder}")
    print(f"key      {key or 'as ' + remote.ssh_config + ' says'}")
    facts = known_facts(remote, before)
    if not facts.get("own_folder"):  # else the laptop has the friend's name
        with suppress(UsageError):  # told with the keys
            facts["peer"] = _peer(environ, home)
    save_remote(path, remote, facts)
    print(f"kept in  {path}")
    if key is not None:
        print("\nif the key is not installed there yet (asks for your password once):")
        print(f"  {replace(remote, key=str(key)).typed('ssh-copy-id')}")
    findings = probe_cluster(remote, home, asked)
    by = asked or findings.choose_transport(facts.get("transport", ""))
    environ = {**environ, "SYNC_TRANSPORT": by}
    facts |= {"transport": by} | findings.own_folder_facts()
    if facts.get("own_folder"):
        environ["SYNC_USER_ID"] = facts["peer"]
    save_remote(path, remote, facts)
    _print_findings(findings, remote)
    if remote.key:
        print(f"one key does everything; for confined keys: remove {path}, run setup again")
    else:
        _check_own_keys(remote, environ, home, findings, path, known_facts(remote, before), facts)
    return _end(findings, remote, path, environ)


_QUESTIONS = {
    "host": "login node (such as shell.engr.wustl.edu)",
    "user": "your user name there",
    "folder": "the run's shared_weights folder there",
}


def _answers(given: str, environ: Mapping[str, str], saved: Mapping[str, str]) -> dict[str, str]:
    """Ask at a terminal for settings that are not in ``given``, ``environ`` or ``saved``."""
    if not sys.stdin.isatty():
        return {}
    given_fields = {"host": "@" in given, "user": bool(given)}
    answers = {
        name: input(f"{question}: ").strip()
        for name, question in _QUESTIONS.items()
        if not (given_fields.get(name) or environ.get(VARIABLES[name]) or saved.get(name))
    }
    return {name: text for name, text in answers.items() if text}


def _login_key(remote: Remote, home: Path) -> Path | None:
    """Return the person's own key, made if missing; None if ssh's config file names the key."""
    key = Path(remote.key).expanduser()
    if remote.key or remote.ssh_config:
        return key if remote.key else None
    usual = [home / ".ssh" / name for name in ("id_ed25519", "id_ecdsa", "id_rsa")]
    if not any(path.exists() for path in usual):
        ssh_keys.make_key(usual[0])
        print(f"made     {usual[0]}")
    return next(path for path in usual if path.exists())


def _print_findings(findings: ClusterFindings, remote: Remote) -> None:
    print()
    print_finding(bool(which("rsync")), "rsync is installed here", INSTALL)
    if findings.error is not None:
        print_finding(False, f"your own login: {findings.error.message}", findings.error.fix)
        if findings.refused:
            print_finding(False, "the stream's token is missing", "ask the run's owner for a line")
        return
    print_finding(findings.rsync, f"rsync is installed on {remote.login}", "ask its staff for it")
    if findings.rsync_version and version_of(findings.rsync_version) < SAFER_RSYNC:
        print(f"         its version, {findings.rsync_version}, had security holes before 3.4.0,")
        print("         unless its distribution mended them")
    for name, error in findings.transfers.items():
        text = error.message if error else "carries files both ways"
        print_finding(error is None, f"{name}: {text}", error.fix if error else "")
    print_finding(findings.folder, f"{remote.folder} exists there",
         "it appears when the first learner starts; is the path right?")  # fmt: skip
    _print_box(findings, remote)
    print_finding(findings.token, "the viewer knows the cluster's token",
         "a confined key cannot fetch it: ask the run's owner for a line")  # fmt: skip


def _print_box(findings: ClusterFindings, remote: Remote) -> None:
    """Print the folder into which a laptop of another account than the run's owner contributes."""
    friend = findings.friend
    if friend is not None:
        print_finding(True, f"contributions go into {friend.folder}/inbox/{friend.name}, where", "")
        print("         the run's owner reads those of all your laptops as one laptop's")
    elif findings.closed:
        fix = "its owner types: python -m Daddy.weights.friends add NAME DIR; DIR: your own run"
        print_finding(False, f"contributions go into {remote.folder}/inbox", fix)


def _check_own_keys(
    remote: Remote,
    environ: Mapping[str, str],
    home: Path,
    findings: ClusterFindings,
    path: Path,
    before: Mapping[str, str],
    found: Mapping[str, str],
) -> None:
    """Make and check the laptop's own keys, save the good ones, print how to install the others.
    ``before``: the facts of the setup before this one; ``found``: those known so far.
    """
    try:
        ring = make_key_ring(remote, environ, home, findings, found.get("own_folder", ""))
    except DaddyError as error:
        print_finding(False, f"this laptop's own keys: {error.message}", error.fix)
        return
    if findings.error is None or findings.refused:
        tried = [p for p in PURPOSES if p in ring.purposes or before.get(f"{p}_key")]
        checks = {purpose: ring.check_key(purpose) for purpose in tried}
        for check in checks.values():
            print_finding(check.good, check.finding, check.fix)
            if check.good and check.old:
                print(f"           {check.fix}")
        facts = ring.facts(checks, before)
        facts |= {name: found.get(name, "") for name in ("transport", "own_folder", "receiver")}
        needed = "pull_key" not in facts and (findings.over_opened or findings.error is not None)
        save_remote(path, remote, {**facts, "opened": before.get("opened", "") if needed else ""})
        if all(check.good and not check.old for check in checks.values()):
            return
    elif before.get("pull_key"):
        return
    print("\n" + "\n".join(ring.install_instructions()))


def _end(findings: ClusterFindings, remote: Remote, path: Path, environ: Mapping[str, str]) -> int:
    asked = environ.get("SYNC_TRANSPORT", "")
    transport = choose_transport("pull", remote, read_saved_cluster(path), asked)
    errors = [findings.error] if findings.error else [*findings.transfers.values()]
    error = None if None in errors else errors[0]
    if error is not None and transport.remote.within is None:
        raise error
    by = "" if transport.name != "sftp" else " (by SFTP)"
    print(f"\nready{by}: ./Daddy/cluster/sync_weights.sh pull")
    return 0


def print_finding(good: bool, text: str, fix: str) -> None:
    """Print one finding, and the remedy ``fix`` if it is bad."""
    print(f"{'ok ' if good else 'NO '}      {text}" + ("" if good else f"\n           {fix}"))


_PROBE = (
    "rsync --version 2>/dev/null | head -n 1; "
    'for f in /usr/bin/python3 /usr/libexec/platform-python "$(command -v python3)"; do '
    'if "$f" -I -c "import sys; sys.exit(sys.version_info < (3, 6))" 2>/dev/null; then '
    'echo "python $f"; break; fi; done; '
    'if [ -d "$1" ] && [ ! -O "$1" ]; then [ -w "$1/inbox" ] || echo closed; printf "uid "; id -u; '
    'printf "friends "; head -c 65536 "$1/peers.json" 2>/dev/null | tr -d "\\n"; echo; fi; '
    'cd "$1" 2>/dev/null && echo folder; echo looked'
)
"""One line, because a csh takes no others."""
_RSYNC = re.compile(r"rsync +version v?([0-9.]{3,12})")
_PYTHON = re.compile(r"python ([A-Za-z0-9_./+-]+)")
_UID = re.compile(r"uid ([0-9]+)")
_FRIENDS = re.compile(r"friends (.*)")
_INSTALL_RECEIVER = (
    'umask 077; d="$HOME/.config/daddy"; mkdir -p "$d" && cat >"$d/.receiver.$$" && '
    'chmod 500 "$d/.receiver.$$" && mv -f "$d/.receiver.$$" "$d/receiver.py" && '
    'echo "receiver $d/receiver.py"'
)
_RECEIVER = re.compile(r"receiver ([A-Za-z0-9_.~/+@=,-]+)")
UNKNOWN = f"python3 -I {RECEIVER}"
"""Command of the receiver in an account that setup cannot enter; it runs in the home folder."""


@dataclass(frozen=True, slots=True)
class ClusterFindings:
    """Facts found on the cluster; ``error``: the reason if the person's own login failed.
    ``friend``: the account's entry in the list of the run's friends; ``closed``: in another
    account's folder, which this one may not write to.
    """

    error: DaddyError | None = None
    refused: bool = False
    over_opened: bool = False
    rsync: bool = False
    folder: bool = False
    token: bool = False
    rsync_version: str = ""
    receiver: str = UNKNOWN
    transfers: Mapping[str, DaddyError | None] = field(default_factory=dict)
    friend: Friend | None = None
    closed: bool = False

    def own_folder_facts(self) -> dict[str, str]:
        """Return the facts by which a friend's laptop contributes into the account's own folder;
        those that end this, without a friend; none if the login failed.
        """
        if self.error is not None:
            return {}
        if self.friend is None:
            return {"own_folder": ""}
        named = {"peer": self.friend.name, "own_folder": self.friend.folder}
        return named | {"receiver": self.receiver}

    def choose_transport(self, before: str) -> str:
        """Return "sftp" if it works and rsync does not, else ""; ``before`` without a login."""
        if self.error is not None:
            return before
        return "sftp" if self.transfers.get("rsync") and self.transfers.get("sftp") is None else ""


def probe_cluster(remote: Remote, home: Path, asked: str = "") -> ClusterFindings:
    """Look for rsync and the folder, put the receiver in place, fetch the stream's token, move a
    byte by each transport that may be used; ``asked``: the one that the person named, or "". Raise
    FileError without ssh.
    """
    opened = replace(remote, opened=True)
    with needs_ssh():
        over_opened = opened.is_open()
        login = opened if over_opened else remote
        login.drop_dead_connection()
        result = login.run_command(["sh", "-c", _PROBE, "probe", remote.folder], 3.0 * CONNECT_S)
    try:
        if result.returncode == 255:  # noqa: PLR2004 - ssh's own failure
            refused = "Permission denied" in result.stderr
            return ClusterFindings(explain_error(result.stderr, login), refused=refused)
        lines = result.stdout.splitlines()
        version = first_match(_RSYNC, lines)
        return ClusterFindings(
            over_opened=over_opened,
            rsync=bool(version),
            rsync_version=version,
            folder="folder" in lines,
            token=fetch_stream_token(login, home),
            receiver=install_receiver(login, lines),
            transfers=_try_transports(login, asked),
            friend=find_friend(lines),
            closed="closed" in lines,
        )
    finally:
        login.close()  # the next check makes a login of its own


def first_match(form: re.Pattern[str], lines: Sequence[str]) -> str:
    """Return the first group of the first line that matches ``form``; "" without one."""
    return next((match[1] for line in lines if (match := form.match(line))), "")


def install_receiver(login: Remote, lines: Sequence[str]) -> str:
    """Copy the receiver into the account, beside the stream's token; return the command that runs
    it there, "" if Python is missing. ``lines``: output of the probe.
    """
    python = next((match[1] for line in lines if (match := _PYTHON.fullmatch(line))), "")
    if not python:
        return "" if "looked" in lines else UNKNOWN
    words = ["sh", "-c", _INSTALL_RECEIVER]
    source = Path(key_receiver.__file__).read_text(encoding="utf-8")
    told = login.run_command(words, 3.0 * CONNECT_S, source).stdout.splitlines()
    path = next((match[1] for line in told if (match := _RECEIVER.fullmatch(line))), "")
    return f"{python} -I {path}" if path else ""


def find_friend(lines: Sequence[str]) -> Friend | None:
    """Return this account's entry in the list of the run's friends, from the probe's output; None
    in a folder of our own, without an entry, and if a shell could misread its folder.
    """
    uid, listed = first_match(_UID, lines), first_match(_FRIENDS, lines)
    with tempfile.TemporaryDirectory() as scratch, suppress(DaddyError):
        shared = SharedPaths(Path(scratch))
        write_atomic(shared.friends, listed.encode(), durable=False)
        own = (entry for entry in read_friends(shared) if str(entry.uid) == uid)
        return next((entry for entry in own if is_folder(entry.folder)), None)
    return None


SAFER_RSYNC = (3, 4, 0)


def version_of(text: str) -> tuple[int, ...]:
    """Return the numbers of a version such as 3.2.7."""
    return tuple(int(part) for part in text.split(".") if part)


def _try_transports(login: Remote, asked: str) -> dict[str, DaddyError | None]:
    """Return the error, or None, of each transport that was tried, the first that works last."""
    tried: dict[str, DaddyError | None] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in [asked] if asked else TRANSPORTS:
            tried[name] = try_transport(TRANSPORTS[name](login), Path(scratch, name))
            if tried[name] is None:
                break
    return tried


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Holds the laptop's keys in ``folder`` and its peer name; ``own_folder``: the own shared
    weights of an account that is a friend of the run's owner, or "".
    """

    folder: Path
    remote: Remote
    peer: str
    receiver: str
    home: Path
    own_folder: str = ""

    @property
    def purposes(self) -> tuple[str, ...]:
        """Keys to install: nothing confines pulls and pushes without the receiver there."""
        return PURPOSES if self.receiver else ("tunnel",)

    def remote_for(self, purpose: str) -> Remote:
        """Return the folder that the key of ``purpose`` opens: a friend contributes to, and
        watches, a run of the own account.
        """
        if self.own_folder and purpose != "pull":
            return in_own_folder(self.remote, self.own_folder, self.peer)
        return replace(self.remote, peer=self.peer)

    def check_key(self, purpose: str) -> KeyCheck:
        """Check the key of ``purpose`` over a new connection that only this check uses."""
        within = f"inbox/{self.peer}" if purpose == "push" else ""
        key = str(self.folder / purpose)
        remote = replace(self.remote_for(purpose), opened=False, key=key, within=within)
        return ssh_keys.check_key(purpose, ReceiverTransport(remote))

    def facts(self, checks: Mapping[str, KeyCheck], before: Mapping[str, str]) -> dict[str, str]:
        """Return what programs need to know of the good keys. An older push line, which cannot be
        checked any more, goes on as it was checked ``before``.
        """
        good = {purpose: check for purpose, check in checks.items() if check.good}
        facts = {f"{purpose}_key": str(self.folder / purpose) for purpose in good}
        facts |= {f"{purpose}_by": check.by for purpose, check in good.items() if check.by}
        facts |= {"peer": self.peer}
        if "pull" in good and not good["pull"].old:
            facts["pull_peer"] = self.peer
        if "push" in checks and checks["push"].old and before.get("peer") == self.peer:
            facts["push_key"] = before.get("push_key", "")
        return facts

    def key_lines(self) -> list[str]:
        """Return a line for each key, for ``authorized_keys`` on the cluster."""
        publics = {name: (self.folder / f"{name}.pub").read_text() for name in self.purposes}
        return [
            ssh_keys.key_line(name, publics[name], self.remote_for(name), self.receiver)
            for name in publics
        ]

    def install_instructions(self) -> list[str]:
        """Write the keys' lines to a file; return them with the command that installs them."""
        file, lines = self.folder / "authorized_keys", self.key_lines()
        # The blank line keeps it apart from an unfinished last line there.
        write_atomic(file, "\n".join(["", *lines, ""]).encode(), mode=0o600)
        remote, name = self.remote, short_path(str(file), self.home)
        ssh = f"ssh -F {short_path(remote.ssh_config, self.home)}" if remote.ssh_config else "ssh"
        ssh += f" -p {remote.port}" if remote.port else ""
        return [
            "this laptop's own keys: one line each for ~/.ssh/authorized_keys there:",
            *(f"  {line}" for line in lines),
            *(() if self.receiver else _WITHOUT_PYTHON),
            "to append them, over a login of your own (or send the file, which holds no secret,",
            "to the owner of the account):",
            f"  {ssh} {remote.login} '{_APPEND}' <{name}",
            f"then again, to try each key: {SETUP}",
        ]


_APPEND = "umask 077; mkdir -p .ssh; cat >>.ssh/authorized_keys"
_WITHOUT_PYTHON = (
    "no Python 3.6 or newer was found there, which the keys for pulls and pushes need: both go on",
    "with your own login",
)


def make_key_ring(
    remote: Remote,
    environ: Mapping[str, str],
    home: Path,
    findings: ClusterFindings,
    own_folder: str = "",
) -> KeyRing:
    """Return the laptop's keys, made if missing. Raise FileError; UsageError for a bad name."""
    peer, folder = _peer(environ, home), key_folder(environ, home)
    if ssh_keys.make_missing_keys(folder, peer):
        print(f"made     {folder}: pull, push, tunnel (no passphrase: nobody is there")
        print("         to type one in the background)")
    return KeyRing(folder, remote, peer, findings.receiver, home, own_folder)


def _peer(environ: Mapping[str, str], home: Path) -> str:
    """Return the peer name: ``SYNC_USER_ID``, else that of the setup before, as a host's name can
    change with its network, else the only one with an outbox, or the host's name.
    """
    names = outbox_peers(home / DEFAULT_LOCAL.removeprefix("~/"))
    found = names[0] if len(names) == 1 else host_name()
    saved = read_saved_cluster(settings_path(environ, home))
    given = environ.get("SYNC_USER_ID") or saved.get("peer") or found
    try:
        if environ.get("SYNC_USER_ID") and len(given.split(".")[0]) > LONGEST_PEER:
            check_peer(given)  # a person's name is not cut, as a host's is
        return to_peer(given)
    except UsageError as error:
        raise UsageError(error.message, f"SYNC_USER_ID=NAME {SETUP}; {error.fix}") from error


_LINE = re.compile(r"[0-9a-f]{64}( [ -~]{0,80})?")
_FILE_LIMIT = 8192
_READ_OR_MAKE = (
    'umask 077; mkdir -p "$(dirname "$1")"; '
    '(set -C; head -c 32 /dev/urandom | od -An -vtx1 | tr -d " \\n" >"$1") 2>/dev/null; cat "$1"'
)
"""noclobber creates the file exclusively: an existing token stays."""


def fetch_stream_token(remote: Remote, home: Path) -> bool:
    """Add the login node's stream tokens to those in ``home``; make one there if it has none.
    Return False if none came: a key confined by rrsync gets none, the run's owner then sends a
    line.
    """
    arguments = ["sh", "-c", _READ_OR_MAKE, "token", str(STREAM_TOKEN)]
    result = remote.run_command(arguments, 3.0 * CONNECT_S)
    theirs = [line for line in result.stdout.splitlines() if _LINE.fullmatch(line)]
    if not theirs:
        return False
    path = home / STREAM_TOKEN
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    ours = read_bounded(path, _FILE_LIMIT).decode().splitlines() if path.exists() else []
    present = {line.split()[0] for line in ours if line.strip()}
    new = [line for line in theirs if line.split()[0] not in present]
    if new:
        write_atomic(path, ("\n".join([*ours, *new]) + "\n").encode(), mode=0o600)
    return True
