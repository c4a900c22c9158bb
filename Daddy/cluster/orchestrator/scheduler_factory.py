"""Chooses the executor of a run, ``slurm`` or ``local``, and makes its scheduler and job requests.

Imports only the scheduler that is used, which keeps commands such as ``status`` fast.
"""

import contextlib
import os
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from Daddy.cluster.orchestrator.action_types import Submit
from Daddy.cluster.orchestrator.control_files import (
    RunIdentity,
    read_identity,
    read_intent,
    update_identity,
    write_identity,
)
from Daddy.cluster.orchestrator.controller_types import JobState, Snapshot, UnknownQueue
from Daddy.cluster.orchestrator.ledger_file import read_ledger
from Daddy.cluster.orchestrator.scheduler_interface import JobSpec, Scheduler
from Daddy.cluster.orchestrator.slurm_commands import complete_environment
from Daddy.cluster.release_build import Release
from Daddy.core.atomic_files import sha256_hex
from Daddy.core.clock import Clock
from Daddy.core.errors import FileError, SchedulerError
from Daddy.core.humanize import parse_duration
from Daddy.core.job_environment import RELEASE
from Daddy.core.load_config import load_release_config
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.stop_conditions import drain_margin


def choose_executor(config: Config, environ: Mapping[str, str]) -> str:
    """Return the configured executor; ``auto``: slurm if sbatch exists. Raises SchedulerError."""
    wanted = config.controller.executor
    has_sbatch = shutil.which("sbatch", path=environ.get("PATH", os.defpath)) is not None
    if wanted == "slurm" and not has_sbatch:
        raise SchedulerError(
            "there is no sbatch on this machine",
            "type the command on the cluster's login node, or add --executor local",
        )
    if wanted == "auto":
        return "slurm" if has_sbatch else "local"
    return wanted


def run_id(config: Config, run: RunPaths) -> str:
    """Return the mark of this run's jobs, fixed at its first start; before, one by its settings.

    Raises FileError if the run's identity is damaged.
    """
    identity = read_identity(run)
    return f"{config.run_name}{_folder_mark(run)}" if identity is None else identity.run_id


def _folder_mark(run: RunPaths) -> str:
    return f"-{sha256_hex(str(run.root).encode())[:6]}"


def fix_run_id(executor: str, config: Config, run: RunPaths, clock: Clock) -> str:
    """Return the mark of this run's jobs, and fix it at the first start.

    The release before took it from ``run_name`` at each start. For a run that it began the mark is
    the one that most of its jobs in the queue have. Raises SchedulerError if they cannot be listed.
    """
    if read_identity(run) is None:
        mark = run_id(config, run)
        if run.ledger.exists():
            reading = make_scheduler(executor, config, run, clock).snapshot()
            if isinstance(reading, UnknownQueue):
                fix = "type start again when squeue answers: it tells the name of this run's jobs"
                raise SchedulerError(f"the queue cannot be read: {reading.error}", fix)
            mark = _most_common_mark(reading, mark, _folder_mark(run))
        write_identity(run, RunIdentity(mark, str(run.root)))
    if executor == "slurm":
        _fix_cluster(run, clock)
    return run_id(config, run)


def _fix_cluster(run: RunPaths, clock: Clock) -> None:
    """Record the cluster's name; SchedulerError if the run has jobs on another cluster."""
    from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler

    identity, scheduler = read_identity(run), SlurmScheduler("", clock, calls=run.calls)
    place = scheduler.commands.place
    if identity is None or (identity.cluster and identity.asked == place):
        return
    name = scheduler.read_cluster()
    if identity.cluster not in ("", name) and read_ledger(run.ledger).live:
        answer = f"the Slurm cluster {name}" if name else "no Slurm cluster"
        message = f"{answer} answers here, and this run has jobs on {identity.cluster}"
        fix = f"type start where `scontrol show config` names {identity.cluster}"
        raise SchedulerError(message, f"{fix}, or `run_controller stop` there first")
    if name:
        update_identity(run, replace(identity, cluster=name, asked=place))


