"""First contact of a laptop with the cluster: keys, a connection, and what is missing, in words.

Asks only for what is not known and only when somebody is there to answer. Never types a password
and never installs a key by itself: it prints the lines and the one command that does. Said again,
it tries each of the laptop's keys; what was found good is used from then on.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.core import process
from Daddy.core.errors import DaddyError, FileError, UsageError
from Daddy.core.files import read_bounded, write_atomic
from Daddy.core.machine import host_name
from Daddy.core.names import to_peer
from Daddy.core.paths import STREAM_TOKEN
from Daddy.core.saved_cluster import SETUP, key_folder, remembered, settings_path, short_path
from Daddy.weights.laptop import keys as key_files
from Daddy.weights.laptop.keys import KEY_S, Keys, Rrsync, Verdict, make_key, own_keys
from Daddy.weights.laptop.pull_push import contributors
from Daddy.weights.laptop.ssh import (
    CONNECT_S,
    DEFAULT_LOCAL,
    Remote,
    Ssh,
    connect,
    explain,
    find_remote,
    found_out,
    remember,
)
from Daddy.weights.laptop.transport import INSTALL, Way, way_to_pull


def run_setup(given: str, environ: Mapping[str, str], home: Path) -> int:
    """Go through the steps; returns 0 when a pull would work. DaddyError says what is missing."""
    path = settings_path(environ, home)
    before = remembered(path)
    remote = find_remote(given, environ, {**before, **_answers(given, environ, before)})
    key = _key(remote, home)
    print(f"cluster  {remote.login}, folder {remote.folder}")
    print(f"key      {key or 'as ' + remote.ssh_config + ' says'}")
    remember(path, remote, found_out(remote, before))
    print(f"kept in  {path}")
    _explain_key(remote, key)
    seen = look(remote, home)
    _tell_seen(seen, remote)
    ring = None if remote.key else _ring(remote, environ, home, seen)
    if remote.key:
        print(f"one key does everything; for a confined one each: remove {path}, say setup again")
    if ring is not None:
        _use(ring, seen, path, remote)
    return _end(seen, remote, path, environ)


def _answers(given: str, environ: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Ask for what is neither given, set nor remembered, when somebody is there."""
    if not sys.stdin.isatty():
        return {}
    answers = {}
    host_given = "@" in given
    if not host_given and not environ.get("SYNC_CLUSTER_HOST") and not known.get("host"):
        answers["host"] = _ask("login node (such as shell.engr.wustl.edu)")
    if not given and not environ.get("SYNC_CLUSTER_USER") and not known.get("user"):
        answers["user"] = _ask("your user name there")
    if not environ.get("SYNC_REMOTE_DIR") and not known.get("folder"):
        answers["folder"] = _ask("the run's shared_weights folder there")
    return {name: text for name, text in answers.items() if text}


def _ask(question: str, read: Callable[[str], str] = input) -> str:
    return read(f"{question}: ").strip()


def _key(remote: Remote, home: Path) -> Path | None:
    """The key of the person's own login, made if there is none; None when ssh's config decides."""
    if remote.key:
        return _must_exist(Path(remote.key).expanduser())
    if remote.ssh_config:
        return None
    folder = home / ".ssh"
    for name in ("id_ed25519", "id_ecdsa", "id_rsa"):
        if (folder / name).exists():
            return folder / name
    make_key(folder / "id_ed25519")
    print(f"made     {folder / 'id_ed25519'}")
    return folder / "id_ed25519"


def _must_exist(path: Path) -> Path:
    if not path.exists():
        raise FileError(f"SYNC_SSH_KEY names {path}, which does not exist", f"ssh-keygen -f {path}")
    return path


def _explain_key(remote: Remote, key: Path | None) -> None:
    if key is None:
        return
    port = f"-p {remote.port} " if remote.port else ""
    public = key.with_name(key.name + ".pub")
    print("\nif the key is not installed there yet (asks for your password once):")
    print(f"  ssh-copy-id {port}-i {public} {remote.login}")


