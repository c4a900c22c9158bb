"""What is asked for each job: its launcher, its limit, its place, by the releases wished for."""

from __future__ import annotations

import sys

from Daddy.cluster.orchestrator.actions import Submit
from Daddy.cluster.orchestrator.executors import run_id, slurm_request
from Daddy.cluster.orchestrator.scheduler import JobSpec
from Daddy.cluster.release_build import Release
from Daddy.core.config import load_effective
from Daddy.core.humanize import parse_duration
from Daddy.core.job import RELEASE
from Daddy.core.paths import RunPaths
from Daddy.core.settings import Config
from Daddy.core.stopping import drain_margin


class SpecMaker:
    """Makes the jobs of a run: (token, number, what is wished) → JobSpec.

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
            self._known[ident] = (release, load_effective(release.config))
        return self._known[ident]
