"""``tunnel_server connect``: ssh brings a relay here, by any way that leads to one, and keeps on.

A thread calls, reads what ssh says, hands the stream to the receiver and calls again when the
network, the laptop's lid or the login node ended it. ``connect_plan`` decides what to do next.
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

from Daddy.core.child_process import ConnectedChild, ProgramMissingError, spawn_connected
from Daddy.core.clock import Clock
from Daddy.core.errors import NetworkError, UsageError
from Daddy.core.run_paths import ATTACH, HOME_ATTACH
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
from Daddy.streaming.viewer.connect_plan import Course, End, Target, Way
from Daddy.streaming.viewer.receiver import Receiver

_WEIGHTS = "/shared_weights"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``connect`` to the viewer's own."""
    parser.add_argument("login", nargs="?", default="", help="user@login (as setup keeps it)")
    parser.add_argument("--run-dir", default="", help="the run there (the one begun last)")
    parser.add_argument(
        "--by", choices=[one.value for one in Way], help="the only way to try (all, in turn)"
    )
    parser.add_argument(
        "--remote-port", default=str(TUNNEL_PORT), help=f"port there ({TUNNEL_PORT})"
    )
    parser.set_defaults(port=0)


_VARIABLES = {
    "ssh_config": "SYNC_SSH_CONFIG",
    "port": "SYNC_SSH_PORT",
    "key": "SYNC_SSH_KEY",
    "folder": "SYNC_REMOTE_DIR",
}
"""Settings that ``setup`` keeps, and the variables that come before them."""


def find_target(
    args: argparse.Namespace, environ: Mapping[str, str], home: Path, *, asks: bool
) -> Target:
    """The login, and how ssh gets there; UsageError says what cannot be one."""
    kept = read_saved_cluster(settings_path(environ, home))
    user, host = environ.get("SYNC_CLUSTER_USER"), environ.get("SYNC_CLUSTER_HOST")
    login = args.login or (f"{user}@{host}" if user and host else saved_login(kept))
    if not connect_plan.LOGIN.fullmatch(login):
        raise UsageError(f"{login!r} is nobody to connect to", "type: connect user@login-node")
    facts = kept if login == saved_login(kept) else {}
    told = {name: environ.get(one) or facts.get(name, "") for name, one in _VARIABLES.items()}
    port = _port(args.remote_port)
    words = ["-F", str(Path(told["ssh_config"]).expanduser())] if told["ssh_config"] else []
    words += ["-p", told["port"]] if told["port"] else []
    words += ["-i", told["key"], "-o", "IdentitiesOnly=yes"] if told["key"] else []
    sockets = [facts.get(name, "") for name in ("port", "key", "ssh_config")]
    usual = port == TUNNEL_PORT and not told["key"]
    return Target(
        login=login,
        scripts=_scripts(args.run_dir, told["folder"]),
        whom=tuple(words),
        opened=str(login_socket(master_socket(login, *sockets))) if facts.get("opened") else "",
        tunnel_key=facts.get("tunnel_key", "") if usual else "",
        port=port,
        asks=asks,
    )


def _scripts(run_dir: str, weights: str) -> tuple[str, ...]:
    """Places of the relay's script there: in the run that was named, or the one whose weights are
    pulled, else the place where the relay that began last has left it.
    """
    run = run_dir or (weights.removesuffix(_WEIGHTS) if weights.endswith(_WEIGHTS) else "")
    if run.startswith("-") or not run.isprintable():
        raise UsageError(f"--run-dir {run!r} is no folder", "give the run's folder there")
    inside = f"{run.removeprefix('~/').rstrip('/')}/stream/{ATTACH}"
    return (inside,) if run_dir else (inside, HOME_ATTACH) if run else (HOME_ATTACH,)


def _port(text: str) -> int:
    """A port of the login node's loopback. UsageError for any other address, with the reason."""
    if text.isdigit() and 0 < int(text) < 65536:  # noqa: PLR2004 - ports are 16 bits
        return int(text)
    raise UsageError(
        f"--remote-port {text} is no port of the login node's own loopback",
        f"give a number alone, 1 to 65535, such as {TUNNEL_PORT}: another address (GatewayPorts) "
        "would open your stream to the network, and no job needs it",
    )


LOOK_S = 0.1
OPENING_S = 30.0
"""Python may be slow to start from a shared disk."""
ASKING_S = 150.0
"""A person may be typing a password."""
_GRACE_S = 1.0
_GREETING_BYTES = 64 * 1024


@dataclass
class Call:
    """One running ssh; ``wire``: our end of its pipes; ``alone``: once no relay was here."""

    way: Way
    ssh: ConnectedChild
    wire: socket.socket
    began: float
    heard: bytearray = field(default_factory=bytearray)
    told_port: bool = False
    opened: float | None = None
    alone: bool = False
    worked: bool = False

    @property
    def adopted(self) -> bool:
        """The receiver has the wire now."""
        return self.opened is not None and self.way is Way.STDIO

    def close(self) -> None:
        """End ssh; its processes at the other side end with it."""
        if not self.adopted:
            self.wire.close()
        self.ssh.terminate(_GRACE_S)