def _tell_seen(seen: Seen, remote: Remote) -> None:
    print()
    tell(here("rsync"), "rsync is installed here", INSTALL)
    if seen.error is not None:
        tell(False, f"your own login: {seen.error.message}", seen.error.fix)
        if seen.refused:
            tell(
                False, "the stream's token was not fetched", "it takes a login, or the run's owner"
            )
        return
    tell(seen.rsync, f"rsync is installed on {remote.login}", "ask for it there")
    tell(seen.folder, f"{remote.folder} exists there",
         "it appears when the first learner starts; is the path right?")  # fmt: skip
    tell(seen.token, "the viewer knows the cluster's token",
         "a confined key cannot fetch it: ask the run's owner for a line")  # fmt: skip


def _ring(remote: Remote, environ: Mapping[str, str], home: Path, seen: Seen) -> KeyRing | None:
    """The laptop's own keys; None where none can be made."""
    try:
        return find_ring(remote, environ, home, seen)
    except DaddyError as error:
        tell(False, f"this laptop's own keys: {error.message}", error.fix)
        return None


def _use(ring: KeyRing, seen: Seen, path: Path, remote: Remote) -> None:
    """Try the keys, print the lines of those that are not good, remember those that are."""
    if seen.error is None or seen.refused:
        good = {}
        for purpose in ring.purposes:
            verdict = ring.try_one(purpose)
            tell(verdict.good, verdict.what, verdict.fix)
            good[purpose] = verdict.good
        found = ring.found(good, found_out(remote, remembered(path)), seen)
        remember(path, remote, found)
        if all(good.values()):
            return
    elif found_out(remote, remembered(path)).get("pull_key"):
        return
    print("\n" + "\n".join(ring.how_to_install()))


def _end(seen: Seen, remote: Remote, path: Path, environ: Mapping[str, str]) -> int:
    way = way_to_pull(remote, remembered(path), environ.get("SYNC_TRANSPORT", ""))
    confined = way.remote.within is not None
    if seen.error is not None and not confined:
        raise seen.error
    lacks = way.transport == "rsync" and not confined and not (here("rsync") and seen.rsync)
    print(f"\nready: {'SYNC_TRANSPORT=sftp ' * lacks}./Daddy/cluster/sync_weights.sh pull")
    return 0


def tell(good: bool, what: str, fix: str) -> None:
    """One finding, with the way out of a bad one."""
    print(f"{'ok ' if good else 'NO '}      {what}" + ("" if good else f"\n           {fix}"))


_PLACES = (
    '"$(command -v rrsync)" "$HOME/bin/rrsync" "$HOME/.local/bin/rrsync" '
    "/usr/share/doc/rsync/support/rrsync /usr/share/rsync/scripts/rrsync"
)
_PROBE = (
    "command -v rsync >/dev/null && echo rsync; "
    f'for f in {_PLACES}; do if [ -f "$f" ] && [ -r "$f" ]; then '
    'by=; [ -x "$f" ] || by="$(sed -n "1s/^#[^/]*//p" "$f") "; flags=; '
    "for w in -munge -no-del -no-overwrite; do "
    'grep -q -e "[\\"\']$w[\\"\']" "$f" && flags="$flags $w"; done; '
    'echo "rrsync $by$f$flags"; break; fi; done; '
    'cd "$1" 2>/dev/null && echo folder; echo looked'
)
"""In one line, because a csh takes no others. A packager may leave the script where it cannot be
run: its first line then says by what."""
UNKNOWN = Rrsync()
_RRSYNC = re.compile(r"rrsync ([A-Za-z0-9_./+-]+(?: [A-Za-z0-9_./+-]+)??)((?: -[a-z-]+)*)")


@dataclass(frozen=True, slots=True)
class Seen:
    """Findings over there; ``error`` when one's own login found nothing out."""

    error: DaddyError | None = None
    refused: bool = False
    over_opened: bool = False
    rsync: bool = False
    folder: bool = False
    token: bool = False
    rrsync: Rrsync = UNKNOWN


