"""A program for tests: keeps a pool busy until it is killed, and prints a line at each event."""

import asyncio
import contextlib
import sys

from Daddy.core.errors import SandboxError
from Daddy.sandbox.pool import SandboxPool
from Daddy.sandbox.sandbox_interfaces import Command, Limits, SandboxSpec
from tests.sandbox.backends import BACKENDS

LEAVES_MUCH = (
    "echo x > file; sleep 1000000 & setsid sleep 1000000 > /dev/null 2>&1 & echo up; sleep 0.05"
)


async def use(pool: SandboxPool) -> None:
    while True:
        command = Command(argv=("sh", "-c", LEAVES_MUCH))
        with contextlib.suppress(SandboxError):  # a sandbox at its lifetime
            await pool.run(command, Limits(time_s=1.0), lambda _line: print("up", flush=True))
            print("ran", flush=True)


async def keep_busy(name: str, lifetime_s: float) -> None:
    print("begun", flush=True)
    spec = SandboxSpec(lifetime_s=lifetime_s)
    async with SandboxPool(BACKENDS[name](), spec, size=4) as pool:
        await asyncio.gather(*(use(pool) for _ in range(6)))


asyncio.run(keep_busy(sys.argv[1], float(sys.argv[2])))
