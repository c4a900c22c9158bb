"""Pure. Decides by which way ssh reaches a relay, with which words, and what follows its end.

Three ways, tried in this order: ssh's own pipes, the port that the relay beside the controller
connects to, a port that ssh chooses. ssh's own sentences decide: another way, the same one again,
or a person who has to do something first. Every decision says why. System OpenSSH is the carrier:
the person's own config, jump hosts and agent are honoured.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from Daddy.core.shared_types import TUNNEL_PORT
from Daddy.streaming.protocol.framing import clean

LOGIN = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}@)?[A-Za-z0-9][A-Za-z0-9._:%-]{0,252}")
"""user@host or a host, and no option of ssh."""
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


class Way(Enum):
    """A way for the stream."""

    STDIO = "stdio"
    PORT = "port"
    DYNAMIC = "dynamic"


@dataclass(frozen=True, slots=True)
class Target:
    """A login: ``scripts`` are the places of the relay's script there, ``whom`` ssh's words besides
    the login, ``opened`` the socket of a connection that a person has opened, ``tunnel_key`` a key
    that opens ``port`` and nothing else. ``asks``: ssh may ask a person.
    """

    login: str
    scripts: tuple[str, ...]
    whom: tuple[str, ...] = ()
    opened: str = ""
    tunnel_key: str = ""
    port: int = TUNNEL_PORT
    asks: bool = False

    @property
    def host(self) -> str:
        return self.login.rpartition("@")[2]


_OPTIONS = (
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "StrictHostKeyChecking=yes",
    "LogLevel=INFO",
)
_OWN = ("ControlMaster=no", "ControlPath=none", "ExitOnForwardFailure=yes")
"""A forward that a shared connection took over would outlive us."""


def ssh_words(way: Way, target: Target, local: int) -> list[str]:
    """The call of ssh for one way; a port there leads to ``local`` here."""
    confined = way is Way.PORT and bool(target.tunnel_key)
    options = [*_OPTIONS, f"BatchMode={'no' if target.asks and not confined else 'yes'}"]
    words = ["-i", target.tunnel_key, "-N"] if confined else []
    if confined:
        options += ["IdentitiesOnly=yes", "IdentityAgent=none"]
    if way is Way.STDIO:
        options += ["ClearAllForwardings=yes"]
        options += ["ControlMaster=no", f"ControlPath={target.opened}"] if target.opened else []
    else:
        options += _OWN
        words += ["-R", f"{target.port if way is Way.PORT else 0}:127.0.0.1:{local}"]
    told = [word for option in options for word in ("-o", option)]
    command = [] if confined else [_command(way, target)]
    return ["ssh", "-T", *target.whom, *told, *words, "--", target.login, *command]


def _command(way: Way, target: Target) -> str:
    """Run a relay of our own, or say where the run's relay is and wait."""
    text = _WAIT if way is Way.PORT else _RUN
    how = "--told-port" if way is Way.DYNAMIC else ""
    return shlex.join(["sh", "-c", text, "daddy", how, *target.scripts])


def allocated_port(line: str) -> int | None:
    """The port that ssh says it was given."""
    found = re.match(r"Allocated port (\d{1,5}) for remote forward", line)
    return int(found[1]) if found else None


BACKOFF_S = (0.5, 1.0, 2.0, 5.0)
ROUND_S = 30.0
"""Pause before all ways are tried again: each try is a login."""
SLEPT_S = 5.0
KNOCK_S = 10.0
"""After so long without a relay a person is told the usual causes."""
_SSH_FAILED = 255


class Kind(Enum):
    """The meaning of a call's end."""

    LINK = "the network, or the other side, is away: the same again"
    WAY = "this way does not lead there: the next"
    PERSON = "a person has to do something first"


class End(NamedTuple):
    """The end of a call: ssh's exit status (None: ended by us), its standard error, our own reason
    to end it. ``worked``: a relay had proved itself before; ``slept``: this computer was asleep.
    """

    code: int | None
    said: tuple[str, ...] = ()
    why: str = ""
    worked: bool = False
    slept: bool = False