class Carrier:
    """Brings relays to ``receiver`` until closed, or until a person has to do something first.

    Then ``error`` says what and ``hopeless`` is set. ``once`` holds the token of the relay that was
    brought last; the receiver is to know it. As a context it raises that error at its end.
    """

    def __init__(
        self,
        course: Course,
        receiver: Receiver,
        once: list[Token],
        clock: Clock,
        hopeless: threading.Event,
    ) -> None:
        self.error: NetworkError | None = None
        self._course = course
        self._receiver = receiver
        self._once = once
        self._clock = clock
        self._hopeless = hopeless
        self._naps = connect_plan.Naps(clock.now(), clock.monotonic())
        self._told: tuple[str, ...] = ()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="carrier", daemon=True)
        self._thread.start()

    def __enter__(self) -> Carrier:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=4 * _GRACE_S)

    def _work(self) -> None:
        course = self._course
        while course.way is not None:
            if self._clock.wait(self._stop, course.wait_s * random.uniform(0.8, 1.2)):
                return
            calling = f"calling {course.target.login} by {course.name(course.way)}"
            self._tell((calling, *course.failures()))
            end = self._try(course.way)
            if self._stop.is_set():
                return
            self._course = course = course.after(end)
            if course.way is not None and (course.wait_s or course.fix):
                again = f"{course.why}; again in {course.wait_s:.1f} s"
                self._tell((again, *[course.fix] * bool(course.fix)))
        reasons = (course.why, *course.failures())
        self.error = NetworkError("\n  ".join(reasons), course.fix)
        self._receiver.tell((*reasons, f"what to do: {course.fix}"))
        self._hopeless.set()

    def _try(self, way: Way) -> End:
        """One call to its end; a computer without a socket to spare has ended it, too."""
        words = connect_plan.ssh_words(way, self._course.target, self._receiver.port)
        try:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ssh = spawn_connected(words, theirs.fileno())
                call = Call(way, ssh, socket.socket(fileno=ours.detach()), self._clock.monotonic())
            call.wire.setblocking(False)
            try:
                return self._attend(call)
            finally:
                call.close()
        except ProgramMissingError as error:
            return End(None, why=error.message)
        except OSError as error:
            return End(None, why=f"this computer: {error.strerror or error}")
        finally:
            self._once.clear()

    def _attend(self, call: Call) -> End:
        """Look after a call until it has ended, or has to be ended."""
        while not self._clock.wait(self._stop, LOOK_S):
            if self._naps.slept(self._clock.now(), self._clock.monotonic()):
                return End(None, worked=call.worked, slept=True)
            if call.ssh.wait(0):
                call.ssh.terminate(_GRACE_S)
                return End(call.ssh.exit_code, call.ssh.error_lines(), worked=call.worked)
            why = self._standing(call) if call.way is Way.PORT else self._opening(call)
            if why:
                return End(None, call.ssh.error_lines(), why, worked=call.worked)
            connected = self._receiver.connected
            call.alone |= not connected
            if connected and call.alone and not call.worked:
                call.worked = True
                text = (f"connected by {self._course.name(call.way)}", *self._course.failures())
                self._told = ()
                self._tell(text, "; ".join(text))
        return End(None)

    def _standing(self, call: Call) -> str:
        """Reason why a tunnel is of no use, or nothing."""
        target = self._course.target
        if call.worked:
            return ""
        if wrong := connect_plan.wrong_node(call.ssh.error_lines(), target):
            return wrong
        if self._clock.monotonic() - call.began > connect_plan.KNOCK_S:
            causes = connect_plan.usual_causes(target.login, target.port)
            self._tell((f"the tunnel stands: {self._course.name(Way.PORT)}", *causes))
        return ""

    def _opening(self, call: Call) -> str:
        """Bring a relay of our own to its first word, and see whether it is still there."""
        now = self._clock.monotonic()
        if call.opened is not None:
            gone = call.adopted and call.wire.fileno() < 0
            late = not call.worked and now - call.opened > connect_plan.KNOCK_S
            return (self._receiver.trouble or "the stream was lost") if gone or late else ""
        if call.way is Way.DYNAMIC and not call.told_port:
            self._tell_port(call)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            call.heard += call.wire.recv(READ_BYTES)
        if (found := find_opening(bytes(call.heard))) is not None:
            call.opened = now
            self._once[:] = [found[0]]
            if call.adopted:
                self._receiver.adopt(call.wire, found[1])
            return ""
        patience = ASKING_S if self._course.target.asks else OPENING_S
        if now - call.began > patience or len(call.heard) > _GREETING_BYTES:
            return f"no relay has answered there for {patience:.0f} s"
        return ""

    def _tell_port(self, call: Call) -> None:
        for line in call.ssh.error_lines():
            if (port := connect_plan.allocated_port(line)) is not None:
                with contextlib.suppress(OSError):  # ssh has ended: seen at the next look
                    call.wire.send(f"{port}\n".encode())
                call.told_port = True

    def _tell(self, lines: tuple[str, ...], note: str = "") -> None:
        """To the screen, and what is new of it as lines to the terminal."""
        for line in lines:
            if line not in self._told:
                print(f"connect: {line}", file=sys.stderr, flush=True)
        self._told = lines
        self._receiver.tell(lines, note)
