"""Prepares a learner's imports, and loads environments and checkpoint in parallel with them.

Call :func:`prepare_imports` before torch and gymnasium are imported: their dependencies print
warnings and load unneeded packages, and torch's idle threads would spin on cores that the emulators
need. Environments need no torch, so they load meanwhile, in processes that are started first, or on
a thread; the call that requests them raises their errors. Imports no torch.
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
from Daddy.core.stop_conditions import end_at_interrupted_imports

if TYPE_CHECKING:
    from Daddy.learning.vector_rows import VectorEnv

_BEAT_S = 2.0
_LONGEST_LOAD_S = 300.0
"""Loading time after which a learner counts as hung: its heartbeats stop."""
LOADED = "weights"
"""Last phase of loading, after which the loop writes the heartbeats."""


def prepare_imports() -> None:
    """Suppress warnings and needless imports of torch and gymnasium; call before importing them."""
    end_at_interrupted_imports()
    warnings.filterwarnings("ignore", "The pynvml package", FutureWarning)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # else torch searches all packages
    with redirect_stderr(StringIO()), _without_plugins():
        import gymnasium  # noqa: F401 - quietly, before anything else imports it


@contextmanager
def _without_plugins() -> Iterator[None]:
    """Keep gymnasium from importing its plugins during the `with` block.

    gymnasium imports other packages' environments, gym and OpenCV with its first import only.
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
    """Makes environments early; a call waits for the environments and returns them."""

    def __init__(self, make: Callable[[], VectorEnv], *, on_thread: bool) -> None:
        """Call ``make`` on a thread, or, if not ``on_thread``, at once (a ``make`` that forks)."""
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
        """Wait for the environments and return them; raise the error of making them."""
        vector = self._made.result()
        self._taken = True
        return vector

    def close(self) -> None:
        """Close the environments, unless a call has returned them."""
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
    """Write heartbeats of ``slot`` on a thread until the training loop does, for 5 min at most."""
    until = clock.monotonic() + _LONGEST_LOAD_S

    def beat() -> None:
        while not boot.has_passed(LOADED) and clock.monotonic() < until:
            slot.beat({"stage": "loading"})
            boot.wait(LOADED, _BEAT_S)

    Thread(target=beat, name="beat", daemon=True).start()


@contextlib.contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Disable garbage collection during the `with` block, which saves a tenth of import time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