def look(remote: Remote, home: Path) -> Seen:
    """Log in, look, and bring the stream's token home. FileError when ssh is not installed here."""
    opened = connect(replace(remote, opened=True))
    ssh = connect(remote)
    try:
        over_opened = opened.is_open()
        ssh = opened if over_opened else ssh
        ssh.drop_dead_master()
        done = ssh.run(["sh", "-c", _PROBE, "probe", remote.folder], 3.0 * CONNECT_S)
    except process.ProgramMissingError as error:
        raise FileError("ssh is not installed on this machine", "install openssh-client") from error
    try:
        return _judge(done, ssh, home, over_opened=over_opened)
    finally:
        ssh.close()  # the next look is to be a login of its own


def _judge(done: process.Completed, ssh: Ssh, home: Path, *, over_opened: bool) -> Seen:
    if done.returncode == 255:  # noqa: PLR2004 - ssh's own failure
        refused = "Permission denied" in done.stderr
        return Seen(explain(done.stderr, ssh.remote), refused=refused)
    return _seen(done.stdout, ssh, home, over_opened=over_opened)


def _seen(said: str, ssh: Ssh, home: Path, *, over_opened: bool) -> Seen:
    lines = said.splitlines()
    return Seen(
        over_opened=over_opened,
        rsync="rsync" in lines,
        folder="folder" in lines,
        token=fetch_stream_token(ssh, home),
        rrsync=read_rrsync(lines),
    )


def read_rrsync(lines: Sequence[str]) -> Rrsync:
    """The script that the probe found; its usual name where the probe could not look."""
    found = next((match for line in lines if (match := _RRSYNC.fullmatch(line))), None)
    if found is not None:
        return Rrsync(found[1], tuple(found[2].split()))
    return Rrsync("") if "looked" in lines else UNKNOWN


def here(program: str) -> bool:
    """True if a program can be run on this machine."""
    try:
        process.run([program, "--version"], KEY_S)
    except DaddyError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Three keys, whose they are over there (``peer``), and how this laptop will pull (``by``)."""

    keys: Keys
    remote: Remote
    peer: str
    by: str
    rrsync: key_files.Rrsync
    home: Path

    @property
    def purposes(self) -> tuple[str, ...]:
        """The keys that have a line: only rrsync keeps one to its box."""
        return ("pull", "push", "tunnel") if self.by == "rsync" else ("pull", "tunnel")

    def try_one(self, purpose: str) -> Verdict:
        """Try the key for real."""
        key = str(getattr(self.keys, purpose))
        remote = replace(self.remote, opened=False, key=key, within="")
        if purpose == "tunnel":
            return key_files.try_tunnel(remote)
        with tempfile.TemporaryDirectory() as scratch:
            if purpose == "pull":
                return key_files.try_pull(Way(remote, self.by), Path(scratch))
            box = replace(remote, within=f"inbox/{self.peer}")
            return key_files.try_push(Way(box, self.by), Path(scratch))

    def found(
        self, good: Mapping[str, bool], before: Mapping[str, str], seen: Seen
    ) -> dict[str, str]:
        """Facts to remember: the good keys, and whether a person's connection is still needed."""
        used = {f"{name}_key": str(getattr(self.keys, name)) for name in good if good[name]}
        needed = not good["pull"] and (seen.over_opened or seen.error is not None)
        return {
            **used,
            "pull_by": self.by,
            "peer": self.peer,
            "opened": before.get("opened", "") if needed else "",
        }

    def lines(self) -> list[str]:
        """One for each key, for ``authorized_keys`` there."""
        folder, rrsync = self.remote.folder, self.rrsync
        options = {
            "pull": key_files.pull_line(folder, rrsync, self.by),
            "push": key_files.push_line(folder, self.peer, rrsync),
            "tunnel": key_files.TUNNEL,
        }
        return [
            key_files.with_key(options[name], self._public(name), name, self.peer)
            for name in self.purposes
        ]

    def how_to_install(self) -> list[str]:
        """The lines, and what a person types to append them; the file of them is written."""
        file = self.keys.pull.with_name("authorized_keys")
        write_atomic(file, key_files.as_file(self.lines()).encode(), mode=0o600)
        command = key_files.append_command(self._ssh(), short_path(str(file), self.home))
        return [
            "this laptop's own keys: one line each for ~/.ssh/authorized_keys there:",
            *(f"  {line}" for line in self.lines()),
            *self._without_rrsync(),
            "to append them, over a login of your own (or send the file, which holds no secret,",
            "to whom the account belongs):",
            f"  {command}",
            f"then again, to try each key: {SETUP}",
        ]

    def _without_rrsync(self) -> list[str]:
        if "push" in self.purposes:
            return []
        return [
            "without rrsync the first key reads all that the account may read, not the run alone,",
            "and pushes go on with your own login. rrsync is one script of rsync's: put it into",
            "~/bin there, say setup again, and a key is kept to its folder",
        ]

    def _public(self, name: str) -> str:
        return (self.keys.pull.with_name(f"{name}.pub")).read_text(encoding="utf-8")

    def _ssh(self) -> str:
        remote = self.remote
        words = ["ssh"]
        words += ["-F", short_path(remote.ssh_config, self.home)] if remote.ssh_config else []
        words += ["-p", remote.port] if remote.port else []
        return " ".join([*words, remote.login])


