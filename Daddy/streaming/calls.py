"""Pure: whom ``connect`` calls, and the exact words of each call of ssh.

System OpenSSH is the carrier: the person's own config, jump hosts and agent are honoured. Host keys
are strict, a dead connection is noticed within 15 seconds, and what goes to the login node's shell
are our words, quoted.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from Daddy.core.vocabulary import TUNNEL_PORT

_LOGIN = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}@)?[A-Za-z0-9][A-Za-z0-9._:%-]{0,252}")
_OPTIONS = (
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "StrictHostKeyChecking=yes",
    "LogLevel=INFO",
)
_OWN = ("ControlMaster=no", "ControlPath=none", "ExitOnForwardFailure=yes")
"""A forward that a shared connection took over would outlive us."""
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


def by_stdio(target: Target) -> list[str]:
    """A relay of our own at the end of ssh's pipes; over the opened connection if it lives."""
    alone = ["ClearAllForwardings=yes"]
    alone += ["ControlMaster=no", f"ControlPath={target.opened}"] if target.opened else []
    return [*_ssh(target), *_words(tuple(alone)), "--", target.login, _command(_RUN, "", target)]


def by_port(target: Target, local: int) -> list[str]:
    """The port at which the run's relay knocks leads to ``local`` here."""
    forward = [*_words(_OWN), "-R", f"{target.port}:127.0.0.1:{local}"]
    if target.tunnel_key:
        key = ["-N", "-i", target.tunnel_key, *_words(("IdentitiesOnly=yes", "IdentityAgent=none"))]
        return [*_ssh(target), *key, *forward, "--", target.login]
    return [*_ssh(target), *forward, "--", target.login, _command(_WAIT, "", target)]


def by_dynamic(target: Target, local: int) -> list[str]:
    """A port that ssh chooses leads to ``local``, and a relay of our own is told which it is."""
    forward = [*_words(_OWN), "-R", f"0:127.0.0.1:{local}"]
    command = _command(_RUN, "--told-port", target)
    return [*_ssh(target), *forward, "--", target.login, command]


def allocated_port(line: str) -> int | None:
    """The port that ssh says it was given."""
    found = re.match(r"Allocated port (\d{1,5}) for remote forward", line)
    return int(found[1]) if found else None


def _ssh(target: Target) -> list[str]:
    batch = not target.asks or bool(target.tunnel_key)
    told = (*_OPTIONS, f"BatchMode={'yes' if batch else 'no'}")
    return ["ssh", "-T", *target.whom, *_words(told)]


def _words(options: tuple[str, ...]) -> list[str]:
    return [word for option in options for word in ("-o", option)]


def _command(text: str, how: str, target: Target) -> str:
    return shlex.join(["sh", "-c", text, "daddy", how, *target.scripts])
