"""The chain of versions as it stands on disk, for summaries and plots. No torch.

Reads commit records alone; whether states verify is the store's business.
"""

from __future__ import annotations

from dataclasses import dataclass

from Daddy.core.errors import FileError, WeightsError
from Daddy.core.files import read_bounded, sha256_hex
from Daddy.core.paths import SharedPaths
from Daddy.weights.manifest import Version, parse
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
