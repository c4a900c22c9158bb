"""Adapter for multiprocessing: processes that Ctrl-C ends without tracebacks of their own."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context, resource_tracker
from multiprocessing.pool import Pool

from Daddy.core.host_and_processes import die_with_parent


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Defer SIGINT here, and block it for good in the processes spawned meanwhile; main thread.

    A terminal sends Ctrl-C to all of them: they would print tracebacks, also while they load.
    """
    resource_tracker.ensure_running()  # it starts with the first process, and unblocks SIGINT then
    arrived: list[int] = []
    # The mask is not enough here: the system may give the signal to a thread of a library.
    handler = signal.signal(signal.SIGINT, lambda number, _: arrived.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler)
        if arrived:
            signal.raise_signal(signal.SIGINT)


def process_pool(processes: int) -> Pool:
    """Start a pool of processes, which end with this one or with the pool's `with` block."""
    with interrupts_blocked():
        return get_context("spawn").Pool(processes, die_with_parent, (os.getpid(),))
