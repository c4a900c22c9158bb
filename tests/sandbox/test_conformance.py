"""Every backend keeps the promises of the interface, or names the missing one in `isolation()`."""

import asyncio
import contextlib
import itertools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import get_args

import psutil
import pytest

from Daddy.core.errors import ConfigError, SandboxError
from Daddy.sandbox.sandbox_interfaces import (
    LINE_BYTES,
    LINES_PER_S,
    Backend,
    Command,
    Ending,
    Limits,
    Outcome,
    Sandbox,
    SandboxSpec,
)
from tests.patience import PATIENCE_S, until
from tests.sandbox.backends import BACKENDS, LOCAL

PROMISES = {
    "live output", "signals", "result", "input", "output limit", "memory limit",
    "fresh files", "fresh processes", "read-only files", "environment", "lifetime", "paths",
}  # fmt: skip
"""Words for what a backend may lack; each stands in an entry of `Isolation.missing`."""
LONG = Limits(time_s=PATIENCE_S)
FRESH, PERSISTENT = SandboxSpec(), SandboxSpec(persistent=True)
Story = Callable[[Sandbox], Awaitable[None]]
numbers = itertools.count(os.getpid() * 1000)


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param]()


def lacks(backend: Backend, promise: str) -> bool:
    assert promise in PROMISES
    return any(promise in missing for missing in backend.isolation().missing)


@contextlib.asynccontextmanager
async def made(backend: Backend, spec: SandboxSpec = FRESH) -> AsyncIterator[Sandbox]:
    sandbox = await backend.create(spec)
    try:
        yield sandbox
    finally:
        await sandbox.close()


def play(backend: Backend, story: Story, spec: SandboxSpec = FRESH) -> None:
    """Run a story in a sandbox of its own."""

    async def whole() -> None:
        async with made(backend, spec) as sandbox:
            await story(sandbox)

    asyncio.run(asyncio.wait_for(whole(), PATIENCE_S))


def run(
    backend: Backend, command: Command, limits: Limits = LONG, lines: list[str] | None = None
) -> Outcome:
    """Return the outcome of one command in a sandbox of its own."""
    outcomes: list[Outcome] = []

    async def story(sandbox: Sandbox) -> None:
        on_line = None if lines is None else lines.append
        outcomes.append(await sandbox.run(command, limits, on_line))

    play(backend, story)
    return outcomes[0]


def shell(line: str, **more: object) -> Command:
    return Command(argv=("sh", "-c", line), **more)  # type: ignore[arg-type]


def unique_sleep() -> str:
    """Return a command line that no other process of this machine has."""
    return f"sleep {next(numbers) + 10**9}"


def running(line: str) -> bool:
    """Return True if this machine runs a program with exactly this command line."""
    return any(p.info["cmdline"] == line.split() for p in psutil.process_iter(["cmdline"]))


def test_isolation_names_a_level_and_what_is_missing(backend: Backend) -> None:
    isolation = backend.isolation()
    assert isolation.level in ("confined", "partly", "vendor", "none")
    assert (isolation.level == "confined") == (not isolation.missing)


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_an_exit_code_comes_back(backend: Backend, code: int) -> None:
    outcome = run(backend, shell(f"exit {code}"))
    assert (outcome.ending, outcome.exit_code) == ("exited", code)
    outcome = run(backend, Command(python=f"import sys; sys.exit({code})"))
    assert (outcome.ending, outcome.exit_code) == ("exited", code)


@pytest.mark.parametrize("number", [9, 15])
def test_a_signal_is_a_negative_exit_code(backend: Backend, number: int) -> None:
    code = run(backend, shell(f"kill -{number} $$")).exit_code
    assert code == (128 + number if lacks(backend, "signals") else -number)


def test_an_exception_of_a_python_source_shows_its_traceback(backend: Backend) -> None:
    outcome = run(backend, Command(python="print('so far')\nraise KeyError('gone')"))
    assert (outcome.exit_code, outcome.stdout) == (1, b"so far\n")
    assert b"KeyError: 'gone'" in outcome.stderr


def test_a_program_that_is_not_there_is_told(backend: Backend) -> None:
    outcome = run(backend, Command(argv=("no-such-program",)))
    assert (outcome.ending, outcome.exit_code) == ("exited", 127)
    assert b"no-such-program" in outcome.stderr


