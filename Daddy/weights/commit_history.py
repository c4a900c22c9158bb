"""Reads commit records of a folder that is written to, or damaged. No torch."""

from __future__ import annotations

from Daddy.core.errors import WeightsError
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.store.weight_records import Version
from Daddy.weights.store.weight_store import Store, version_numbers


def read_records(shared: SharedPaths, newest: int = 0) -> tuple[list[Version], dict[int, str]]:
    """The ``newest`` commit records (0: all), oldest first, and each flaw by version number.

    A record that cannot be read is passed over. Missing numbers are a flaw, except where a restore
    leapt. Without a record before the first, only that of a restore may lack its parent.
    """
    store, found = Store(shared), version_numbers(shared)[-newest:]
    versions: list[Version] = []
    flaws: dict[int, str] = {}
    expected, parent = (found[0] if newest and found else 0), ""
    for number in found:
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
    """The flaw of versions without a commit record, under the first number."""
    if not missing:
        return {}
    rest = f" to v{missing[-1]:08d}.json are" if len(missing) > 1 else " is"
    return {missing[0]: f"{shared.version(missing[0])}{rest} missing"}
