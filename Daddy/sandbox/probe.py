"""Tries each limit of a sandbox on the spot, with a listener and files that it plants on the host.

An attempt is judged by the host where the host can see it: a listener that was reached, a process
that was ended, a file that was made, the bytes and the seconds that came through.
"""

import asyncio
import contextlib
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from Daddy.core.errors import SandboxError
from Daddy.sandbox.sandbox_interfaces import (
    MIB,
    Backend,
    Command,
    Limits,
    Outcome,
    Sandbox,
    SandboxSpec,
)

LIMITS = Limits(time_s=20.0, memory_mb=128, scratch_mb=8, processes=32)
_SHORT_S = 0.3
_OVER = 3
"""Times a limit that an attempt takes at most: an unconfined one must not harm the machine."""
_SLACK = 1.15
"""Share of its memory limit that a command may reach before it is ended."""


@dataclass(frozen=True)
class Check:
    """An attempt that was made: `how` says what refused it, or what it gained."""

    tried: str
    held: bool
    how: str


@dataclass
class PlantedHost:
    """Things of the host that attempts are after."""

    token: str
    listener: socket.socket
    file: Path
    victim: asyncio.subprocess.Process
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def last(self) -> Outcome:
        """Return the outcome of the last command."""
        return self.outcomes[-1]

    @property
    def text(self) -> str:
        """Return the last output, with no character that a terminal obeys."""
        last = self.last
        text = (last.stdout[-2000:] + b" " + last.stderr[-2000:]).decode(errors="replace")
        return "".join(letter if letter.isprintable() else " " for letter in text)

    @property
    def number(self) -> int:
        """Return the last number that an attempt printed; 0 for none."""
        return int(([0] + [int(word) for word in self.text.split() if word.isdigit()])[-1])


Judge = Callable[[PlantedHost], tuple[bool, str]]


@dataclass(frozen=True)
class ProbeAttempt:
    """A Python source that tries one limit, and the function that judges it from the host.

    `means` is what refuses it in bubblewrap. `then` is the source of a second command.
    """

    tried: str
    means: str
    source: str
    judge: Judge
    limits: Limits = LIMITS
    then: str = ""


def _counted(most: float, unit: str) -> Judge:
    """Judge by the number that the attempt reached and printed."""

    def judge(host: PlantedHost) -> tuple[bool, str]:
        if not host.number:
            return False, f"no answer: {host.last.ending} {host.text[:60].strip()}"
        return host.number <= most, f"stopped at {host.number} {unit}"

    return judge


def _filled_memory(host: PlantedHost) -> tuple[bool, str]:
    reached = host.last.stdout.count(b".")
    return 0 < reached <= LIMITS.memory_mb * _SLACK, f"stopped at {reached} MB"


def _refused(host: PlantedHost) -> tuple[bool, str]:
    refused = f"refused-{host.token}" in host.text
    return refused, "refused" if refused else f"it got through: {host.text[:60].strip()}"


def _reached(host: PlantedHost) -> tuple[bool, str]:
    try:
        host.listener.accept()[0].close()
    except BlockingIOError:
        return _refused(host)
    return False, "the listener was reached"


def _read(host: PlantedHost) -> tuple[bool, str]:
    if f"secret-{host.token}" in host.text:
        return False, "the file was read"
    return _refused(host)


def _signalled(host: PlantedHost) -> tuple[bool, str]:
    if host.victim.returncode is not None:
        return False, "a process of the host was ended"
    return _refused(host)


def _wrote(host: PlantedHost) -> tuple[bool, str]:
    path = Path("/usr") / host.token
    there = path.exists()
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
    return (False, f"{path} was made") if there else _refused(host)


def _ended_in_time(host: PlantedHost) -> tuple[bool, str]:
    how = f"{host.last.ending} after {host.last.seconds:.1f} s"
    return host.last.ending == "timed out", how


def _cut_output(host: PlantedHost) -> tuple[bool, str]:
    kept = len(host.last.stdout)
    return 0 < kept <= LIMITS.output_bytes, f"{kept // 1024} KiB of 8 MiB kept"


_TRY = """
import ctypes, os, socket, time
H = {facts!r}
def refused(): print("refused-" + H["token"], flush=True)
try:
    {body}
except OSError:
    refused()
"""

