"""The chain of versions as it stands on disk, for summaries and plots. No torch.

Reads commit records alone; whether states verify is the store's business.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from Daddy.core.errors import FileError, WeightsError
from Daddy.core.files import read_bounded, sha256_hex
from Daddy.core.paths import SharedPaths
from Daddy.weights.manifest import Version, parse
from Daddy.weights.store import VERSION_NAME
from Daddy.weights.strict import LIMIT


@dataclass(frozen=True, slots=True)
class History:
    """Every version from 0 on; ``chained`` when each names its parent's hash; ``flaw`` if not."""

    versions: tuple[Version, ...]
    chained: bool
    flaw: str = ""

    @property
    def contributors(self) -> list[str]:
        """Peers whose work is in any version."""
        return sorted({one.peer for version in self.versions for one in version.inputs})


def read_history(shared: SharedPaths) -> History:
    """All commit records from version 0 to the first number that does not exist."""
    versions: list[Version] = []
    parent = ""
    while shared.version(len(versions)).exists():
        path = shared.version(len(versions))
        try:
            data = read_bounded(path, LIMIT)
            record = parse(Version, data, str(path))
        except (WeightsError, FileError) as error:
            return History(tuple(versions), chained=False, flaw=error.message)
        if record.version != len(versions) or record.parent != parent:
            return History(tuple(versions), chained=False, flaw=f"{path} names another parent")
        versions.append(record)
        parent = sha256_hex(data)
    return History(tuple(versions), chained=bool(versions))


@dataclass(frozen=True, slots=True)
class Flaw:
    """A record that was passed over, or does not fit the one before: its number, and why."""

    version: int
    said: str


@dataclass(frozen=True, slots=True)
class Records:
    """Commit records in order, and what is wrong with those that are not among them."""

    versions: tuple[Version, ...]
    flaws: tuple[Flaw, ...]


def numbers(shared: SharedPaths) -> list[int]:
    """Every version that has a commit record, in order."""
    with contextlib.suppress(FileNotFoundError):
        found = (VERSION_NAME.fullmatch(path.name) for path in shared.merged.iterdir())
        return sorted(int(match.group(1)) for match in found if match)
    return []


def read_records(shared: SharedPaths, wanted: Iterable[int], first: int) -> Records:
    """The records ``wanted``, ascending, of those from ``first`` on.

    For looks at a folder that is written to, or damaged: what cannot be read is passed over by
    name, where :func:`read_history` stops.
    """
    versions: list[Version] = []
    flaws: list[Flaw] = []
    expected, parent = first, ""
    for number in wanted:
        if number > expected:
            flaws.append(_missing(shared, expected, number - 1))
            parent = ""
        expected = number + 1
        try:
            record, sha = _read(shared, number)
        except (WeightsError, FileError) as error:
            flaws.append(Flaw(number, error.message))
            parent = ""
            continue
        if parent and record.parent != parent:
            said = f"{shared.version(number)} names another parent than the record before it"
            flaws.append(Flaw(number, said))
        versions.append(record)
        parent = sha
    return Records(tuple(versions), tuple(flaws))


def _read(shared: SharedPaths, number: int) -> tuple[Version, str]:
    path = shared.version(number)
    try:
        data = read_bounded(path, LIMIT)
    except FileNotFoundError as error:
        raise WeightsError(f"{path} is missing") from error
    record = parse(Version, data, str(path))
    if record.version != number:
        raise WeightsError(f"{path} speaks of version {record.version}")
    return record, sha256_hex(data)


def _missing(shared: SharedPaths, first: int, last: int) -> Flaw:
    if first == last:
        return Flaw(first, f"{shared.version(first)} is missing")
    return Flaw(first, f"{shared.version(first)} to v{last:08d}.json are missing")
