"""The login node's own network, mounts, host name and users: a second computer on this one.

Root only. Nothing of it is visible outside and nothing needs undoing: the namespaces, their mounts
and the cable end with the last process that holds them.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from . import netlink

_NEWNS, _NEWUTS, _NEWNET = 0x00020000, 0x04000000, 0x40000000
_BIND, _REC, _SLAVE = 4096, 16384, 1 << 19
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
HOSTNAME = "login"
FAR_INTERFACE = "eth0"
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def unshare(flags: int) -> None:
    """unshare(2)."""
    _check(_libc.unshare(flags))


def bind(source: Path, target: str) -> None:
    """Show ``source`` at ``target`` in this mount namespace."""
    _check(_libc.mount(str(source).encode(), target.encode(), None, _BIND, None))


def die_with_parent(number: int) -> None:
    """Receive a signal when the parent ends (prctl 1)."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def become_subreaper() -> None:
    """Orphans below this process become its children (prctl 36)."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def private_users(users: Path) -> None:
    """Mounts of our own from here on, with the sandbox's passwd, shadow and group in them."""
    unshare(_NEWNS)
    _check(_libc.mount(b"none", b"/", None, _REC | _SLAVE, None))
    for name in ("passwd", "shadow", "group"):
        bind(users / name, f"/etc/{name}")


def can_isolate() -> str:
    """Why a login node of its own is not possible; empty when it is. Tried in a child."""
    if os.geteuid() != 0:
        return "not root"
    pid = os.fork()
    if pid == 0:
        try:
            unshare(_NEWNS | _NEWUTS | _NEWNET)
            netlink.set_up("lo")
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return f"no namespaces here: {os.strerror(code)}" if code else ""


@dataclass(frozen=True)
class Cable:
    """A point-to-point network between this host and its login node."""

    number: int

    @property
    def interface(self) -> str:
        """Our end."""
        return f"daddy{self.number}"

    @property
    def near(self) -> str:
        """Our address."""
        return f"10.213.{self.number}.1"

    @property
    def far(self) -> str:
        """The login node's address."""
        return f"10.213.{self.number}.2"


def free_cable() -> Cable | None:
    """A network that nothing on this host uses."""
    known = Path("/proc/net/fib_trie").read_text()
    for number in range(7, 250):
        cable = Cable(number)
        if not netlink.exists(cable.interface) and f"10.213.{number}." not in known:
            return cable
    return None


@dataclass(frozen=True)
class LoginNode:
    """Open handles of the namespaces; they exist as long as this does."""

    handles: tuple[int, ...]

    def enter(self) -> None:
        """Move the calling (single-threaded) process into the login node."""
        for handle in self.handles:
            _check(_libc.setns(handle, 0))


def build_login_node(cable: Cable, users: Path, host: str) -> LoginNode:
    """Namespaces, cable, addresses, /run, host name. Raises OSError."""
    ready_read, ready_write = os.pipe()
    go_read, go_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _furnish(cable, users, ready_write, go_read)
    os.close(ready_write)
    os.close(go_read)
    try:
        if os.read(ready_read, 1) != b"1":
            raise OSError(f"the login node {host} could not be separated from this host")
        netlink.create_cable(cable.interface, FAR_INTERFACE, pid)
        netlink.add_address(cable.interface, cable.near, 30)
        netlink.set_up(cable.interface)
        handles = tuple(
            os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in ("net", "uts", "mnt")
        )
        os.write(go_write, b"1")
    finally:
        os.close(ready_read)
        os.close(go_write)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise OSError(status, f"the login node could not be furnished: {os.strerror(status)}")
    return LoginNode(handles)


def _furnish(cable: Cable, users: Path, ready: int, go: int) -> None:
    """Runs in the child: become the login node, then leave; the parent holds the namespaces."""
    try:
        unshare(_NEWNS | _NEWUTS | _NEWNET)
        os.write(ready, b"1")
        if os.read(go, 1) != b"1":
            os._exit(1)
        netlink.set_up("lo")
        netlink.add_address(FAR_INTERFACE, cable.far, 30)
        netlink.set_up(FAR_INTERFACE)
        _check(_libc.sethostname(HOSTNAME.encode(), len(HOSTNAME)))
        bind(users / "hosts", "/etc/hosts")
        _check(_libc.mount(b"tmpfs", b"/run", b"tmpfs", 0, b"mode=755"))
        Path("/run/sshd").mkdir(mode=0o755)
        os._exit(0)
    except OSError as error:
        os._exit(error.errno or 1)
