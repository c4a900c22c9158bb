"""The host's side of a runner trusts nothing that the runner sends."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from Daddy.core.errors import FileError, SandboxError
from Daddy.sandbox.runner_client import (
    RUNNER,
    LineSplitter,
    RunnerSandbox,
    read_outcome,
    runner_argv,
    start_runner,
)
from Daddy.sandbox.sandbox_interfaces import LINE_BYTES, LINES_PER_S, Command, Limits, Outcome
from tests.patience import PATIENCE_S, until

OUTCOME = {
    "ending": "exited", "exit_code": 0, "lost_bytes": 0, "seconds": 0.1, "cpu_seconds": 0.1,
    "peak_mb": 1, "bytes": 0,
}  # fmt: skip
KEPT = {"stdout": bytearray(b"o"), "stderr": bytearray(b"e"), "fd3_output": bytearray(b"r")}
FAKE = """
import json, sys
def say(header, data=b""):
    sys.stdout.buffer.write((header if isinstance(header, bytes) else json.dumps(header).encode()))
    sys.stdout.buffer.write(b"\\n" + data)
    sys.stdout.flush()
def hear():
    header = json.loads(sys.stdin.buffer.readline())
    sys.stdin.buffer.read(header.get("command", 0) + header.get("stdin", 0))
