"""Adapter for the files of a run's stream folder: segments, wish lists, addresses of jobs.

``spool/``: each job has two files of fixed names, written alternately in place, whole, and closed
each time: on NFS closing flushes and opening looks afresh, whereas new names are cached as "absent"
for up to a minute. A reader takes the newer one that is complete (sequence number and CRC-32).

``wanted*.json``: a wish list for each relay, with one writer. The first is the controller's
relay's; a relay that a viewer brought along takes a free one, or one that stood still for as long
as jobs believe it. A counter shows that somebody watches: no clocks of two machines are compared.

``direct/<peer>.json``: the address where a job listens while somebody watches. On the job's own
host that is loopback; else the one address of this host from which packets for the relay's host
leave.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from Daddy.core.atomic_files import JSON_LIMIT, parse_json, read_bounded, read_json, write_json
from Daddy.core.errors import FileError
from Daddy.core.name_validation import PEER
from Daddy.streaming.protocol.framing import clean
from Daddy.streaming.protocol.handshake import Token, ensure_token, load_tokens
from Daddy.streaming.protocol.messages import MAX_TOP_K
from Daddy.streaming.protocol.spool_segment import SEGMENT_LIMIT, Segment, read_segment, unseal

_FILES = ("a", "b")
MAX_SPOOLS = 64
"""Peers that a reader follows; a run has four slots and a few laptops."""


class SpoolWriter:
    """Writes segments of one peer; raises OSError when the folder does not take them."""

    def __init__(self, stream: Path, peer: str) -> None:
        self._paths = [stream / "spool" / f"{peer}.{end}" for end in _FILES]
        self._sequence = 0

    def next_sequence(self) -> int:
        """The number of the next segment; goes on where a predecessor in this slot ended."""
        if not self._sequence:
            self._paths[0].parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._sequence = max(unseal(_read(path))[0] for path in self._paths)
        return self._sequence + 1

    def write(self, sequence: int, data: bytes) -> None:
        """Write one segment over the older of the two files."""
        path = self._paths[sequence % len(_FILES)]
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            os.pwrite(descriptor, data, 0)
        finally:
            os.close(descriptor)
        self._sequence = sequence


class SpoolReader:
    """Follows the segments of every peer of a run."""

    def __init__(self, stream: Path) -> None:
        self._folder = stream / "spool"
        self._seen: dict[str, int] = {}

    def poll(self) -> list[Segment]:
        """Segments that are new since the last poll, oldest first per peer."""
        peers = _peers_in(self._folder, *(f".{end}" for end in _FILES))
        found = [one for peer in peers for one in self._new(peer)]
        return sorted(found, key=lambda segment: (segment.peer, segment.sequence))

    def _new(self, peer: str) -> list[Segment]:
        seen = self._seen.get(peer, 0)
        there = [_read(self._folder / f"{peer}.{end}") for end in _FILES]
        fresh = [data for data in there if unseal(data)[0] > seen]
        segments = [one for data in fresh if (one := read_segment(data)) and one.peer == peer]
        if segments:
            self._seen[peer] = max(one.sequence for one in segments)
        return segments


def _peers_in(folder: Path, *endings: str) -> list[str]:
    """Peers that have a file with one of these endings there."""
    try:
        names = {entry.name for entry in os.scandir(folder)}
    except OSError:
        return []
    stems = {name.removesuffix(end) for name in names for end in endings if name.endswith(end)}
    return sorted(stem for stem in stems if PEER.fullmatch(stem))[:MAX_SPOOLS]


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path, SEGMENT_LIMIT + 1024)
    except (OSError, FileError):
        return b""


@dataclass(frozen=True, slots=True)
class Wishes:
    """A relay's wish of the jobs: pictures of these agents, this many a second.

    ``counter`` moves as long as somebody watches; ``holder`` names the relay of a list that a relay
    has to find; ``host`` is the relay's.
    """

    counter: int
    fps: float
    wanted: Mapping[str, frozenset[int]]
    holder: str = ""
    host: str = ""


@lru_cache(maxsize=64)  # asked for at every look
def _wishes_path(stream: Path, number: int) -> Path:
    return stream / (f"wanted-{number}.json" if number else "wanted.json")


def write_wishes(stream: Path, wishes: Wishes, number: int = 0) -> None:
    """Publish the wish list of this number; one writer (a relay)."""
    wanted = {peer: sorted(agents) for peer, agents in wishes.wanted.items()}
    facts = {"v": 1, "counter": wishes.counter, "fps": wishes.fps, "wanted": wanted}
    facts |= {"host": wishes.host} if wishes.host else {}
    facts |= {"holder": wishes.holder} if number else {}
    write_json(_wishes_path(stream, number), facts)


def read_wishes(stream: Path, number: int = 0) -> Wishes | None:
    """The wish list of this number, or None when there is none or it is damaged."""
    with contextlib.suppress(OSError, FileError):
        return _wishes_of(read_bounded(_wishes_path(stream, number), JSON_LIMIT))
    return None


@lru_cache(maxsize=8)  # most lists are as they were at the last look, four times a second
def _wishes_of(data: bytes) -> Wishes | None:
    with contextlib.suppress(
        FileError, KeyError, TypeError, ValueError, AttributeError, OverflowError
    ):
        raw = parse_json(data, "a wish list")
        wanted = {str(peer): frozenset(map(int, ones)) for peer, ones in raw["wanted"].items()}
        fps, holder = max(0.2, min(60.0, float(raw["fps"]))), str(raw.get("holder", ""))
        return Wishes(int(raw["counter"]), fps, wanted, holder, clean(raw.get("host", "")))
    return None


SEATS = 4
"""Relays of a run at a time: the controller's and three that viewers brought along."""
WATCHED_FOR_S = 15.0
"""A wish list's counter stands still for so long: nobody watches."""
Seen = dict[int, tuple[object, float]]
"""Newest value of each list, and the time since when it is that."""


