"""What has to stand in a process before torch and gymnasium are loaded.

Their dependencies talk into every log (gym says that nobody maintains it, torch that pynvml has a
new name), load what nobody asked for, and torch's idle threads spin on cores that emulators need.
None of that is the user's.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO


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
