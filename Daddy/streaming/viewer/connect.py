"""Runs ssh for ``tunnel_server connect`` until a relay is connected, and again when ssh ends.

A thread starts ssh, reads its messages, passes the stream to the receiver, and starts ssh again
when the network, a closed laptop or the login node ended it. ``connect_plan`` has the rules.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from Daddy.core.attach_command import ATTACH, attach_scripts
from Daddy.core.clock import Clock
from Daddy.core.errors import NetworkError, UsageError
from Daddy.core.run_subprocess import ConnectedChild, ProgramMissingError, spawn_connected
from Daddy.core.saved_cluster import (
    login_socket,
    master_socket,
    read_saved_cluster,
    saved_login,
    settings_path,
)
from Daddy.core.shared_types import TUNNEL_PORT
from Daddy.streaming.protocol.framing import READ_BYTES
from Daddy.streaming.protocol.handshake import Token, find_opening
from Daddy.streaming.viewer import connect_plan
from Daddy.streaming.viewer.connect_plan import CallEnd, ConnectPlan, LoginTarget, StreamRoute
from Daddy.streaming.viewer.receiver import Receiver


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``connect`` to those of the viewer."""
    parser.add_argument("login", nargs="?", default="", help="user@login-node (default: setup's)")
    parser.add_argument("--run-dir", default="", help="run folder on the cluster (default: newest)")
    routes = [route.value for route in StreamRoute if route is not StreamRoute.KEY]
    parser.add_argument("--by", choices=routes, help="the only route to try (default: all)")
    default, port = str(TUNNEL_PORT), f"port on the login node (default {TUNNEL_PORT})"
    parser.add_argument("--remote-port", default=default, help=port)
    parser.set_defaults(port=0)


_VARIABLES = {
    "ssh_config": "SYNC_SSH_CONFIG",
    "port": "SYNC_SSH_PORT",
    "key": "SYNC_SSH_KEY",
    "folder": "SYNC_REMOTE_DIR",
}
"""Settings that ``setup`` saves, and the environment variables that override them."""


def find_target(
    args: argparse.Namespace, environ: Mapping[str, str], home: Path, *, asks: bool
) -> LoginTarget:
    """Return the login and its ssh options. Raise UsageError for an invalid login or port."""
    saved = read_saved_cluster(settings_path(environ, home))
    user, host = environ.get("SYNC_CLUSTER_USER"), environ.get("SYNC_CLUSTER_HOST")
    login = args.login or (f"{user}@{host}" if user and host else saved_login(saved))
    if not connect_plan.LOGIN.fullmatch(login):
        raise UsageError(f"{login!r} is no login", "type: tunnel_server connect user@login-node")
    facts = saved if login == saved_login(saved) else {}
    used = {name: environ.get(var) or facts.get(name, "") for name, var in _VARIABLES.items()}
    port = _port(args.remote_port)
    own_folder = facts.get("own_folder", "") if used["folder"] == facts.get("folder") else ""
    words = ["-F", str(Path(used["ssh_config"]).expanduser())] if used["ssh_config"] else []
    words += ["-p", used["port"]] if used["port"] else []
    words += ["-i", used["key"], "-o", "IdentitiesOnly=yes"] if used["key"] else []
    sockets = [facts.get(name, "") for name in ("port", "key", "ssh_config")]
    key = "" if used["key"] else facts.get("tunnel_key", "")
    by_attach = facts.get("tunnel_by") == "attach"
    opened = str(login_socket(master_socket(login, *sockets))) if facts.get("opened") else ""
    return LoginTarget(
        login=login,
        scripts=_scripts(args.run_dir, own_folder or used["folder"]),
        ssh_options=tuple(words),
        open_socket=opened,
        watch_key=key if by_attach and not args.run_dir else "",
        tunnel_key=key if port == TUNNEL_PORT and not by_attach else "",
        port=port,
        may_ask=asks,
    )


