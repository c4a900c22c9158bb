"""Pure: whom ``connect`` calls, and what each way wants of the call, whoever carries it.

What goes to the login node's shell are our words, quoted; they stand here once.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from Daddy.core.vocabulary import TUNNEL_PORT

_LOGIN = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}@)?[A-Za-z0-9][A-Za-z0-9._:%-]{0,252}")
_TELL = 'sed -n "s/^# relay: /daddy-relay /p" "$f" >&2; echo "daddy-here $(uname -n)" >&2; '
_OWN_FILES = (
    'for f; do case "$(ls -ld -- "$f" 2>/dev/null)" in -????-??-*) ;; *) continue ;; esac; '
    'if [ -O "$f" ]; then '
)
"""A script is run only if it is our own, no link, and nobody else may write it: in a folder that
others may write, a link of theirs could lead to any script of ours.
"""
_RUN = (
    "how=$1; shift; " + _OWN_FILES + _TELL + 'exec sh "$f" $how; fi; done; '
    'echo "no relay of yours has left $* there" >&2; exit 66'
)
"""In one line and without an exclamation mark, because a csh takes no others."""
_WAIT = "shift; " + _OWN_FILES + _TELL + "break; fi; done; exec cat >/dev/null"


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to reach: ``scripts`` are where the relay's script may lie there, ``whom`` what ssh is
    told besides the login, ``opened`` the socket of a connection that a person has opened,
    ``tunnel_key`` a key that opens ``port`` and nothing else, ``asks`` whether a person is there
    whom ssh may ask.
    """

    login: str
    scripts: tuple[str, ...]
    whom: tuple[str, ...] = ()
    opened: str = ""
    tunnel_key: str = ""
    port: int = TUNNEL_PORT
    asks: bool = False

    @property
    def user(self) -> str:
        """Empty when ssh decides."""
        return self.login.rpartition("@")[0]

    @property
    def host(self) -> str:
        """As ssh knows it."""
        return self.login.rpartition("@")[2]


def is_login(text: str) -> bool:
    """Whether this can be user@host or a host, and is no option of ssh."""
    return _LOGIN.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Order:
    """One call: ``command`` is run there (empty: nothing is), ``listen`` is a port there that leads
    here (0: one of sshd's choice; None: no port), ``key``
    the only key to offer (empty: one's own).
    """

    command: str = ""
    listen: int | None = None
    key: str = ""


def by_stdio(target: Target) -> Order:
    """A relay of our own at the end of the command's pipes."""
    return Order(_command(_RUN, "", target))


def by_port(target: Target) -> Order:
    """The port at which the run's relay knocks leads here."""
    if target.tunnel_key:
        return Order(listen=target.port, key=target.tunnel_key)
    return Order(_command(_WAIT, "", target), target.port)


def by_dynamic(target: Target) -> Order:
    """A port that sshd chooses leads here, and a relay of our own is told which it is."""
    return Order(_command(_RUN, "--told-port", target), 0)


def _command(text: str, how: str, target: Target) -> str:
    return shlex.join(["sh", "-c", text, "daddy", how, *target.scripts])