class Verdict(NamedTuple):
    """The meaning of an end in words, and the remedy."""

    kind: Kind
    why: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Course:
    """The way to take now (None: there is none), after how many seconds, and why.

    ``passed``: the ways that did not lead there, with their reasons. ``worked``: some way has.
    """

    target: Target
    ways: tuple[Way, ...]
    way: Way | None
    wait_s: float = 0.0
    why: str = ""
    fix: str = ""
    passed: tuple[tuple[Way, str], ...] = ()
    tries: int = 0
    worked: bool = False

    def after(self, end: End) -> Course:
        """The course once the present way has ended so."""
        assert self.way is not None
        course = replace(self, worked=self.worked or end.worked, fix="")
        if end.slept:
            return replace(course, wait_s=0.0, tries=0, why="this computer was asleep")
        kind, why, fix = judge(self.way, end, self.target)
        if kind is Kind.PERSON:
            return replace(course, way=None, why=why, fix=fix)
        if kind is Kind.LINK or end.worked:
            tries = 0 if end.worked else self.tries
            wait_s = BACKOFF_S[min(tries, len(BACKOFF_S) - 1)]
            return replace(course, wait_s=wait_s, tries=tries + 1, why=why, fix=fix)
        return _next_way(course, self.way, why, fix)

    def failures(self) -> list[str]:
        """Reasons of the ways that did not lead there."""
        return [f"not by {self.name(way)}: {why}" for way, why in self.passed]

    def name(self, way: Way) -> str:
        if way is Way.PORT:
            return f"ssh -R {self.target.port}"
        stdio = way is Way.STDIO
        return "stdio (ssh's own pipes)" if stdio else "ssh -R 0 (a port of ssh's choice)"


def _next_way(course: Course, way: Way, why: str, fix: str) -> Course:
    """The next way, or all of them again where one has led there once, or none."""
    passed = (*course.passed, (way, why))
    rest = [one for one in course.ways if one not in {tried for tried, _ in passed}]
    on = replace(course, passed=passed, tries=0, why=why, wait_s=0.0)
    if rest:
        return replace(on, way=rest[0])
    if course.worked:
        return replace(on, way=course.ways[0], passed=(), wait_s=ROUND_S)
    why = f"no way leads to a relay at {course.target.login}"
    return replace(on, way=None, why=why, fix=fix or FIX_NO_WAY)


FIX_NO_WAY = (
    "see whether the run is started there (`run_controller status`), and by this version; "
    "--run-dir names another run"
)


def first_course(target: Target, only: Way | None = None) -> Course:
    """Every way that the target has, or the one that a person asked for.

    The key that ``setup`` made for the tunnel opens one port; one's own login may do more. A port
    of ssh's choice needs what the pipes need, so it is not tried where that key is the second try.
    """
    every = (Way.STDIO, Way.PORT) if target.tunnel_key else tuple(Way)
    ways = (only,) if only else every
    return Course(target, ways, ways[0])


def judge(way: Way, end: End, target: Target) -> Verdict:
    """Interpret the end of a call."""
    said = "\n".join(end.said)
    if re.search(r"Permission denied \(|Too many authentication failures", said):
        return _denied(way, target)
    if end.why:
        return Verdict(Kind.LINK if end.worked else Kind.WAY, end.why)
    if "remote port forwarding failed" in said:
        return Verdict(Kind.WAY, *_no_forward(way, target))
    for kind, sign, why, fix in _SIGNS:
        if sign in said:
            facts = {"login": target.login, "host": target.host}
            return Verdict(kind, why.format(**facts), fix.format(**facts))
    lines = [clean(line, 200).strip() for line in end.said if not line.startswith(_MARKS)]
    last = f"it ended with status {end.code} and gave no reason"
    last = next((line for line in reversed(lines) if line), last)
    if end.code == _SSH_FAILED:
        return Verdict(Kind.LINK, f"ssh ended: {last}")
    return Verdict(Kind.WAY, last)


