"""From a configuration to the controller's parts: where it runs, what it plays, its rules."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from Daddy.cluster.orchestrator.local_scheduler import LocalScheduler
from Daddy.cluster.orchestrator.records import Chaining, Policy
from Daddy.cluster.orchestrator.scheduler import JobSpec, Scheduler
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.core.clock import Clock
from Daddy.core.duration import parse_duration
from Daddy.core.errors import FileError, RomError, SchedulerError
from Daddy.core.files import create_exclusive, sha256_hex
from Daddy.core.job import RELEASE
from Daddy.core.names import new_incarnation
from Daddy.core.paths import RunPaths
from Daddy.core.release import Release
from Daddy.core.settings import Config
from Daddy.core.wall import drain_margin

_LOCAL_DELAYS_S = (0.0, 1.0, 5.0, 30.0, 120.0, 600.0)
_SLURM_DELAYS_S = (0.0, 60.0, 300.0, 900.0, 1800.0, 3600.0)
_LOCAL_PASS_S = 2.0
_SLURM_HOT_PASS_S = 10.0


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


def game_name(config: Config, executor: str) -> str:
    """What is played, for ``start`` and ``status``; RomError where it cannot be or is not meant."""
    training = config.training
    if training.workload != "pokemon_red":
        return training.workload
    if training.rom is not None:
        rom = Path(training.rom)
        if not rom.is_file():
            raise RomError(
                f"there is no ROM at {rom}", "set training.rom or DADDY_ROM to your own ROM file"
            )
        return f"the ROM {rom.name}"
    if executor == "slurm" and not training.cartridge:
        raise RomError(
            "no ROM is configured, and GPU jobs would play the free test cartridge",
            "set training.rom or DADDY_ROM to your own PokemonRed.gb, or say --cartridge",
        )
    return "the free cartridge (no ROM is configured)"


def absolute(config: Config, executor: str) -> Config:
    """The configuration as jobs elsewhere need it: full paths, and no choice left open."""
    run_dir = str(Path(config.run_dir).expanduser().resolve())
    shared = config.collaboration.shared_dir
    shared = str(Path(shared).expanduser().resolve()) if shared else ""
    return config.model_copy(
        update={
            "run_dir": run_dir,
            "collaboration": config.collaboration.model_copy(update={"shared_dir": shared}),
            "controller": config.controller.model_copy(update={"executor": executor}),
        }
    )


def prepare_folders(run: RunPaths) -> None:
    """Make what jobs need before any is submitted; FileError when the place cannot be written.

    Slurm fails a job without a word when the folder of its log is missing.
    """
    folders = (run.logs, run.scripts, run.controller, run.events, run.slots, run.releases)
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        probe = run.controller / f".probe-{new_incarnation()}"
        create_exclusive(probe, b"")
        probe.unlink()
    except OSError as error:
        raise FileError(
            f"the run directory {run.root} cannot be written: {error.strerror}",
            "set run_dir in the config to a folder of yours that all nodes share",
        ) from error


def run_id(config: Config, run: RunPaths) -> str:
    """The run's name and place in one word: two runs never adopt each other's jobs."""
    return f"{config.run_name}-{sha256_hex(str(run.root).encode())[:6]}"


def make_policy(config: Config, executor: str) -> Policy:
    """The rules for one executor. Locally a look costs nothing and cannot be wrong."""
    settings, poll = config.controller, config.controller.poll_seconds
    local = executor == "local"
    return Policy(
        pass_s=min(poll, _LOCAL_PASS_S) if local else poll,
        hot_pass_s=min(poll, 1.0) if local else min(poll, _SLURM_HOT_PASS_S),
        absence_gap_s=0.0 if local else 30.0,
        drain_s=settings.drain_seconds,
        recancel_s=15.0 if local else 60.0,
        delays_s=_LOCAL_DELAYS_S if local else _SLURM_DELAYS_S,
        chaining=Chaining.LATE if settings.prequeue == "never" else Chaining.POOL,
        max_running=config.slurm.max_running,
        spares=settings.spares,
    )


def look_seconds(config: Config, executor: str) -> float:
    """Time between two looks at the small files; network file systems are asked less often."""
    return 0.2 if executor == "local" else min(2.0, config.controller.poll_seconds / 2)


def make_scheduler(executor: str, config: Config, run: RunPaths, clock: Clock) -> Scheduler:
    """The queue of that name."""
    if executor == "slurm":
        return SlurmScheduler(run_id(config, run), clock)
    return LocalScheduler(run.queue, config.slurm.max_running, clock)


class SpecMaker:
    """Makes the jobs of one release: (token, number, job to wait for) → JobSpec."""

    def __init__(self, config: Config, run: RunPaths, release: Release) -> None:
        self._config = config
        self._run = run
        self._release = release
        self._limit_s = parse_duration(config.slurm.time_limit)

    def __call__(self, token: str, number: int, after: int | None) -> JobSpec:
        program = [sys.executable, "-m", "Daddy.train_slim"]
        return JobSpec(
            token=token,
            number=number,
            run_id=run_id(self._config, self._run),
            argv=(*program, "--config", str(self._release.config), "--attempt", token),
            environment={
                "PYTHONPATH": str(self._release.path),
                "PYTHONUNBUFFERED": "1",
                RELEASE: self._release.ident,
            },
            work_dir=self._run.root,
            logs=self._run.logs,
            script=self._run.scripts / f"attempt-{number}.sbatch",
            time_limit_s=self._limit_s,
            warn_s=max(1, int(drain_margin(self._limit_s))),
            after=after,
            setup=tuple(self._config.slurm.setup),
            request=slurm_request(self._config),
        )


def slurm_request(config: Config) -> dict[str, str | int]:
    """What is asked of Slurm, by long option; settings left open are left to the site."""
    slurm = config.slurm
    wishes: dict[str, str | int | None] = {
        "partition": slurm.partition,
        "account": slurm.account,
        "qos": slurm.qos,
        "cpus-per-task": slurm.cpus_per_job,
        "gres": f"gpu:{slurm.gpus_per_job}" if slurm.gpus_per_job else None,
        "mem": slurm.memory,
        "mem-per-gpu": slurm.mem_per_gpu,
        "exclude": ",".join(slurm.exclude) or None,
    }
    return {name: value for name, value in wishes.items() if value is not None}
