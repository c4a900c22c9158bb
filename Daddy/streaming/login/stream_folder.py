"""Adapter for the files of a run's stream folder: segments, watch requests, addresses of jobs.

``spool/``: each job has two files of fixed names. It writes a segment into each in turn, in place,
and closes the file each time: on NFS, closing flushes and opening revalidates, whereas a new name
may be cached as absent for a minute. A reader takes complete files (sequence number and CRC-32).

``wanted*.json``: one watch request per relay, each with one writer. ``wanted.json`` belongs to the
controller's relay. A viewer's own relay takes a file that is free or unchanged for 15 s, which jobs
then ignore. A counter shows that a viewer watches, without comparing clocks.

``direct/<peer>.json``: the address at which a job listens while a viewer watches: loopback for a
relay on the same host; otherwise the address from which this host sends to the relay's host.
"""

import contextlib
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from Daddy.core.atomic_files import JSON_LIMIT, parse_json, read_bounded, read_json, write_json
from Daddy.core.errors import FileError
from Daddy.core.host_and_processes import address_toward
from Daddy.core.name_validation import PEER
from Daddy.streaming.protocol.framing import clean_text
from Daddy.streaming.protocol.handshake import Token, ensure_token, load_tokens
from Daddy.streaming.protocol.messages import MAX_TOP_K
from Daddy.streaming.protocol.spool_segment import SEGMENT_LIMIT, Segment, read_segment, unpack_file

_FILES = ("a", "b")
MAX_SPOOLS = 64
"""Peers that a reader follows; a run has four slots and a few laptops."""


class SpoolWriter:
    """Writes segments of one peer into the spool; OSError when the folder refuses the write."""

    def __init__(self, stream: Path, peer: str) -> None:
        self._paths = [stream / "spool" / f"{peer}.{end}" for end in _FILES]
        self._sequence = 0

    def next_sequence(self) -> int:
        """Return the number after the last segment in the files, be it a predecessor's."""
        if not self._sequence:
            self._paths[0].parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._sequence = max(unpack_file(_read(path))[0] for path in self._paths)
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
    """Reads the spool segments of every peer of a run."""

    def __init__(self, stream: Path) -> None:
        self._folder = stream / "spool"
        self._newest: dict[str, int] = {}

    def read_new_segments(self) -> list[Segment]:
        """Return the segments that are new since the last call, oldest first per peer."""
        peers = _peers_in(self._folder, *(f".{end}" for end in _FILES))
        segments = [segment for peer in peers for segment in self._new(peer)]
        return sorted(segments, key=lambda segment: (segment.peer, segment.sequence))

    def _new(self, peer: str) -> list[Segment]:
        newest = self._newest.get(peer, 0)
        files = [_read(self._folder / f"{peer}.{end}") for end in _FILES]
        fresh = [read_segment(data) for data in files if unpack_file(data)[0] > newest]
        segments = [segment for segment in fresh if segment and segment.peer == peer]
        if segments:
            self._newest[peer] = max(segment.sequence for segment in segments)
        return segments


def _peers_in(folder: Path, *endings: str) -> list[str]:
    """Return the peers that have a file with one of these endings in ``folder``."""
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
class WatchRequest:
    """Holds a relay's request for pictures: the wanted agents of each peer, and pictures a second.

    ``counter`` grows while a viewer watches; ``holder`` names the relay (empty: the controller's);
    ``host`` is the relay's host.
    """

    counter: int
    fps: float
    wanted: Mapping[str, frozenset[int]]
    holder: str = ""
    host: str = ""


@lru_cache(maxsize=64)  # called with every read, four times a second
def _request_path(stream: Path, number: int) -> Path:
    return stream / (f"wanted-{number}.json" if number else "wanted.json")


def write_watch_request(stream: Path, request: WatchRequest, number: int = 0) -> None:
    """Write watch request ``number`` to its file; each number has one relay as writer."""
    wanted = {peer: sorted(agents) for peer, agents in request.wanted.items()}
    facts = {"v": 1, "counter": request.counter, "fps": request.fps, "wanted": wanted}
    facts |= {"host": request.host} if request.host else {}
    facts |= {"holder": request.holder} if number else {}
    write_json(_request_path(stream, number), facts)


def read_watch_request(stream: Path, number: int = 0) -> WatchRequest | None:
    """Return watch request ``number``, or None when it is missing or damaged."""
    with contextlib.suppress(OSError, FileError):
        return _parse_watch_request(read_bounded(_request_path(stream, number), JSON_LIMIT))
    return None


@lru_cache(maxsize=8)  # most requests are unchanged since the last read, four times a second
def _parse_watch_request(data: bytes) -> WatchRequest | None:
    with contextlib.suppress(
        FileError, KeyError, TypeError, ValueError, AttributeError, OverflowError
    ):
        raw = parse_json(data, "a watch request")
        wanted = {str(peer): frozenset(map(int, some)) for peer, some in raw["wanted"].items()}
        fps, holder = max(0.2, min(60.0, float(raw["fps"]))), str(raw.get("holder", ""))
        host = clean_text(raw.get("host", ""))
        return WatchRequest(int(raw["counter"]), fps, wanted, holder, host)
    return None


MAX_RELAYS = 4
"""Relays of a run at a time: the controller's and three that viewers started."""
WATCHED_FOR_S = 15.0
"""Seconds for which a request's counter stands still before jobs treat it as abandoned."""
SeenValues = dict[int, tuple[object, float]]
"""The newest value of each request file, and the time since when it has that value."""


