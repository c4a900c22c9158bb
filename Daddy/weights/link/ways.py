"""By which login, key and transport a pull and a push go: a decision, and the carrier for it.

A key that ``setup`` tried is used at the remote where it was tried. Whoever names a key
(``SYNC_SSH_KEY``), another remote or another transport goes by that; who never ran ``setup`` goes
as ssh itself would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from Daddy.core.errors import UsageError
from Daddy.core.names import check_peer
from Daddy.weights.link.carrier import Carrier
from Daddy.weights.link.remote import connect
from Daddy.weights.link.rsync import RsyncCarrier
from Daddy.weights.link.sync_settings import Remote

TRANSPORTS = ("rsync", "sftp")
_FOUND = ("pull_key", "pull_by", "push_key", "tunnel_key", "peer", "opened")


@dataclass(frozen=True, slots=True)
class Way:
    """A login and what carries files over it (one of ``TRANSPORTS``)."""

    remote: Remote
    transport: str

    def __str__(self) -> str:
        """For people."""
        if self.remote.opened:
            return f"{self.transport} over the connection that you opened"
        if self.remote.within is None:
            return f"{self.transport}, with your own login"
        return f"{self.transport}, with this laptop's key {self.remote.key}"


def found_out(remote: Remote, kept: Mapping[str, str]) -> dict[str, str]:
    """What ``setup`` or ``login`` found out about this very remote; empty for any other."""
    facts = {name: kept[name] for name in _FOUND if kept.get(name)}
    same = all(kept.get(name, "") == getattr(remote, name) for name in
               ("host", "user", "folder", "ssh_config", "port", "key"))  # fmt: skip
    return facts if same else {}


def way_to_pull(remote: Remote, kept: Mapping[str, str], asked: str) -> Way:
    """How to read; ``asked`` is the person's ``SYNC_TRANSPORT``, or empty. UsageError."""
    found = found_out(remote, kept)
    by = found.get("pull_by", "rsync")
    if _goes_by_key("pull_key", remote, found) and asked in ("", by):
        return Way(replace(remote, key=found["pull_key"], within=""), by)
    return _own_way(remote, found, asked)


def way_to_push(remote: Remote, kept: Mapping[str, str], asked: str) -> Way:
    """How to write; UsageError."""
    found = found_out(remote, kept)
    if _goes_by_key("push_key", remote, found) and asked in ("", "rsync"):
        box = f"inbox/{check_peer(found.get('peer', ''))}"
        return Way(replace(remote, key=found["push_key"], within=box), "rsync")
    return _own_way(remote, found, asked)


def _goes_by_key(name: str, remote: Remote, found: Mapping[str, str]) -> bool:
    return bool(found.get(name)) and not remote.key and not found.get("opened")


def _own_way(remote: Remote, found: Mapping[str, str], asked: str) -> Way:
    transport = asked or "rsync"
    if transport not in TRANSPORTS:
        raise UsageError(f"SYNC_TRANSPORT is {transport!r}", "use rsync or sftp")
    if found.get("opened") and transport == "sftp":
        raise UsageError(
            "sftp cannot go over the connection that you opened", "unset SYNC_TRANSPORT"
        )
    return Way(replace(remote, opened=bool(found.get("opened"))), transport)


def open_carrier(way: Way) -> Carrier:
    """The carrier that goes this way; nothing is connected yet."""
    if way.transport == "rsync":
        return RsyncCarrier(connect(way.remote))
    from Daddy.weights.link.sftp import SftpCarrier

    return SftpCarrier(way.remote)
