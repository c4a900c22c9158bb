"""Adapter for submitit's renderer of job scripts, which orders and quotes the ``#SBATCH`` lines.

submitit's requeueing, pickles and ``srun`` are not used. The script's last line is ``exec``, so
that the learner is the batch process: a shell would not pass SIGUSR1 and SIGTERM on to it. On
several nodes ``srun`` is; it passes SIGUSR1 on, and SIGTERM reaches the ranks from Slurm. Output
files are opened for appending, in case the site requeues the job. The renderer is a private
function of submitit and called only in :func:`render_job_script`, whose output is tested.
"""

import shlex
from collections.abc import Callable, Sequence

from Daddy.cluster.orchestrator.scheduler_interface import JobSpec
from Daddy.cluster.orchestrator.slurm_commands import INHERITED
from Daddy.cluster.orchestrator.slurm_squeue import job_comment, job_name
from Daddy.core.humanize import format_duration
from Daddy.core.job_environment import JOB_END_TIME, JOB_ID

_ASK_END = (
    f'export {JOB_END_TIME}="${{SLURM_JOB_END_TIME:-$(SLURM_TIME_FORMAT=%s timeout 10 squeue '
    '--noheader --jobs="$SLURM_JOB_ID" --format=%e 2>/dev/null)}"'
)
"""Sets the job's end time; Slurm 22.05 does not, so the job runs squeue once."""

_LAST_RANK_S = 75
"""Seconds from the first rank's end until Slurm ends the others: more than the 60 s for which one
that was asked to stop waits for room on a full disk. One whose wall time is up would wait longer,
but the job's end is near then."""


def render_job_script(spec: JobSpec) -> str:
    """Return the complete job script of ``spec`` for ``sbatch``."""
    from submitit.slurm import slurm

    make: Callable[..., str] = slurm._make_sbatch_string  # noqa: SLF001 - no public function
    return str(
        make(
            command="exec " + shlex.join(spec.argv if spec.nodes == 1 else _srun_argv(spec)),
            folder=spec.logs,
            job_name=job_name(spec.run_id, spec.token),
            time=format_duration(spec.time_limit_s),
            comment=job_comment(spec.run_id, spec.number, spec.token),
            wckey=None,
            use_srun=False,
            setup=_setup(spec),
            dependency=None if spec.after is None else f"afterany:{spec.after}",
            additional_parameters=_parameters(spec),
        )
    )


def _srun_argv(spec: JobSpec) -> list[str]:
    """Return the command line that runs the program on each node.

    srun would take over sbatch's ``--export`` list, and not its ``--cpus-per-task``. A drained rank
    has an exit code, which must not kill the others: they get a while after the first one's end.
    """
    cpus = spec.request.get("cpus-per-task")
    argv = ["srun", "--label", "--export=ALL", "--kill-on-bad-exit=0", f"--wait={_LAST_RANK_S}"]
    return [*argv, *([f"--cpus-per-task={cpus}"] if cpus else []), *spec.argv]


def _parameters(spec: JobSpec) -> dict[str, object]:
    tasks = {"nodes": spec.nodes, "ntasks": spec.nodes, "ntasks-per-node": 1}
    logs = str(spec.logs).replace("%", "%%")  # Slurm expands %j, %x and so on in the whole path
    return {
        **spec.request,
        **(tasks if spec.nodes > 1 else {}),
        "chdir": spec.work_dir,
        "error": f"{logs}/slurm-%j.err",
        "export": ",".join(dict.fromkeys((*INHERITED, *spec.export))),
        "no-requeue": True,
        "open-mode": "append",
        "output": f"{logs}/slurm-%j.out",
        "signal": f"B:USR1@{spec.warn_s}",
    }


def _modules(setup: Sequence[str]) -> list[str]:
    """Return the line that defines ``module``, a shell function, if ``setup`` uses it."""
    wanted = any(line.split()[:1] in (["module"], ["ml"]) for line in setup)
    return ["type module >/dev/null 2>&1 || . /etc/profile"] if wanted else []


def _setup(spec: JobSpec) -> list[str]:
    """Return the script's setup lines: the site's, then ours, as a module may set PYTHONPATH."""
    env = [f"export {name}={shlex.quote(value)}" for name, value in spec.environment.items()]
    return [*_modules(spec.setup), *spec.setup, f'export {JOB_ID}="$SLURM_JOB_ID"', _ASK_END, *env]
