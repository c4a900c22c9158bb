"""Runs an event loop in a thread, for synchronous callers."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class EventLoopThread:
    """Runs an event loop in a daemon thread until it is closed or its ``with`` ends."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, _Result]) -> "Future[_Result]":
        """Start a coroutine; cancelling the future cancels its task."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def wait(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine; return its result, or raise its error."""
        return self.submit(coroutine).result()

    def close(self) -> None:
        """Stop the loop; unfinished tasks are abandoned."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def __enter__(self) -> "EventLoopThread":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
