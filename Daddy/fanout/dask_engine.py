"""Adapter for Dask: runs batches on the workers of a cluster of its own, as Slurm jobs or here.

Dask's messages are pickled between its own processes alone, under TLS keys made for this run.
"""

import asyncio
import os
import shutil
import socket
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from Daddy.cluster.orchestrator.slurm_commands import SlurmCommands
from Daddy.core.clock import SystemClock
from Daddy.core.errors import ConfigError, needs_extra
from Daddy.core.host_and_processes import usable_cores
from Daddy.fanout.fanout_files import FanoutPaths
from Daddy.fanout.run_batch import Batch, run_named_batch


def run_batch_in_worker(batch: Batch) -> None:
    """Run a batch in a worker of Dask."""
    asyncio.run(run_named_batch(batch))


class DaskEngine:
    """Runs batches on `jobs` workers; a batch whose worker was lost runs again on another."""

    name, repeats = "dask", 2

    def __init__(self, paths: FanoutPaths, jobs: int, options: dict[str, str]) -> None:
        """Start the workers: `jobs` Slurm jobs where sbatch is, else processes.

        Raises ExtraMissingError.
        """
        with needs_extra("scale"):
            import dask
            import distributed
        dask.config.set({"distributed.scheduler.allowed-failures": self.repeats})
        security = distributed.Security.temporary()
        paths.logs.mkdir(parents=True, exist_ok=True)
        make = _slurm_cluster if shutil.which("sbatch") else _local_cluster
        self._cluster = make(paths, jobs, options, security)
        self._client = distributed.Client(self._cluster, security=security)
        self._executor = self._client.get_executor(pure=False)

    def submit_all(self, batches: Sequence[Batch]) -> "list[Future[None]]":
        """Start all batches."""
        return [self._executor.submit(run_batch_in_worker, batch) for batch in batches]

    def close(self) -> None:
        """End workers and scheduler; sandboxes end with their worker."""
        self._executor.shutdown(wait=False)
        self._client.close()
        self._cluster.close()


def address_toward(host: str) -> str:
    """Return the address of this machine in the network of another one, where Dask listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # of UDP, so nothing is sent
        return str(probe.getsockname()[0])


def _local_cluster(_: FanoutPaths, jobs: int, __: dict[str, str], security: Any) -> Any:
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=min(jobs, usable_cores()),
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=None,
        security=security,
    )


def _slurm_cluster(paths: FanoutPaths, jobs: int, options: dict[str, str], security: Any) -> Any:
    from dask_jobqueue import SLURMCluster

    commands = SlurmCommands(SystemClock(), os.environ, None)
    nodes = (commands.read_output(("sinfo", "--noheader", "--Node", "--format=%o")) or "").split()
    if not nodes:
        raise ConfigError("--engine dask: sinfo lists no node", "try --engine slurm or local")
    cluster = SLURMCluster(
        queue=options.get("partition"),
        account=options.get("account"),
        cores=int(options.get("cpus-per-task", "1")),
        processes=1,
        memory=options.get("mem", "2GB"),
        walltime=options.get("time", "01:00:00"),
        log_directory=str(paths.logs),
        local_directory=str(paths.logs),
        shared_temp_directory=str(paths.logs),
        security=security,
        scheduler_options={"dashboard_address": None, "host": address_toward(nodes[0])},
    )
    cluster.scale(jobs=jobs)
    return cluster
