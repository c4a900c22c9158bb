"""``login``: where a key alone is not enough, a person opens one connection and all go over it.

Nothing in the background may ask for a second factor, and none of it does: pulls and pushes go over
the open connection, with the person's own rights, and say when it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from Daddy.core import process
from Daddy.core.errors import FileError, NetworkError
from Daddy.weights.link.remote import Ssh, connect
from Daddy.weights.link.sync_settings import Remote, remember
from Daddy.weights.link.ways import found_out


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
