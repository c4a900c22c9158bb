"""Memory that a learner and its streamer share: what is asked for, the newest reports, a ring.

It is a file without a name, so it is gone when the last of both has ended, however they end. Each
byte has one writer, and nobody waits for the other: the learner writes over the oldest record, and
the streamer copies a record and then looks whether its counter is still the same. A counter is odd
while its record is being written.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter

from Daddy.core.shared_types import AgentReport
from Daddy.streaming.protocol.spool_segment import Picture

MAX_AGENTS = 512
_REPORT_ASK, _PICTURE_ASK, _ASKS, _CLOSING, _WANTED = 0, 1, 2, 8, 512
"""Numbers that grow when reports, pictures or either are asked for; the learner's goodbye, which is
the learner's byte; a byte an agent."""
_REPORTS = 1024
_REPORTS_HEAD = struct.Struct("<QI")
_REPORTS_LIMIT = 256 * 1024
_HEAD = struct.Struct("<QHHIQQI")
"""counter, 0, agent, length, step, captured (ms of the learner's monotonic clock), episode."""
_SLOT = 6144
RECORDS = 256
"""Records that wait for the streamer: eight seconds of two agents at 15 pictures a second."""
RECORD_LIMIT = _SLOT - _HEAD.size
_RING = _REPORTS + _REPORTS_HEAD.size + _REPORTS_LIMIT
SIZE = _RING + RECORDS * _SLOT
_FIELDS = tuple(one.name for one in fields(AgentReport))
_facts = attrgetter(*_FIELDS)


def nameless_file() -> int:
    """The descriptor of a file of ``SIZE`` bytes in no folder. OSError: no memory and no disk."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):  # a kernel or a sandbox that has none
            descriptor = os.memfd_create("daddy-stream")
            os.ftruncate(descriptor, SIZE)  # pages that nobody touches take no memory
            return descriptor
    with tempfile.TemporaryFile() as file:
        file.write(bytes(SIZE))  # a hole would be a SIGBUS once the disk is full
        file.flush()
        return os.dup(file.fileno())


class LearnerEnd:
    """The learner's end; every call is a few copies and never waits."""

    def __init__(self, descriptor: int) -> None:
        """``descriptor`` is one of :func:`nameless_file`; it may be closed afterwards."""
        self._map = mmap.mmap(descriptor, SIZE)
        self._bytes = memoryview(self._map)
        self.asks = self._bytes[_ASKS : _ASKS + 1]
        """A byte that changes when anything is asked for, after what says what."""
        self._told = 0
        self._written = 0

    @property
    def report_ask(self) -> int:
        """A number that changes when reports are asked for."""
        return self._bytes[_REPORT_ASK]

    @property
    def picture_ask(self) -> int:
        """A number that changes when a picture of each wanted agent is asked for."""
        return self._bytes[_PICTURE_ASK]

    def wants(self, agent: int) -> bool:
        return 0 <= agent < MAX_AGENTS and bool(self._bytes[_WANTED + agent])

    def wanted(self) -> frozenset[int]:
        return _agents(bytes(self._bytes[_WANTED : _WANTED + MAX_AGENTS]))

    def want_nothing(self) -> None:
        """To be called only while no streamer lives: the bytes are its own."""
        if any(self._bytes[_WANTED : _WANTED + MAX_AGENTS]):
            self._bytes[_WANTED : _WANTED + MAX_AGENTS] = bytes(MAX_AGENTS)

    def report(self, reports: Sequence[AgentReport]) -> None:
        """The newest reports take the place of those before; too many are left out."""
        data = json.dumps([_facts(one) for one in reports[:MAX_AGENTS]], default=float).encode()
        if len(data) > _REPORTS_LIMIT:
            return
        start = _REPORTS + _REPORTS_HEAD.size
        _REPORTS_HEAD.pack_into(self._map, _REPORTS, 2 * self._told + 1, 0)
        self._bytes[start : start + len(data)] = data
        self._told += 1
        _REPORTS_HEAD.pack_into(self._map, _REPORTS, 2 * self._told, len(data))

    def put(self, record: Picture) -> None:
        """A record of at most ``RECORD_LIMIT`` bytes, over the oldest if the ring is full."""
        number, size = self._written + 1, len(record.pixels)
        at = _RING + number % RECORDS * _SLOT
        start = at + _HEAD.size
        facts = (0, record.agent, size, record.step, record.captured_ms, record.episode)
        _HEAD.pack_into(self._map, at, 2 * number - 1, *facts)
        self._bytes[start : start + size] = record.pixels
        _HEAD.pack_into(self._map, at, 2 * number, *facts)
        self._written = number

    def say_goodbye(self) -> None:
        """The streamer is to write what is left and end."""
        self._bytes[_CLOSING] = 1

    def close(self) -> None:
        self.asks.release()
        self._bytes.release()
        self._map.close()


