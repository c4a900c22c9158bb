"""Adapter for torch.distributed: distributed data parallel (DDP) training over gloo.

Rank 0 listens on MASTER_ADDR (127.0.0.1) and MASTER_PORT (29500), on that address only; between
torchrun's ranks the store of torchrun listens instead. Between tasks of a Slurm step it takes a
free port of the address from which it reaches srun's host, and writes both to a file for the other
ranks. Each rank also listens for gloo on one free port of the address from which it reaches rank 0,
or of the interface GLOO_SOCKET_IFNAME. Both carry tensors without encryption or password: any
process that reaches these ports can disturb the training, so they belong on loopback or in a
private network. Tensors of a GPU travel by the CPU.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from Daddy.core.atomic_files import read_json_or_empty, write_json
from Daddy.core.clock import Clock
from Daddy.core.errors import NetworkError
from Daddy.core.host_and_processes import address_toward
from Daddy.core.rank_address import RankAddress

if TYPE_CHECKING:
    import torch

TIMEOUT_S = 120.0
"""Longest wait for another rank: a rank that died is noticed at once, one that hangs after this."""
_POLL_S, _PROGRESS_S = 0.2, 10.0
_TOGETHER = "look at the log of each rank for the first error, then start all ranks again"


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """The file in which rank 0 writes its address; `start` tells it from an earlier one's."""

    path: Path
    start: str
    clock: Clock
    say: Callable[[str], None]

    def publish(self, at: RankAddress, listener: socket.socket) -> RankAddress:
        """Write the address at which we listen, and return it."""
        host, port = listener.getsockname()
        write_json(self.path, {"start": self.start, "host": host, "port": port})
        return replace(at, host=host, port=port)

    def wait(self, at: RankAddress, timeout_s: float) -> RankAddress:
        """Return the address that rank 0 has written. NetworkError if there is none in time."""
        begun = told = self.clock.monotonic()
        while (found := read_json_or_empty(self.path)).get("start") != self.start:
            now = self.clock.monotonic()
            if now - begun > timeout_s:
                raise NetworkError(
                    f"rank {at.rank} of {at.size} waited {timeout_s:g} s for rank 0's address in "
                    f"{self.path}",
                    _TOGETHER,
                )
            if now - told >= _PROGRESS_S:
                told = now
                self.say(f"waiting for rank 0's address: {now - begun:.0f} s")
            self.clock.wait(threading.Event(), _POLL_S)
        return replace(at, host=found["host"], port=found["port"])


class GlooGroup:
    """Connects `size` ranks; each operation waits for all of them, `timeout_s` at most."""

    def __init__(
        self, at: RankAddress, timeout_s: float = TIMEOUT_S, meeting: Rendezvous | None = None
    ) -> None:
        """Initialise; ranks without a port need a `meeting`."""
        self.rank, self.size, self.timeout_s = at.rank, at.size, timeout_s
        listener = None if at.rank or at.torchrun_store else _listen(at)
        if meeting and not at.port:
            at = meeting.publish(at, listener) if listener else meeting.wait(at, timeout_s)
        with self._waiting(f"to meet {at.size} ranks at {at.host}:{at.port}"):
            self._store = self._join(at, listener)
            self._group = self._connect(at)

    def broadcast(self, tensor: torch.Tensor) -> None:
        """Overwrite `tensor` in place by that of rank 0. NetworkError."""
        from torch.distributed import BroadcastOptions

        options = BroadcastOptions()
        self._run(self._group.broadcast, tensor, options)

    def average(self, tensor: torch.Tensor) -> None:
        """Replace `tensor` in place by the mean of all ranks': bit-equal on all. NetworkError.

        A nan or infinity of one rank reaches all ranks.
        """
        from torch.distributed import AllreduceOptions

        self._run(self._group.allreduce, tensor, AllreduceOptions())
        tensor.div_(self.size)

    def _run(self, operation: Callable[..., Any], tensor: torch.Tensor, options: Any) -> None:
        options.timeout = timedelta(seconds=self.timeout_s)
        on_cpu = tensor.detach().cpu().contiguous()
        with self._waiting("for the other ranks"):
            # Gloo's own thread gives up after the timeout. If we gave up first, the process would
            # end while that thread runs, and abort instead of exiting with our code.
            operation([on_cpu], options).wait(2 * options.timeout)
        if on_cpu.data_ptr() != tensor.data_ptr():
            tensor.copy_(on_cpu)

    def _join(self, at: RankAddress, listener: socket.socket | None) -> Any:
        from torch import distributed

        torch_ddp: Any = distributed  # its types export neither store
        serves, wait = listener is not None, timedelta(seconds=self.timeout_s)
        descriptor = listener.detach() if listener else None
        address = (at.host, at.port, None, serves, wait)
        store = torch_ddp.TCPStore(*address, master_listen_fd=descriptor)
        return torch_ddp.PrefixStore(f"daddy/{at.restart}", store)

    def _connect(self, at: RankAddress) -> Any:
        from torch import distributed

        gloo: Any = distributed.ProcessGroupGloo
        options = gloo._Options()  # noqa: SLF001 - only these options name a device
        name = os.environ.get("GLOO_SOCKET_IFNAME")
        by = {"interface": name} if name else {"hostname": _own_address(at)}
        options._devices = [gloo.create_device(**by)]  # noqa: SLF001
        options._timeout = timedelta(seconds=self.timeout_s)  # noqa: SLF001
        return gloo(self._store, at.rank, at.size, options)

    @contextmanager
    def _waiting(self, purpose: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        except RuntimeError as error:
            waited = time.monotonic() - begun
            first = str(error).partition("\n")[0][:200]
            raise NetworkError(
                f"rank {self.rank} of {self.size} waited {waited:.1f} s {purpose} "
                f"(limit {self.timeout_s:g} s): {first}",
                _TOGETHER,
            ) from error


def _listen(at: RankAddress) -> socket.socket:
    """Return a socket that listens on the address of rank 0, and on no other."""
    host = at.host if at.port else _own_address(at)
    try:
        return socket.create_server((host, at.port), backlog=at.size)
    except OSError as error:
        raise NetworkError(
            f"rank 0 cannot listen on {host}:{at.port}: {error.strerror or error}",
            "set MASTER_PORT to a free port, and MASTER_ADDR to an address of rank 0's machine",
        ) from error


def _own_address(at: RankAddress) -> str:
    try:
        return address_toward(at.host, socket.AF_UNSPEC)
    except OSError as error:
        raise NetworkError(
            f"rank {at.rank} has no way to MASTER_ADDR {at.host}: {error.strerror or error}",
            "set MASTER_ADDR to an address of rank 0's machine",
        ) from error
