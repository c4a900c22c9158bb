"""The runner confines each command, and keeps nothing of it for the next one."""

import asyncio
import errno
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from Daddy.core.errors import SandboxError
from Daddy.sandbox.runner import command_run
from Daddy.sandbox.sandbox_interfaces import Command, Limits, Sandbox
from tests.patience import PATIENCE_S, until
from tests.sandbox.machines import LONG, accounts, as_account, play, python, run, shell

MOUNTS = """
import os
for line in open("/proc/self/mountinfo"):
    left, right = line.split(" - ")
    point, own = left.split()[4:6]
    kind, _, shared = right.split()
    if "rw" in own.split(",") and not ("size=" in shared or "max=" in shared):
        print("writable", point, kind)
for folder, _, _ in os.walk("/", followlinks=False):
    if not folder.startswith(("/proc", "/usr", "/etc")):
        try:
            name = os.path.join(folder, "left")
            with open(name, "w") as file:
                file.write("x" * 100)
            print("wrote", folder)
        except OSError:
            pass
"""
CAPABILITIES = """
for line in open("/proc/self/status"):
    if line.startswith(("Cap", "NoNewPrivs", "Seccomp:")):
        print(*line.split())
"""
NO_CAPABILITIES = [f"Cap{name}: 0000000000000000" for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")]


@pytest.mark.parametrize("persistent", [False, True])
@accounts
def test_a_command_has_no_capability_and_can_gain_none(user: int, persistent: bool) -> None:
    def work() -> None:
        for command in (python(CAPABILITIES), shell(f"python3 -c '{CAPABILITIES}'")):
            lines = run(command, persistent=persistent).stdout.decode().splitlines()
            assert lines == [*NO_CAPABILITIES, "NoNewPrivs: 1", "Seccomp: 2"]

    as_account(user, work)


@accounts
def test_every_mount_is_read_only_or_bounded_and_the_next_command_finds_it_empty(user: int) -> None:
    def work() -> None:
        async def story(sandbox: Sandbox) -> None:
            for _ in range(2):
                outcome = await sandbox.run(python(MOUNTS), LONG)
                assert sorted(outcome.stdout.split(b"\n")) == [
                    b"",
                    b"wrote /dev/shm",
                    b"wrote /tmp",
                ]
                left = await sandbox.run(shell("find /tmp /dev/shm /files -name left"), LONG)
                assert left.stdout == b""

        play(story)

    as_account(user, work)


def test_the_scratch_holds_as_much_as_the_limits_say_in_both_places_together() -> None:
    fill = """
import os
def fill(name):
    size = 0
    try:
        with open(name, "wb", buffering=0) as file:
            while True: size += file.write(bytes(4096))
    except OSError as error: print(error.errno, end=" ")
    return size
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
print(fill("/tmp/a") + fill("/dev/shm/b") >> 20)
os.unlink("/tmp/a"), os.unlink("/dev/shm/b")
made = 0
try:
    while True: open(f"/tmp/{made}", "w").close(); made += 1
except OSError as error: print(error.errno, made)
"""
    limits = Limits(time_s=PATIENCE_S, scratch_mb=4, scratch_files=50)
    words = run(python(fill), limits).stdout.split()
    assert set(words[:2]) <= {b"%d" % errno.ENOSPC, b"%d" % errno.EFBIG}
    assert words[2:] == [b"4", b"%d" % errno.ENOSPC, b"50"]


def test_nothing_of_a_command_is_in_the_memory_of_the_next_one() -> None:
    """A Python command is a copy of the runner, through which all bytes of the last one passed."""
    search = """
import os, sys
word = bytes(reversed(sys.stdin.buffer.read()))
found = 0
for line in open("/proc/self/maps"):
    span, rights = line.split()[:2]
    if rights.startswith("rw"):
        start, end = (int(part, 16) for part in span.split("-"))
        import ctypes
        found += ctypes.string_at(start, end - start).count(word)
print(found)
"""
    secret = b"correct-horse-battery-staple"
    everywhere = secret.decode() * 20

    async def story(sandbox: Sandbox) -> None:
        told = python(
            f"import os\n# {everywhere}\nprint({everywhere!r}); os.write(3, {secret * 9!r})",
            stdin=secret * 1000,
            env={"SECRET": everywhere},
        )
        assert secret in (await sandbox.run(told, LONG)).stdout
        own = await sandbox.run(
            python(f"kept = {secret!r}\n" + search, stdin=secret[::-1]), LONG
        )  # the control: what is there is found
        assert int(own.stdout) > 1, own
        next_one = await sandbox.run(python(search, stdin=secret[::-1]), LONG)
        assert int(next_one.stdout) == 1, "its own variable"

    play(story)


SIGNALS = """
import os, signal
told = []
for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
    if pid != os.getpid():
        for name in ("INT", "TERM", "STOP", "CHLD", "ALRM", "USR1", "KILL"):
            try: os.kill(pid, getattr(signal, f"SIG{name}"))
            except OSError: pass
for pid in range(1, 40):
    for file in ("mem", "environ", "fd/10"):
        try:
            if pid != os.getpid(): open(f"/proc/{pid}/{file}").read(1); told.append((pid, file))
        except OSError: pass
print(told, [name for name in os.listdir("/proc") if name.isdigit()] == [str(os.getpid())])
"""


@pytest.mark.parametrize("persistent", [False, True])
@accounts
def test_the_runner_cannot_be_signalled_or_read(user: int, persistent: bool) -> None:
    def work() -> None:
        async def story(sandbox: Sandbox) -> None:
            outcome = await sandbox.run(python(SIGNALS), LONG)
            alone = b"True" if persistent else b"False"  # there is an init process, of the command
            assert outcome.stdout.split() == [b"[]", alone], outcome
            assert (await sandbox.run(shell("echo next"), LONG)).stdout == b"next\n"

        play(story, persistent=persistent)

    as_account(user, work)


@accounts
def test_a_fork_bomb_stops_at_the_limit(user: int) -> None:
    bomb = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0: time.sleep(600); os._exit(0)
        made += 1
except OSError as error: print(made, error.errno)
"""

    def work() -> None:
        async def story(sandbox: Sandbox) -> None:
            outcome = await sandbox.run(python(bomb), Limits(time_s=PATIENCE_S, processes=20))
            made, error = map(int, outcome.stdout.split())
            assert 15 <= made <= 22
            assert error == errno.EAGAIN
            assert (await sandbox.run(shell("echo next"), LONG)).stdout == b"next\n"

        play(story)

    as_account(user, work)


def test_processes_are_counted_where_the_kernel_counts_all_of_a_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before Linux 5.14: there is no limit then, and a command over its number is killed."""
    monkeypatch.setattr("Daddy.sandbox.bubblewrap._must_count", lambda: True)
    fork = (
        "import os, time\nfor _ in range({}):\n  if os.fork() == 0: time.sleep({}); os._exit(0)\n"
    )
    bomb = fork.format(60, 600) + "time.sleep(600)"
    few = fork.format(5, 0.1) + "print(1)"

    async def story(sandbox: Sandbox) -> None:
        limits = Limits(time_s=PATIENCE_S, processes=20)
        outcome = await sandbox.run(python(bomb), limits)
        assert (outcome.ending, outcome.exit_code) == ("exited", -signal.SIGKILL)
        assert (await sandbox.run(python(few), limits)).stdout == b"1\n"

    play(story)


def test_an_interpreter_ends_as_python_does() -> None:
    source = """
import atexit, threading, time, sys
atexit.register(lambda: print("at exit"))
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
print(__name__, sys.argv, "runner.serve" in sys.modules)
sys.exit("a reason")
"""
    outcome = run(python(source))
    assert outcome.stdout == b"__main__ ['-c'] False\nthread\nat exit\n"
    assert (outcome.stderr, outcome.exit_code) == (b"a reason\n", 1)


def test_a_traceback_shows_the_command_alone() -> None:
    outcome = run(python("def f():\n    1 / 0\nf()"))
    assert outcome.stderr.decode().splitlines()[:2] == [
        "Traceback (most recent call last):",
        '  File "<command>", line 3, in <module>',
    ]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGABRT])
