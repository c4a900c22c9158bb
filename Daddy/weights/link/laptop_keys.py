"""The laptop's keys at one cluster: their lines, how a person installs them, and their trials."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from Daddy.core.errors import UsageError
from Daddy.core.files import write_atomic
from Daddy.core.machine import host_name
from Daddy.core.names import to_peer
from Daddy.core.remembered import SETUP, key_folder, short_path
from Daddy.weights.link import authorized_lines, trials
from Daddy.weights.link.first_look import Seen, here
from Daddy.weights.link.keys import Keys, own_keys
from Daddy.weights.link.sync_settings import DEFAULT_LOCAL, Remote
from Daddy.weights.link.transfer import contributors
from Daddy.weights.link.trials import Verdict
from Daddy.weights.link.ways import Way


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Three keys, whose they are over there (``peer``), and how this laptop will pull (``by``)."""

    keys: Keys
    remote: Remote
    peer: str
    by: str
    rrsync: authorized_lines.Rrsync
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
            return trials.try_tunnel(remote)
        with tempfile.TemporaryDirectory() as scratch:
            if purpose == "pull":
                return trials.try_pull(Way(remote, self.by), Path(scratch))
            box = replace(remote, within=f"inbox/{self.peer}")
            return trials.try_push(Way(box, self.by), Path(scratch))

    def found(
        self, good: Mapping[str, bool], before: Mapping[str, str], seen: Seen
    ) -> dict[str, str]:
        """What to remember: the good keys, and whether a person's connection is still needed."""
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
            "pull": authorized_lines.pull_line(folder, rrsync, self.by),
            "push": authorized_lines.push_line(folder, self.peer, rrsync),
            "tunnel": authorized_lines.TUNNEL,
        }
        return [
            authorized_lines.with_key(options[name], self._public(name), name, self.peer)
            for name in self.purposes
        ]

    def how_to_install(self) -> list[str]:
        """The lines, and what a person types to append them; the file of them is written."""
        file = self.keys.pull.with_name("authorized_keys")
        write_atomic(file, authorized_lines.as_file(self.lines()).encode(), mode=0o600)
        command = authorized_lines.append_command(self._ssh(), short_path(str(file), self.home))
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
    """Whose box: as told, as the only one who contributed from here, as this host is called."""
    local = Path(DEFAULT_LOCAL.replace("~", str(home), 1))
    names = contributors(local)
    given = environ.get("SYNC_USER_ID") or (names[0] if len(names) == 1 else host_name())
    try:
        return to_peer(given)
    except UsageError as error:
        raise UsageError(error.message, f"SYNC_USER_ID=NAME {SETUP}; {error.fix}") from error
