"""The chain of versions as it stands on disk, for summaries and plots. No torch.

Reads commit records alone; whether states verify is the store's business.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from Daddy.core.errors import FileError, WeightsError
from Daddy.core.files import read_bounded, sha256_hex
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights.store.records import Version, parse
from Daddy.weights.store.store import VERSION_NAME
from Daddy.weights.store.strict_json import LIMIT


@dataclass(frozen=True, slots=True)
class History:
    """Every version in order; ``chained`` when each names its parent's hash; ``flaw`` if not.

    Numbers leap at a restore (``restore``), the chain does not.
    """

    versions: tuple[Version, ...]
    chained: bool
    flaw: str = ""

    @property
    def contributors(self) -> list[str]:
        """Peers whose work is in any version."""
        return sorted({one.peer for version in self.versions for one in version.inputs})


def read_history(shared: SharedPaths) -> History:
    """All commit records in order, to the first that cannot be read or does not follow."""
    versions: list[Version] = []
    parent = ""
    for number in numbers(shared):
        try:
            record, sha = _read(shared, number)
        except (WeightsError, FileError) as error:
            return History(tuple(versions), chained=False, flaw=error.message)
        if record.parent != parent:
            flaw = f"{shared.version(number)} names another parent"
            return History(tuple(versions), chained=False, flaw=flaw)
        versions.append(record)
        parent = sha
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
        hole = (expected, number - 1) if number > expected else None
        expected = number + 1
        try:
            record, sha = _read(shared, number)
        except (WeightsError, FileError) as error:
            flaws += [_missing(shared, *hole)] if hole else []
            flaws.append(Flaw(number, error.message))
            parent = ""
            continue
        if hole and not leaps(record, parent):
            flaws.append(_missing(shared, *hole))
            parent = ""
        if parent and record.parent != parent:
            said = f"{shared.version(number)} names another parent than the record before it"
            flaws.append(Flaw(number, said))
        versions.append(record)
        parent = sha
    return Records(tuple(versions), tuple(flaws))


def leaps(record: Version, parent: str) -> bool:
    """Whether ``record`` follows on the record of hash ``parent`` although numbers lie between.

    After a restore nothing is missing there. A run whose only records are those since is whole too.
    """
    return record.parent == parent and (bool(parent) or record.restored)


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
