"""Pure. Decides the route by which ssh reaches a relay, its arguments, and the step after it ends.

Routes are tried in this order: ssh's own pipes, with the laptop's key for it if there is one and
with the person's login, the port that the controller's relay connects to, and a port that ssh
chooses. The messages of ssh decide the next step: another route, the same
route again, or an error that only a person can mend. Every decision has a reason. The system's
OpenSSH is used, with the person's own config, jump hosts and agent.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from Daddy.core.attach_command import OWN_FILES, TELL_HOSTS, attach_command
from Daddy.core.shared_types import TUNNEL_PORT
from Daddy.streaming.protocol.framing import clean_text

LOGIN = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}@)?[A-Za-z0-9][A-Za-z0-9._:%-]{0,252}")
"""Matches user@host or a host, but no option of ssh."""
_WAIT = OWN_FILES + TELL_HOSTS + "break; fi; done; exec cat >/dev/null"


class StreamRoute(Enum):
    """Lists the routes of the stream to the viewer: ssh's pipes, by the laptop's key or the
    person's login, a fixed port, a chosen port.
    """

    KEY = "key"
    STDIO = "stdio"
    PORT = "port"
    DYNAMIC = "dynamic"


BY_PIPES = (StreamRoute.KEY, StreamRoute.STDIO)


@dataclass(frozen=True, slots=True)
class LoginTarget:
    """Describes a login: ``scripts`` are paths of the relay's script, ``open_socket`` the control
    socket of an ssh that a person has opened, ``watch_key`` a key that may run that script only,
    ``tunnel_key`` one whose line is of an older release and may forward ``port`` only.
    ``may_ask``: ssh may ask for a password.
    """

    login: str
    scripts: tuple[str, ...]
    ssh_options: tuple[str, ...] = ()
    open_socket: str = ""
    watch_key: str = ""
    tunnel_key: str = ""
    port: int = TUNNEL_PORT
    may_ask: bool = False

    @property
    def host(self) -> str:
        return self.login.rpartition("@")[2]

    def typed(self, program: str = "ssh") -> str:
        """Return the command that a person types to log in, with config, port and key."""
        return shlex.join([program, *self.ssh_options, self.login])


_OPTIONS = (
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "StrictHostKeyChecking=yes",
    "LogLevel=INFO",
)
_OWN = ("ControlMaster=no", "ControlPath=none", "ExitOnForwardFailure=yes")
"""On a shared connection the forward would outlive this process."""


def ssh_command(route: StreamRoute, target: LoginTarget, local: int) -> list[str]:
    """Return the ssh command of a route; a forwarded port leads to port ``local`` here."""
    key = {StreamRoute.KEY: target.watch_key, StreamRoute.PORT: target.tunnel_key}.get(route, "")
    options = [*_OPTIONS, f"BatchMode={'no' if target.may_ask and not key else 'yes'}"]
    words, command = [], [_command(route, target)]
    if key:
        options += ["IdentitiesOnly=yes", "IdentityAgent=none"]
        words += ["-i", key]
    if route in BY_PIPES:
        socket = target.open_socket if route is StreamRoute.STDIO else "none"
        options += ["ClearAllForwardings=yes"]
        options += ["ControlMaster=no", f"ControlPath={socket}"] if socket else []
    else:
        options += _OWN
        words += ["-R", f"{target.port if route is StreamRoute.PORT else 0}:127.0.0.1:{local}"]
        if key:
            words, command = [*words, "-N"], []
    flags = [word for option in options for word in ("-o", option)]
    return ["ssh", "-T", *target.ssh_options, *flags, *words, "--", target.login, *command]


def _command(route: StreamRoute, target: LoginTarget) -> str:
    """Return the remote command: run a relay of our own, or print the relay's host and wait."""
    if route is StreamRoute.PORT:
        return shlex.join(["sh", "-c", _WAIT, "daddy", *target.scripts])
    return attach_command(target.scripts, "--told-port" * (route is StreamRoute.DYNAMIC))


def allocated_port(line: str) -> int | None:
    """Return the port that ssh reports as allocated; None for any other line."""
    match = re.match(r"Allocated port (\d{1,5}) for remote forward", line)
    return int(match[1]) if match else None


BACKOFF_S = (0.5, 1.0, 2.0, 5.0)
ROUND_S = 30.0
"""Seconds before all routes are tried again, as each try is a login."""
SLEPT_S = 5.0
NO_RELAY_S = 10.0
"""Seconds without a relay after which the usual causes are shown."""
_SSH_FAILED = 255


class FailureKind(Enum):
    """Lists the next steps after ssh has ended."""

    RETRY = "the network or the other side failed: try the same route again"
    NEXT_ROUTE = "this route does not reach a relay: try the next one"
    ASK_PERSON = "only a person can mend this"


