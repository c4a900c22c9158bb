"""The login node and the compute nodes as computers of their own on this one (root only).

Each has its own network and host name, the login node also its own /run; all share users of their
own. They are plugged into a bridge inside the login node's network, so nothing needs undoing:
namespaces, mounts, bridge and cables end with the last process that holds them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import netlink, syscalls

LOGIN = "login"
_PORT, _BRIDGE = "eth0", "br0"
_MASK = 24


@dataclass(frozen=True)
class Network:
    """The addresses of one testbed."""

    number: int

    @property
    def interface(self) -> str:
        """This host's end of the cable to the login node."""
        return f"daddy{self.number}"

    @property
    def host(self) -> str:
        """This host's address."""
        return f"10.213.{self.number}.1"

    @property
    def login(self) -> str:
        """The login node's address."""
        return f"10.213.{self.number}.2"

    def node(self, index: int) -> str:
        """Address of compute node 1, 2, …"""
        return f"10.213.{self.number}.{10 + index}"


@dataclass(frozen=True)
class Machine:
    """Open handles of a machine's namespaces; it exists as long as they do."""

    handles: tuple[int, ...]

    def enter(self) -> None:
        """Move the calling (single-threaded) process into this machine."""
        for handle in self.handles:
            syscalls.enter(handle)


def can_isolate() -> str:
    """Why machines of their own are not possible; empty when they are. Tried in a child."""
    if os.geteuid() != 0:
        return "not root"

    def attempt() -> None:
        syscalls.unshare(syscalls.NEWNS | syscalls.NEWUTS | syscalls.NEWNET)
        syscalls.keep_mounts_private()
        netlink.create_bridge(_BRIDGE)
        netlink.create_cable("a", "b", os.getpid())

    code = _in_child(attempt)
    return f"no network namespaces here: {os.strerror(code)}" if code else ""


def can_have_users() -> bool:
    """Whether a mount namespace, and with it a passwd of our own, is to be had."""

    def attempt() -> None:
        syscalls.unshare(syscalls.NEWNS)
        syscalls.keep_mounts_private()

    return os.geteuid() == 0 and not _in_child(attempt)


def free_network() -> Network | None:
    """A network that nothing on this host uses."""
    known = Path("/proc/net/fib_trie").read_text()
    for number in range(7, 250):
        network = Network(number)
        if not netlink.exists(network.interface) and f"10.213.{number}." not in known:
            return network
    return None


def private_users(users: Path) -> None:
    """Mounts of our own from here on, with the test cluster's users and host names in them."""
    syscalls.unshare(syscalls.NEWNS)
    syscalls.keep_mounts_private()
    for name in ("passwd", "shadow", "group", "hosts"):
        if Path(f"/etc/{name}").exists():  # the barest machines have no hosts
            syscalls.bind(users / name, f"/etc/{name}")


def build(network: Network, nodes: int) -> dict[str, Machine]:
    """The login node and ``nodes`` compute nodes, by host name. Raises OSError."""
    login = _build_login(network)
    return {LOGIN: login, **{f"n{k}": _build_node(network, login, k) for k in range(1, nodes + 1)}}


def _build_login(network: Network) -> Machine:
    def plug(pid: int) -> None:
        netlink.create_cable(network.interface, _PORT, pid)
        netlink.add_address(network.interface, network.host, _MASK)
        netlink.set_up(network.interface)

    def furnish() -> None:
        netlink.set_up("lo")
        netlink.create_bridge(_BRIDGE)
        netlink.plug_into(_PORT, _BRIDGE)
        netlink.set_up(_PORT)
        netlink.set_up(_BRIDGE)
        netlink.add_address(_BRIDGE, network.login, _MASK)
        syscalls.set_hostname(LOGIN)
        _own_run()

    return _build(("net", "uts", "mnt"), plug, furnish)


def build_without_network() -> dict[str, Machine]:
    """A login node that differs from this host by its /run alone."""
    return {LOGIN: _build(("mnt",), lambda _: None, _own_run)}


def _own_run() -> None:
    """A /run of its own: sshd insists on a folder there, and sessions may leave things in it."""
    syscalls.mount_memory("/run")
    Path("/run/sshd").mkdir(mode=0o755)


def _build_node(network: Network, login: Machine, index: int) -> Machine:
    name = f"n{index}"

    def plug(pid: int) -> None:
        def at_login() -> None:
            login.enter()
            netlink.create_cable(name, _PORT, pid)
            netlink.plug_into(name, _BRIDGE)
            netlink.set_up(name)

        code = _in_child(at_login)
        if code:
            raise OSError(code, f"{name} could not be plugged in: {os.strerror(code)}")

    def furnish() -> None:
        netlink.set_up("lo")
        netlink.add_address(_PORT, network.node(index), _MASK)
        netlink.set_up(_PORT)
        syscalls.set_hostname(name)

    return _build(("net", "uts"), plug, furnish)


_FLAGS = {"net": syscalls.NEWNET, "uts": syscalls.NEWUTS, "mnt": syscalls.NEWNS}


def _build(
    kinds: tuple[str, ...], plug: Callable[[int], None], furnish: Callable[[], None]
) -> Machine:
    """A child leaves our namespaces, we plug a cable into it, it furnishes itself and ends."""
    ready, tell_ready = os.pipe()
    go, tell_go = os.pipe()

    def become() -> None:
        os.close(tell_go)
        syscalls.unshare(sum(_FLAGS[kind] for kind in kinds))
        os.write(tell_ready, b"1")
        if os.read(go, 1):
            furnish()

    pid = _fork(become)
    os.close(tell_ready)
    try:
        if os.read(ready, 1):
            plug(pid)
            handles = tuple(os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in kinds)
            os.write(tell_go, b"1")
    finally:
        for end in (ready, go, tell_go):
            os.close(end)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, f"a machine could not be set up: {os.strerror(code)}")
    return Machine(handles)


def _in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a child; 0 or the number of its OSError."""
    return os.waitstatus_to_exitcode(os.waitpid(_fork(work), 0)[1])


def _fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except OSError as error:
        code = error.errno or 1
    finally:
        os._exit(code)
