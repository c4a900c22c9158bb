"""Shares memory between a learner and its streamer: requests, newest reports, a ring of pictures.

The memory is a file without a name, so it disappears when both processes have ended. Each byte has
one writer, and neither process waits for the other: (1) the learner sets a record's counter to an
odd number, writes the record over the oldest, and sets the counter to the next even number; (2) the
streamer reads the counter, copies the record, and drops the copy if the counter has changed.
"""

import json
import mmap
import struct
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter

from Daddy.core.nameless_memory import make_nameless_file
from Daddy.core.shared_types import AgentReport
from Daddy.streaming.protocol.spool_segment import CapturedPicture

MAX_AGENTS = 512
_REPORT_REQUEST, _PICTURE_REQUEST, _ANY_REQUEST, _EXIT, _WANTED = 0, 1, 2, 8, 512
"""Offsets: counters of report, picture and all requests; the exit flag, which the learner writes;
one byte per agent that is 1 while its pictures are wanted."""
_REPORTS = 1024
_REPORTS_HEAD = struct.Struct("<QI")
_REPORTS_LIMIT = 256 * 1024
_HEAD = struct.Struct("<QHHIQQI")
"""counter, 0, agent, length, step, captured (ms of the learner's monotonic clock), episode."""
_RECORD_BYTES = 6144
RECORDS = 256
"""Records that wait for the streamer: eight seconds of two agents at 15 pictures a second."""
RECORD_LIMIT = _RECORD_BYTES - _HEAD.size
_RING = _REPORTS + _REPORTS_HEAD.size + _REPORTS_LIMIT
SIZE = _RING + RECORDS * _RECORD_BYTES
_FIELDS = tuple(field.name for field in fields(AgentReport))
_values = attrgetter(*_FIELDS)


def nameless_file() -> int:
    """Return the descriptor of an unnamed file of ``SIZE`` bytes. OSError: no memory or disk."""
    return make_nameless_file(SIZE)


class LearnerEnd:
    """Writes reports and pictures for the streamer; every call copies and never waits."""

    def __init__(self, descriptor: int) -> None:
        """``descriptor`` comes from :func:`nameless_file`; it may be closed afterwards."""
        self._map = mmap.mmap(descriptor, SIZE)
        self._bytes = memoryview(self._map)
        self.request_byte = self._bytes[_ANY_REQUEST : _ANY_REQUEST + 1]
        """A byte that changes with every request, after the request itself was written."""
        self._reports_counter = 0
        self._written = 0

    @property
    def report_request(self) -> int:
        """A number that changes with every request for reports."""
        return self._bytes[_REPORT_REQUEST]

    @property
    def picture_request(self) -> int:
        """A number that changes with every request for a picture of each wanted agent."""
        return self._bytes[_PICTURE_REQUEST]

    def is_wanted(self, agent: int) -> bool:
        return 0 <= agent < MAX_AGENTS and bool(self._bytes[_WANTED + agent])

    def wanted_agents(self) -> frozenset[int]:
        return _agents(bytes(self._bytes[_WANTED : _WANTED + MAX_AGENTS]))

    def clear_wanted(self) -> None:
        """Clear the wanted agents, which a streamer writes; call only while no streamer runs."""
        if any(self._bytes[_WANTED : _WANTED + MAX_AGENTS]):
            self._bytes[_WANTED : _WANTED + MAX_AGENTS] = bytes(MAX_AGENTS)

    def write_reports(self, reports: Sequence[AgentReport]) -> None:
        """Replace all reports; write none if together they do not fit into the memory."""
        data = json.dumps([_values(r) for r in reports[:MAX_AGENTS]], default=float).encode()
        if len(data) > _REPORTS_LIMIT:
            return
        start = _REPORTS + _REPORTS_HEAD.size
        _REPORTS_HEAD.pack_into(self._map, _REPORTS, 2 * self._reports_counter + 1, 0)
        self._bytes[start : start + len(data)] = data
        self._reports_counter += 1
        _REPORTS_HEAD.pack_into(self._map, _REPORTS, 2 * self._reports_counter, len(data))

    def write_picture(self, record: CapturedPicture) -> None:
        """Write a record of at most ``RECORD_LIMIT`` bytes over the oldest in the ring."""
        number, size = self._written + 1, len(record.pixels)
        at = _RING + number % RECORDS * _RECORD_BYTES
        start = at + _HEAD.size
        facts = (0, record.agent, size, record.step, record.captured_ms, record.episode)
        _HEAD.pack_into(self._map, at, 2 * number - 1, *facts)
        self._bytes[start : start + size] = record.pixels
        _HEAD.pack_into(self._map, at, 2 * number, *facts)
        self._written = number

    def request_exit(self) -> None:
        """Tell the streamer to write the remaining records and end."""
        self._bytes[_EXIT] = 1

    def close(self) -> None:
        self.request_byte.release()
        self._bytes.release()
        self._map.close()


