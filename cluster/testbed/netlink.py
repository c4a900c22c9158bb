"""Adapter for rtnetlink: creates veth pairs and a bridge, and sets addresses, without iproute2.

Encodes the few messages that the nodes need, because minimal machines have no ``ip`` program.
Layouts: rtnetlink(7), netlink(7), linux/if_link.h.
"""

import contextlib
import os
import socket
import struct

_NEWLINK, _DELLINK, _NEWADDR = 16, 17, 20
_REQUEST, _ACK, _CREATE, _EXCL = 0x1, 0x4, 0x400, 0x200
_IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_PID = 3, 10, 18, 19
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_IFF_UP = 1
_ERROR = 2


def create_veth(name: str, far_name: str, far_pid: int) -> None:
    """Create a veth pair: ``name`` here, ``far_name`` in the network of process ``far_pid``.

    Raises FileExistsError where ``name`` exists, PermissionError without CAP_NET_ADMIN.
    """
    peer = _link_header() + _text(_IFLA_IFNAME, far_name) + _number(_IFLA_NET_NS_PID, far_pid)
    kind = _text(_INFO_KIND, "veth") + _attribute(_INFO_DATA, _attribute(_VETH_PEER, peer))
    body = _link_header() + _text(_IFLA_IFNAME, name) + _attribute(_IFLA_LINKINFO, kind)
    _request(_NEWLINK, _CREATE | _EXCL, body)


def create_bridge(name: str) -> None:
    """Create a bridge."""
    kind = _text(_INFO_KIND, "bridge")
    body = _link_header() + _text(_IFLA_IFNAME, name) + _attribute(_IFLA_LINKINFO, kind)
    _request(_NEWLINK, _CREATE | _EXCL, body)


def attach_to_bridge(name: str, bridge: str) -> None:
    """Make an interface a port of a bridge."""
    header = _link_header(socket.if_nametoindex(name))
    _request(_NEWLINK, 0, header + _number(_IFLA_MASTER, socket.if_nametoindex(bridge)))


def set_up(name: str) -> None:
    """Set an interface up."""
    _request(_NEWLINK, 0, _link_header(socket.if_nametoindex(name), _IFF_UP, _IFF_UP))


def add_address(name: str, address: str, prefix: int) -> None:
    """Add an IPv4 address to an interface."""
    packed = socket.inet_aton(address)
    header = struct.pack("BBBBi", socket.AF_INET, prefix, 0, 0, socket.if_nametoindex(name))
    body = header + _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed)
    _request(_NEWADDR, _CREATE | _EXCL, body)


def remove(name: str) -> None:
    """Remove an interface if it exists."""
    with contextlib.suppress(OSError):
        _request(_DELLINK, 0, _link_header(socket.if_nametoindex(name)))


def exists(name: str) -> bool:
    """Return True where this host has such an interface."""
    return any(interface == name for _, interface in socket.if_nameindex())


def _link_header(index: int = 0, flags: int = 0, change: int = 0) -> bytes:
    return struct.pack("BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


def _attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("HH", size, kind) + value + b"\0" * (-size % 4)


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("I", value))


def _request(kind: int, flags: int, body: bytes) -> None:
    """Send one message; raise OSError with the kernel's error code unless it is 0."""
    message = struct.pack("IHHII", 16 + len(body), kind, _REQUEST | _ACK | flags, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(5)
        kernel.send(message)
        answer = kernel.recv(65536)
    (answer_type,) = struct.unpack_from("H", answer, 4)
    (code,) = struct.unpack_from("i", answer, 16)
    if answer_type == _ERROR and code:
        raise OSError(-code, os.strerror(-code))