def test_both_outputs_come_back_byte_for_byte(backend: Backend) -> None:
    code = "import os; os.write(1, bytes(range(256)) * 9); os.write(2, bytes(range(255, -1, -1)))"
    outcome = run(backend, Command(python=code))
    assert outcome.stdout == bytes(range(256)) * 9
    assert outcome.stderr == bytes(range(255, -1, -1))
    assert (outcome.fd3_output, outcome.lost_bytes) == (b"", 0)


def test_the_figures_of_a_command_are_plausible(backend: Backend) -> None:
    code = "import time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    outcome = run(backend, Command(python=code))
    assert outcome.ending in get_args(Ending)
    assert 0.2 <= outcome.cpu_seconds <= PATIENCE_S
    assert 0.2 <= outcome.seconds <= PATIENCE_S


@pytest.mark.parametrize("data", [b"", bytes(range(256)) * 800])
def test_standard_input_arrives_and_ends(backend: Backend, data: bytes) -> None:
    limits = Limits(time_s=PATIENCE_S, output_bytes=1 << 20)
    outcome = run(backend, Command(argv=("cat",), stdin=data), limits)
    assert outcome.stdout == (b"" if lacks(backend, "input") else data)


def test_input_that_no_command_reads_holds_nothing_up(backend: Backend) -> None:
    assert run(backend, Command(argv=("true",), stdin=bytes(1 << 20))).exit_code == 0


def test_the_environment_is_what_the_command_names(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "do not tell")
    env = {"COLOUR": "deep blue", "PATH": "/usr/bin:/bin"}
    lines = run(backend, Command(argv=("env",), env=env)).stdout.decode().splitlines()
    assert "COLOUR=deep blue" in lines
    assert "PATH=/usr/bin:/bin" in lines
    assert not any("SECRET_OF_THE_HOST" in line for line in lines)


def test_a_command_runs_in_its_folder(backend: Backend) -> None:
    assert run(backend, shell("pwd", folder="/")).stdout == b"/\n"
    if not lacks(backend, "paths"):
        assert run(backend, shell("pwd")).stdout == b"/tmp\n"
    outcome = run(backend, shell("true", folder="/no/such/folder"))
    assert (outcome.exit_code, bool(outcome.stderr)) == (127, True)


def test_the_result_comes_by_a_descriptor_of_its_own(backend: Backend) -> None:
    from_shell = run(backend, shell("echo log; echo value >&3"))
    code = "import os; print('log', flush=True); os.write(3, b'value\\n')"
    from_python = run(backend, Command(python=code))
    for outcome in (from_shell, from_python):
        assert outcome.stdout == b"log\n"
        assert outcome.fd3_output == (b"" if lacks(backend, "result") else b"value\n")


@pytest.mark.parametrize(
    "line",
    ["sleep 1000000", "trap '' TERM INT; sleep 1000000", "sleep 1000000 & sleep 1000000"],
)
def test_a_command_over_its_time_is_killed_and_the_next_one_runs(
    backend: Backend, line: str
) -> None:
    async def story(sandbox: Sandbox) -> None:
        unique = unique_sleep()
        command = shell(line.replace("sleep 1000000", unique))
        outcome = await sandbox.run(command, Limits(time_s=0.3))
        assert outcome.ending == "timed out"
        assert outcome.seconds >= 0.3
        assert until(lambda: not running(unique))
        assert (await sandbox.run(shell("echo next"), LONG)).stdout == b"next\n"

    play(backend, story)


def test_output_before_a_time_limit_is_kept(backend: Backend) -> None:
    line = "echo out; echo err >&2; echo value >&3; sleep 1000000"
    outcome = run(backend, shell(line), Limits(time_s=2.0))
    assert (outcome.ending, outcome.stdout, outcome.stderr) == ("timed out", b"out\n", b"err\n")


@pytest.mark.parametrize("descriptor", [1, 2, 3])
def test_output_over_its_limit_is_dropped_and_counted(backend: Backend, descriptor: int) -> None:
    if descriptor == 3 and lacks(backend, "result"):
        return
    code = f"import os\nfor _ in range(100): os.write({descriptor}, b'x' * 1000)"
    outcome = run(backend, Command(python=code), Limits(time_s=PATIENCE_S, output_bytes=1500))
    kept = {1: outcome.stdout, 2: outcome.stderr, 3: outcome.fd3_output}
    assert kept.pop(descriptor) == b"x" * 1500
    assert set(kept.values()) == {b""}
    assert (outcome.ending, outcome.exit_code, outcome.lost_bytes) == ("exited", 0, 98_500)