class CallEnd(NamedTuple):
    """Holds the end of an ssh: its exit status (None: we ended it), its stderr, our reason to end
    it. ``connected``: a relay had proved the token; ``slept``: this computer was asleep.
    """

    exit_status: int | None
    stderr: tuple[str, ...] = ()
    reason: str = ""
    connected: bool = False
    slept: bool = False


class Diagnosis(NamedTuple):
    """Holds the kind of a failure, its reason as a sentence, and the remedy."""

    kind: FailureKind
    reason: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class ConnectPlan:
    """Holds the route to try next (None: none is left) after ``wait_s`` seconds, and the reason.

    ``failed``: routes that did not reach a relay, with reasons. ``connected_before``: a route did.
    """

    target: LoginTarget
    routes: tuple[StreamRoute, ...]
    route: StreamRoute | None
    wait_s: float = 0.0
    reason: str = ""
    remedy: str = ""
    failed: tuple[tuple[StreamRoute, str], ...] = ()
    attempts: int = 0
    connected_before: bool = False

    def next_plan(self, end: CallEnd) -> ConnectPlan:
        """Return the plan after the ssh of the present route has ended."""
        assert self.route is not None
        plan = replace(self, connected_before=self.connected_before or end.connected, remedy="")
        if end.slept:
            return replace(plan, wait_s=0.0, attempts=0, reason="this computer was asleep")
        kind, why, fix = diagnose(self.route, end, self.target)
        if kind is FailureKind.ASK_PERSON:
            return replace(plan, route=None, reason=why, remedy=fix)
        if kind is FailureKind.RETRY or end.connected:
            attempts = 0 if end.connected else self.attempts
            wait_s = BACKOFF_S[min(attempts, len(BACKOFF_S) - 1)]
            return replace(plan, wait_s=wait_s, attempts=attempts + 1, reason=why, remedy=fix)
        return _next_route(plan, self.route, why, fix)

    def failures(self) -> list[str]:
        return [f"not by {self.describe_route(route)}: {why}" for route, why in self.failed]

    def describe_route(self, route: StreamRoute) -> str:
        if route is StreamRoute.PORT:
            return f"ssh -R {self.target.port}"
        if route is StreamRoute.KEY:
            return "stdio (ssh's own pipes), with this laptop's key"
        stdio = route is StreamRoute.STDIO
        return "stdio (ssh's own pipes)" if stdio else "ssh -R 0 (a port of ssh's choice)"


def _next_route(plan: ConnectPlan, route: StreamRoute, why: str, fix: str) -> ConnectPlan:
    """Plan an untried route; without one, all again if a relay was connected before, or none."""
    failed = (*plan.failed, (route, why))
    untried = [route for route in plan.routes if route not in {tried for tried, _ in failed}]
    new = replace(plan, failed=failed, attempts=0, reason=why, wait_s=0.0)
    if untried:
        return replace(new, route=untried[0])
    if plan.connected_before:
        return replace(new, route=plan.routes[0], failed=(), wait_s=ROUND_S)
    why = f"no route leads to a relay at {plan.target.login}"
    return replace(new, route=None, reason=why, remedy=fix or FIX_NO_ROUTE)


FIX_NO_ROUTE = (
    "see whether the run is started there (`run_controller status`), and by this version; "
    "--run-dir names another run"
)


def first_plan(target: LoginTarget, only: StreamRoute | None = None) -> ConnectPlan:
    """Return a plan with all routes to the target, or only the route ``only``.

    The laptop's key comes first, as it asks for nothing. With a key that forwards one port, the
    pipes of the person's own login come first; a port of ssh's choice would need the same
    permissions as the pipes, so it is left out.
    """
    left_out: tuple[StreamRoute, ...] = () if target.watch_key else (StreamRoute.KEY,)
    left_out += (StreamRoute.DYNAMIC,) if target.tunnel_key else ()
    routes = (only,) if only else tuple(route for route in StreamRoute if route not in left_out)
    return ConnectPlan(target, routes, routes[0])


def diagnose(route: StreamRoute, end: CallEnd, target: LoginTarget) -> Diagnosis:
    """Return the kind of failure, its reason and its remedy from the end of an ssh."""
    stderr = "\n".join(end.stderr)
    if re.search(r"Permission denied \(|Too many authentication failures", stderr):
        return _diagnose_denied(route, target)
    if end.reason:
        return Diagnosis(FailureKind.RETRY if end.connected else FailureKind.NEXT_ROUTE, end.reason)
    if "remote port forwarding failed" in stderr:
        return Diagnosis(FailureKind.NEXT_ROUTE, *_explain_no_forward(route, target))
    for kind, sign, why, fix in _SIGNS:
        if sign in stderr:
            port = dict(pairwise(target.ssh_options)).get("-p")
            known = shlex.quote(f"[{target.host}]:{port}" if port else target.host)
            facts = {"login": target.login, "known": known, "ssh": target.typed()}
            return Diagnosis(kind, why.format(**facts), fix.format(**facts))
    lines = [clean_text(line, 200).strip() for line in end.stderr if not _NO_REASON.match(line)]
    last = f"it ended with status {end.exit_status} and gave no reason"
    last = next((line for line in reversed(lines) if line), last)
    if end.exit_status == _SSH_FAILED:
        return Diagnosis(FailureKind.RETRY, f"ssh ended: {last}")
    return Diagnosis(FailureKind.NEXT_ROUTE, last)


