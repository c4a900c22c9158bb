"""Pure. Builds the seccomp programs that a command runs under.

They are instructions of classic BPF (linux/filter.h). A refused call fails with an error number; a
call of another ABI (32-bit, x32), with numbers of its own, kills the process. The runner enters the
first program once, which all commands inherit; the second one refuses what the runner needs itself.
"""

from __future__ import annotations

import struct
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

EPERM, EINVAL, ENOSYS, EAFNOSUPPORT, NO_EFFECT = 1, 22, 38, 97, 0

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06

_REFUSED: dict[str, tuple[int, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_setup": (206, 0),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "memfd_secret": (447, 447),
    "modify_ldt": (154, None),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "semget": (64, 190),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
    "vmsplice": (278, 75),  # a pipe would hold on to a huge page of 2 MiB in each of its slots
}
"""Numbers of refused calls on x86-64 and aarch64."""

_REFUSED_TO_COMMANDS: dict[str, tuple[int, int | None]] = {
    "memfd_create": (319, 279),
    "mount": (165, 40),
    "seccomp": (317, 277),  # a filter is kernel memory that nobody counts
}


Condition = namedtuple("Condition", "argument mask value equal", defaults=(True,))  # noqa: PYI024
"""Tests the low 32 bits of an argument: ``(argument & mask) == value``, or its opposite."""

Rule = namedtuple("Rule", "numbers conditions error")  # noqa: PYI024 - typing is slow to load
"""Refuses a call with an error number when all conditions hold."""

_WORD = 0xFFFFFFFF
_NEW_NAMESPACES = 0x7E020000
_FOREIGN = tuple(Condition(0, _WORD, family, equal=False) for family in (1, 2, 10))
"""Neither AF_UNIX, AF_INET nor AF_INET6; vsock lies outside of network namespaces."""


def _any_of(argument: int, mask: int) -> tuple[Condition, ...]:
    return (Condition(argument, mask, 0, equal=False),)


_RULES = [
    Rule((435, 435), (), ENOSYS),  # clone3 has its flags in memory; the C library takes clone then
    Rule((41, 198), _FOREIGN, EAFNOSUPPORT),  # socket
    Rule((53, 199), _FOREIGN, EAFNOSUPPORT),  # socketpair
    Rule((72, 25), (Condition(1, _WORD, 1031),), EPERM),  # fcntl F_SETPIPE_SZ
    *(  # F_OFD_SETLK and F_OFD_SETLKW: such locks are listed as nobody's, and so not counted
        Rule((72, 25), (Condition(1, _WORD, command),), EINVAL) for command in (37, 38)
    ),
    # Shared anonymous memory stays in use when it is mapped no longer, seen by nobody.
    Rule((9, 222), (Condition(3, 0x21, 0x21),), EPERM),  # mmap MAP_SHARED | MAP_ANONYMOUS
    Rule((9, 222), _any_of(3, 0x40000), EPERM),  # mmap MAP_HUGETLB
    Rule((302, 261), _any_of(0, _WORD), EPERM),  # prlimit64 of another process
    *(
        Rule((54, 208), (Condition(1, _WORD, 1), Condition(2, _WORD, option)), NO_EFFECT)
        for option in (7, 8, 32, 33)  # setsockopt SO_SNDBUF, SO_RCVBUF and their FORCE
    ),
]

_RULES_OF_COMMANDS = [
    Rule((56, 220), _any_of(0, _NEW_NAMESPACES), EPERM),  # clone
    Rule((157, 167), (Condition(0, _WORD, 22),), EPERM),  # prctl PR_SET_SECCOMP
]


def build_filters(machine: str) -> tuple[bytes, bytes] | None:
    """Return the runner's and the commands' program for ``os.uname().machine``, if it is known."""
    if machine not in _ARCHITECTURES:
        return None
    return (
        _build(machine, _REFUSED, _RULES),
        _build(machine, _REFUSED_TO_COMMANDS, _RULES_OF_COMMANDS),
    )


def _build(machine: str, refused: dict[str, tuple[int, int | None]], rules: list[Rule]) -> bytes:
    column = list(_ARCHITECTURES).index(machine)
    numbers = [pair[column] for pair in refused.values()]
    program = _instructions(_ARCHITECTURES[machine], numbers, rules, column)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _instructions(
    architecture: int, refused: list[int | None], rules: list[Rule], column: int
) -> Iterator[tuple[int, int, int, int]]:
    yield (_LOAD, 0, 0, 4)
    yield (_IF_EQUAL, 1, 0, architecture)
    yield (_RETURN, 0, 0, _KILL)
    yield (_LOAD, 0, 0, 0)
    yield (_IF_AT_LEAST, 0, 1, _X32)
    yield (_RETURN, 0, 0, _KILL)
    for number in refused:
        if number is not None:
            yield (_IF_EQUAL, 0, 1, number)
            yield (_RETURN, 0, 0, _ERROR | EPERM)
    for rule in rules:
        yield from _rule(rule, column)
    yield (_RETURN, 0, 0, _ALLOW)


def _rule(rule: Rule, column: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield a test of the number, then three instructions a condition; loads the number again."""
    left = 3 * len(rule.conditions) + 2
    yield (_IF_EQUAL, 0, left, rule.numbers[column])
    for condition in rule.conditions:
        left -= 3
        yield (_LOAD, 0, 0, 16 + 8 * condition.argument)
        yield (_AND, 0, 0, condition.mask)
        yield (_IF_EQUAL, *((0, left - 1) if condition.equal else (left - 1, 0)), condition.value)
    yield (_RETURN, 0, 0, _ERROR | rule.error)
    yield (_LOAD, 0, 0, 0)
