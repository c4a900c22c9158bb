"""Pure: what may be wrong with a login, as types, for callers who go on differently."""

from __future__ import annotations

from Daddy.core.errors import NetworkError

INSTALL = "install OpenSSH's client (openssh-client; for files rsync, too)"


class PersonNeededError(NetworkError):
    """A person has to do something first; trying again is of no use."""


class LoginRefusedError(PersonNeededError):
    """No key that could be used opens this account."""


class ForwardRefusedError(NetworkError):
    """The other side does not open the port: it is taken, or forwarding is forbidden."""