say({"ready": 1, "missing": []})
hear()
OUTCOME = %r
"""


def fake(script: str) -> list[str]:
    """Return the command line of a runner that answers its first request with a script."""
    return [sys.executable, "-I", "-S", "-c", FAKE % OUTCOME + script]


def play(argv: list[str], story: Callable[[RunnerSandbox], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        sandbox = await start_runner(argv)
        try:
            return await story(sandbox)
        finally:
            await sandbox.close()

    return asyncio.run(asyncio.wait_for(whole(), PATIENCE_S))


def ask(script: str) -> Outcome:
    """Return the outcome of a command in a sandbox whose runner is a script."""
    answer: Outcome = play(fake(script), lambda sandbox: sandbox.run(Command(argv=("x",))))
    return answer


def plain(lifetime_s: float = PATIENCE_S) -> list[str]:
    return runner_argv(sys.executable, str(RUNNER.parent), "plain", lifetime_s)


def test_an_outcome_is_taken_from_a_sound_answer() -> None:
    found = ask('say({"stream": "stdout", "bytes": 3}, b"abc"); say(OUTCOME)')
    assert found == Outcome("exited", 0, b"abc", seconds=0.1, cpu_seconds=0.1, peak_mb=1)


@pytest.mark.parametrize(
    "script",
    [
        'say(b"no json")',
        'say(b"[1]")',
        'say(b"null")',
        "say(b'[' * 100_000)",
        'say(b"\\xff\\xfe")',
        'say({"stream": "stdout", "bytes": -1})',
        'say({"stream": "stdout", "bytes": 0})',
        'say({"stream": "stdout", "bytes": 1 << 40})',
        'say({"stream": "stdout", "bytes": True}, b"x")',
        'say({"stream": "stdout", "bytes": 1.0}, b"x")',
        'say({"stream": "stdout"})',
        'say({"stream": "secrets", "bytes": 1}, b"x")',
        'say({"stream": ["stdout"], "bytes": 1}, b"x")',
        'say({"stream": {}, "bytes": 1}, b"x")',
        "say({})",
        'say({"ready": 1, "missing": []})',
        'sys.stdout.write("x" * (1 << 20)); sys.stdout.flush()',
        'sys.stdout.write("{" + " " * 30_000 + "}\\n"); sys.stdout.flush()',
    ],
)
def test_an_answer_that_makes_no_sense_ends_the_sandbox(script: str) -> None:
    async def story(sandbox: RunnerSandbox) -> None:
        with pytest.raises(SandboxError, match="makes no sense"):
            await sandbox.run(Command(argv=("x",)))
        with pytest.raises(SandboxError, match="ended"):
            await sandbox.run(Command(argv=("x",)))

    play(fake(script + "\nhear()"), story)


@pytest.mark.parametrize("script", ["", 'say({"stream": "stdout", "bytes": 9}, b"short")'])
def test_a_runner_that_dies_is_an_error(script: str) -> None:
    with pytest.raises(SandboxError, match="died"):
        ask(script)


def test_what_cannot_be_confined_is_told_without_control_characters() -> None:
    with pytest.raises(SandboxError, match="cannot confine") as told:
        ask('say({"broken": "mount \\x1b[2J" + "x" * 5000, "bytes": 0})')
    assert "\x1b" not in told.value.message
    assert len(told.value.message) < 400


def test_a_runner_without_an_answer_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("Daddy.sandbox.runner_client._ANSWER_S", 0.1)

    async def story(sandbox: RunnerSandbox) -> None:
        with pytest.raises(SandboxError, match="no answer in time"):
            await sandbox.run(Command(argv=("x",)), Limits(time_s=0.1))

    play(fake("hear()"), story)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ending", "passed"), ("ending", 1), ("ending", ["exited"]), ("exit_code", "0"),
        ("exit_code", True), ("exit_code", -65), ("exit_code", 1 << 70), ("lost_bytes", -1),
        ("seconds", -1.0), ("seconds", float("nan")), ("seconds", float("inf")), ("seconds", 1),
        ("cpu_seconds", None), ("peak_mb", 1.5), ("peak_mb", None),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SandboxError, match="no sense"):
        read_outcome({**OUTCOME, name: value}, KEPT)
    with pytest.raises(SandboxError, match="no sense"):
        read_outcome({k: v for k, v in OUTCOME.items() if k != name}, KEPT)


def test_more_output_than_agreed_is_not_kept() -> None:
    script = (
        'for _ in range(99): say({"stream": "stderr", "bytes": 60000}, bytes(60000))\nsay(OUTCOME)'
    )
    assert len(ask(script).stderr) == Limits().output_bytes


def test_a_second_command_at_once_is_an_error() -> None:
    async def story(sandbox: RunnerSandbox) -> None:
        first = asyncio.create_task(sandbox.run(Command(python="input()", stdin=b"x\n")))
        await asyncio.sleep(0)
        with pytest.raises(SandboxError, match="busy"):
            await sandbox.run(Command(python="pass"))
        assert (await first).exit_code == 0

    play(plain(), story)


def test_a_cancelled_command_ends_the_sandbox() -> None:
    async def story(sandbox: RunnerSandbox) -> None:
        started = asyncio.Event()
        command = Command(python="print(1, flush=True)\nwhile True: pass")
        task = asyncio.create_task(
            sandbox.run(command, Limits(time_s=PATIENCE_S), lambda _: started.set())
        )
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(SandboxError, match="ended"):
            await sandbox.run(Command(python="pass"))

    play(plain(), story)


@pytest.mark.parametrize("end", ["wait", "exit"])
def test_a_start_that_is_cancelled_ends_a_child_that_holds_its_pipes(
    tmp_path: Path, end: str
) -> None:
    pid = tmp_path / "pid"
    script = f"sleep 1000 & echo $! > {pid}.new; mv {pid}.new {pid}; {end}"

    async def story() -> None:
        starting = asyncio.create_task(start_runner(["sh", "-c", script]))
        assert await asyncio.to_thread(until, pid.exists)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))
    assert until(lambda: not psutil.pid_exists(int(pid.read_text())))


def test_closing_ends_the_command_that_runs() -> None:
    async def story(sandbox: RunnerSandbox) -> None:
        started = asyncio.Event()
        command = Command(python="print(1)\nwhile True: pass")
        task = asyncio.create_task(
            sandbox.run(command, Limits(time_s=PATIENCE_S), lambda _: started.set())
        )
        await started.wait()
        await sandbox.close()
        with pytest.raises(SandboxError, match="closed"):
            await task

    play(plain(), story)


def test_closing_twice_is_closing_once() -> None:
    calls: list[int] = []

    async def story() -> None:
        sandbox = await start_runner(plain(), "plain", lambda: calls.append(1))
        await sandbox.close()
        await sandbox.close()
        with pytest.raises(SandboxError, match="closed"):
            await sandbox.run(Command(python="pass"))

    asyncio.run(story())
    assert calls == [1]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["/no/such/program"], "cannot be started"),
        ([sys.executable, "-c", "import sys; sys.exit('no user \\x1b namespaces')"], "no user \\?"),
        ([sys.executable, "-c", "print('{}')"], "no sense"),
        ([sys.executable, "-c", "pass"], "died"),
    ],
)
def test_a_start_that_fails_says_why_and_gives_back(argv: list[str], told: str) -> None:
    calls: list[int] = []
    with pytest.raises(SandboxError, match=told):
        asyncio.run(start_runner(argv, "plain", lambda: calls.append(1)))
    assert calls == [1]


def test_a_source_that_cannot_be_read_leaves_the_sandbox_usable(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_bytes(bytes(1 << 20))
    (tmp_path / "tree" / "link").symlink_to("a")

    async def story(sandbox: RunnerSandbox) -> None:
        with pytest.raises(FileError, match="link"):
            await sandbox.put(tmp_path / "tree", str(tmp_path / "copy"))
        outcome = await sandbox.run(Command(python="print(1)"))
        assert outcome.stdout == b"1\n"

    async def whole() -> None:
        sandbox = await start_runner(plain(), "plain")
        try:
            await story(sandbox)
        finally:
            await sandbox.close()

    asyncio.run(asyncio.wait_for(whole(), PATIENCE_S))


class TestLineSplitter:
    """Time is a number that the test sets."""

    def lines_of(self, *parts: bytes, seconds: list[float] | None = None) -> list[str]:
        lines: list[str] = []
        times = iter(seconds or [])
        splitter = LineSplitter(lines.append, lambda: next(times, 1.0))
        for part in parts:
            splitter.feed(part)
        splitter.finish()
        return lines

    def test_lines_come_whole_and_in_order(self) -> None:
        assert self.lines_of(b"a\nb", b"c\n", b"\n", b"d") == ["a", "bc", "", "d"]

    def test_a_long_line_is_cut_wherever_its_parts_end(self) -> None:
        long = b"x" * LINE_BYTES
        for parts in ([long + b"y\nz"], [long, b"y\nz"], [long[:-1], b"xyy", b"y\nz"]):
            assert self.lines_of(*parts) == [long.decode(), "z"]

    def test_lines_over_the_rate_are_dropped_until_the_next_second(self) -> None:
        many = LINES_PER_S + 5
        seconds = [1.0] * many + [2.1] * 2
        lines = self.lines_of(b"x\n" * many, b"y\n" * 2, seconds=seconds)
        assert lines == ["x"] * LINES_PER_S + ["y"] * 2


def test_the_settings_of_a_runner_are_its_last_argument() -> None:
    argv = runner_argv("python3", "/run/sandbox", "fresh", 60.0, count_processes=True)
    assert argv[:4] == ["python3", "-I", "-S", "-B"]
    assert json.loads(argv[-1]) == {
        "mode": "fresh", "lifetime_s": 60.0, "count_processes": True, "shown": [], "overlaid": [],
    }  # fmt: skip