def _scripts(run_dir: str, weights: str) -> tuple[str, ...]:
    """Return paths of the relay's script on the login node: in the named run only; or in the run
    with this folder of ``weights`` and in the home folder, where the newest relay has written it.
    """
    if run_dir.startswith("-") or not run_dir.isprintable():
        raise UsageError(f"--run-dir {run_dir!r} is no folder", "give the folder on the login node")
    if run_dir:
        return (f"{run_dir.removeprefix('~/').rstrip('/')}/stream/{ATTACH}",)
    return attach_scripts(weights)


def _port(text: str) -> int:
    """Return the login node's loopback port; UsageError for text that is no port number."""
    if text.isdigit() and 0 < int(text) < 65536:  # noqa: PLR2004 - ports are 16 bits
        return int(text)
    raise UsageError(
        f"--remote-port {text} is no port of the login node's own loopback",
        f"give a number alone, 1 to 65535, such as {TUNNEL_PORT}: another address (GatewayPorts) "
        "would open your stream to the network, and no job needs it",
    )


POLL_S = 0.1
OPENING_S = 30.0
"""Seconds for a relay to start, as Python may start slowly from a shared disk."""
PASSWORD_S = 150.0
"""Seconds for a relay to start while a person may be typing a password."""
_GRACE_S = 1.0
_GREETING_BYTES = 64 * 1024


@dataclass
class SshCall:
    """Holds a running ssh; ``pipe`` is our end of the socket that is its stdin and stdout."""

    route: StreamRoute
    ssh: ConnectedChild
    pipe: socket.socket
    started: float
    received: bytearray = field(default_factory=bytearray)
    port_sent: bool = False
    opened_at: float | None = None
    saw_no_relay: bool = False
    connected: bool = False

    @property
    def adopted(self) -> bool:
        """True once the receiver has taken over the pipe."""
        return self.opened_at is not None and self.route in connect_plan.BY_PIPES

    def close(self) -> None:
        """End ssh; its processes on the login node then end as well."""
        if not self.adopted:
            self.pipe.close()
        self.ssh.terminate(_GRACE_S)


