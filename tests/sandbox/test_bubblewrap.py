"""Sandboxes of bubblewrap start confined, and end with their host or at their lifetime."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from Daddy.core.errors import SandboxError
from Daddy.sandbox.bubblewrap import BubblewrapBackend, bubblewrap_argv, parse_version
from Daddy.sandbox.image import Image
from Daddy.sandbox.runner_client import RunnerSandbox
from Daddy.sandbox.sandbox_interfaces import Isolation, Limits, Outcome, SandboxSpec
from tests.patience import PATIENCE_S, until
from tests.sandbox.machines import LONG, accounts, as_account, bubblewrap, play, python, run, shell

IMAGE = Image(((Path("/usr"), "/usr"),), (("/bin", "usr/bin"),), "/usr/bin/python3")
HOST = """
import asyncio, sys
from Daddy.sandbox.bubblewrap import BubblewrapBackend
from Daddy.sandbox.sandbox_interfaces import Command, Limits, SandboxSpec

async def main():
    spec = SandboxSpec(persistent=sys.argv[1] == "persistent", lifetime_s=float(sys.argv[2]))
    sandbox = await BubblewrapBackend().create(spec)
    line = f"echo started; sleep {sys.argv[3]}"
    command = Command(argv=("sh", "-c", line))
    await sandbox.run(command, Limits(time_s=600), lambda line: print(line, flush=True))

