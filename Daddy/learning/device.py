"""Chooses the device that learns, its number of threads and its precision."""

import ctypes
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch

from Daddy.core.arguments import ArgumentParser
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ConfigError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Constants of glibc's malloc.h."""
_NEVER = 1 << 30


def resolve_device(name: str) -> torch.device:
    """Return the device for `auto`, `cpu`, `cuda` or `mps`.

    ConfigError if the machine has no such device: a job that requested a GPU must not run on a CPU
    unnoticed.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else _mps_or_cpu())
    if name.startswith("cuda") and not torch.cuda.is_available():
        if torch.version.cuda is None and torch.version.hip is None:
            message = f"training.device is {name!r}, but this installation has torch's CPU build"
            fix = "type DADDY_TORCH=cuda ./scripts/install where there is a GPU"
        else:
            message = f"training.device is {name!r}, but this machine has no GPU that torch can use"
            fix = "ask the scheduler for a GPU (slurm.gpus_per_job)"
        raise ConfigError(message, f"{fix}, or set training.device to cpu or auto")
    if name == "mps" and _mps_or_cpu() != "mps":
        raise ConfigError("training.device is 'mps', but this machine has no Apple GPU", "use auto")
    return torch.device(name)


def _mps_or_cpu() -> str:
    return "mps" if torch.backends.mps.is_available() else "cpu"


def has_gpu() -> bool:
    """Return True if torch can use an NVIDIA or AMD GPU on this machine."""
    return torch.cuda.is_available()


def limit_threads(threads: int) -> None:
    """Limit torch to `threads` threads, since the emulators need the other cores."""
    torch.set_num_threads(max(1, threads))


def keep_freed_memory() -> None:
    """Make glibc keep memory that torch frees, which saves 20,000 page faults per update."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _NEVER)
        mallopt(_M_TRIM_THRESHOLD, _NEVER)


def mixed_precision(device: torch.device) -> AbstractContextManager[object]:
    """Return a context of bfloat16 arithmetic on a GPU, and of float32 on any other device."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Return a context of float32 arithmetic, for use inside `mixed_precision`."""
    mixed = device.type in ("cuda", "cpu")  # other devices never leave float32 here
    return torch.autocast(device.type, enabled=False) if mixed else nullcontext()


def main(argv: Sequence[str] | None = None) -> int:
    """Check that torch can use a device; for programs that do not load it. Raises ConfigError."""
    parser = ArgumentParser(prog="device", description="Check that torch can use a device.")
    parser.add_argument("name", choices=("auto", "cpu", "cuda", "mps"))
    resolve_device(parser.parse_args(argv).name)
    return 0


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
