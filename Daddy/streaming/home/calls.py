"""Pure: the exact words of each call of ssh, and what it says of a port it was given.

System OpenSSH is the carrier: the person's own config, jump hosts and agent are honoured. Host keys
are strict and a dead connection is noticed within 15 seconds.
"""

from __future__ import annotations

import re

from Daddy.streaming.home.orders import Order, Target

_OPTIONS = (
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "StrictHostKeyChecking=yes",
    "LogLevel=INFO",
)
_OWN = ("ControlMaster=no", "ControlPath=none", "ExitOnForwardFailure=yes")
"""A forward that a shared connection took over would outlive us."""


def words(target: Target, order: Order, local: int) -> list[str]:
    """Ssh for this order; a port there leads to ``local`` here."""
    ways = _alone(target) if order.listen is None else _forward(order.listen, local)
    command = [order.command] if order.command else []
    key = ["-i", order.key, *_words("IdentitiesOnly=yes", "IdentityAgent=none")]
    return [
        *_ssh(target, batch=not target.asks or bool(order.key)),
        *(key if order.key else []),
        *ways,
        *([] if command else ["-N"]),
        "--",
        target.login,
        *command,
    ]


def allocated_port(line: str) -> int | None:
    """The port that ssh says it was given."""
    found = re.match(r"Allocated port (\d{1,5}) for remote forward", line)
    return int(found[1]) if found else None


def _alone(target: Target) -> list[str]:
    """Without forwards of the config's; over the opened connection if it lives."""
    opened = ["ControlMaster=no", f"ControlPath={target.opened}"] if target.opened else []
    return _words("ClearAllForwardings=yes", *opened)


def _forward(port: int, local: int) -> list[str]:
    return [*_words(*_OWN), "-R", f"{port}:127.0.0.1:{local}"]


def _ssh(target: Target, *, batch: bool) -> list[str]:
    told = (*_OPTIONS, f"BatchMode={'yes' if batch else 'no'}")
    return ["ssh", "-T", *target.whom, *_words(*told)]


def _words(*options: str) -> list[str]:
    return [word for option in options for word in ("-o", option)]