def test_a_flood_of_output_is_stopped_and_the_next_command_runs(backend: Backend) -> None:
    if lacks(backend, "output limit"):
        return

    async def story(sandbox: Sandbox) -> None:
        unique = unique_sleep()
        outcome = await sandbox.run(shell(f"{unique} & exec yes"), LONG)
        assert outcome.ending == "too much output"
        assert len(outcome.stdout) == LONG.output_bytes
        assert outcome.lost_bytes > 0
        assert (await sandbox.run(shell("echo next"), LONG)).stdout == b"next\n"

    play(backend, story)


def test_a_line_arrives_before_the_end_of_its_command(backend: Backend) -> None:
    """The command never ends, so a line that arrives came before its end."""

    async def story(sandbox: Sandbox) -> None:
        arrived = asyncio.Event()
        lines: list[str] = []

        def take(line: str) -> None:
            lines.append(line)
            arrived.set()

        task = asyncio.create_task(sandbox.run(shell("echo first; sleep 1000000"), LONG, take))
        await arrived.wait()
        assert lines == ["first"]
        assert not task.done()
        await sandbox.close()
        with pytest.raises(SandboxError):
            await task

    if not lacks(backend, "live output"):
        play(backend, story)


def test_each_line_is_given_once_without_its_end(backend: Backend) -> None:
    lines: list[str] = []
    code = r"import os; [os.write(1, part) for part in (b'a\nb', b'c\n\n', b'\xff\n', b'last')]"
    outcome = run(backend, Command(python=code), lines=lines)
    assert lines == ["a", "bc", "", "\ufffd", "last"]
    assert outcome.stdout == b"a\nbc\n\n\xff\nlast"


def test_a_long_line_is_cut_and_the_output_stays_whole(backend: Backend) -> None:
    lines: list[str] = []
    code = f"print('x' * {3 * LINE_BYTES}); print('next')"
    outcome = run(backend, Command(python=code), lines=lines)
    assert lines == ["x" * LINE_BYTES, "next"]
    assert len(outcome.stdout) == 3 * LINE_BYTES + len("\nnext\n")


def test_lines_over_the_rate_are_dropped(backend: Backend) -> None:
    lines: list[str] = []
    many = 20 * LINES_PER_S
    limits = Limits(time_s=PATIENCE_S, output_bytes=1 << 20)
    outcome = run(backend, Command(python=f"print('line\\n' * {many}, end='')"), limits, lines)
    assert outcome.stdout == b"line\n" * many
    assert LINES_PER_S <= len(lines) <= LINES_PER_S * (outcome.seconds + 2)


def test_memory_over_its_limit_ends_the_command(backend: Backend) -> None:
    if lacks(backend, "memory limit"):
        return
    code = (
        "import time; x = bytearray(600 << 20); x[::4096] = b'x' * len(x[::4096]); time.sleep(99)"
    )
    limits = Limits(time_s=PATIENCE_S, memory_mb=128)
    outcome = run(backend, Command(python=code), limits)
    refused = outcome.exit_code == 1 and b"MemoryError" in outcome.stderr
    assert refused or outcome.ending == "out of memory"
    outcome = run(backend, Command(python="x = bytearray(40 << 20)"), limits)
    assert (outcome.ending, outcome.exit_code) == ("exited", 0)


def test_files_of_the_host_are_there_for_each_command(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "leaf").write_text("green")
    (tmp_path / "single").write_bytes(bytes(range(256)))

    async def story(sandbox: Sandbox) -> None:
        await sandbox.put(tmp_path / "single", "/files/single")
        await sandbox.put(tmp_path / "tree", "/files/tree")
        for _ in range(2):
            single = await sandbox.run(Command(argv=("cat", "/files/single")), LONG)
            assert single.stdout == bytes(range(256)), single.stderr
            leaf = await sandbox.run(Command(argv=("cat", "/files/tree/sub/leaf")), LONG)
            assert leaf.stdout == b"green", leaf.stderr
        written = await sandbox.run(Command(argv=("touch", "/files/single")), LONG)
        assert lacks(backend, "read-only files") or written.exit_code != 0

    play(backend, story)


