"""Tests of the engine of one machine: a stop leaves nothing that was just being made."""

import asyncio
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from Daddy.fanout.local_engine import LocalEngine
from Daddy.fanout.run_batch import Batch


def test_what_is_being_made_at_a_stop_is_deleted_once_it_is_there() -> None:
    """A vendor's sandbox can be deleted by its number only, which its creation tells at its end."""
    creating, closing = threading.Event(), threading.Event()
    deleted: list[str] = []

    async def create() -> str:
        creating.set()
        await asyncio.to_thread(closing.wait)
        return "sandbox 1"

    async def run(_batch: Batch) -> None:
        creation = asyncio.create_task(create())
        try:
            await asyncio.shield(creation)
        except asyncio.CancelledError:
            deleted.append(await creation)
            raise

    engine = LocalEngine(run)
    batch = Batch(Path("run"), "token", number=0, indices=(1,), backend="daytona")
    (future,) = engine.submit_all([batch])
    creating.wait()
    closer = threading.Thread(target=engine.close)
    closer.start()
    with pytest.raises(CancelledError):
        future.result()
    closing.set()
    closer.join()
    assert deleted == ["sandbox 1"]
