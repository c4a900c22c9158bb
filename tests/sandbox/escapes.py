"""Plays rows of the table of escapes, on things planted on the host for them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from Daddy.core.errors import SandboxError
from Daddy.sandbox.sandbox_interfaces import Command, Limits, Outcome, Sandbox, SandboxSpec
from tests.patience import until
from tests.sandbox.weakened import without

ROOT = Path(__file__).resolve().parents[2]
SLACK = 1.15
"""Share of the memory limit that a command may take of the host's memory."""
MEMORY_TRIES = 3
"""Times that memory is measured, until it is as expected: another program may grow or end meanwhile."""
_USAGE = "ESCAPES_MEMORY_USAGE"
"""Environment variable with the file of this group's memory; an ordinary user's child reads it."""
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
"""Every account may start it; the tests' own may lie in a home."""
ORDINARY_UID = 54321
"""An account without a name, process or file: the tests' ordinary user when root runs them."""

PLAIN_LIMITS = Limits(time_s=5.0)

Mode = Literal["fresh", "persistent"]
Judge = Callable[["Host", "Played"], str]
"""Returns what the attempt gained; an empty text: nothing."""
MakeSandbox = Callable[[SandboxSpec], Awaitable[Sandbox]]

PRELUDE = '''
import ctypes, errno, mmap, os, resource, signal, socket, struct, sys, threading, time
MIB, PAGE = 1 << 20, 4096
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype, libc.mmap.restype = ctypes.c_long, ctypes.c_void_p
libc.shmat.restype = ctypes.c_void_p
X86 = os.uname().machine == "x86_64"
def won(*what):
    print(H["ecnon"][::-1], *what, flush=True)
def check(value):
    if value is None or value < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return value
def call(x86, arm, *args):
    return check(libc.syscall(ctypes.c_long(x86 if X86 else arm), *map(as_long, args)))
def as_long(value):
    return ctypes.c_long(value) if isinstance(value, int) else value
def fill(mib, shared=False):
    kind = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
    pages = mmap.mmap(-1, mib * MIB, kind | mmap.MAP_ANONYMOUS)
    for start in range(0, mib * MIB, MIB):
        pages[start:start + MIB:PAGE] = b'x' * (MIB // PAGE)
    return pages
def press(mib=300, step=8):
    """Fill slowly, so that whoever looks every 20 ms stops us exactly at the limit."""
    held = []
    for _ in range(mib // step):
        held.append(fill(step)); time.sleep(0.015)
    time.sleep(0.3)
def children(count, body):
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            try: body(number)
            except BaseException as error: print("child:", name_of(error), flush=True)
            finally: os._exit(0)
        pids.append(pid)
    return pids
def name_of(error):
    code = getattr(error, "errno", None)
    return "%s %s %s" % (type(error).__name__, errno.errorcode.get(code, ""), error)
'''


@dataclass(frozen=True)
class Control:
    """The same attempt where nothing, or one thing less, confines it: there it must succeed."""

    text: str
    play: Callable[[Host, Row, MakeSandbox], Awaitable[Played]]
    root: bool = False


@dataclass(frozen=True)
class Row:
    """An attempt: its Python source, or a function that plays it, and what would count as success.

    `refusal` is a pattern that the outcome shows, so that a mistake in the source is no success.
    `then` is played after it in the same sandbox, and the attempt is judged by its output.
    """

    attempt: str
    judge: Judge
    refusal: str
    control: Control
    code: str = ""
    then: str = ""
    limits: Limits = PLAIN_LIMITS
    modes: tuple[Mode, ...] = ("fresh", "persistent")
    own: bool = False
    alone: bool = False
    """Judged by the host's memory, so nothing else of ours runs meanwhile."""
    play: Callable[[Host, Row, Sandbox], Awaitable[Played]] | None = None


@dataclass
class Played:
    """An attempt that was made, as the host saw it."""

    limits: Limits
    outcomes: list[Outcome] = field(default_factory=list)
    text: str = ""
    seconds: float = 0.0
    host_mb: float = 0.0
    nonce: str = ""

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        output = b" ".join((outcome.stdout, outcome.stderr, outcome.fd3_output))
        self.text += f"{output.decode(errors='replace')} [{outcome.ending}: {outcome.exit_code}]\n"