def _most_common_mark(queue: Snapshot, mark: str, ending: str) -> str:
    """Return the mark of most live jobs of the run whose folder gives ``ending``; else ``mark``."""
    live = (job for job in (*queue.jobs, *queue.others) if job.state is not JobState.ENDED)
    marks = Counter(job.run_id or (mark if job.token else "") for job in live)
    ours = [(count, found) for found, count in marks.items() if found.endswith(ending)]
    return max(ours)[1] if ours else mark


def make_scheduler(
    executor: str, config: Config, run: RunPaths, clock: Clock, patience_s: float | None = None
) -> Scheduler:
    """Make the scheduler of that executor; ``patience_s``: time limit of one squeue listing.

    Slurm's programs also get what the last ``start`` kept of its environment: cron has little.
    """
    if executor == "slurm":
        from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler

        return SlurmScheduler(
            run_id(config, run),
            clock,
            slurm_environ(run),
            calls=run.calls if run.controller.is_dir() else None,  # leave no file without a run
            run=run,
            request=slurm_request(config),
            list_timeout_s=patience_s,
            closed_reused_s=2 * config.controller.poll_seconds,
        )
    from Daddy.cluster.orchestrator.local_scheduler import LocalScheduler

    return LocalScheduler(run.queue, config.slurm.max_running, clock)


def slurm_environ(run: RunPaths) -> dict[str, str]:
    """Return our environment, completed by what the last ``start`` kept of its own."""
    with contextlib.suppress(FileError):
        intent = read_intent(run)
        return complete_environment(os.environ, intent.environment if intent is not None else {})
    return {**os.environ}


def slurm_request(config: Config, exclude: Sequence[str] = ()) -> dict[str, str | int]:
    """Return the sbatch options of a job by long name; unset ones keep the site's default.

    True is the value of an option without one.
    """
    slurm = config.slurm
    gpus = ":".join(filter(None, (slurm.gpu_type, str(slurm.gpus_per_job))))
    pairs = (text.removeprefix("--").partition("=") for text in slurm.options)
    options: dict[str, str | int | None] = {
        **{name: value or True for name, _, value in pairs},
        "partition": slurm.partition,
        "account": slurm.account,
        "qos": slurm.qos,
        "constraint": slurm.constraint,
        "reservation": slurm.reservation,
        "licenses": slurm.licenses,
        "cpus-per-task": slurm.cpus_per_job,
        "mem": slurm.memory,
        "mem-per-gpu": slurm.mem_per_gpu,
        "exclude": ",".join(dict.fromkeys((*slurm.exclude, *exclude))),
    }
    if slurm.gpus_per_job:
        options[slurm.gpu_option] = f"gpu:{gpus}" if slurm.gpu_option == "gres" else gpus
    return {name: value for name, value in options.items() if value}


class SpecMaker:
    """Makes the job specifications of a run: (token, number, action) → JobSpec.

    The action names the release of the job's launcher and the release whose resources it requests;
    ``release`` and ``config`` are the defaults. While a new release is tried, every job requests
    the new release's resources, because the old partition may no longer exist.
    """

    def __init__(self, config: Config, run: RunPaths, release: Release) -> None:
        self._run = run
        self._run_id = run_id(config, run)  # as the scheduler's, whatever name a release has
        self._loaded = {"": (release, config), release.ident: (release, config)}

    def __call__(self, token: str, number: int, action: Submit) -> JobSpec:
        release, config = self._load(action.release)
        requested = self._load(action.request)[1] if action.request else config
        limit_s = parse_duration(requested.slurm.time_limit)
        program = [sys.executable, "-m", "Daddy.cluster.launch", "--run", str(self._run.root)]
        return JobSpec(
            token=token,
            number=number,
            run_id=self._run_id,
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
            after=action.after,
            setup=tuple(config.slurm.setup),
            export=tuple(config.slurm.export),
            request=slurm_request(requested, action.exclude),
        )

    def _load(self, ident: str) -> tuple[Release, Config]:
        """Load a release and its configuration; the controller's own if it is not on disk."""
        if ident not in self._loaded:
            release = Release(ident, self._run.releases / ident)
            if not release.config.exists():
                return self._loaded[""]
            self._loaded[ident] = (release, load_release_config(release.config))
        return self._loaded[ident]
