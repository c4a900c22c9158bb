"""Chooses the executor of a run, ``slurm`` or ``local``; makes its scheduler and its jobs.

Only the scheduler that is used is imported: a person waits for ``status``.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence

from Daddy.cluster.orchestrator.plan_actions import Submit
from Daddy.cluster.orchestrator.scheduler_interface import JobSpec, Scheduler
from Daddy.cluster.release_build import Release
from Daddy.core.atomic_files import sha256_hex
from Daddy.core.clock import Clock
from Daddy.core.errors import SchedulerError
from Daddy.core.humanize import parse_duration
from Daddy.core.job_environment import RELEASE
from Daddy.core.load_config import load_release_config
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.stop_reasons import drain_margin


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


class SpecMaker:
    """Makes the jobs of a run: (token, number, wish) → JobSpec.

    A job's request and its launcher are those of the releases that the wish names; ``release`` and
    ``config`` stand in for a wish without one. While a release is tried, all ask for its resources:
    it could not be tried in those of its predecessor, whose partition may be gone.
    """

    def __init__(self, config: Config, run: RunPaths, release: Release) -> None:
        self._run = run
        self._known = {"": (release, config), release.ident: (release, config)}

    def __call__(self, token: str, number: int, wish: Submit) -> JobSpec:
        release, config = self._of(wish.release)
        asked = self._of(wish.request)[1] if wish.request else config
        limit_s = parse_duration(asked.slurm.time_limit)
        program = [sys.executable, "-m", "Daddy.cluster.launch", "--run", str(self._run.root)]
        return JobSpec(
            token=token,
            number=number,
            run_id=run_id(config, self._run),
            argv=(*program, "--config", str(release.config), "--attempt", token),
            environment={
                "PYTHONPATH": str(release.path),
                "PYTHONUNBUFFERED": "1",
                RELEASE: release.ident,
            },
            work_dir=self._run.root,
            logs=self._run.logs,
            script=self._run.scripts / f"attempt-{number}.sbatch",
            time_limit_s=limit_s,
            warn_s=max(1, int(drain_margin(limit_s))),
            after=wish.after,
            setup=tuple(config.slurm.setup),
            export=tuple(config.slurm.export),
            request=slurm_request(asked, wish.exclude),
        )

    def _of(self, ident: str) -> tuple[Release, Config]:
        """A release that is not on disk (yet) leaves its jobs to the controller's own."""
        if ident not in self._known:
            release = Release(ident, self._run.releases / ident)
            if not release.config.exists():
                return self._known[""]
            self._known[ident] = (release, load_release_config(release.config))
        return self._known[ident]