@dataclass(frozen=True)
class Result:
    """A judged row: held if nothing was gained, it was refused as expected, and the next worked."""

    attempt: str
    mode: str
    gained: str
    refused: bool
    alive: bool
    text: str
    seconds: float

    @property
    def held(self) -> bool:
        return not self.gained and self.refused and self.alive

    def __str__(self) -> str:
        how = self.gained or ("held" if self.refused else "refused in another way")
        alive = "" if self.alive else "; THE NEXT SNIPPET FAILED"
        return f"{self.mode:10} {self.seconds:5.2f} s  {self.attempt}: {how}{alive}"


class Host:
    """Holds things that attempts are after: files, listeners and a process of the host, each with a secret."""

    def __init__(self) -> None:
        self.secret = "secret-" + secrets.token_hex(8)
        self.folder = Path(tempfile.mkdtemp(prefix="escapes-"))
        self.folder.chmod(0o755)
        self.file = self._plant(self.folder / "planted")
        self.home_file = self._plant(Path.home() / f".{self.secret[:12]}", 0o600)
        self.writable = self._plant(self.folder / "writable", 0o666)
        self.tcp = self._listen(("127.0.0.1", 0))
        self.lan = self._listen((_own_address(), 0))
        self.abstract = self._listen("\0" + self.secret, socket.AF_UNIX)
        self.by_path = self._listen(str(self.folder / "socket"), socket.AF_UNIX)
        (self.folder / "socket").chmod(0o777)
        self.udp = self._listen(("127.0.0.1", 0), kind=socket.SOCK_DGRAM)
        self.free_port = _free_port()
        self.inherited = os.open(self.file, os.O_RDONLY)
        os.set_inheritable(self.inherited, True)
        os.environ["ESCAPES_SECRET"] = self.secret
        self.make: MakeSandbox | None = None
        self._victim: subprocess.Popen[bytes] | None = None

    def _plant(self, path: Path, mode: int = 0o644) -> Path:
        path.write_text(self.secret)
        path.chmod(mode)
        return path

    def _listen(self, address: Any, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM):
        listener = socket.socket(family, kind)
        listener.setblocking(False)
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        return listener

    @property
    def victim(self) -> int:
        """Return the pid of a living process of this account."""
        if self._victim is None or self._victim.poll() is not None:
            argv = [PYTHON, "-c", "import time; time.sleep(600)", self.secret]
            self._victim = subprocess.Popen(argv, start_new_session=True)
        return self._victim.pid

    def victim_is_well(self) -> bool:
        assert self._victim is not None
        stopped = Path(f"/proc/{self._victim.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return self._victim.poll() is None and stopped not in "TZ"

    def facts(self) -> dict[str, object]:
        """Return what the attempt's source is told: an enemy that knows the machine."""
        return {
            "tcp": self.tcp.getsockname(),
            "lan": self.lan.getsockname(),
            "udp": self.udp.getsockname(),
            "abstract": self.secret,
            "socket": str(self.folder / "socket"),
            "file": str(self.file),
            "home": str(self.home_file),
            "writable": str(self.writable),
            "victim": self.victim,
            "port": self.free_port,
        }

    def close(self) -> None:
        if self._victim is not None:
            self._victim.kill()
            self._victim.wait()
        os.environ.pop("ESCAPES_SECRET", None)
        os.close(self.inherited)
        for listener in (self.tcp, self.lan, self.abstract, self.by_path, self.udp):
            listener.close()
        self.home_file.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def _own_address() -> str:
    """Return this machine's address on its network; its loopback without one. Sends nothing."""
    asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with asked, contextlib.suppress(OSError):
        asked.connect(("192.0.2.1", 9))
        return str(asked.getsockname()[0])
    return "127.0.0.2"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as asked:
        return int(asked.getsockname()[1])


def source_of(host: Host, code: str, nonce: str) -> str:
    """Return the source that plays `code`: it prints the error that refused it."""
    facts = {**host.facts(), "ecnon": nonce[::-1]}
    body = textwrap.indent(textwrap.dedent(code).strip(), "    ")
    end = "except BaseException as error:\n    print('refused:', name_of(error), flush=True)\n"
    return f"H = {facts!r}\n{PRELUDE}\ntry:\n{body}\n{end}"


@contextlib.contextmanager
def measured(played: Played) -> Iterator[None]:
    """Note by how many MiB the host's memory grew at most, and the seconds."""
    stop, began = threading.Event(), time.monotonic()

    def watch() -> None:
        lowest = host_memory_mb()  # the row before may still be giving its memory back
        while not stop.wait(0.004):
            now = host_memory_mb()
            lowest = min(lowest, now)
            played.host_mb = max(played.host_mb, now - lowest)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
        played.seconds = time.monotonic() - began


@contextlib.contextmanager
def memory_group() -> Iterator[None]:
    """Move this process into a control group of its own, where one may be made, to be measured.

    Children and their children begin there: the kernel counts all that they take, its own memory,
    files of memory and segments included, and nothing of other programs.
    """
    for top, entry in ((Path("/sys/fs/cgroup/memory"), ":memory:"), (Path("/sys/fs/cgroup"), "::")):
        parts = [line.partition(entry) for line in Path("/proc/self/cgroup").read_text().split()]
        here = [top / path.lstrip("/") for _, found, path in parts if found]
        group = here[0] / f"escapes-{os.getpid()}" if here else top
        try:
            group.mkdir()
            (group / "cgroup.procs").write_text("0")
        except OSError:
            continue
        usage = group / ("memory.current" if entry == "::" else "memory.usage_in_bytes")
        if usage.exists():
            os.environ[_USAGE] = str(usage)
        try:
            yield
        finally:
            os.environ.pop(_USAGE, None)
            (here[0] / "cgroup.procs").write_text("0")
            _remove_group(group)
        return
    yield


def _remove_group(group: Path) -> None:
    """Remove a group once the last of its processes, which are being killed, has ended."""
    assert until(lambda: not (group / "cgroup.procs").read_text(), 5.0), "processes were left"
    group.rmdir()


def host_memory_mb() -> float:
    """Return the MiB that this process' group takes, or this machine but cached files."""
    if usage := os.environ.get(_USAGE):
        with open(usage) as stream:  # noqa: PTH123 - read a hundred times a second
            return int(stream.read()) / (1 << 20)
    with open("/proc/meminfo") as stream:  # noqa: PTH123
        kib = {line.split(":")[0]: int(line.split()[1]) for line in stream}
    cached = kib["Cached"] - kib["Shmem"] + kib["Buffers"] + kib["SReclaimable"]
    return (kib["MemTotal"] - kib["MemFree"] - cached) / 1024


async def play_in(sandbox: Sandbox, host: Host, row: Row, limits: Limits | None = None) -> Played:
    """Play a row, and what follows it, in a sandbox."""
    if row.play:
        return await row.play(host, row, sandbox)
    played = Played(limits or row.limits, nonce=secrets.token_hex(8))
    with measured(played) if row.alone else _timed(played):
        for code in filter(None, (row.code, row.then)):
            command = Command(python=source_of(host, code, played.nonce))
            played.text = ""
            played.add(await sandbox.run(command, played.limits))
    return played


@contextlib.contextmanager
def _timed(played: Played) -> Iterator[None]:
    began = time.monotonic()
    yield
    played.seconds = time.monotonic() - began


async def play_row(sandbox: Sandbox, host: Host, row: Row, mode: Mode) -> Result:
    """Play and judge a row, then a harmless snippet."""
    for _ in range(MEMORY_TRIES if row.alone else 1):
        try:
            played = await play_in(sandbox, host, row)
            gained = row.judge(host, played)
        except SandboxError as error:
            played, gained = Played(row.limits, text=f"the sandbox ended: {error}"), ""
        alive = await answers(sandbox)
        if not gained or not alive:
            break
    refused = re.search(row.refusal, played.text) is not None
    if row.alone:
        played.text += f" {played.host_mb:.0f} MB of the host"
    return Result(row.attempt, mode, gained, refused, alive, played.text[-600:], played.seconds)


async def answers(sandbox: Sandbox) -> bool:
    """Return whether the next snippet works."""
    try:
        outcome = await sandbox.run(Command(python="print(6 * 7)"), Limits(time_s=60.0))
    except SandboxError:
        return False
    return outcome.stdout == b"42\n" and outcome.exit_code == 0


async def play_table(
    make: MakeSandbox, host: Host, rows: Sequence[Row], workers: int = 3
) -> list[Result]:
    """Play all rows in each of their modes: those judged by memory alone, the others at once."""
    results, host.make = [], make
    for mode in ("fresh", "persistent"):
        wanted = [row for row in rows if mode in row.modes]
        results += await _play_rows(make, host, mode, [r for r in wanted if r.alone], 1)
        results += await _play_rows(make, host, mode, [r for r in wanted if not r.alone], workers)
    return results


SPECS: dict[Mode, SandboxSpec] = {
    "fresh": SandboxSpec(),
    "persistent": SandboxSpec(persistent=True, writable_root=True),
}


async def _play_rows(
    make: MakeSandbox, host: Host, mode: Mode, rows: list[Row], workers: int
) -> list[Result]:
    waiting, results = list(reversed(rows)), []

    async def work() -> None:
        sandbox = await make(SPECS[mode])
        try:
            while waiting:
                results.append(await play_row(sandbox, host, waiting.pop(), mode))
                if not results[-1].alive:
                    await sandbox.close()
                    sandbox = await make(SPECS[mode])
        finally:
            await sandbox.close()

    await asyncio.gather(*(work() for _ in range(min(workers, len(rows)))))
    return results


async def play_controls(make: MakeSandbox, host: Host, rows: Sequence[Row]) -> list[Result]:
    """Play the control of each row, one after the other."""
    return [await play_control(make, host, row) for row in rows]


async def play_control(make: MakeSandbox, host: Host, row: Row) -> Result:
    """Play a control; `gained` is empty if the row could never have failed."""
    if row.control.root and os.geteuid():
        return Result(row.attempt, "control", "", False, True, "needs root", 0.0)
    for _ in range(MEMORY_TRIES if row.alone else 1):
        played = await row.control.play(host, row, make)
        gained = row.judge(host, played)
        if gained:
            break
    if row.alone:
        played.text += f" {played.host_mb:.0f} MB of the host"
    return Result(row.attempt, "control", gained, True, True, played.text[-600:], played.seconds)


async def plainly(host: Host, row: Row, _: object = None, user: int | None = None) -> Played:
    """Play a row as a plain process of this account, or of `user`; end all that it leaves."""
    played = Played(row.limits, nonce=secrets.token_hex(8))
    assert "mountinfo" not in row.code, "it would write to every mount of this machine"
    folder = tempfile.mkdtemp(dir=host.folder)
    if user:
        os.chown(folder, user, user)
    with measured(played) if row.alone else _timed(played):
        for code in filter(None, (row.code, row.then)):
            played.text = ""
            source = source_of(host, code, played.nonce)
            await _plain_process(source, folder, played, user)
    return played


async def _plain_process(source: str, folder: str, played: Played, user: int | None) -> None:
    account = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    with tempfile.TemporaryFile() as output:
        process = await asyncio.create_subprocess_exec(
            *(PYTHON, "-I", "-S", "-c", source),
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            close_fds=False,
            start_new_session=True,
            **account,
        )
        code = await asyncio.wait_for(process.wait(), 60)
        output.seek(0)
        played.text += output.read(1 << 20).decode(errors="replace")
        ending = Outcome("exited", code, stdout=b"")
        played.outcomes.append(replace(ending, stdout=played.text.encode()))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def lacking(*protections: str) -> Control:
    """Return a control in a fresh sandbox of bubblewrap that lacks protections."""

    async def play(host: Host, row: Row, make: MakeSandbox) -> Played:
        with without(*protections):
            sandbox = await make(SandboxSpec())
            try:
                return await play_in(sandbox, host, row)
            except SandboxError as error:
                return Played(row.limits, text=f"the sandbox ended: {error}")
            finally:
                await sandbox.close()

    return Control(f"in bubblewrap without {' and '.join(protections)}", play)


def with_limits(text: str, **raised: Any) -> Control:
    """Return a control in a fresh sandbox of the same backend with a limit raised."""

    async def play(host: Host, row: Row, make: MakeSandbox) -> Played:
        sandbox = await make(SandboxSpec())
        try:
            return await play_in(sandbox, host, row, replace(row.limits, **raised))
        finally:
            await sandbox.close()

    return Control(text, play)


async def _persistently(host: Host, row: Row, make: MakeSandbox) -> Played:
    sandbox = await make(SandboxSpec(persistent=True))
    try:
        return await play_in(sandbox, host, row)
    finally:
        await sandbox.close()


async def _ordinarily(host: Host, row: Row, make: MakeSandbox) -> Played:
    return await plainly(host, row, make, None if os.geteuid() else ORDINARY_UID)


PLAIN = Control("as a plain process", plainly)
PLAIN_ROOT = Control("as a plain process of root", plainly, root=True)
PLAIN_ORDINARY = Control("as a plain process of an ordinary user", _ordinarily)
PERSISTENT = Control("in a persistent sandbox", _persistently)


async def in_one_interpreter(host: Host, row: Row, make: MakeSandbox) -> Played:
    """Play a row and what follows it in one plain process."""
    both = textwrap.dedent(row.code) + "\n" + textwrap.dedent(row.then)
    return await plainly(host, replace(row, code=both, then=""), make)


async def in_a_terminal(host: Host, row: Row, _: MakeSandbox) -> Played:
    """Play a row as a plain process that leads a session with a terminal."""
    played = Played(row.limits, nonce=secrets.token_hex(8))
    argv = [PYTHON, "-I", "-S", "-c", source_of(host, row.code, played.nonce)]
    ours, theirs = pty.openpty()
    script = "import os,sys,fcntl,termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
    argv[4] = f"{script}\n{argv[4]}"
    process = await asyncio.create_subprocess_exec(*argv, stdin=theirs, stdout=theirs)
    await process.wait()
    played.text = os.read(ours, 4096).decode(errors="replace")
    os.close(ours)
    os.close(theirs)
    return played


NEIGHBOUR = """
libc.prctl(15, H['abstract'][7:19].encode(), 0, 0, 0)
abstract, tcp = socket.socket(socket.AF_UNIX), socket.socket()
abstract.bind('\\0neighbour-' + H['abstract']); abstract.listen()
tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); tcp.bind(('127.0.0.1', H['port'])); tcp.listen()
for path in ('/tmp/neighbour', '/dev/shm/neighbour'):
    try: open(path, 'w').close()
    except OSError: pass
print('ready', flush=True)
time.sleep(30)
"""


async def play_neighbours(host: Host, row: Row, sandbox: Sandbox) -> Played:
    """Play a row beside a sandbox whose command listens, holds files and has a name."""
    assert host.make
    played = Played(row.limits, nonce=secrets.token_hex(8))
    neighbour, ready = await host.make(SandboxSpec()), asyncio.Event()
    command = Command(python=source_of(host, NEIGHBOUR, "0"))
    listening = asyncio.ensure_future(
        neighbour.run(command, Limits(time_s=60.0), lambda line: ready.set())
    )
    try:
        await asyncio.wait_for(ready.wait(), 60)
        played.add(await sandbox.run(Command(python=source_of(host, row.code, played.nonce))))
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await neighbour.close()
    return played


async def plain_neighbours(host: Host, row: Row, make: MakeSandbox) -> Played:
    """Play a row as a plain process beside another."""
    source = source_of(
        host, NEIGHBOUR.replace("('/tmp/neighbour', '/dev/shm/neighbour')", "()"), "0"
    )
    neighbour = await asyncio.create_subprocess_exec(
        *(PYTHON, "-I", "-S", "-c", source), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert neighbour.stdout
        assert await neighbour.stdout.readline() == b"ready\n"
        return await plainly(host, replace(row, play=None), make)
    finally:
        neighbour.kill()
        await neighbour.wait()


async def play_get(host: Host, row: Row, sandbox: Sandbox) -> Played:
    """Let a command make the folder ``out``, and get it."""
    played = Played(row.limits, nonce=secrets.token_hex(8))
    code = f"import shutil; shutil.rmtree('out', ignore_errors=True)\n{row.code}"
    played.add(await sandbox.run(Command(python=source_of(host, code, "0")), row.limits))
    try:
        await sandbox.get("/tmp/out", host.folder / "got")
    except SandboxError as error:
        played.text += f"get: {error}"
    return played


async def copy_by_tar(host: Host, row: Row, make: MakeSandbox) -> Played:
    """Make the same folder as a plain process, and copy it by tar."""
    played = Played(row.limits, nonce=secrets.token_hex(8))
    with tempfile.TemporaryDirectory(dir=host.folder) as folder:
        await _plain_process(source_of(host, row.code, "0"), folder, played, None)
        with tarfile.open(f"{folder}/tar", "w") as tar:
            tar.add(f"{folder}/out", "got")
        with tarfile.open(f"{folder}/tar") as tar:
            tar.extractall(host.folder)
    return played
