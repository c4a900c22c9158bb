"""Reads the whole chain of versions of a run, for benches, soaks and tests, without torch."""

from dataclasses import dataclass

from Daddy.core.errors import WeightsError
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.store.weight_records import Version
from Daddy.weights.store.weight_store import Store, version_numbers


@dataclass(frozen=True, slots=True)
class History:
    """All versions in order; ``chained`` if each has its parent's hash, else ``flaw`` says why.

    A restore leaves a gap in the numbers, but not in the chain.
    """

    versions: tuple[Version, ...]
    chained: bool
    flaw: str = ""

    @property
    def contributors(self) -> list[str]:
        """Peers with a contribution in any version."""
        return sorted({each.peer for version in self.versions for each in version.inputs})


def read_history(shared: SharedPaths) -> History:
    """Read the commit records in order, up to the first that is unreadable or not in the chain."""
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