def create_request_files(stream: Path) -> None:
    """Create missing request files, so that NFS clients do not cache them as absent."""
    for number in range(1, MAX_RELAYS):
        if read_watch_request(stream, number) is None:
            write_watch_request(stream, WatchRequest(0, 1.0, {}), number)


class WatchRequestSlot:
    """Writes the watch request of one relay into a file of its own."""

    def __init__(self, stream: Path, counter: int, holder: str = "", host: str = "") -> None:
        """``holder``: name of a relay that takes a free file; empty for the controller's relay."""
        self._stream, self._counter = stream, counter
        self._holder, self._host = holder, host
        self._number = 0
        self._newest: SeenValues = {}

    def publish(self, fps: float, wanted: Mapping[str, frozenset[int]], now: float) -> bool:
        """Write the request to a file; return False while other relays hold all files."""
        if self._holder and not self._holds_file(now):
            return False
        self._counter += 1
        request = WatchRequest(self._counter, fps, wanted, self._holder, self._host)
        write_watch_request(self._stream, request, self._number)
        return True

    def withdraw(self) -> None:
        """Write an empty request without a holder: jobs stop, and the file is free."""
        if not self._holder or self._number:
            self._counter += 1
            write_watch_request(self._stream, WatchRequest(self._counter, 1.0, {}), self._number)

    def _holds_file(self, now: float) -> bool:
        """Return True if the file is ours; take a free one otherwise.

        Two relays may take one file: A and B read it as free, A writes, B writes. With its next
        call A reads the name of B and takes another file.
        """
        request = read_watch_request(self._stream, self._number) if self._number else None
        if request is None or request.holder != self._holder:
            self._number = self._find_free_file(now)
        return self._number > 0

    def _find_free_file(self, now: float) -> int:
        for number in range(1, MAX_RELAYS):
            request = read_watch_request(self._stream, number)
            if request is None or not request.holder:
                return number
            if _seconds_unchanged(self._newest, number, request, now) > WATCHED_FOR_S:
                return number
        return 0


def _seconds_unchanged(newest: SeenValues, number: int, value: object, now: float) -> float:
    """Return the seconds since file ``number`` first had ``value``; note it in ``newest``."""
    before, since = newest.get(number, (None, now))
    if value != before:
        since = now
        newest[number] = (value, now)
    return now - since


class WatchRequests:
    """Reads the watch requests of all relays for one job."""

    def __init__(self, stream: Path) -> None:
        self._stream = stream
        self._newest: SeenValues = {}
        self.hosts: frozenset[str] = frozenset()
        """Hosts of the relays that request pictures now."""

    def read_union(self, now: float) -> WatchRequest:
        """Return the union of the requests that are not abandoned, at their highest rate."""
        counter, fps, hosts = 0, 0.2, set[str]()
        wanted = dict[str, frozenset[int]]()
        for number in range(MAX_RELAYS):
            request = read_watch_request(self._stream, number)
            if request is None:
                continue
            if _seconds_unchanged(self._newest, number, request.counter, now) >= WATCHED_FOR_S:
                continue
            counter, fps = counter + request.counter, max(fps, request.fps)
            hosts |= {request.host} if request.wanted and request.host else set()
            for peer, agents in request.wanted.items():
                some = frozenset(sorted(agents)[:MAX_TOP_K])
                wanted[peer] = wanted.get(peer, frozenset()) | some
        self.hosts = frozenset(hosts)
        return WatchRequest(counter, fps, wanted)


LOOPBACK = "127.0.0.1"
_MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class JobAddress:
    """Holds the address at which a job listens; port 0: it does not listen now."""

    address: str
    port: int
    incarnation: str
    host: str


def ensure_jobs_token(stream: Path) -> tuple[Token, ...]:
    """Return the tokens of ``jobs.token``, created if missing. Raise FileError or OSError."""
    path = stream / "jobs.token"
    ensure_token(path, "jobs")
    return load_tokens([path])


def own_address(relays: frozenset[str], host: str) -> str | None:
    """Return this ``host``'s address for relays on ``relays`` (hosts), or None; asks DNS."""
    elsewhere = sorted(name for name in relays if name != host)
    if not elsewhere:
        return LOOPBACK
    with contextlib.suppress(OSError, ValueError):  # a request may hold an invalid host name
        address = address_toward(elsewhere[0])
        return None if ipaddress.ip_address(address).is_loopback else address
    return None


def write_address(stream: Path, peer: str, address: JobAddress) -> None:
    """Write the address of job ``peer`` to ``direct/<peer>.json``."""
    path = stream / "direct" / f"{peer}.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_json(path, {"v": 1, **asdict(address)}, durable=False)


def read_addresses(stream: Path) -> dict[str, JobAddress]:
    """Return the addresses of listening jobs, by peer; skip damaged files."""
    published = {p: read_address(stream, p) for p in _peers_in(stream / "direct", ".json")}
    return {peer: address for peer, address in published.items() if address and address.port}


def read_address(stream: Path, peer: str) -> JobAddress | None:
    """Return the address that job ``peer`` wrote; None if it is missing or damaged."""
    with contextlib.suppress(OSError, FileError, KeyError, TypeError, ValueError, AttributeError):
        raw = read_json(stream / "direct" / f"{peer}.json")
        address, port = str(ipaddress.IPv4Address(str(raw["address"]))), int(raw["port"])
        incarnation, host = clean_text(raw["incarnation"], 8), clean_text(raw["host"])
        if 0 <= port <= _MOST_PORT:
            return JobAddress(address, port, incarnation, host)
    return None
