"""Adapter for pufferlib's Multiprocessing that sleeps while it waits.

Uses pufferlib's shared memory and protocol. pufferlib's driver and env processes poll without
pause, for ever if an env process dies, and env processes outlive a killed driver. Here both sides
sleep on semaphores, a dead env process raises an error, and env processes end with their driver.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from Daddy.core.clock import sleep
from Daddy.core.errors import DaddyError
from Daddy.learning.quiet_pufferlib_import import pufferlib_vector
from Daddy.learning.vector_rows import EnvFactory
from Daddy.learning.vector_worker import EnvGroup, WorkerAssignment, env_process

_LIVENESS_S = 0.5
"""Seconds between two checks that the env processes are alive."""
_SILENCE_S = 120.0
"""Seconds without a result from any env process after which they count as hung."""
_CLOSE_S, _REPEAT_S = 2.0, 0.02
"""Seconds until env processes that do not end are killed, and between two close commands."""


class EnvProcessError(DaddyError):
    """Reports that an env process died, failed or hangs; the learner has to end."""


class SleepingMultiprocessing(pufferlib_vector.Multiprocessing):  # type: ignore[misc]
    """Runs env processes as pufferlib does, but both sides sleep and notice each other's end.

    Each block of env processes (`blocks`) gets its commands separately; the kernel shares the
    cores among the busy processes. pufferlib's arrays and flags are used; its `send` and `recv` are
    not, since they handle one block at a time and poll.
    """

    def __init__(
        self, env_fn: EnvFactory, assignments: Sequence[WorkerAssignment], blocks: int
    ) -> None:
        """Start an env process for each assignment, in `blocks` blocks of equal size."""
        self._assignments, workers = assignments, len(assignments)
        arguments = [(env_fn, assignment) for assignment in assignments]
        with _own_env_process():
            super().__init__(
                *([EnvGroup] * workers, arguments, [{}] * workers),
                num_envs=workers,
                num_workers=workers,
                batch_size=workers // blocks,
                overwork=True,
            )
        size = self.workers_per_batch
        self.blocks = [slice(first, first + size) for first in range(0, workers, size)]
        self._running: list[int] = []
        self._checked = time.monotonic()

    def send_messages(self, messages: Sequence[Any]) -> None:
        """Send each env process its message (see `EnvGroup.reset`); wait for all processes."""
        for pipe, message in zip(self.send_pipes, messages, strict=True):
            pipe.send(message)
        for block in range(len(self.blocks)):
            self.start_command(block, pufferlib_vector.RESET)
        for _ in self.blocks:
            self.receive_infos(self.wait_for_block())

    def start_command(self, block: int, command: int) -> None:
        """Start a command in the env processes of a block."""
        assignments = self._assignments[self.blocks[block]]
        self.buf.semaphores[self.blocks[block]] = command
        self._running.append(block)
        for assignment in assignments[1:]:
            assignment.others.release()
        for assignment in assignments:
            assignment.go.release()

    def wait_for_block(self) -> int:
        """Sleep until a block has finished its command; return the number of that block."""
        while True:
            while self._assignments[0].done.acquire(block=False):
                pass  # drop signals of blocks whose flags are read below
            self._check_liveness()
            for block in self._running:
                if (self.buf.semaphores[self.blocks[block]] >= pufferlib_vector.MAIN).all():
                    self._running.remove(block)
                    return block
            self._wait_for_signal()

    def receive_infos(self, block: int) -> list[Any]:
        """Return the infos of a block's env processes.

        Raises an environment's DaddyError, and EnvProcessError for its other errors.
        """
        infos: list[Any] = []
        for index in range(self.num_workers)[self.blocks[block]]:
            if self.buf.semaphores[index] == pufferlib_vector.INFO:
                infos += self.recv_pipes[index].recv()
        for info in infos:
            if isinstance(info, DaddyError):
                raise info
            if isinstance(info, str):
                raise EnvProcessError(f"an environment failed:\n{info}", "this is a bug: report it")
        return infos

    def _wait_for_signal(self) -> None:
        """Sleep until another block finishes; EnvProcessError if an env process ended or hangs."""
        for _ in range(int(_SILENCE_S / _LIVENESS_S)):
            if self._assignments[0].done.acquire(timeout=_LIVENESS_S):
                return
            self._check_liveness()
        raise EnvProcessError(f"no env process answered for {_SILENCE_S:.0f} s", "start again")

    def _check_liveness(self) -> None:
        """Raise EnvProcessError if an env process ended; checks every `_LIVENESS_S` seconds."""
        if time.monotonic() - self._checked < _LIVENESS_S:
            return
        self._checked = time.monotonic()
        for process in self.processes:
            if not process.is_alive():
                raise EnvProcessError(
                    f"env process {process.pid} ended with exit code {process.exitcode}",
                    "start again: the learner continues from its checkpoint; "
                    "if it recurs, look for the out-of-memory killer",
                )

    def close(self) -> None:
        """Send the env processes the close command; kill those alive after 2 s.

        The command is repeated, because a process that finishes a step overwrites it with its flag.
        """
        until = time.monotonic() + _CLOSE_S
        while time.monotonic() < until and any(process.is_alive() for process in self.processes):
            self.buf.semaphores[:] = pufferlib_vector.CLOSE
            for assignment in self._assignments:
                assignment.go.release()
            sleep(_REPEAT_S)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()


@contextmanager
def _own_env_process() -> Iterator[None]:
    """Make pufferlib start processes with `env_process`, during the `with` block.

    pufferlib 2.0.2, the only release with wheels, has no such option. `env_process` takes the
    same arguments and uses the same flags in shared memory.
    """
    module: Any = pufferlib_vector
    stock, module._worker_process = module._worker_process, env_process  # noqa: SLF001
    try:
        yield
    finally:
        module._worker_process = stock  # noqa: SLF001
