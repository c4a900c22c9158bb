"""Entry: runs a snippet again and again by another means, for ``scripts/bench sandbox``.

``PYTHON _sandbox_peers.py NAME`` reads the job from standard input and prints its rate, as JSON.
It runs in the environment of the peer, so it imports that peer and the standard library alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PYTHON = "/usr/bin/python3"
ONE_SHOT = [
    *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
    *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),  # noqa: S108
    *("prlimit", "--as=536870912", "--nproc=64", "--cpu=10"),
]
"""bubblewrap started for one snippet, as confined as its options and prlimit allow."""


class Job:
    """A snippet, its expected output, and for how long so many at a time run it."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.source, self.expected = facts["source"], facts["expected"]
        self.seconds, self.concurrency = facts["seconds"], facts["concurrency"]

    @property
    def argv(self) -> list[str]:
        """Return the command line that runs the snippet."""
        return [PYTHON, "-I", "-S", "-c", self.source]

    def check(self, output: str) -> None:
        """Raise ValueError for another output than the expected."""
        if output.strip() != self.expected.strip():
            raise ValueError(f"the snippet printed {output[:200]!r}")

    def in_threads(self, play: Callable[[], str]) -> float:
        """Return the snippets a second of `concurrency` threads that call `play`."""
        end = time.monotonic() + self.seconds

        def loop() -> int:
            done = 0
            while time.monotonic() < end:
                self.check(play())
                done += 1
            return done

        began = time.monotonic()
        with ThreadPoolExecutor(self.concurrency) as threads:
            done = sum(
                each.result() for each in [threads.submit(loop) for _ in range(self.concurrency)]
            )
        return done / (time.monotonic() - began)

    async def in_tasks(self, plays: list[Callable[[], Coroutine[Any, Any, str]]]) -> float:
        """Return the snippets a second of one task for each of `plays`."""
        began = time.monotonic()
        end = began + self.seconds

        async def loop(play: Callable[[], Coroutine[Any, Any, str]]) -> int:
            done = 0
            while time.monotonic() < end:
                self.check(await play())
                done += 1
            return done

        done = sum(await asyncio.gather(*map(loop, plays)))
        return done / (time.monotonic() - began)


def _completed(argv: list[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


def _subprocess(job: Job) -> float:
    return job.in_threads(lambda: _completed(job.argv))


def _bwrap_once(job: Job) -> float:
    return job.in_threads(lambda: _completed([*ONE_SHOT, *job.argv]))


def _fork_only(job: Job) -> float:
    """Fork this interpreter for each snippet, on every core; nothing confines it."""
    cores = len(os.sched_getaffinity(0))
    pipe, began = os.pipe(), time.monotonic()
    for _ in range(cores):
        if not os.fork():
            os.write(pipe[1], b"%d\n" % _fork_loop(job, began + job.seconds))
            os._exit(0)
    if any(os.wait()[1] for _ in range(cores)):
        raise ValueError("a forked loop failed")
    done = sum(map(int, os.read(pipe[0], 4096).split()))
    return done / (time.monotonic() - began)


def _fork_loop(job: Job, end: float) -> int:
    done, path = 0, Path(tempfile.gettempdir(), f"snippet-{os.getpid()}.py")
    path.write_text(job.source)
    while time.monotonic() < end:
        output = os.pipe()
        pid = os.fork()
        if not pid:
            sys.stdout = os.fdopen(output[1], "w")
            runpy.run_path(str(path), run_name="__main__")
            sys.stdout.flush()
            os._exit(0)
        os.close(output[1])
        job.check(os.read(output[0], 1 << 16).decode())
        os.close(output[0])
        os.waitpid(pid, 0)
        done += 1
    path.unlink()
    return done


def _inspect_ai(job: Job) -> float:
    from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

    async def run() -> float:
        environment = LocalSandboxEnvironment()

        async def play() -> str:
            return str((await environment.exec(job.argv, timeout=60)).stdout)

        return await job.in_tasks([play] * job.concurrency)

    return asyncio.run(run())


def _swe_rex(job: Job) -> float:
    from swerex.deployment.local import LocalDeployment
    from swerex.runtime.abstract import Command

    async def run() -> float:
        deployments = [LocalDeployment() for _ in range(job.concurrency)]
        await asyncio.gather(*(deployment.start() for deployment in deployments))

        def player(runtime: Any) -> Callable[[], Coroutine[Any, Any, str]]:
            async def play() -> str:
                return str((await runtime.execute(Command(command=job.argv, timeout=60))).stdout)

            return play

        rate = await job.in_tasks([player(deployment.runtime) for deployment in deployments])
        await asyncio.gather(*(deployment.stop() for deployment in deployments))
        return rate

    return asyncio.run(run())


def _smolagents(job: Job) -> float:
    from smolagents.local_python_executor import LocalPythonExecutor

    def play() -> str:
        executor = LocalPythonExecutor(["json"])
        executor.send_tools({})
        return str(executor(job.source).logs)

    return job.in_threads(play)


PLAYERS: dict[str, Callable[[Job], float]] = {
    "fork_only": _fork_only,
    "subprocess": _subprocess,
    "bwrap_once": _bwrap_once,
    "inspect_ai": _inspect_ai,
    "swe_rex": _swe_rex,
    "smolagents": _smolagents,
}


def main() -> None:
    """Print the rate of the named peer."""
    job = Job(json.load(sys.stdin))
    with contextlib.redirect_stdout(io.StringIO()):  # libraries print
        rate = PLAYERS[sys.argv[1]](job)
    print(json.dumps({"per_s": rate}), flush=True)


if __name__ == "__main__":
    main()