def prepare(stream: Path) -> None:
    """Make the lists that are missing, so that no job's machine remembers them as absent."""
    for number in range(1, SEATS):
        if read_wishes(stream, number) is None:
            write_wishes(stream, Wishes(0, 1.0, {}), number)


class Seat:
    """One relay's wish list."""

    def __init__(self, stream: Path, counter: int, holder: str = "", host: str = "") -> None:
        """``holder``: a relay on ``host`` that has to find a free list; empty: the controller's."""
        self._stream, self._counter = stream, counter
        self._holder, self._host = holder, host
        self._number = 0
        self._seen: Seen = {}

    def publish(self, fps: float, wanted: Mapping[str, frozenset[int]], now: float) -> bool:
        """Ask the jobs for pictures; False while every list is another's."""
        if self._holder and not self._holds(now):
            return False
        self._counter += 1
        wishes = Wishes(self._counter, fps, wanted, self._holder, self._host)
        write_wishes(self._stream, wishes, self._number)
        return True

    def leave(self) -> None:
        """Want nothing any more, and make room."""
        if not self._holder or self._number:
            self._counter += 1
            write_wishes(self._stream, Wishes(self._counter, 1.0, {}), self._number)

    def _holds(self, now: float) -> bool:
        """The list is ours: two that took the same at once find out at the next look."""
        there = read_wishes(self._stream, self._number) if self._number else None
        if there is None or there.holder != self._holder:
            self._number = self._free(now)
        return self._number > 0

    def _free(self, now: float) -> int:
        for number in range(1, SEATS):
            there = read_wishes(self._stream, number)
            if there is None or not there.holder:
                return number
            if _still_for(self._seen, number, there, now) > WATCHED_FOR_S:
                return number
        return 0


def _still_for(seen: Seen, number: int, value: object, now: float) -> float:
    """Seconds for which ``value`` of this list has been the same; remembers it in ``seen``."""
    before, since = seen.get(number, (None, now))
    if value != before:
        since = now
        seen[number] = (value, now)
    return now - since


class Watchers:
    """A job's view of all wish lists."""

    def __init__(self, stream: Path) -> None:
        self._stream = stream
        self._seen: Seen = {}
        self.hosts: frozenset[str] = frozenset()
        """Hosts of the relays that want something now."""

    def wishes(self, now: float) -> Wishes:
        """The union of what is wanted now, at the highest of the rates."""
        counter, fps, hosts = 0, 0.2, set[str]()
        wanted = dict[str, frozenset[int]]()
        for number in range(SEATS):
            wishes = read_wishes(self._stream, number)
            if wishes is None:
                continue
            if _still_for(self._seen, number, wishes.counter, now) >= WATCHED_FOR_S:
                continue
            counter, fps = counter + wishes.counter, max(fps, wishes.fps)
            hosts |= {wishes.host} if wishes.wanted and wishes.host else set()
            for peer, agents in wishes.wanted.items():
                some = frozenset(sorted(agents)[:MAX_TOP_K])
                wanted[peer] = wanted.get(peer, frozenset()) | some
        self.hosts = frozenset(hosts)
        return Wishes(counter, fps, wanted)


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
    """The token between jobs and relays, made where it is missing. FileError; OSError."""
    path = stream / "jobs.token"
    ensure_token(path, "jobs")
    return load_tokens([path])


def own_address(relays: frozenset[str], host: str) -> str | None:
    """The address on ``host`` for relays on these hosts, or None. Waits for the name server."""
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
    """Publish the address of this job."""
    path = stream / "direct" / f"{peer}.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_json(path, {"v": 1, **asdict(address)}, durable=False)


def read_addresses(stream: Path) -> dict[str, Address]:
    """Addresses of the jobs that listen, by peer; damaged files are none."""
    found = {peer: read_address(stream, peer) for peer in _peers_in(stream / "direct", ".json")}
    return {peer: one for peer, one in found.items() if one and one.port}


def read_address(stream: Path, peer: str) -> Address | None:
    """The address that ``peer`` has published; None where it has not, or the file is damaged."""
    with contextlib.suppress(OSError, FileError, KeyError, TypeError, ValueError, AttributeError):
        raw = read_json(stream / "direct" / f"{peer}.json")
        address, port = str(ipaddress.IPv4Address(str(raw["address"]))), int(raw["port"])
        if 0 <= port <= _MOST_PORT:
            return Address(address, port, clean(raw["incarnation"], 8), clean(raw["host"]))
    return None