@lru_cache(maxsize=8)  # called with every picture; the row stays the same for seconds
def _agents(row: bytes) -> frozenset[int]:
    return frozenset(agent for agent, wanted in enumerate(row) if wanted)


class StreamerEnd:
    """Reads the learner's reports and pictures, and requests new ones."""

    def __init__(self, descriptor: int) -> None:
        """Start after the newest record: older ones were meant for a streamer that ended."""
        self._map = mmap.mmap(descriptor, SIZE)
        self._reports_counter = 0
        self._read = self._newest()
        self.lost = 0

    @property
    def exit_requested(self) -> bool:
        return self._map[_EXIT] == 1

    def request_reports(self) -> None:
        self._increment(_REPORT_REQUEST)

    def request_wanted_pictures(self) -> None:
        """Request one picture of each wanted agent."""
        self._increment(_PICTURE_REQUEST)

    def _increment(self, *counters: int) -> None:
        for number in (*counters, _ANY_REQUEST):
            self._map[number] = (self._map[number] + 1) % 256

    def set_wanted(self, agents: Iterable[int]) -> None:
        """Request pictures of these agents, and of no others, until the next call."""
        wanted = set(agents)
        row = bytes(agent in wanted for agent in range(MAX_AGENTS))
        self._map[_WANTED : _WANTED + MAX_AGENTS] = row
        self._increment()

    def read_reports(self) -> list[AgentReport] | None:
        """Return the newest reports; None if there are none since the last call."""
        counter, size = _REPORTS_HEAD.unpack_from(self._map, _REPORTS)
        if counter % 2 or counter == self._reports_counter:
            return None
        start = _REPORTS + _REPORTS_HEAD.size
        data = self._map[start : start + size]
        if _REPORTS_HEAD.unpack_from(self._map, _REPORTS)[0] != counter:
            return None
        self._reports_counter = counter
        return [AgentReport(*facts) for facts in json.loads(data)]

    def read_pictures(self) -> list[CapturedPicture]:
        """Return the complete records since the last call; count overwritten ones as lost."""
        records = []
        while self._counter(self._read + 1) >= 2 * (self._read + 1):
            record = self._copy(self._read + 1)
            if record is None:  # overwritten: continue with the oldest record still in the ring
                oldest = max(self._read + 1, self._newest() - RECORDS // 2)
                self.lost, self._read = self.lost + oldest - self._read, oldest
                continue
            self._read += 1
            records.append(record)
        return records

    def _newest(self) -> int:
        return max(self._counter(number) for number in range(RECORDS)) // 2

    def _copy(self, number: int) -> CapturedPicture | None:
        at = _RING + number % RECORDS * _RECORD_BYTES
        counter, _, agent, size, step, captured_ms, episode = _HEAD.unpack_from(self._map, at)
        payload = self._map[at + _HEAD.size : at + _HEAD.size + min(size, RECORD_LIMIT)]
        if counter != 2 * number or self._counter(number) != counter:
            return None
        return CapturedPicture(agent, step, episode, captured_ms, payload)

    def _counter(self, number: int) -> int:
        return int(_HEAD.unpack_from(self._map, _RING + number % RECORDS * _RECORD_BYTES)[0])

    def close(self) -> None:
        self._map.close()
