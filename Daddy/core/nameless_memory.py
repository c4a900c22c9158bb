"""Makes memory that processes share by a file descriptor and that no file system lists."""

import contextlib
import os
import tempfile


def make_nameless_file(size: int) -> int:
    """Return the descriptor of an unnamed file of `size` zeros. OSError: no memory or disk.

    The system frees it with the last descriptor and mapping, also those of a killed process.
    """
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):  # refused by some kernels and sandboxes
            descriptor = os.memfd_create("daddy")
            os.ftruncate(descriptor, size)  # untouched pages take no memory
            return descriptor
    with tempfile.TemporaryFile() as file:
        file.write(bytes(size))  # a sparse file would raise SIGBUS once the disk is full
        file.flush()
        return os.dup(file.fileno())
