"""The only door to pufferlib, and a quiet one: it imports gym, which prints that it is old."""

from contextlib import redirect_stderr
from io import StringIO

with redirect_stderr(StringIO()):
    from pufferlib import vector as pufferlib_vector
    from pufferlib.environment import PufferEnv

__all__ = ["PufferEnv", "pufferlib_vector"]
