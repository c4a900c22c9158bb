"""Runs batches in a thread of this process, so that the screen is drawn meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol

from Daddy.core.event_loop_thread import EventLoopThread
from Daddy.fanout.run_batch import Batch

_CLOSE_S: Final = 60.0
"""Seconds in which sandboxes that are being made or deleted end by themselves."""


class Engine(Protocol):
    """Runs batches on one or more machines."""

    name: str
    repeats: int
    """Times that sandboxes without a result or an error run again: their machine was lost."""

    def submit_all(self, batches: Sequence[Batch]) -> "list[Future[None]]":
        """Start all batches; a future ends with its batch. Raises DaddyError."""
        ...

    def close(self) -> None:
        """End all batches and wait until nothing of them is left."""
        ...


class LocalEngine:
    """Runs batches in an event loop of its own."""

    name, repeats = "local", 0

    def __init__(self, run: Callable[[Batch], Coroutine[Any, Any, None]]) -> None:
        self._run = run
        self._futures: list[Future[None]] = []
        self._loop = EventLoopThread()

    def submit_all(self, batches: Sequence[Batch]) -> "list[Future[None]]":
        """Start all batches."""
        self._futures = [self._loop.submit(self._run(batch)) for batch in batches]
        return self._futures

    def close(self) -> None:
        """Cancel all batches, and wait until their sandboxes have ended."""
        for future in self._futures:
            future.cancel()
        self._loop.wait(_end_others())
        self._loop.close()


async def _end_others() -> None:
    """Wait for the tasks of cancelled batches; cancel those that go on after `_CLOSE_S`.

    A sandbox that is being made can be deleted only when it is there: cancelled, it would stay.
    """
    this = {asyncio.current_task()}
    timeout_s: float | None = _CLOSE_S
    while others := asyncio.all_tasks() - this:
        _, late = await asyncio.wait(others, timeout=timeout_s)
        for task in late:
            task.cancel()
        timeout_s = None
