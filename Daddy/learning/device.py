"""Which device learns, with how many threads and in which precision."""

from __future__ import annotations

import ctypes
import sys
from contextlib import AbstractContextManager, nullcontext

import torch

from Daddy.core.errors import ConfigError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Names of glibc's malloc.h."""
_NEVER = 1 << 30


def resolve(name: str) -> torch.device:
    """The device for `auto`, `cpu`, `cuda` or `mps`.

    ConfigError where the machine has none of that name: a job that asked for a GPU never runs on a
    CPU in silence.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else _mps_or_cpu())
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(
            f"training.device is {name!r}, but this machine has no GPU that torch can use",
            "ask the scheduler for one (slurm.gpus_per_job), or set --device cpu or auto",
        )
    if name == "mps" and _mps_or_cpu() != "mps":
        raise ConfigError("training.device is 'mps', but this is no Mac with it", "use auto")
    return torch.device(name)


def _mps_or_cpu() -> str:
    return "mps" if torch.backends.mps.is_available() else "cpu"


def has_gpu() -> bool:
    """Whether torch can use a GPU with memory of its own here."""
    return torch.cuda.is_available()


def limit_threads(threads: int) -> None:
    """Let torch's own arithmetic use `threads` cores: the emulators need the others."""
    torch.set_num_threads(max(1, threads))


def keep_freed_memory() -> None:
    """Let glibc keep what torch frees: an update frees and takes the same megabytes many times.

    Without it each pass faults its pages in anew, twenty thousand times per update (measured).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _NEVER)
        mallopt(_M_TRIM_THRESHOLD, _NEVER)


def mixed_precision(device: torch.device) -> AbstractContextManager[object]:
    """bfloat16 arithmetic on a GPU; float32 anywhere else."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """float32 inside, also where the arithmetic around it is mixed."""
    known = device.type in ("cuda", "cpu")  # others have no mixed arithmetic here to leave
    return torch.autocast(device.type, enabled=False) if known else nullcontext()
