"""Adapter for torch.distributed: distributed data parallel (DDP) training over gloo.

Rank 0 listens on MASTER_ADDR (127.0.0.1) and MASTER_PORT (29500), on that address only; between
torchrun's ranks the store of torchrun listens instead. Each rank also listens for gloo on one free
port of the address from which it reaches MASTER_ADDR, or of the interface GLOO_SOCKET_IFNAME. Both
carry tensors without encryption or password: any process that reaches these ports can disturb the
training, so they belong on loopback or in a private network. Tensors of a GPU travel by the CPU.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from Daddy.core.errors import ConfigError, NetworkError

if TYPE_CHECKING:
    import torch

TIMEOUT_S = 120.0
"""Longest wait for another rank: a rank that died is noticed at once, one that hangs after this."""
_PORT = "29500"
_TOGETHER = "look at the log of each rank for the first error, then start all ranks again"


@dataclass(frozen=True)
class RankAddress:
    """Holds the standard environment variables; `agent` is True if torchrun serves the store."""

    rank: int
    size: int
    host: str = "127.0.0.1"
    port: int = int(_PORT)
    agent: bool = False
    attempt: str = "0"


def read_rank(environment: Mapping[str, str]) -> RankAddress | None:
    """Return the rank that torchrun or a person has set; None if WORLD_SIZE is 1 or absent.

    ConfigError for a number out of range.
    """
    size = _number(environment, "WORLD_SIZE", "1", range(1, 4097))
    if size == 1:
        return None
    return RankAddress(
        rank=_number(environment, "RANK", "", range(size)),
        size=size,
        host=environment.get("MASTER_ADDR", "127.0.0.1"),
        port=_number(environment, "MASTER_PORT", _PORT, range(1, 65536)),
        agent=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        attempt=environment.get("TORCHELASTIC_RESTART_COUNT", "0"),
    )


def _number(environment: Mapping[str, str], name: str, default: str, allowed: range) -> int:
    text = environment.get(name, default)
    if text.isascii() and text.isdigit() and len(text) < 7 and int(text) in allowed:  # noqa: PLR2004
        return int(text)
    limits = f"{allowed[0]} to {allowed[-1]}"
    raise ConfigError(
        f"{name} is {text[:40]!r}, and not a number from {limits}",
        "set MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE as torchrun does, or unset WORLD_SIZE",
    )


class GlooGroup:
    """Connects `size` ranks; each operation waits for all of them, `timeout_s` at most."""

    def __init__(self, at: RankAddress, timeout_s: float = TIMEOUT_S) -> None:
        self.rank, self.size, self.timeout_s = at.rank, at.size, timeout_s
        with self._waiting(f"to meet {at.size} ranks at {at.host}:{at.port}"):
            self._store = self._join(at)
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

    def _join(self, at: RankAddress) -> Any:
        from torch import distributed

        torch_ddp: Any = distributed  # its types export neither store
        serves = at.rank == 0 and not at.agent
        listener = _listen(at).detach() if serves else None
        wait = timedelta(seconds=self.timeout_s)
        store = torch_ddp.TCPStore(at.host, at.port, None, serves, wait, master_listen_fd=listener)
        return torch_ddp.PrefixStore(f"daddy/{at.attempt}", store)

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
    try:
        return socket.create_server((at.host, at.port), backlog=at.size)
    except OSError as error:
        raise NetworkError(
            f"rank 0 cannot listen on {at.host}:{at.port}: {error.strerror or error}",
            "set MASTER_PORT to a free port, and MASTER_ADDR to an address of rank 0's machine",
        ) from error


def _own_address(at: RankAddress) -> str:
    """Return this machine's address on the way to rank 0; no packet is sent."""
    try:
        family, kind, *_, address = socket.getaddrinfo(at.host, at.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise NetworkError(
            f"rank {at.rank} has no way to MASTER_ADDR {at.host}: {error.strerror or error}",
            "set MASTER_ADDR to an address of rank 0's machine",
        ) from error
