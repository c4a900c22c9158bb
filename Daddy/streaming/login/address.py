"""Where a job listens for a relay: ``<run>/stream/direct/<peer>.json``, and the token for both.

A job listens only while somebody watches: then the wish list says on which host the relay is. On
the job's own host the loopback address is enough; else it is the one address of this host from
which packets for the relay's host leave, and no other network hears of the port.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from Daddy.core.errors import FileError
from Daddy.core.files import read_json, write_json
from Daddy.core.names import PEER
from Daddy.streaming.login.spool import MAX_SPOOLS
from Daddy.streaming.wire.auth import Token
from Daddy.streaming.wire.protocol import clean
from Daddy.streaming.wire.tokens import ensure_token, load_tokens

LOOPBACK = "127.0.0.1"
_ANY_PORT = 9
_MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """An open port of one job; port 0: it does not listen now."""

    address: str
    port: int
    incarnation: str
    host: str


def jobs_token(stream: Path) -> tuple[Token, ...]:
    """The run's own token between its jobs and its relays, which no viewer is ever given.

    It is made where it is missing. FileError when others may read it; OSError.
    """
    path = stream / "jobs.token"
    ensure_token(path, "jobs")
    return load_tokens([path])


def own_address(relays: frozenset[str], host: str) -> str | None:
    """Where to listen on ``host`` for relays on these hosts; None when that cannot be told.

    It waits for the name server.
    """
    elsewhere = sorted(one for one in relays if one != host)
    if not elsewhere:
        return LOOPBACK
    with (
        contextlib.suppress(OSError, ValueError),  # a name may be none at all
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe,
    ):
        probe.connect((elsewhere[0], _ANY_PORT))  # sends nothing: only the way is looked up
        found = str(probe.getsockname()[0])
        return None if ipaddress.ip_address(found).is_loopback else found
    return None


def write_address(stream: Path, peer: str, address: Address) -> None:
    """Say where this job listens."""
    path = _folder(stream) / f"{peer}.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_json(path, {"v": 1, **asdict(address)}, durable=False)


def read_addresses(stream: Path) -> dict[str, Address]:
    """Where the jobs of a run listen, by peer; damaged files are none."""
    try:
        names = sorted(entry.name for entry in os.scandir(_folder(stream)))
    except OSError:
        return {}
    peers = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    peers = [peer for peer in peers if PEER.fullmatch(peer)][:MAX_SPOOLS]
    found = {peer: read_address(stream, peer) for peer in peers}
    return {peer: one for peer, one in found.items() if one and one.port}


def read_address(stream: Path, peer: str) -> Address | None:
    """Where ``peer`` says that it listens; None where it does not, or the file is damaged."""
    with contextlib.suppress(OSError, FileError, KeyError, TypeError, ValueError, AttributeError):
        raw = read_json(_folder(stream) / f"{peer}.json")
        address, port = str(ipaddress.IPv4Address(str(raw["address"]))), int(raw["port"])
        if 0 <= port <= _MOST_PORT:
            return Address(address, port, clean(raw["incarnation"], 8), clean(raw["host"]))
    return None


def _folder(stream: Path) -> Path:
    return stream / "direct"
