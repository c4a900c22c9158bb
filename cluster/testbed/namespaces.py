"""Creates Linux namespaces in which the login node and compute nodes run (root only).

Each node has its own network and host name, the login node also its own /run; all share one private
passwd. The nodes are connected to a bridge in the login node's network namespace. Nothing has to be
removed afterwards: the kernel deletes the namespaces with the last process that holds them.
"""

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
    """Computes the addresses of one test cluster."""

    number: int

    @property
    def interface(self) -> str:
        """This host's end of the veth pair to the login node."""
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
        """Return the address of compute node 1, 2, …"""
        return f"10.213.{self.number}.{10 + index}"


@dataclass(frozen=True)
class Machine:
    """Holds the open handles of a node's namespaces, which exist while these are open."""

    handles: tuple[int, ...]

    def enter(self) -> None:
        """Move the calling (single-threaded) process into this node's namespaces."""
        for handle in self.handles:
            syscalls.enter(handle)


def can_isolate() -> str:
    """Return the reason why namespaces are not possible here; empty where a child could do it."""
    if os.geteuid() != 0:
        return "not root"

    def attempt() -> None:
        syscalls.unshare(syscalls.NEWNS | syscalls.NEWUTS | syscalls.NEWNET)
        syscalls.make_mounts_private()
        netlink.create_bridge(_BRIDGE)
        netlink.create_veth("a", "b", os.getpid())

    code = _in_child(attempt)
    return f"no network namespaces here: {os.strerror(code)}" if code else ""


def can_have_users() -> bool:
    """Return True where a mount namespace, and so a private passwd, is possible."""

    def attempt() -> None:
        syscalls.unshare(syscalls.NEWNS)
        syscalls.make_mounts_private()

    return os.geteuid() == 0 and not _in_child(attempt)


def free_network() -> Network | None:
    """Return a network that is unused on this host, or None."""
    routes = Path("/proc/net/fib_trie").read_text()
    for number in range(7, 250):
        network = Network(number)
        if not netlink.exists(network.interface) and f"10.213.{number}." not in routes:
            return network
    return None


def mount_private_users(users: Path) -> None:
    """Enter a mount namespace and mount the test cluster's passwd, shadow, group and hosts."""
    syscalls.unshare(syscalls.NEWNS)
    syscalls.make_mounts_private()
    for name in ("passwd", "shadow", "group", "hosts"):
        if Path(f"/etc/{name}").exists():  # minimal images lack /etc/hosts
            syscalls.bind(users / name, f"/etc/{name}")


def build_machines(network: Network, nodes: int) -> dict[str, Machine]:
    """Create the login node and ``nodes`` compute nodes, by host name. Raises OSError."""
    login = _build_login(network)
    return {LOGIN: login, **{f"n{k}": _build_node(network, login, k) for k in range(1, nodes + 1)}}


def _build_login(network: Network) -> Machine:
    def connect(pid: int) -> None:
        netlink.create_veth(network.interface, _PORT, pid)
        netlink.add_address(network.interface, network.host, _MASK)
        netlink.set_up(network.interface)

    def configure() -> None:
        netlink.set_up("lo")
        netlink.create_bridge(_BRIDGE)
        netlink.attach_to_bridge(_PORT, _BRIDGE)
        netlink.set_up(_PORT)
        netlink.set_up(_BRIDGE)
        netlink.add_address(_BRIDGE, network.login, _MASK)
        syscalls.set_hostname(LOGIN)
        _mount_run()

    return _build(("net", "uts", "mnt"), connect, configure)


def build_without_network() -> dict[str, Machine]:
    """Create a login node that differs from this host by its /run alone."""
    return {LOGIN: _build(("mnt",), lambda _: None, _mount_run)}


def _mount_run() -> None:
    """Mount an empty /run with the folder that sshd needs."""
    syscalls.mount_memory("/run")
    Path("/run/sshd").mkdir(mode=0o755)


def _build_node(network: Network, login: Machine, index: int) -> Machine:
    name = f"n{index}"

    def connect(pid: int) -> None:
        def at_login() -> None:
            login.enter()
            netlink.create_veth(name, _PORT, pid)
            netlink.attach_to_bridge(name, _BRIDGE)
            netlink.set_up(name)

        code = _in_child(at_login)
        if code:
            raise OSError(code, f"{name} could not be connected: {os.strerror(code)}")

    def configure() -> None:
        netlink.set_up("lo")
        netlink.add_address(_PORT, network.node(index), _MASK)
        netlink.set_up(_PORT)
        syscalls.set_hostname(name)

    return _build(("net", "uts"), connect, configure)


_FLAGS = {"net": syscalls.NEWNET, "uts": syscalls.NEWUTS, "mnt": syscalls.NEWNS}


def _build(
    kinds: tuple[str, ...], connect: Callable[[int], None], configure: Callable[[], None]
) -> Machine:
    """Create namespaces and return their handles.

    1. A child enters new namespaces. 2. We ``connect`` a veth pair to it and open the handles.
    3. The child runs ``configure`` and exits.
    """
    ready, ready_write = os.pipe()
    go, go_write = os.pipe()

    def enter_new() -> None:
        os.close(go_write)
        syscalls.unshare(sum(_FLAGS[kind] for kind in kinds))
        os.write(ready_write, b"1")
        if os.read(go, 1):
            configure()

    pid = _fork(enter_new)
    os.close(ready_write)
    try:
        if os.read(ready, 1):
            connect(pid)
            handles = tuple(os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in kinds)
            os.write(go_write, b"1")
    finally:
        for end in (ready, go, go_write):
            os.close(end)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, f"a node could not be set up: {os.strerror(code)}")
    return Machine(handles)


def _in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a child process; return 0 or the errno of its OSError."""
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