asyncio.run(main())
"""


def options(argv: list[str], name: str, arguments: int = 1) -> list[tuple[str, ...]]:
    """Return the arguments of each option of this name."""
    return [
        tuple(argv[at + 1 : at + 1 + arguments]) for at, word in enumerate(argv) if word == name
    ]


class TestArgv:
    def test_all_is_unshared_and_the_end_is_tied_to_the_host(self) -> None:
        argv = bubblewrap_argv(SandboxSpec(), IMAGE, {})
        assert {
            "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv",
            "--disable-userns",
        } <= set(argv)  # fmt: skip
        assert argv[0] == "bwrap"
        assert argv[-1] == "--"

    def test_an_old_bubblewrap_gets_no_option_that_it_does_not_know(self) -> None:
        assert "--disable-userns" not in bubblewrap_argv(
            SandboxSpec(), IMAGE, {}, version=(0, 4, 1)
        )

    def test_what_is_bound_is_read_only(self) -> None:
        spec = SandboxSpec(read_only=(Path("/opt/torch"),))
        argv = bubblewrap_argv(spec, IMAGE, {})
        assert options(argv, "--ro-bind", 2) == [("/usr", "/usr"), ("/opt/torch", "/opt/torch")]
        assert options(argv, "--symlink", 2) == [("usr/bin", "/bin")]
        assert not {"--bind", "--dev-bind", "--share-net", "--bind-try"} & set(argv)
        assert argv.index("--remount-ro") > max(
            at for at, word in enumerate(argv) if word in ("--ro-bind", "--file", "--dir", "--dev")
        )

    def test_the_runner_comes_by_descriptors(self) -> None:
        argv = bubblewrap_argv(SandboxSpec(), IMAGE, {"/run/sandbox/runner/serve.py": 12})
        assert options(argv, "--file", 2) == [("12", "/run/sandbox/runner/serve.py")]

    def test_the_runner_alone_has_three_capabilities(self) -> None:
        found = options(bubblewrap_argv(SandboxSpec(), IMAGE, {}), "--cap-add")
        assert found == [("CAP_SYS_ADMIN",), ("CAP_SETPCAP",), ("CAP_SYS_PTRACE",)]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("bubblewrap 0.8.0\n", (0, 8, 0)), ("bubblewrap 0.11", (0, 11)),
        ("6.1.0-13-amd64", (6, 1, 0)),
        ("4.18.0-553.el8_10.x86_64", (4, 18, 0)), ("none", (0,)),
    ],
)  # fmt: skip
def test_a_version_is_read(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version


def test_a_machine_without_bubblewrap_is_told_what_to_do() -> None:
    backend = BubblewrapBackend("no-such-bwrap")
    for call in (lambda: asyncio.run(backend.create(SandboxSpec())), backend.isolation):
        with pytest.raises(SandboxError, match="no-such-bwrap") as told:
            call()
        assert "install" in told.value.fix


def test_a_bubblewrap_that_may_not_make_namespaces_is_told(tmp_path: Path) -> None:
    bwrap = tmp_path / "bwrap"
    bwrap.write_text(
        "#!/bin/sh\n[ $1 = --version ] && exec echo bubblewrap 0.8.0\n"
        "echo 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
    )
    bwrap.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    backend = BubblewrapBackend(str(bwrap))
    if sys.platform == "linux":
        with pytest.raises(SandboxError, match="setting up uid map: Permission denied"):
            backend.isolation()


@accounts
def test_it_confines_here(user: int) -> None:
    as_account(user, lambda: _check_isolation(bubblewrap()))


def _check_isolation(backend: BubblewrapBackend) -> None:
    assert backend.isolation() == Isolation("confined")


def test_isolation_can_be_asked_inside_of_a_running_loop() -> None:
    async def whole() -> Isolation:
        return bubblewrap().isolation()

    assert asyncio.run(whole()).level == "confined"


def test_a_command_is_a_user_without_name_and_its_host_is_unknown() -> None:
    told = run(shell("id -u; hostname; ls / /run; env | sort | cut -d= -f1; ls /etc"))
    names = told.stdout.decode().split()
    assert names[:2] == ["1000", "sandbox"]
    assert not {"root", "home", "work", "passwd", "shadow", "sys"} & set(names)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's sandboxes have user ids of their own")
def test_each_sandbox_of_root_is_a_user_of_its_own_and_gives_the_id_back() -> None:
    backend = bubblewrap()

    async def story() -> list[set[int]]:
        found = []
        for _ in range(2):
            sandboxes = [await backend.create(SandboxSpec()) for _ in range(3)]
            pids = [sandbox._process.pid for sandbox in sandboxes]
            found.append({psutil.Process(pid).uids().real for pid in pids})
            for sandbox in sandboxes:
                await sandbox.close()
        return found

    first, second = asyncio.run(story())
    assert len(first) == len(second) == 3
    assert all(64000 <= user <= 64999 for user in first | second)


def _running(word: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


class Host:
    """A process with one sandbox, in which a command sleeps for ever."""

    def __init__(self, mode: str, lifetime_s: float) -> None:
        self.word = str(10**8 + time.monotonic_ns() % 10**9)
        argv = [sys.executable, "-c", HOST, mode, str(lifetime_s), self.word]
        folder = Path(__file__).resolve().parents[2]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=folder)
        assert self.process.stdout
        self.started = self.process.stdout.readline() == b"started\n"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()


@pytest.fixture(params=["fresh", "persistent"])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    bubblewrap()
    return request.param


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_sandbox_ends_with_its_host(mode: str, number: int) -> None:
    host = Host(mode, 3600.0)
    try:
        assert host.started
        assert _running(host.word)
        host.process.send_signal(number)
        assert until(lambda: not _running(host.word))
    finally:
        host.end()


def test_a_sandbox_of_a_stopped_host_ends_at_its_lifetime(mode: str) -> None:
    host = Host(mode, 3.0)
    try:
        host.process.send_signal(signal.SIGSTOP)
        assert until(lambda: not _running(f"sleep\0{host.word}"))
        assert host.process.poll() is None
    finally:
        host.end()


def test_a_sandbox_over_its_lifetime_is_an_error() -> None:
    async def story(sandbox: RunnerSandbox) -> None:
        with pytest.raises(SandboxError, match="ended"):
            await sandbox.run(shell("sleep 600"), LONG)

    play(story, lifetime_s=1.0)


def test_a_thousand_commands_leave_no_zombie_and_no_memory() -> None:
    """After ten thousand the figures are the same; this many take seconds."""
    source = "import os\nif os.fork() == 0: os._exit(0)\nprint('x' * 5000)"

    async def story(sandbox: RunnerSandbox) -> None:
        pid = sandbox._process.pid
        figures = []
        for count in (100, 900):
            for _ in range(count):
                outcome = await sandbox.run(python(source), LONG)
                assert outcome.exit_code == 0
            figures.append((len(_below(pid)), _resident_kib(pid)))
        (before, kib_before), (after, kib_after) = figures
        assert before == after == 3, "bubblewrap twice and the runner"
        assert kib_after - kib_before < 300

    play(story)


def _below(pid: int) -> list[int]:
    """Return a process and all that descend from it, zombies too."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(found for child in children for found in _below(int(child)))]


def _resident_kib(pid: int) -> int:
    total = 0
    for found in _below(pid):
        for line in Path(f"/proc/{found}/status").read_text().splitlines():
            total += int(line.split()[1]) if line.startswith("RssAnon") else 0
    return total


