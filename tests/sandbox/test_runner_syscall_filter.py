"""The filter of system calls, played on a small machine for classic BPF."""

import errno
import struct

import pytest

from Daddy.sandbox.runner.syscall_filter import build_filters

ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
KILLED, ALLOWED = "killed", "allowed"
NEW_USER, NEW_PIDS, THREAD = 0x10000000, 0x20000000, 0x3D0F00
UNIX, INET, INET6, NETLINK, PACKET, ALG, VSOCK = 1, 2, 10, 16, 17, 38, 40


def play(program: bytes, number: int, arguments: tuple[int, ...], architecture: int) -> str | int:
    """Return the answer to a call: an error number, or one of the words above."""
    data = struct.pack("=iIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    code = list(struct.iter_unpack("=HBBI", program))
    at, value = 0, 0
    while True:
        operation, if_true, if_false, k = code[at]
        at += 1
        if operation == 0x20:
            (value,) = struct.unpack_from("=I", data, k)
        elif operation == 0x54:
            value &= k
        elif operation == 0x15:
            at += if_true if value == k else if_false
        elif operation == 0x35:
            at += if_true if value >= k else if_false
        else:
            assert operation == 0x06
            return {0x7FFF0000: ALLOWED, 0x80000000: KILLED}.get(k, k & 0xFFFF)


def decide(machine: str, number: int, *arguments: int, architecture: int = 0) -> str | int:
    """Return what becomes of a command's call: both programs count, the stricter answer wins."""
    programs = build_filters(machine)
    assert programs
    architecture = architecture or ARCHITECTURE[machine]
    answers = [play(program, number, arguments, architecture) for program in programs]
    if KILLED in answers:
        return KILLED
    return next((answer for answer in answers if answer != ALLOWED), ALLOWED)


CALLS = {
    # name: (x86-64, aarch64)
    "read": (0, 63), "write": (1, 64), "openat": (257, 56), "execve": (59, 221), "futex": (202, 98),
    "wait4": (61, 260), "kill": (62, 129), "prctl": (157, 167), "seccomp": (317, 277),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438), "kcmp": (312, 272), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "memfd_secret": (447, 447),
    "io_uring_setup": (425, 425), "bpf": (321, 280), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "move_mount": (429, 429),
    "fsopen": (430, 430), "mount_setattr": (442, 442), "open_tree": (428, 428),
    "setns": (308, 268), "unshare": (272, 97), "memfd_create": (319, 279), "shmget": (29, 194),
    "msgget": (68, 186), "semget": (64, 190), "io_setup": (206, 0), "vmsplice": (278, 75),
    "kexec_load": (246, 104), "init_module": (175, 105), "chroot": (161, 51),
    "clone": (56, 220), "clone3": (435, 435), "socket": (41, 198), "socketpair": (53, 199),
    "fcntl": (72, 25), "setsockopt": (54, 208), "mmap": (9, 222), "prlimit64": (302, 261),
}  # fmt: skip
ORDINARY = ["read", "write", "openat", "execve", "futex", "wait4", "kill", "prctl"]
WITH_RULES = [
    "clone", "clone3", "socket", "socketpair", "fcntl", "setsockopt", "mmap", "prlimit64",
]  # fmt: skip


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def number_of(machine: str, name: str) -> int:
    return CALLS[name][["x86_64", "aarch64"].index(machine)]


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ORDINARY + WITH_RULES])
def test_a_call_of_the_list_is_refused(machine: str, name: str) -> None:
    assert decide(machine, number_of(machine, name)) == errno.EPERM


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_call_is_allowed(machine: str, name: str) -> None:
    assert decide(machine, number_of(machine, name), 1, 2, 3) == ALLOWED


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("clone", (THREAD,), ALLOWED),
        ("clone", (17,), ALLOWED),
        ("clone", (NEW_USER | 17,), errno.EPERM),
        ("clone", (NEW_PIDS,), errno.EPERM),
        ("clone3", (1, 88), errno.ENOSYS),
        ("socket", (UNIX, 1), ALLOWED),
        ("socket", (INET, 1), ALLOWED),
        ("socket", (INET6, 1), ALLOWED),
        *[
            ("socket", (family, 2), errno.EAFNOSUPPORT)
            for family in (0, 3, NETLINK, PACKET, ALG, VSOCK, 45)
        ],
        ("socket", (UNIX + (VSOCK << 32), 1), ALLOWED),  # the kernel looks at 32 bits, too
        ("socketpair", (UNIX, 1), ALLOWED),
        ("socketpair", (40, 1), errno.EAFNOSUPPORT),
        ("fcntl", (1, 1031, 1 << 20), errno.EPERM),
        ("fcntl", (1, 2, 1), ALLOWED),
        ("fcntl", (1, 6), ALLOWED),  # F_SETLK
        ("fcntl", (1, 37), errno.EINVAL),
        ("fcntl", (1, 38), errno.EINVAL),
        *[("setsockopt", (1, 1, option), 0) for option in (7, 8, 32, 33)],
        ("setsockopt", (1, 1, 2), ALLOWED),
        ("setsockopt", (1, 6, 7), ALLOWED),
        ("mmap", (0, 4096, 3, 0x21), errno.EPERM),
        ("mmap", (0, 4096, 3, 0x23), errno.EPERM),
        ("mmap", (0, 4096, 3, 0x22), ALLOWED),
        ("mmap", (0, 4096, 3, 0x01, 5), ALLOWED),
        ("mmap", (0, 1 << 21, 3, 0x40022), errno.EPERM),
        ("prctl", (22, 2), errno.EPERM),
        ("prctl", (15, 2), ALLOWED),
        ("prlimit64", (0, 7), ALLOWED),
        ("prlimit64", (1, 7), errno.EPERM),
    ],
)
def test_a_call_is_judged_by_its_arguments(
    machine: str, name: str, arguments: tuple[int, ...], answer: str | int
) -> None:
    assert decide(machine, number_of(machine, name), *arguments) == answer


def test_calls_of_another_abi_kill(machine: str) -> None:
    assert decide(machine, 1, architecture=0x40000003) == KILLED  # 32-bit x86
    assert decide(machine, 0x40000001) == KILLED  # x32


def test_the_runner_may_do_what_it_needs(machine: str) -> None:
    programs = build_filters(machine)
    assert programs
    for name, arguments in [("mount", ()), ("prctl", (22, 2)), ("clone", (NEW_PIDS,))]:
        number = number_of(machine, name)
        assert play(programs[0], number, arguments, ARCHITECTURE[machine]) == ALLOWED


def test_an_unknown_machine_has_no_filter() -> None:
    assert build_filters("riscv64") is None
