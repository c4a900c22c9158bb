"""Runs batches in a thread of this process, so that the screen is drawn meanwhile."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from Daddy.fanout.run_batch import Batch


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
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def submit_all(self, batches: Sequence[Batch]) -> "list[Future[None]]":
        """Start all batches."""
        return [asyncio.run_coroutine_threadsafe(self._run(b), self._loop) for b in batches]

    def close(self) -> None:
        """Cancel all batches, and wait until their sandboxes have ended."""
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