class SshConnector:
    """Connects relays to ``receiver`` until closed, or until only a person can mend the cause.

    In the second case it sets ``error`` and ``given_up``; the `with` block raises ``error`` at its
    end. ``session_tokens`` holds the token of the present relay, which the receiver must accept.
    """

    def __init__(
        self,
        plan: ConnectPlan,
        receiver: Receiver,
        session_tokens: list[Token],
        clock: Clock,
        given_up: threading.Event,
    ) -> None:
        self.error: NetworkError | None = None
        self._plan = plan
        self._receiver = receiver
        self._session_tokens = session_tokens
        self._clock = clock
        self._given_up = given_up
        self._sleep_detector = connect_plan.SleepDetector(clock.now(), clock.monotonic())
        self._reported: tuple[str, ...] = ()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="carrier", daemon=True)
        self._thread.start()

    def __enter__(self) -> SshConnector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=4 * _GRACE_S)

    def _work(self) -> None:
        plan = self._plan
        while plan.route is not None:
            if self._clock.wait(self._stop, plan.wait_s * random.uniform(0.8, 1.2)):
                return
            calling = f"calling {plan.target.login} by {plan.describe_route(plan.route)}"
            self._report((calling, *plan.failures()))
            end = self._call(plan.route)
            if self._stop.is_set():
                return
            self._plan = plan = plan.next_plan(end)
            if plan.route is not None and (plan.wait_s or plan.remedy):
                again = f"{plan.reason}; again in {plan.wait_s:.1f} s"
                self._report((again, *[plan.remedy] * bool(plan.remedy)))
        reasons = (plan.reason, *plan.failures())
        self.error = NetworkError("\n  ".join(reasons), plan.remedy)
        self._receiver.set_connect_lines((*reasons, f"what to do: {plan.remedy}"))
        self._given_up.set()

    def _call(self, route: StreamRoute) -> CallEnd:
        """Run one ssh to its end; an OSError of this computer is returned as the end's reason."""
        words = connect_plan.ssh_command(route, self._plan.target, self._receiver.port)
        try:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ssh = spawn_connected(words, theirs.fileno())
                pipe = socket.socket(fileno=ours.detach())
                call = SshCall(route, ssh, pipe, self._clock.monotonic())
            call.pipe.setblocking(False)
            try:
                return self._watch_call(call)
            finally:
                call.close()
        except ProgramMissingError as error:
            return CallEnd(None, reason=error.message)
        except OSError as error:
            return CallEnd(None, reason=f"this computer: {error.strerror or error}")
        finally:
            self._session_tokens.clear()

    def _watch_call(self, call: SshCall) -> CallEnd:
        """Watch a running ssh until it has ended or must be ended; return its end."""
        while not self._clock.wait(self._stop, POLL_S):
            if self._sleep_detector.slept(self._clock.now(), self._clock.monotonic()):
                return CallEnd(None, connected=call.connected, slept=True)
            if call.ssh.wait(0):
                call.ssh.terminate(_GRACE_S)
                return CallEnd(call.ssh.exit_code, call.ssh.error_lines(), connected=call.connected)
            tunnel = call.route is StreamRoute.PORT
            if reason := self._check_tunnel(call) if tunnel else self._check_own_relay(call):
                return CallEnd(None, call.ssh.error_lines(), reason, connected=call.connected)
            connected = self._receiver.connected
            call.saw_no_relay |= not connected
            if connected and call.saw_no_relay and not call.connected:
                call.connected = True
                route = self._plan.describe_route(call.route)
                text = (f"connected by {route}", *self._plan.failures())
                self._reported = ()
                self._report(text, "; ".join(text))
        return CallEnd(None)

    def _check_tunnel(self, call: SshCall) -> str:
        """Return the reason to end a tunnel, or ""; show usual causes if no relay connects."""
        target = self._plan.target
        if call.connected:
            return ""
        if wrong := connect_plan.wrong_node(call.ssh.error_lines(), target):
            return wrong
        if self._clock.monotonic() - call.started > connect_plan.NO_RELAY_S:
            causes = connect_plan.usual_causes(target.login, target.port)
            route = self._plan.describe_route(StreamRoute.PORT)
            self._report((f"the tunnel stands: {route}", *causes))
        return ""

    def _check_own_relay(self, call: SshCall) -> str:
        """Adopt the stream of our own relay when it opens; return the reason to end, or ""."""
        now = self._clock.monotonic()
        if call.opened_at is not None:
            gone = call.adopted and call.pipe.fileno() < 0
            late = not call.connected and now - call.opened_at > connect_plan.NO_RELAY_S
            return (self._receiver.trouble or "the stream was lost") if gone or late else ""
        if call.route is StreamRoute.DYNAMIC and not call.port_sent:
            self._send_port(call)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            call.received += call.pipe.recv(READ_BYTES)
        if (opening := find_opening(bytes(call.received))) is not None:
            call.opened_at = now
            self._session_tokens[:] = [opening[0]]
            if call.adopted:
                self._receiver.adopt_socket(call.pipe, opening[1])
            return ""
        asks = self._plan.target.may_ask and call.route is not StreamRoute.KEY
        patience = PASSWORD_S if asks else OPENING_S
        if now - call.started > patience or len(call.received) > _GREETING_BYTES:
            return f"no relay on the login node answered in {patience:.0f} s"
        return ""

    def _send_port(self, call: SshCall) -> None:
        for line in call.ssh.error_lines():
            if (port := connect_plan.allocated_port(line)) is not None:
                with contextlib.suppress(OSError):  # ssh has ended: noticed by the next poll
                    call.pipe.send(f"{port}\n".encode())
                call.port_sent = True

    def _report(self, lines: tuple[str, ...], note: str = "") -> None:
        """Show lines in the viewer, and print lines not shown before to standard error."""
        for line in lines:
            if line not in self._reported:
                print(f"connect: {line}", file=sys.stderr, flush=True)
        self._reported = lines
        self._receiver.set_connect_lines(lines, note)