def test_a_python_command_can_end_by_a_signal(number: int) -> None:
    source = f"import os, signal; signal.signal({number}, 0); os.kill(os.getpid(), {number})"
    source = source if number != signal.SIGKILL else "import os; os.kill(os.getpid(), 9)"
    assert run(python(source)).exit_code == -number
    assert run(shell(f"kill -{int(number)} $$")).exit_code == -number


def test_lines_come_though_a_program_does_not_flush() -> None:
    """It never ends by itself, so its line came before."""
    source = "print('line')\nwhile True: pass"
    commands = [python(source), Command(argv=("python3", "-c", source))]

    async def story(sandbox: Sandbox) -> None:
        for command in commands:
            arrived = asyncio.Event()
            task = asyncio.create_task(
                sandbox.run(command, Limits(time_s=5.0), lambda _line, a=arrived: a.set())
            )
            await arrived.wait()
            assert not task.done()
            assert (await task).stdout == b"line\n"

    play(story)


@pytest.mark.parametrize(
    "command",
    [
        Command(argv=("echo", "a\0b")), Command(argv=("a" * 300,)), python("1", env={"A=B": "c"}),
        python("1", env={"A": "c\0"}), python("1", folder="/no"), python("1", folder="/\0"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_started_is_told(command: Command) -> None:
    outcome = run(command)
    assert (outcome.ending, outcome.exit_code) == ("exited", 127)
    assert outcome.stderr.startswith(b"sandbox: cannot run")


@pytest.mark.parametrize("source", ["def", "a\0b", "\ud800", "x" * 100 + "("])
def test_a_source_that_is_no_python_fails_as_python_does(source: str) -> None:
    outcome = run(python(source))
    assert outcome.exit_code == 1
    assert b"Error" in outcome.stderr


def test_orphans_are_reaped_while_a_command_runs() -> None:
    source = """
import os, time
for _ in range(30):
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.wait()
deadline = time.monotonic() + 60
def zombies():
    found = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try: found += ") Z " in open(f"/proc/{name}/stat").read()
            except OSError: pass
    return found
while (left := zombies()) and time.monotonic() < deadline: time.sleep(0.01)
print(left)
"""
    assert run(python(source), Limits(time_s=PATIENCE_S, processes=64)).stdout == b"0\n"


def test_input_cannot_grow_and_is_not_writable() -> None:
    source = """
import os
for flags in (os.O_WRONLY, os.O_RDWR):
    try:
        descriptor = os.open("/proc/self/fd/0", flags)
        os.write(descriptor, b"x" * (1 << 20))
        print("wrote")
    except OSError as error: print("no")
print(os.read(0, 100))
"""
    assert run(python(source, stdin=b"given")).stdout == b"no\nno\nb'given'\n"


def test_a_fresh_command_has_no_descriptor_but_its_own() -> None:
    source = "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
    assert run(python(source)).stdout == b"[0, 1, 2, 3]\n"
    assert run(shell(f'python3 -c "{source}"')).stdout == b"[0, 1, 2, 3]\n"


def test_what_a_command_starts_lives_on_in_a_persistent_sandbox_until_it_ends() -> None:
    async def story(sandbox: Sandbox) -> int:
        start = "sleep 7654321 & echo $! > /tmp/pid; tmux new -d -s work 'cat'; echo started"
        assert (await sandbox.run(shell(start), LONG)).stdout == b"started\n"
        await sandbox.run(shell("tmux send-keys -t work hello Enter"), LONG)
        look = "kill -0 $(cat /tmp/pid) && tmux has-session -t work && echo alive"
        assert (await sandbox.run(shell(look), LONG)).stdout == b"alive\n"
        outcome = await sandbox.run(shell("sleep 8765432"), Limits(time_s=0.2))
        assert outcome.ending == "timed out"
        assert (await sandbox.run(shell(look), LONG)).stdout == b"alive\n"
        return 1

    from tests.components import program

    program("tmux", "tmux")
    play(story, persistent=True)
    for line in (b"7654321", b"8765432"):
        assert until(lambda line=line: not _runs(line))


def _runs(word: bytes) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in path.read_bytes():
                return True
        except OSError:
            continue
    return False


def test_a_process_left_behind_cannot_outgrow_the_last_limit() -> None:
    grow = """
import os, time
if os.fork() == 0:
    os.setsid()
    for _ in range(4):
        if os.fork() == 0: break
    while not os.path.exists("/tmp/go"): time.sleep(0.01)
    held = bytearray(60 << 20)
    held[::4096] = b"x" * len(held[::4096])
    time.sleep(600)
"""
    limits = Limits(time_s=PATIENCE_S, memory_mb=128)

    async def story(sandbox: Sandbox) -> None:
        count = shell("ls -d /proc/[0-9]* | wc -l")
        alone = int((await sandbox.run(count, limits)).stdout)
        await sandbox.run(python(grow), limits)
        assert int((await sandbox.run(count, limits)).stdout) > alone
        wait = "touch /tmp/go; while [ $(ls -d /proc/[0-9]* | wc -l) -gt $1 ]; do sleep 0.1; done"
        await sandbox.run(Command(argv=("sh", "-c", wait, "sh", str(alone))), limits)

    play(story, persistent=True)


@pytest.mark.parametrize("persistent", [False, True])
def test_files_come_in_by_their_own_path_only(tmp_path: Path, persistent: bool) -> None:
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "leaf").write_bytes(b"green" * 20_000)
    (tmp_path / "tree" / "run").write_text("#!/bin/sh\n")
    (tmp_path / "tree" / "run").chmod(0o755)
    top = "/tmp" if persistent else "/files"

    async def story(sandbox: Sandbox) -> None:
        for _ in range(2):  # the second time in the place of the first
            await sandbox.put(tmp_path / "tree", f"{top}/a/tree")
        look = f"cd {top}/a/tree; wc -c < sub/leaf; ./run && echo ran; ls"
        assert (await sandbox.run(shell(look), LONG)).stdout == b"100000\nran\nrun\nsub\n"
        for target in (f"{top}/../x", f"{top}/./x", f"{top}/.."):
            with pytest.raises(SandboxError):
                await sandbox.put(tmp_path / "tree", target)
        assert (await sandbox.run(shell("echo next"), LONG)).stdout == b"next\n"

    play(story, persistent=persistent)


def test_files_do_not_come_in_through_a_link_nor_out_of_one(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    trap = "mkdir /tmp/inner; ln -s /tmp/inner /tmp/link; ln -s /tmp/inner/y /tmp/file; "
    trap += "mkfifo /tmp/fifo; mkdir /tmp/dir; ln -s /usr/bin /tmp/dir/bin"

    async def story(sandbox: Sandbox) -> Any:
        await sandbox.run(shell(trap), LONG)
        with pytest.raises(SandboxError, match="copy failed"):
            await sandbox.put(tmp_path / "x", "/tmp/link/x")
        await sandbox.put(tmp_path / "x", "/tmp/file")  # takes the link's place
        look = await sandbox.run(shell("ls /tmp/inner; test -L /tmp/file || cat /tmp/file"), LONG)
        assert look.stdout == b"x"
        for source in ("/tmp/link", "/tmp/link/x", "/tmp/fifo", "/tmp/dir", "/tmp/none", "tmp"):
            with pytest.raises(SandboxError):
                await sandbox.get(source, tmp_path / "out")

    play(story, persistent=True)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_process_that_stops_the_unpacking_stops_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not see the unpacking but guesses its number; the copy ends at its time."""
    monkeypatch.setattr("Daddy.sandbox.runner_client._COPY", Limits(time_s=3.0, scratch_mb=1 << 20))
    (tmp_path / "x").write_bytes(bytes(8 << 20))
    stop = """
import os, signal
if os.fork() == 0:
    os.setsid()
    while True:
        for pid in range(os.getpid() + 1, os.getpid() + 9):
            try: os.kill(pid, signal.SIGSTOP)
            except OSError: pass
"""

    async def story(sandbox: Sandbox) -> None:
        await sandbox.run(python(stop), LONG)
        with pytest.raises(SandboxError, match="timed out"):
            await sandbox.put(tmp_path / "x", "/tmp/x")
        outcome = await sandbox.run(python("print(1)"), Limits(time_s=1.0))
        assert outcome.ending in ("timed out", "exited")

    play(story, persistent=True)


def test_a_look_that_takes_long_does_not_delay_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]

    class SlowMemory:
        longest_s = 0.1

        def measure(self, limit: int) -> tuple[int, int]:
            now[0] += 0.05
            return limit - 1, 1

    monkeypatch.setattr(command_run, "time", SimpleNamespace(monotonic=lambda: now[0]))
    run: Any = command_run.CommandRun(Any, 0, {"memory_mb": 256}, fresh=True, lines=False)
    run.memory, run._deadline, run._look_at = SlowMemory(), 1e9, now[0]
    assert run.check() == pytest.approx(0.001)
