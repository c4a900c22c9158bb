"""Adapter for a runner: speaks to the program inside a sandbox over its two pipes."""

import asyncio
import json
import contextlib
import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from Daddy.core.errors import SandboxError
from Daddy.sandbox.interfaces import (
    LINE_BYTES,
    LINES_PER_S,
    Command,
    Ending,
    Limits,
    MIB,
    OnLine,
    Outcome,
)

RUNNER = Path(__file__).parent / "runner"
_HEADER_BYTES = 4096
_CHUNK_BYTES = 64 * 1024
_ANSWER_S = 60.0
"""Seconds over a command's own time that a runner may take to answer on a loaded machine."""
_START_S = 60.0


def runner_argv(python: str, folder: str, mode: str, lifetime_s: float) -> list[str]:
    """Return the command line that starts the runner, whose modules lie in ``folder/runner``."""
    settings = json.dumps({"mode": mode, "lifetime_s": lifetime_s})
    start = "import sys; sys.path.insert(0, sys.argv[1]); from runner.serve import main; del sys.path[0]; main()"
    return [python, "-I", "-S", "-B", "-c", start, folder, settings]


class RunnerSandbox:
    """A sandbox whose process holds a runner."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._busy = False

    async def run(
        self, command: Command, limits: Limits = Limits(), on_line: OnLine | None = None
    ) -> Outcome:
        if self._busy:
            raise SandboxError("the sandbox runs another command", "run one command at a time")
        self._busy = True
        spec = json.dumps(
            {
                "argv": command.argv,
                "python": command.python,
                "env": dict(command.env),
                "folder": command.folder,
            }
        ).encode()
        header = {
            "limits": asdict(limits),
            "specification": len(spec),
            "stdin": len(command.stdin),
            "lines": on_line is not None,
        }
        self._process.stdin.write(json.dumps(header).encode() + b"\n" + spec + command.stdin)
        kept = {name: bytearray() for name in ("stdout", "stderr", "result")}
        async with (
            asyncio.timeout(limits.time_s + _ANSWER_S)
            if hasattr(asyncio, "timeout")
            else contextlib.AsyncExitStack()
        ):
            while True:
                header = json.loads(await self._process.stdout.readline() or b"null")
                if header is None:
                    raise SandboxError("the sandbox ended by itself")
                if "broken" in header:
                    raise SandboxError(
                        f"the sandbox cannot confine a command: {header['broken']!r}"
                    )
                if "ending" in header:
                    break
                data = await self._process.stdout.readexactly(header["bytes"])
                part = kept[header["stream"]]
                part += data[: max(0, limits.output_bytes - len(part))]
                if on_line and header["stream"] == "stdout":
                    for line in data.decode(errors="replace").splitlines():
                        on_line(line)
        self._busy = False
        header.pop("bytes")
        return Outcome(**header, **{k: bytes(v) for k, v in kept.items()})

    async def put(self, source: Path, target: str) -> None:
        raise SandboxError("put is not built yet")

    async def get(self, source: str, target: Path, max_bytes: int = 16 * MIB) -> None:
        raise SandboxError("get is not built yet")

    async def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


async def start_runner(argv: list[str], **options: Any) -> RunnerSandbox:
    """Start a runner by its command line and wait for its first answer."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=1 << 17,
        **options,
    )
    first = json.loads(await process.stdout.readline() or b"null")
    if not first:
        raise SandboxError("the sandbox did not start")
    return RunnerSandbox(process)
