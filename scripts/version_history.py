"""The whole chain of versions of a run, for benches, soaks and tests. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from Daddy.core.errors import WeightsError
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.store.weight_records import Version
from Daddy.weights.store.weight_store import Store, version_numbers


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
    store, parent = Store(shared), ""
    versions: list[Version] = []
    for number in version_numbers(shared):
        try:
            record = store.version(number)
        except WeightsError as error:
            return History(tuple(versions), chained=False, flaw=error.message)
        if record.parent != parent:
            flaw = f"{shared.version(number)} names another parent"
            return History(tuple(versions), chained=False, flaw=flaw)
        versions.append(record)
        parent = store.record_hash(number)
    return History(tuple(versions), chained=bool(versions))
