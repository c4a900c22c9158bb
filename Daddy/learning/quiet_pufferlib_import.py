"""Adapter for pufferlib's import: its dependency gym prints a warning, which is dropped here."""

from contextlib import redirect_stderr
from io import StringIO

with redirect_stderr(StringIO()):
    from pufferlib import vector as pufferlib_vector
    from pufferlib.environment import PufferEnv

__all__ = ["PufferEnv", "pufferlib_vector"]
