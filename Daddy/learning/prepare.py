"""What has to stand in a process before torch and gymnasium are loaded.

Their dependencies talk into every log (gym says that nobody maintains it, torch that pynvml has a
new name) and torch's idle threads spin on cores that emulators need. None of that is the user's.
"""

from __future__ import annotations

import os
import warnings
from contextlib import redirect_stderr
from io import StringIO


def prepare() -> None:
    """Call once, first thing, in every entry that learns or plays."""
    warnings.filterwarnings("ignore", "The pynvml package", FutureWarning)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with redirect_stderr(StringIO()):  # a plugin of gymnasium imports gym
        import gymnasium  # noqa: F401 - imported here so that it is quiet later
