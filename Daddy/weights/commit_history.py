"""Reads commit records of a shared folder, even while jobs write it or if damaged. No torch."""

from Daddy.core.errors import WeightsError
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.store.weight_records import Version
from Daddy.weights.store.weight_store import Store, version_numbers


def read_records(shared: SharedPaths, newest: int = 0) -> tuple[list[Version], dict[int, str]]:
    """Return the ``newest`` commit records (0: all), oldest first, and flaws by version: an
    unreadable record, one that names another parent than the record before it, and missing numbers.
    A gap is no flaw if the record after it names the one before it, or is restored without parent.
    """
    store, listed = Store(shared), version_numbers(shared)[-newest:]
    versions: list[Version] = []
    flaws: dict[int, str] = {}
    expected, parent = (listed[0] if newest and listed else 0), ""
    for number in listed:
        missing, expected = range(expected, number), number + 1
        try:
            record = store.version(number)
        except WeightsError as error:
            flaws |= {**_absent(shared, missing), number: error.message}
            parent = ""
            continue
        if missing and not (record.parent == parent and (parent or record.restored)):
            flaws |= _absent(shared, missing)
        elif parent and record.parent != parent:
            flaws[number] = f"{shared.version(number)} names another parent than the one before"
        versions.append(record)
        parent = store.record_hash(number)
    return versions, flaws


def _absent(shared: SharedPaths, missing: range) -> dict[int, str]:
    """Return one message on all ``missing`` commit records, by the first missing number."""
    if not missing:
        return {}
    rest = f" to v{missing[-1]:08d}.json are" if len(missing) > 1 else " is"
    return {missing[0]: f"{shared.version(missing[0])}{rest} missing"}