def test_files_come_into_a_fresh_sandbox_below_files_only_and_never_out(
    backend: Backend, tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("x")

    async def story(sandbox: Sandbox) -> None:
        for target in ("/tmp/x", "/etc/x", "/files/../tmp/x", "files/x", "/filesx"):
            with pytest.raises(SandboxError):
                await sandbox.put(tmp_path / "x", target)
        await sandbox.put(tmp_path / "x", "/files/x")
        with pytest.raises(SandboxError):
            await sandbox.get("/files/x", tmp_path / "back")
        assert not (tmp_path / "back").exists()
        assert (await sandbox.run(shell("echo on"), LONG)).stdout == b"on\n"

    play(backend, story)


def test_files_go_into_a_persistent_sandbox_and_come_back_changed(
    backend: Backend, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("one\n")

    async def story(sandbox: Sandbox) -> None:
        await sandbox.put(tmp_path / "in", "/tmp/work")
        done = await sandbox.run(shell("echo two >> a; echo new > b", folder="/tmp/work"), LONG)
        assert (done.exit_code, done.stderr) == (0, b"")
        await sandbox.get("/tmp/work", tmp_path / "out")
        await sandbox.get("/tmp/work/b", tmp_path / "b")

    play(backend, story, PERSISTENT)
    assert (tmp_path / "out" / "a").read_text() == "one\ntwo\n"
    assert (tmp_path / "out" / "b").read_text() == (tmp_path / "b").read_text() == "new\n"


@pytest.mark.parametrize(
    "line", ["ln -s /etc/hostname bad", "mkfifo bad", "head -c 3000000 /dev/zero > bad", "true"]
)
def test_links_devices_and_too_much_never_come_out(
    backend: Backend, tmp_path: Path, line: str
) -> None:
    async def story(sandbox: Sandbox) -> None:
        assert (await sandbox.run(shell(line), LONG)).exit_code == 0
        with pytest.raises(SandboxError):
            await sandbox.get("/tmp/bad", tmp_path / "out", max_bytes=1_000_000)
        assert not (tmp_path / "out").exists()

    play(backend, story, PERSISTENT)


def test_nothing_remains_in_a_fresh_sandbox(backend: Backend) -> None:
    async def story(sandbox: Sandbox) -> None:
        unique = unique_sleep()
        line = f"echo x > left; mkdir -p d/e; ({unique} &) ; setsid {unique} > /dev/null 2>&1 &"
        assert (await sandbox.run(shell(line), LONG)).exit_code == 0
        found = await sandbox.run(shell("ls -A; ls -A /dev/shm /tmp"), LONG)
        if lacks(backend, "fresh files"):
            found = await sandbox.run(shell("ls -A"), LONG)
            assert found.stdout == b"", "at least the working folder is new"
        else:
            assert found.stdout.split() == [b"/dev/shm:", b"/tmp:"]
        if not lacks(backend, "fresh processes"):
            assert until(lambda: not running(unique))

    play(backend, story)


def test_all_remains_in_a_persistent_sandbox_until_it_is_closed(backend: Backend) -> None:
    unique = unique_sleep()

    async def story(sandbox: Sandbox) -> None:
        line = f"echo kept > note; {unique} > /dev/null 2>&1 & echo $! > pid"
        assert (await sandbox.run(shell(line), LONG)).exit_code == 0
        there = await sandbox.run(shell("cat note; kill -0 $(cat pid) && echo alive"), LONG)
        assert there.stdout == b"kept\nalive\n", there.stderr

    play(backend, story, PERSISTENT)
    assert until(lambda: not running(unique))


def test_a_closed_sandbox_refuses_every_call_and_closes_again(
    backend: Backend, tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("x")

    async def story(sandbox: Sandbox) -> None:
        await sandbox.close()
        await sandbox.close()
        with pytest.raises(SandboxError):
            await sandbox.run(shell("true"), LONG)
        with pytest.raises(SandboxError):
            await sandbox.put(tmp_path / "x", "/files/x")
        with pytest.raises(SandboxError):
            await sandbox.get("/tmp/x", tmp_path / "y")

    play(backend, story, PERSISTENT)


def kill_processes(backend: Backend, before: set[int]) -> None:
    """Kill the processes that the host started and that were not there before.

    An unpacked Apptainer is not the host's child, but that of the bubblewrap that shows its files.
    """
    started = [child for child in psutil.Process().children() if child.pid not in before]
    if backend.name == "apptainer":
        started += [
            below for child in started if child.name() == "bwrap" for below in child.children()
        ]
    for process in started:
        process.kill()


def pids() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def test_a_sandbox_that_died_raises_and_its_command_does_too(backend: Backend) -> None:
    before = pids()

    async def story(sandbox: Sandbox) -> None:
        started = asyncio.Event()
        unique = unique_sleep()
        held = shell(f"echo up; {unique}")
        task = asyncio.create_task(sandbox.run(held, LONG, lambda _line: started.set()))
        await started.wait()
        kill_processes(backend, before)
        with pytest.raises(SandboxError):
            await task
        for _ in range(2):
            with pytest.raises(SandboxError):
                await sandbox.run(shell("true"), LONG)
        assert until(lambda: not running(unique))

    if backend.name in (*LOCAL, "apptainer"):
        play(backend, story)
        assert until(lambda: pids() <= before)


def test_commands_of_one_sandbox_never_overlap(backend: Backend) -> None:
    code = "import time; a = time.monotonic(); time.sleep(0.05); print([a, time.monotonic()])"

    async def story(sandbox: Sandbox) -> None:
        runs = (sandbox.run(Command(python=code), LONG) for _ in range(5))
        done = await asyncio.gather(*runs, return_exceptions=True)
        spans = [json.loads(end.stdout) for end in done if isinstance(end, Outcome)]
        refused = [end for end in done if isinstance(end, SandboxError)]
        assert spans
        assert len(spans) + len(refused) == 5
        ordered = sorted(spans)
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(ordered))
        assert (await sandbox.run(shell("echo on"), LONG)).stdout == b"on\n"

    play(backend, story)


def test_sandboxes_run_side_by_side(backend: Backend) -> None:
    """Each command ends only when the other one has begun."""

    async def story(first: Sandbox) -> None:
        async with made(backend) as second:
            begun = [asyncio.Event(), asyncio.Event()]
            tasks = [
                asyncio.create_task(
                    sandbox.run(
                        shell("echo up; sleep 1000000"), LONG, lambda _line, e=event: e.set()
                    )
                )
                for sandbox, event in zip((first, second), begun, strict=True)
            ]
            await asyncio.gather(*(event.wait() for event in begun))
            assert not any(task.done() for task in tasks)
            await asyncio.gather(first.close(), second.close())
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(end) for end in ends] == [SandboxError] * 2

    if not lacks(backend, "live output"):
        play(backend, story)


def test_a_cancelled_command_never_answers_for_the_next_one(backend: Backend) -> None:
    async def story(sandbox: Sandbox) -> None:
        unique, begun = unique_sleep(), asyncio.Event()
        command = shell(f"echo old; {unique}")
        task = asyncio.create_task(sandbox.run(command, LONG, lambda _line: begun.set()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with contextlib.suppress(SandboxError):
            assert (await sandbox.run(shell("echo new"), LONG)).stdout == b"new\n"
        await sandbox.close()
        assert until(lambda: not running(unique))

    if not lacks(backend, "live output"):
        play(backend, story)


def test_a_sandbox_ends_by_itself_at_its_lifetime(backend: Backend) -> None:
    if lacks(backend, "lifetime"):
        return
    unique = unique_sleep()

    async def story(sandbox: Sandbox) -> None:
        with pytest.raises(SandboxError):
            await sandbox.run(shell(unique), LONG)
        assert until(lambda: not running(unique))
        with pytest.raises(SandboxError):
            await sandbox.run(shell("true"), LONG)

    play(backend, story, SandboxSpec(lifetime_s=2.0))


def test_an_unknown_image_is_refused(backend: Backend) -> None:
    with pytest.raises((SandboxError, ConfigError), match="no-such-image"):
        asyncio.run(backend.create(SandboxSpec(image="no-such-image")))


def test_a_hundred_commands_leave_no_descriptor_and_no_process(backend: Backend) -> None:
    def count() -> tuple[int, int]:
        return psutil.Process().num_fds(), len(pids())

    async def story(sandbox: Sandbox) -> None:
        await sandbox.run(shell("true"), LONG)
        before = count()
        for _ in range(100 if backend.name in LOCAL else 10):  # each may take a new container
            await sandbox.run(shell("true"), LONG)
        assert until(lambda: count() <= before)

    outside = pids()
    play(backend, story)
    assert until(lambda: pids() <= outside)