ATTEMPTS = (
    ProbeAttempt(
        "fork past the process limit",
        "RLIMIT_NPROC of an account of its own",
        f"""
made, (stop, go) = 0, os.pipe()
try:
    while made < {_OVER * LIMITS.processes}:
        if os.fork() == 0: os.close(go); os.read(stop, 1); os._exit(0)
        made += 1
except OSError: pass
print(made, flush=True); os.close(go)
""",
        _counted(LIMITS.processes, f"of {LIMITS.processes}"),
    ),
    ProbeAttempt(
        "allocate past the memory limit in 4 processes",
        "summed every 20 ms",
        f"""
import mmap
for part in range(4):
    if os.fork() == 0:
        for _ in range({_OVER * LIMITS.memory_mb // 4}):
            page = mmap.mmap(-1, {MIB}, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            page.write(bytes({MIB})); globals().setdefault("held", []).append(page)
            os.write(1, b"."); time.sleep(0.002)
        time.sleep(0.5); os._exit(0)
for part in range(4): os.wait()
""",
        _filled_memory,
    ),
    ProbeAttempt(
        "fill the scratch folder",
        "tmpfs with a size",
        f"""
size = 0
try:
    with open("/tmp/fill-" + H["token"], "wb", 0) as stream:
        while size < {_OVER * LIMITS.scratch_mb * MIB}: size += stream.write(bytes({MIB // 4}))
except OSError: pass
finally: print(-(-size // {MIB}), flush=True); os.unlink("/tmp/fill-" + H["token"])
""",
        _counted(LIMITS.scratch_mb, f"of {LIMITS.scratch_mb} MB"),
    ),
    ProbeAttempt(
        "connect to a listener on the host",
        "network namespace",
        'socket.create_connection(("127.0.0.1", H["port"]), 2)',
        _reached,
    ),
    ProbeAttempt(
        "read a file planted on the host",
        "mount namespace",
        'print(open(H["file"]).read(), flush=True)',
        _read,
    ),
    ProbeAttempt(
        "see and end a process of the host",
        "pid namespace",
        """
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if H["sleep"] in open("/proc/%s/cmdline" % pid).read(): os.kill(int(pid), 9); break
    except OSError: pass
else: os.kill(H["victim"], 9)
""",
        _signalled,
    ),
    ProbeAttempt(
        "hold a capability or gain one",
        "dropped, no_new_privs",
        """
held = [line for line in open("/proc/self/status") if line.startswith("Cap")]
if any(int(line.split()[1], 16) for line in held) or os.getuid() == 0: print(held)
else: os.setuid(0)
""",
        _refused,
    ),
    ProbeAttempt(
        "make a vsock, a user namespace or a key",
        "seccomp",
        """
libc, made = ctypes.CDLL(None), 0
try: socket.socket(40, socket.SOCK_STREAM); made += 1
except OSError: pass
keys, spaces = (248, 272) if os.uname().machine == "x86_64" else (217, 97)
made += libc.syscall(keys, b"user", b"probe", b"x", 1, -2) >= 0
made += libc.syscall(spaces, 0x10000000) == 0
print(made, "of 3") if made else refused()
""",
        _refused,
    ),
    ProbeAttempt(
        "write to /usr", "read-only mount", 'open("/usr/" + H["token"], "w").close()', _wrote
    ),
    ProbeAttempt(
        "leave a file for the next command",
        "fresh mounts for each",
        """
for folder in ("/tmp", "/dev/shm", "/var/tmp", "/files"):
    try: open(folder + "/left-" + H["token"], "w").close()
    except OSError: pass
""",
        _refused,
        then="""
left = [f + "/left-" + H["token"] for f in ("/tmp", "/dev/shm", "/var/tmp", "/files")]
found = [path for path in left if os.path.exists(path)]
for path in found: os.unlink(path)
print("found", len(found)) if found else refused()
""",
    ),
    ProbeAttempt(
        f"run past {_SHORT_S} s, deaf to signals",
        "killed at the deadline",
        """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 3
while time.monotonic() < end: pass
""",
        _ended_in_time,
        Limits(time_s=_SHORT_S),
    ),
    ProbeAttempt(
        "flood the output",
        "cut at the limit",
        f'for _ in range(8): os.write(1, b"x" * {MIB})',
        _cut_output,
    ),
)


async def probe_backend(
    backend: Backend,
    spec: SandboxSpec,
    show: Callable[[Check], object],
    attempts: Sequence[ProbeAttempt] = ATTEMPTS,
) -> list[Check]:
    """Make each attempt in a sandbox of the backend, and `show` it at once. Raises SandboxError."""
    checks = []
    async with contextlib.AsyncExitStack() as stack:
        sandbox = await backend.create(spec)
        stack.push_async_callback(sandbox.close)
        for attempt in attempts:
            async with planted_host() as host:
                checks.append(await _make_attempt(sandbox, attempt, host, backend.name))
            show(checks[-1])
    return checks


@contextlib.asynccontextmanager
async def planted_host() -> AsyncIterator[PlantedHost]:
    """Plant a listener, a file and a process; take them away at the end."""
    token = secrets.token_hex(8)
    victim = await asyncio.create_subprocess_exec("sleep", _sleep_of(token))
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener, _secret_file(token) as file:
            listener.setblocking(False)
            yield PlantedHost(token, listener, file, victim)
    finally:
        with contextlib.suppress(ProcessLookupError):
            victim.kill()
        await victim.wait()


@contextlib.contextmanager
def _secret_file(token: str) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile("w", prefix="probe-") as file:
        file.write(f"secret-{token}")
        file.flush()
        Path(file.name).chmod(0o644)
        yield Path(file.name)


def _sleep_of(token: str) -> str:
    """Return seconds that no other command line has."""
    return f"600.{int(token, 16)}"


async def _make_attempt(
    sandbox: Sandbox, attempt: ProbeAttempt, host: PlantedHost, backend: str
) -> Check:
    try:
        for source in filter(None, (attempt.source, attempt.then)):
            command = Command(python=_source(source, host))
            host.outcomes.append(await sandbox.run(command, attempt.limits))
    except SandboxError as error:
        return Check(attempt.tried, False, f"the sandbox ended: {error.message}")
    with contextlib.suppress(asyncio.TimeoutError):  # a signal to the victim is on its way
        await asyncio.wait_for(host.victim.wait(), 0.01)
    held, how = attempt.judge(host)
    return Check(attempt.tried, held, f"{attempt.means}: {how}" if backend == "bubblewrap" else how)


def _source(body: str, host: PlantedHost) -> str:
    facts = {
        "token": host.token,
        "port": host.listener.getsockname()[1],
        "file": str(host.file),
        "victim": host.victim.pid,
        "sleep": _sleep_of(host.token),
    }
    return _TRY.format(facts=facts, body=body.strip().replace("\n", "\n    "))