def find_ring(remote: Remote, environ: Mapping[str, str], home: Path, seen: Seen) -> KeyRing:
    """The laptop's keys, made if there are none. FileError; UsageError for a name no peer has."""
    peer = _peer(environ, home)
    keys, made = own_keys(key_folder(environ, home), peer)
    if made:
        print(f"made     {keys.pull.parent}: pull, push, tunnel (no passphrase: nobody is there")
        print("         to type one in the background)")
    confinable = bool(seen.rrsync.command) and environ.get("SYNC_TRANSPORT") != "sftp"
    by = "rsync" if confinable and here("rsync") else "sftp"
    return KeyRing(keys, remote, peer, by, seen.rrsync, home)


def _peer(environ: Mapping[str, str], home: Path) -> str:
    """The box's name: as told, as the only contributor from here, as this host is called."""
    local = Path(DEFAULT_LOCAL.replace("~", str(home), 1))
    names = contributors(local)
    given = environ.get("SYNC_USER_ID") or (names[0] if len(names) == 1 else host_name())
    try:
        return to_peer(given)
    except UsageError as error:
        raise UsageError(error.message, f"SYNC_USER_ID=NAME {SETUP}; {error.fix}") from error


_LINE = re.compile(r"[0-9a-f]{64}( [ -~]{0,80})?")
_FILE_LIMIT = 8192
_READ_OR_MAKE = (
    'umask 077; mkdir -p "$(dirname "$1")"; '
    '(set -C; head -c 32 /dev/urandom | od -An -vtx1 | tr -d " \\n" >"$1") 2>/dev/null; cat "$1"'
)
"""Exclusive by noclobber: an existing token stays as it is."""


def fetch_stream_token(ssh: Ssh, home: Path) -> bool:
    """Add the login node's tokens to those in ``home``; False when it gave none.

    A confined key (rrsync) gives none: its owner asks the run's owner for a line.
    """
    words = ["sh", "-c", _READ_OR_MAKE, "token", str(STREAM_TOKEN)]
    done = ssh.run(words, 3.0 * CONNECT_S)
    theirs = [line for line in done.stdout.splitlines() if _LINE.fullmatch(line)]
    if theirs:
        _keep(home / STREAM_TOKEN, theirs)
    return bool(theirs)


def _keep(path: Path, theirs: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    mine = read_bounded(path, _FILE_LIMIT).decode().splitlines() if path.exists() else []
    known = {line.split()[0] for line in mine if line.strip()}
    new = [line for line in theirs if line.split()[0] not in known]
    if new:
        write_atomic(path, ("\n".join([*mine, *new]) + "\n").encode(), mode=0o600)