@lru_cache(maxsize=8)  # asked for with every picture, and the same for seconds
def _agents(row: bytes) -> frozenset[int]:
    return frozenset(agent for agent, wanted in enumerate(row) if wanted)


class StreamerEnd:
    """The streamer's end."""

    def __init__(self, descriptor: int) -> None:
        """Begins with what is put from now on: older pictures are nobody's any more."""
        self._map = mmap.mmap(descriptor, SIZE)
        self._told = 0
        self._read = self._newest()
        self.lost = 0

    @property
    def closing(self) -> bool:
        return self._map[_CLOSING] == 1

    def ask_report(self) -> None:
        self._grow(_REPORT_ASK)

    def ask_pictures(self) -> None:
        """Have the learner offer one picture of each wanted agent."""
        self._grow(_PICTURE_ASK)

    def _grow(self, *asks: int) -> None:
        for number in (*asks, _ASKS):
            self._map[number] = (self._map[number] + 1) % 256

    def want(self, agents: Iterable[int]) -> None:
        """Pictures of these agents are wanted, and of nobody else."""
        wanted = set(agents)
        row = bytes(agent in wanted for agent in range(MAX_AGENTS))
        self._map[_WANTED : _WANTED + MAX_AGENTS] = row
        self._grow()

    def reports(self) -> list[AgentReport] | None:
        """The newest reports; None when there are none since the last call."""
        counter, size = _REPORTS_HEAD.unpack_from(self._map, _REPORTS)
        if counter % 2 or counter == self._told:
            return None
        start = _REPORTS + _REPORTS_HEAD.size
        data = self._map[start : start + size]
        if _REPORTS_HEAD.unpack_from(self._map, _REPORTS)[0] != counter:
            return None
        self._told = counter
        return [AgentReport(*facts) for facts in json.loads(data)]

    def records(self) -> list[Picture]:
        """Every whole record since the last call; those that were written over count as lost."""
        found = []
        while self._counter(self._read + 1) >= 2 * (self._read + 1):
            record = self._copy(self._read + 1)
            if record is None:  # a lap behind: go on with the oldest that is still there
                oldest = max(self._read + 1, self._newest() - RECORDS // 2)
                self.lost, self._read = self.lost + oldest - self._read, oldest
                continue
            self._read += 1
            found.append(record)
        return found

    def _newest(self) -> int:
        return max(self._counter(number) for number in range(RECORDS)) // 2

    def _copy(self, number: int) -> Picture | None:
        at = _RING + number % RECORDS * _SLOT
        counter, _, agent, size, step, captured_ms, episode = _HEAD.unpack_from(self._map, at)
        payload = self._map[at + _HEAD.size : at + _HEAD.size + min(size, RECORD_LIMIT)]
        if counter != 2 * number or self._counter(number) != counter:
            return None
        return Picture(agent, step, episode, captured_ms, payload)

    def _counter(self, number: int) -> int:
        return int(_HEAD.unpack_from(self._map, _RING + number % RECORDS * _SLOT)[0])

    def close(self) -> None:
        self._map.close()
