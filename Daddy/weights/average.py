"""The evaluation copy: the mean of the last versions' states, for who plays and never for training.

A pure function of the recorded versions: equal records give equal bytes on every machine, it needs
no place of its own in the records, and a crash can lose nothing of it. What retention or a purge
took is left out, and how many were averaged is told.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from Daddy.core.errors import WeightsError
from Daddy.weights.polyak import StateDict, difference, move
from Daddy.weights.records.probation import is_reverted
from Daddy.weights.store import Store
from Daddy.weights.wire.codec import decode


def mean(states: Sequence[StateDict]) -> StateDict:
    """The plain mean of one or more states, newest first; of counters the largest."""
    newest, *older = states
    steps = [difference(one, newest) for one in older]
    return move(newest, steps, [1.0 / len(states)] * len(steps))


def average_of(store: Store, number: int, most: int) -> tuple[StateDict, int]:
    """The mean of version ``number`` and those before it, ``most`` in all; of how many it is.

    WeightsError when the state of ``number`` itself cannot be had.
    """
    record = store.version(number)
    states = [decode(store.get_blob(record.state), record.schema)]
    for older in reversed(store.records(number - most + 1, number - 1)):
        if is_reverted(older.version, record.reverted):
            continue
        with contextlib.suppress(WeightsError):
            states.append(decode(store.get_blob(older.state), record.schema))
    return mean(states), len(states)