def _denied(way: Way, target: Target) -> Verdict:
    if target.tunnel_key and way is not Way.PORT:
        return Verdict(Kind.WAY, "your own login there takes more than a key")
    if target.tunnel_key:
        why = f"{target.login} refuses the key {target.tunnel_key}"
        return Verdict(Kind.PERSON, why, "run: ./Daddy/cluster/sync_weights.sh setup")
    return Verdict(
        Kind.PERSON,
        f"{target.login} refuses this login",
        f"try: ssh {target.login} true; install a key: ssh-copy-id {target.login}",
    )


def _no_forward(way: Way, target: Target) -> tuple[str, str]:
    """One sentence of ssh's stands for a taken port and for forbidden forwarding."""
    if way is Way.DYNAMIC:
        return "forwarding is disabled there (AllowTcpForwarding)", ""  # nobody else has port 0
    why = f"port {target.port} is taken there, or forwarding is disabled (ssh does not say which)"
    return why, "with a login that may run commands, connect needs no port"


_MARKS = ("daddy-", "Allocated port", "Connection to ", "  what to do", "relay: a viewer has")
_SIGNS = (
    (Kind.PERSON, "REMOTE HOST IDENTIFICATION HAS CHANGED",
     "{login} shows another host key than before",
     "ask the cluster's people whether it changed; if so: ssh-keygen -R {host}, then ssh {login}"),
    (Kind.PERSON, "Host key verification failed", "the host key of {login} is not known here yet",
     "run once: ssh {login}; compare the fingerprint with the cluster's page and answer yes"),
    (Kind.LINK, "Could not resolve hostname", "the name of {login} cannot be resolved",
     "is it spelt right, are you online, does it need a VPN?"),
    (Kind.LINK, "Connection refused", "{login} refuses connections", "is the port right?"),
    (Kind.LINK, "timed out", "{login} does not answer", "are you online, does it need a VPN?"),
    (Kind.LINK, "not responding", "{login} has stopped answering", ""),
    (Kind.LINK, "No route to host", "there is no route to {login}", "are you online?"),
    (Kind.LINK, "Network is unreachable", "there is no network", ""),
)  # fmt: skip


def wrong_node(said: Sequence[str], target: Target) -> str:
    """A sentence where a tunnel leads to another node than the run's relay (ssh's ``said``)."""
    told = dict(line.split(maxsplit=1) for line in said if re.match("daddy-[a-z]+ .", line))
    names = [clean(told.get(name, "")) for name in ("daddy-here", "daddy-relay")]
    here, relay = (name.partition(".")[0] for name in names)
    if not here or not relay or here == relay:
        return ""
    login = target.login.replace(target.host, ".".join([relay, *target.host.split(".")[1:]]))
    return (
        f"this tunnel ends on {here}, the run's relay is on {relay}; "
        f"python -m Daddy.streaming.tunnel_server connect {login}"
    )


def usual_causes(login: str, port: int) -> tuple[str, ...]:
    """Causes of a tunnel that stands while no relay connects."""
    return (
        "nobody has knocked for 10 s. Usually:",
        "1. no relay runs there (`run_controller status`, training.stream)",
        "2. it runs on another login node than the one where this tunnel ends",
        f"3. port {port} was taken there, or forwarding is off: ssh only warns",
        f"another way: python -m Daddy.streaming.tunnel_server connect {login}",
    )


class Naps:
    """Tells that this computer was asleep: wall time went on and the monotonic clock did not."""

    def __init__(self, wall: float, monotonic: float) -> None:
        self._ahead = wall - monotonic

    def slept(self, wall: float, monotonic: float) -> bool:
        """More than ``SLEPT_S`` seconds are missing since the last call."""
        ahead, before = wall - monotonic, self._ahead
        self._ahead = ahead
        return ahead - before > SLEPT_S
