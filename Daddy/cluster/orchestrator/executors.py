"""Chooses the executor of a run, ``slurm`` or ``local``, and makes its scheduler.

Only the scheduler that is used is imported: a person waits for ``status``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from Daddy.cluster.orchestrator.scheduler import Scheduler
from Daddy.core.clock import Clock
from Daddy.core.errors import SchedulerError
from Daddy.core.files import sha256_hex
from Daddy.core.paths import RunPaths
from Daddy.core.settings import Config


def choose_executor(config: Config, environ: Mapping[str, str]) -> str:
    """``slurm`` where sbatch is found, else ``local``, unless the configuration says which."""
    wanted = config.controller.executor
    found = shutil.which("sbatch", path=environ.get("PATH", os.defpath)) is not None
    if wanted == "slurm" and not found:
        raise SchedulerError(
            "there is no sbatch on this machine",
            "run this on the cluster's login node, or use --executor local",
        )
    if wanted == "auto":
        return "slurm" if found else "local"
    return wanted


def run_id(config: Config, run: RunPaths) -> str:
    """The run's name and place in one word: two runs never adopt each other's jobs."""
    return f"{config.run_name}-{sha256_hex(str(run.root).encode())[:6]}"


def make_scheduler(
    executor: str, config: Config, run: RunPaths, clock: Clock, patience_s: float | None = None
) -> Scheduler:
    """The scheduler of that name; ``patience_s`` replaces the usual time limit of its listing."""
    if executor == "slurm":
        from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler

        return SlurmScheduler(
            run_id(config, run),
            clock,
            calls=run.calls,
            request=slurm_request(config),
            list_timeout_s=patience_s,
        )
    from Daddy.cluster.orchestrator.local_scheduler import LocalScheduler

    return LocalScheduler(run.queue, config.slurm.max_running, clock)


def slurm_request(config: Config, exclude: Sequence[str] = ()) -> dict[str, str | int]:
    """Options of a job by long name; settings left open are left to the site."""
    slurm = config.slurm
    wishes: dict[str, str | int | None] = {
        "partition": slurm.partition,
        "account": slurm.account,
        "qos": slurm.qos,
        "cpus-per-task": slurm.cpus_per_job,
        "gres": f"gpu:{slurm.gpus_per_job}" if slurm.gpus_per_job else None,
        "mem": slurm.memory,
        "mem-per-gpu": slurm.mem_per_gpu,
        "exclude": ",".join(dict.fromkeys((*slurm.exclude, *exclude))) or None,
    }
    return {name: value for name, value in wishes.items() if value is not None}