_SETUP = "run: ./Daddy/cluster/sync_weights.sh setup"


def _diagnose_denied(route: StreamRoute, target: LoginTarget) -> Diagnosis:
    if route is StreamRoute.KEY:
        why = f"{target.login} refuses the key {target.watch_key}"
        return Diagnosis(FailureKind.NEXT_ROUTE, why, _SETUP)
    if target.tunnel_key and route is not StreamRoute.PORT:
        return Diagnosis(FailureKind.NEXT_ROUTE, "your own login there takes more than a key")
    if target.tunnel_key:
        why = f"{target.login} refuses the key {target.tunnel_key}"
        return Diagnosis(FailureKind.ASK_PERSON, why, _SETUP)
    return Diagnosis(
        FailureKind.ASK_PERSON,
        f"{target.login} refuses this login",
        f"try: {target.typed()} true; install a key: {target.typed('ssh-copy-id')}",
    )


def _explain_no_forward(route: StreamRoute, target: LoginTarget) -> tuple[str, str]:
    """Explain a failed forward; ssh prints one message for a taken and for a forbidden port."""
    if route is StreamRoute.DYNAMIC:
        return "forwarding is disabled there (AllowTcpForwarding)", ""  # port 0 cannot be taken
    why = f"port {target.port} is taken there, or forwarding is disabled (ssh does not say which)"
    return why, "with a login that may run commands, connect needs no port"


_NO_REASON = re.compile(
    r"daddy-|Allocated port|Connection to |  what to do|(?:.* )?relay: (?:a viewer has|what to do)"
)
"""Matches lines of ssh and relays, with or without a time stamp, that give no reason for an end."""
_SIGNS = (
    (FailureKind.ASK_PERSON, "REMOTE HOST IDENTIFICATION HAS CHANGED",
     "{login} shows another host key than before",
     "ask the cluster's people whether it changed; if so: ssh-keygen -R {known}, then {ssh}"),
    (FailureKind.ASK_PERSON, "Host key verification failed",
     "the host key of {login} is not known here yet",
     "run once: {ssh}; compare the fingerprint with the cluster's page and answer yes"),
    (FailureKind.RETRY, "Could not resolve hostname", "the name of {login} cannot be resolved",
     "is it spelt right, are you online, does it need a VPN?"),
    (FailureKind.RETRY, "Connection refused", "{login} refuses connections", "is the port right?"),
    (FailureKind.RETRY, "timed out", "{login} does not answer",
     "are you online, does it need a VPN?"),
    (FailureKind.RETRY, "not responding", "{login} has stopped answering", ""),
    (FailureKind.RETRY, "No route to host", "there is no route to {login}", "are you online?"),
    (FailureKind.RETRY, "Network is unreachable", "there is no network", ""),
)  # fmt: skip


def wrong_node(stderr: Sequence[str], target: LoginTarget) -> str:
    """Return a sentence if the tunnel ends on another node than the run's relay, or ""."""
    hosts = dict(line.split(maxsplit=1) for line in stderr if re.match("daddy-[a-z]+ .", line))
    names = [clean_text(hosts.get(name, "")) for name in ("daddy-here", "daddy-relay")]
    here, relay = (name.partition(".")[0] for name in names)
    if not here or not relay or here == relay:
        return ""
    login = target.login.replace(target.host, ".".join([relay, *target.host.split(".")[1:]]))
    return (
        f"this tunnel ends on {here}, the run's relay is on {relay}; "
        f"python -m Daddy.streaming.tunnel_server connect {login}"
    )


def usual_causes(login: str, port: int) -> tuple[str, ...]:
    """Return the usual causes when a tunnel is open and no relay connects."""
    return (
        "no relay has connected for 10 s. Usual causes:",
        "1. no relay runs there (`run_controller status`, training.stream)",
        "2. it runs on another login node than the one where this tunnel ends",
        f"3. port {port} was taken there, or forwarding is off: ssh only warns",
        f"another way: python -m Daddy.streaming.tunnel_server connect {login}",
    )


class SleepDetector:
    """Detects that this computer slept: wall time went on, the monotonic clock stood still."""

    def __init__(self, wall: float, monotonic: float) -> None:
        self._ahead = wall - monotonic

    def slept(self, wall: float, monotonic: float) -> bool:
        """Return True if this computer slept over ``SLEPT_S`` seconds since the last call."""
        ahead, before = wall - monotonic, self._ahead
        self._ahead = ahead
        return ahead - before > SLEPT_S