MANY = """
import os, time
for _ in range(30):
    if os.fork() == 0:
        held = bytearray({each} << 20)
        held[::4096] = b"x" * len(held[::4096])
        time.sleep(600)
time.sleep(600)
"""
COPIES = """
import os, time
held = bytearray(60 << 20)
held[::4096] = b"x" * len(held[::4096])
for _ in range(6):
    if os.fork() == 0:
        {write}
        time.sleep(1); os._exit(0)
for _ in range(6): os.wait()
print("done")
"""
ZERO = """
import mmap, os, time
shared = mmap.mmap(os.open("/dev/zero", os.O_RDWR), 100 << 20)
shared[0] = 1
time.sleep(600)
"""
ANONYMOUS = "import mmap\ntry: mmap.mmap(-1, 4096)\nexcept PermissionError: print('refused')"
SOCKETS = """
import os, socket, time
def fill():
    held = [end for _ in range(25) for end in socket.socketpair()]
    for end in held:
        end.setblocking(False)
        try:
            while True: end.send(bytes(30000))
        except BlockingIOError: pass
    time.sleep(600)
for _ in range(30):
    if os.fork() == 0: fill()
time.sleep(600)
"""
FIRST_THREADS = """
import ctypes, os, threading, time
def hold():
    held = bytearray(60 << 20)
    held[::4096] = b"x" * len(held[::4096])
    time.sleep(600)
for _ in range(3):
    if os.fork() == 0:
        threading.Thread(target=hold).start()
        ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
time.sleep(600)
"""
MAPPINGS = """
import ctypes, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
at = libc.mmap(None, ctypes.c_size_t(20000 * 4096), 0, 0x22, -1, ctypes.c_long(0))
for page in range(0, 20000, 2):
    libc.mprotect(ctypes.c_void_p(at + page * 4096), ctypes.c_size_t(4096), 1)
time.sleep(600)
"""
LOCKS = """
import fcntl, time
files = [open(f"/tmp/{number}", "w") for number in range(40)]
for file in files:
    for start in range(0, 1000, 2): fcntl.lockf(file, fcntl.LOCK_EX, 1, start)
time.sleep(600)
"""
IN_FLIGHT = """
import array, socket, time
carrier = socket.socketpair()
for _ in range(2):
    pairs = [end for _ in range(25) for end in socket.socketpair()]
    for end in pairs:
        end.setblocking(False)
        try:
            while True: end.send(bytes(30000))
        except BlockingIOError: pass
    numbers = array.array("i", [end.fileno() for end in pairs])
    carrier[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
    for end in pairs: end.close()
time.sleep(600)
"""
SCRATCH = """
import os, time
with open("/tmp/file", "wb") as file:
    for _ in range(90): file.write(bytes(1 << 20))
time.sleep(600)
"""
MEMORY = Limits(time_s=PATIENCE_S, memory_mb=128, scratch_mb=100)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    "source",
    [
        MANY.format(each=20),
        COPIES.format(write="held[::4096] = b'y' * len(held[::4096]); time.sleep(600)"),
        ZERO,
        SOCKETS,
        SCRATCH,
        FIRST_THREADS,
        MAPPINGS,
        LOCKS,
        IN_FLIGHT,
    ],
    ids=["many", "copies", "zero", "sockets", "scratch", "threads", "mappings", "locks", "flight"],
)
def test_memory_of_every_kind_counts(source: str, persistent: bool) -> None:
    small = {SCRATCH: 64, IN_FLIGHT: 30}
    limits = Limits(PATIENCE_S, memory_mb=small.get(source, 128), scratch_mb=100)

    async def story(sandbox: RunnerSandbox) -> None:
        outcome = await sandbox.run(python(source), limits)
        assert (outcome.ending, outcome.exit_code) == ("out of memory", -signal.SIGKILL)
        following = await sandbox.run(shell("echo next"), LONG)
        assert following.stdout == b"next\n"

    play(story, persistent=persistent)


def test_memory_that_copies_share_counts_once() -> None:
    assert run(python(COPIES.format(write="pass")), MEMORY).stdout == b"done\n"


def test_shared_anonymous_memory_is_refused() -> None:
    assert run(python(ANONYMOUS)).stdout == b"refused\n"


FILTERS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
code = ctypes.create_string_buffer(bytes.fromhex("060000000000ff7f"))  # allow all
program = ctypes.byref(Program(1, ctypes.cast(code, ctypes.c_void_p)))
call = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
print(libc.prctl(22, 2, program, 0, 0), ctypes.get_errno())
print(libc.syscall(call, 1, 0, program), ctypes.get_errno())
"""


@pytest.mark.parametrize("persistent", [False, True])
def test_a_command_can_install_no_filter_of_its_own(persistent: bool) -> None:
    assert run(python(FILTERS), persistent=persistent).stdout == b"-1 1\n-1 1\n"


def test_a_stopped_command_ends_and_its_sandbox_runs_the_next_one(mode: str) -> None:
    async def story(sandbox: RunnerSandbox) -> list[Outcome]:
        started = asyncio.Event()
        command = shell("echo started; sleep 600 & wait")
        running = asyncio.ensure_future(sandbox.run(command, LONG, lambda _: started.set()))
        await started.wait()
        sandbox.stop_command()
        outcomes = [await running]
        for _ in range(20):  # a stop comes before its command starts, or crosses its outcome
            running = asyncio.ensure_future(sandbox.run(shell("true"), LONG))
            await asyncio.sleep(0)
            sandbox.stop_command()
            outcomes.append(await running)
            sandbox.stop_command()
            outcomes.append(await sandbox.run(shell("echo next"), LONG))
        return outcomes

    first, *others = play(story, persistent=mode == "persistent")
    assert (first.ending, first.stdout) == ("timed out", b"started\n")
    assert {outcome.ending for outcome in others[::2]} <= {"exited", "timed out"}
    assert {outcome.stdout for outcome in others[1::2]} == {b"next\n"}
