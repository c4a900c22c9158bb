"""Adapter for Dask: runs batches on the workers of a cluster of its own, as Slurm jobs or here.

Dask's messages are pickled between its own processes alone, under TLS keys made for this run.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from Daddy.cluster.orchestrator.slurm_commands import SlurmCommands
from Daddy.core.clock import SystemClock
from Daddy.core.errors import ConfigError, needs_extra
from Daddy.core.host_and_processes import address_toward, usable_cores
from Daddy.fanout.fanout_files import FanoutPaths
from Daddy.fanout.run_batch import Batch, run_named_batch


def run_batch_in_worker(batch: Batch) -> None:
    """Run a batch in a worker of Dask."""
    asyncio.run(run_named_batch(batch))


class DaskEngine:
    """Runs batches on `jobs` workers; a batch whose worker was lost runs again on another."""

    name, repeats = "dask", 2

    def __init__(self, paths: FanoutPaths, jobs: int, options: dict[str, str]) -> None:
        """Initialise. Raises ExtraMissingError; ConfigError where Slurm has no node."""
        with needs_extra("scale"):
            import dask
            import dask_jobqueue  # noqa: F401 - asked for before the run begins
            import distributed  # noqa: F401
        dask.config.set({"distributed.scheduler.allowed-failures": self.repeats})
        self._paths, self._jobs, self._options = paths, jobs, options
        self._node = _first_node() if shutil.which("sbatch") else ""
        self._open = contextlib.ExitStack()
        self._executor: Any = None

    def submit_all(self, batches: Sequence[Batch]) -> "list[Future[None]]":
        """Start all batches, and first the workers: Slurm jobs where sbatch is, else processes."""
        self._executor = self._executor or self._start()
        return [self._executor.submit(run_batch_in_worker, batch) for batch in batches]

    def close(self) -> None:
        """End workers and scheduler; sandboxes end with their worker."""
        self._open.close()

    def _start(self) -> Any:
        from distributed import Client, Security

        security = Security.temporary()
        self._paths.logs.mkdir(parents=True, exist_ok=True)
        make = self._slurm_cluster if self._node else self._local_cluster
        cluster = self._open.enter_context(contextlib.closing(make(security)))
        client = self._open.enter_context(contextlib.closing(Client(cluster, security=security)))
        executor = client.get_executor(pure=False)
        self._open.callback(executor.shutdown, wait=False)
        return executor

    def _local_cluster(self, security: Any) -> Any:
        from distributed import LocalCluster

        return LocalCluster(
            n_workers=min(self._jobs, usable_cores()),
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            security=security,
        )

    def _slurm_cluster(self, security: Any) -> Any:
        from dask_jobqueue import SLURMCluster

        logs = str(self._paths.logs)
        cluster = SLURMCluster(
            queue=self._options.get("partition"),
            account=self._options.get("account"),
            cores=int(self._options.get("cpus-per-task", "1")),
            processes=1,
            memory=self._options.get("mem", "2GB"),
            walltime=self._options.get("time", "01:00:00"),
            log_directory=logs,
            local_directory=logs,
            shared_temp_directory=logs,
            security=security,
            scheduler_options={"dashboard_address": None, "host": address_toward(self._node)},
        )
        cluster.scale(jobs=self._jobs)
        return cluster


def _first_node() -> str:
    commands = SlurmCommands(SystemClock(), os.environ, None)
    nodes = (commands.read_output(("sinfo", "--noheader", "--Node", "--format=%o")) or "").split()
    if not nodes:
        raise ConfigError("--engine dask: sinfo lists no node", "try --engine slurm or local")
    return nodes[0]
