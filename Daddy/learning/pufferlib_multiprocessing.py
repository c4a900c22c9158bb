"""pufferlib's Multiprocessing, waiting asleep.

pufferlib brings the shared memory and its protocol; the waiting is ours. Its driver polls without
pause, its env processes too, a dead env process lets the driver spin for ever, and env processes
outlive a killed driver. Here both sides sleep on semaphores, a death is an error within seconds,
and an env process ends with its driver, however that one ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from Daddy.core.clock import sleep
from Daddy.core.errors import DaddyError
from Daddy.learning.pufferlib_import import pufferlib_vector
from Daddy.learning.vector_rows import EnvFactory
from Daddy.learning.vector_worker import EnvGroup, Seat, env_process

_LOOK_S = 0.5
"""Seconds between two looks whether the env processes still live."""
_SILENCE_S = 120.0
"""Seconds without an answer from living env processes after which they count as stuck."""
_GOODBYE_S, _POLITE_S = 2.0, 0.02
"""Seconds until who does not end is killed, and between two requests."""


class EnvProcessError(DaddyError):
    """An env process died, failed or hangs; the learner cannot go on without it."""


class SleepingMultiprocessing(pufferlib_vector.Multiprocessing):  # type: ignore[misc]
    """pufferlib's Multiprocessing whose two sides wait asleep, and notice each other's death.

    Its blocks of env processes (`blocks`) are asked one by one; the kernel shares the cores among
    those that have something to do. Its arrays and flags are used as they are, its `send` and
    `recv` are not: they know of one block at a time, and spin.
    """

    def __init__(self, env_fn: EnvFactory, seats: Sequence[Seat], blocks: int) -> None:
        """Start one env process for each seat; `blocks` of them, equally many, answer together."""
        self._seats = seats
        arguments = [(env_fn, seat) for seat in seats]
        with _own_env_process():
            super().__init__(
                *([EnvGroup] * len(seats), arguments, [{}] * len(seats)),
                num_envs=len(seats),
                num_workers=len(seats),
                batch_size=len(seats) // blocks,
                overwork=True,
            )
        size = self.workers_per_batch
        self.blocks = [slice(first, first + size) for first in range(0, len(seats), size)]
        self._asked: list[int] = []
        self._looked = time.monotonic()

    def ask(self, messages: Sequence[Any]) -> None:
        """Send each env process a message (see `EnvGroup.reset`) and wait for all of them."""
        for pipe, message in zip(self.send_pipes, messages, strict=True):
            pipe.send(message)
        for block in range(len(self.blocks)):
            self.wake(block, pufferlib_vector.RESET)
        for _ in self.blocks:
            self.infos_of(self.await_block())

    def wake(self, block: int, command: int) -> None:
        """Have the env processes of a block carry out a command."""
        seats = self._seats[self.blocks[block]]
        self.buf.semaphores[self.blocks[block]] = command
        self._asked.append(block)
        for seat in seats[1:]:
            seat.others.release()
        for seat in seats:
            seat.go.release()

    def await_block(self) -> int:
        """Sleep until a block that was asked is done; the one that was asked first if several."""
        while True:
            while self._seats[0].done.acquire(block=False):
                pass  # only what happens after the look at the flags is news
            self._look_for_the_dead()
            for block in self._asked:
                if (self.buf.semaphores[self.blocks[block]] >= pufferlib_vector.MAIN).all():
                    self._asked.remove(block)
                    return block
            self._await_news()

    def infos_of(self, block: int) -> list[Any]:
        """What the env processes of a block tell; EnvProcessError when one of them failed."""
        told: list[Any] = []
        for index in range(self.num_workers)[self.blocks[block]]:
            if self.buf.semaphores[index] == pufferlib_vector.INFO:
                told += self.recv_pipes[index].recv()
        for info in told:
            if isinstance(info, str):
                raise EnvProcessError(f"an environment failed:\n{info}", "this is a bug: report it")
        return told

    def _await_news(self) -> None:
        """Sleep until one more block is done; EnvProcessError when one never will be."""
        for _ in range(int(_SILENCE_S / _LOOK_S)):
            if self._seats[0].done.acquire(timeout=_LOOK_S):
                return
            self._look_for_the_dead()
        raise EnvProcessError(f"no env process answered for {_SILENCE_S:.0f} s", "start again")

    def _look_for_the_dead(self) -> None:
        """Now and then: the others' answers must not hide that one will never come."""
        if time.monotonic() - self._looked < _LOOK_S:
            return
        self._looked = time.monotonic()
        for process in self.processes:
            if not process.is_alive():
                raise EnvProcessError(
                    f"env process {process.pid} ended with exit code {process.exitcode}",
                    "start again: the learner resumes from its checkpoint; "
                    "if it recurs, look for the out-of-memory killer",
                )

    def close(self) -> None:
        """Ask the env processes to end, then make them.

        Asked again and again: who is in the middle of a step writes its own word over ours.
        """
        until = time.monotonic() + _GOODBYE_S
        while time.monotonic() < until and any(process.is_alive() for process in self.processes):
            self.buf.semaphores[:] = pufferlib_vector.CLOSE
            for seat in self._seats:
                seat.go.release()
            sleep(_POLITE_S)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()


@contextmanager
def _own_env_process() -> Iterator[None]:
    """While pufferlib starts its processes, they are to run our loop instead of its spinning one.

    pufferlib 2.0.2, the only release with wheels, has no option for it; `env_process` follows its
    arguments and its flags in shared memory.
    """
    module: Any = pufferlib_vector
    stock, module._worker_process = module._worker_process, env_process  # noqa: SLF001
    try:
        yield
    finally:
        module._worker_process = stock  # noqa: SLF001
