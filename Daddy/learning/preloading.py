"""What a learner loads, before and side by side: quiet imports, environments, the checkpoint.

:func:`prepare` stands in a process before torch and gymnasium are loaded: their dependencies write
into every log (gym that nobody maintains it, torch that pynvml has a new name), load what nobody
asked for, and torch's idle threads spin on cores that emulators need. Environments do not need
torch: those in processes of their own are started first and load there; those of this process load
on a thread. Promises that a failure is raised where the result is asked for, and that what was made
is closed if nobody took it. No torch here.
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
"""A learner that loads for longer counts as hung: its beat stops."""
LOADED = "weights"
"""The last phase of loading; from then on the loop beats."""


def prepare() -> None:
    """Call once, first thing, in every entry that learns or plays."""
    warnings.filterwarnings("ignore", "The pynvml package", FutureWarning)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # else all packages are searched
    with redirect_stderr(StringIO()), _without_plugins():
        import gymnasium  # noqa: F401 - imported here so that it is quiet and light later


@contextmanager
def _without_plugins() -> Iterator[None]:
    """Others' environments stay unloaded: they bring gym, OpenCV and 280 files, and we make ours.

    gymnasium asks for its plugins once, when it is first imported, and offers no switch.
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
    """Environments in the making. Call it for the finished ones."""

    def __init__(self, make: Callable[[], VectorEnv], *, on_thread: bool) -> None:
        """Start; ``on_thread``, else here and now (it starts processes by forking)."""
        self._made: Future[VectorEnv] = Future()
        self._taken = False
        if on_thread:
            Thread(target=self._run, args=(make,), name="environments", daemon=True).start()
        else:
            self._run(make)

    def _run(self, make: Callable[[], VectorEnv]) -> None:
        try:
            self._made.set_result(make())
        except BaseException as error:  # noqa: BLE001 - raised again where it is asked for
            self._made.set_exception(error)

    def __call__(self) -> VectorEnv:
        """Wait for them; raises the error of their making."""
        made = self._made.result()
        self._taken = True
        return made

    def close(self) -> None:
        """Close environments that were not taken."""
        if self._made.exception() is None and not self._taken:
            self._made.result().close()


def prefetch_checkpoint(folder: Path) -> None:
    """Have the newest checkpoint read into memory, so that it need not be waited for later."""

    def read() -> None:
        with contextlib.suppress(OSError, ValueError):
            newest = max(folder.glob("t*.safetensors"), key=lambda path: path.name)
            newest.read_bytes()

    Thread(target=read, name="read ahead", daemon=True).start()


def beat_while_loading(seat: HeldSlot, boot: StartupTimer, clock: Clock) -> None:
    """Prove life until the loop does: who wants the slot takes a long silence for death."""
    until = clock.monotonic() + _LONGEST_LOAD_S

    def beat() -> None:
        while not boot.has_passed(LOADED) and clock.monotonic() < until:
            seat.beat({"stage": "loading"})
            boot.wait(LOADED, _BEAT_S)

    Thread(target=beat, name="beat", daemon=True).start()


@contextlib.contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Libraries make many objects, all of which stay: not looking for rubbish saves a tenth."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
