"""What jobs are to know when they start: ``controller/orders.json``, replaced as a whole.

Written by the controller, read by the launcher when it claims a slot. So a waiting job never has
to be changed because of a new release or an open breaker. Format: ``docs/formats.md``, version 1.
"""

from __future__ import annotations

from Daddy.cluster.orchestrator.actions import Orders
from Daddy.core.errors import FileError
from Daddy.core.files import read_json, write_json
from Daddy.core.paths import RunPaths

VERSION = 1


def read_orders(run: RunPaths) -> Orders | None:
    """The newest orders; None where none were ever given. FileError if damaged."""
    try:
        record = read_json(run.orders)
    except (FileNotFoundError, NotADirectoryError):
        return None
    slots = {int(slot): str(release) for slot, release in dict(record["slots"]).items()}
    return Orders(slots, str(record.get("reason", "")))


def write_orders(run: RunPaths, orders: Orders) -> None:
    """Replace the orders, unless they stand there already; damaged ones are written anew."""
    if _stands(run, orders):
        return
    slots = {str(slot): release for slot, release in orders.slots.items()}
    write_json(run.orders, {"v": VERSION, "slots": slots, "reason": orders.reason})


def _stands(run: RunPaths, orders: Orders) -> bool:
    try:
        return read_orders(run) == orders
    except (FileError, KeyError, TypeError, ValueError):
        return False
