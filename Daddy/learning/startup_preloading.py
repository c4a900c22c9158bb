"""Prepares a learner's imports, and loads environments and checkpoint in parallel with them.

Call :func:`prepare_imports` before torch and gymnasium are imported: their dependencies print
warnings and load unneeded packages, and torch's idle threads would spin on cores that the emulators
need. Environments need no torch, so they load meanwhile, in processes that are started first, or on
a thread; their errors are raised where they are requested. Imports no torch.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from Daddy.core.clock import Clock
from Daddy.core.job_environment import StartupTimer
from Daddy.core.slot_lease import HeldSlot

if TYPE_CHECKING:
    from Daddy.learning.vector_rows import VectorEnv

_BEAT_S = 2.0
_LONGEST_LOAD_S = 300.0
"""Loading time after which a learner counts as hung: its heartbeats stop."""
LOADED = "weights"
"""Last phase of loading, after which the loop writes the heartbeats."""


def prepare_imports() -> None:
    """Silence and lighten later imports. Every entry that learns or plays calls this first."""
    warnings.filterwarnings("ignore", "The pynvml package", FutureWarning)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # else torch searches all packages
    with redirect_stderr(StringIO()), _without_plugins():
        import gymnasium  # noqa: F401 - quietly, before anything else imports it


@contextmanager
def _without_plugins() -> Iterator[None]:
    """Keep gymnasium from importing its plugins: other packages' environments, gym and OpenCV.

    gymnasium lists them once, when it is first imported, and has no option against it.
    """
    if "gymnasium" in sys.modules:
        yield
        return
    stock = importlib.metadata.entry_points
    importlib.metadata.entry_points = lambda **_: ()  # type: ignore[assignment]
    try:
        yield
    finally:
        importlib.metadata.entry_points = stock


class EnvironmentLoader:
    """Makes environments; a call waits for them and returns them."""

    def __init__(self, make: Callable[[], VectorEnv], *, on_thread: bool) -> None:
        """Start making them on a thread, or without ``on_thread`` make them now (it forks)."""
        self._made: Future[VectorEnv] = Future()
        self._taken = False
        if on_thread:
            Thread(target=self._run, args=(make,), name="environments", daemon=True).start()
        else:
            self._run(make)

    def _run(self, make: Callable[[], VectorEnv]) -> None:
        try:
            self._made.set_result(make())
        except BaseException as error:  # noqa: BLE001 - raised again by __call__
            self._made.set_exception(error)

    def __call__(self) -> VectorEnv:
        """Wait for the environments; raise the error of making them."""
        vector = self._made.result()
        self._taken = True
        return vector

    def close(self) -> None:
        """Close environments that no call has returned."""
        if self._made.exception() is None and not self._taken:
            self._made.result().close()


def prefetch_checkpoint(folder: Path) -> None:
    """Read the newest checkpoint on a thread, so that it is in the page cache when needed."""

    def read_newest() -> None:
        with contextlib.suppress(OSError, ValueError):
            newest = max(folder.glob("t*.safetensors"), key=lambda path: path.name)
            newest.read_bytes()

    Thread(target=read_newest, name="prefetch", daemon=True).start()


def beat_while_loading(slot: HeldSlot, boot: StartupTimer, clock: Clock) -> None:
    """Write heartbeats until the loop does: without them other jobs would take over the slot."""
    until = clock.monotonic() + _LONGEST_LOAD_S

    def beat() -> None:
        while not boot.has_passed(LOADED) and clock.monotonic() < until:
            slot.beat({"stage": "loading"})
            boot.wait(LOADED, _BEAT_S)

    Thread(target=beat, name="beat", daemon=True).start()


@contextlib.contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Import without garbage collection, which saves a tenth: the imported objects all stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
