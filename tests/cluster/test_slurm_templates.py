"""Tests the text of a job script, and that a shell runs it correctly."""

import subprocess
from pathlib import Path

from Daddy.cluster.orchestrator.scheduler_interface import JobSpec
from Daddy.cluster.orchestrator.slurm_templates import render_job_script
from tests.patience import PATIENCE_S


def spec(**facts) -> JobSpec:
    usual = {
        "token": "0123456789ab",
        "number": 12,
        "run_id": "slim_run-0fed50",
        "argv": ("/opt/venv/bin/python", "-m", "Daddy.train_slim", "--attempt", "0123456789ab"),
        "environment": {"PYTHONPATH": "/runs/slim run/releases/r1", "DADDY_RELEASE": "r1"},
        "work_dir": Path("/runs/slim run"),
        "logs": Path("/runs/slim run/logs"),
        "script": Path("/runs/slim run/scripts/attempt-12.sbatch"),
        "time_limit_s": 14_400,
        "warn_s": 180,
        "request": {"partition": "gpu-linuxlab", "gres": "gpu:1", "cpus-per-task": 8},
    }
    return JobSpec(**{**usual, **facts})


EXPECTED = """\
#!/bin/bash

# Parameters
#SBATCH --chdir='/runs/slim run'
#SBATCH --comment=daddy/slim_run-0fed50/12/0123456789ab
#SBATCH --cpus-per-task=8
#SBATCH --error='/runs/slim run/logs/slurm-%j.err'
#SBATCH --export=PATH,HOME,USER,LOGNAME,SHELL,LANG,SLURM_CONF,BASH_ENV,MODULEPATH,MODULESHOME,\
LMOD_CMD,LMOD_DIR,LMOD_PKG
#SBATCH --gres=gpu:1
#SBATCH --job-name=daddy-slim_run-0fed50-0123456789ab
#SBATCH --no-requeue
#SBATCH --nodes=1
#SBATCH --open-mode=append
#SBATCH --output='/runs/slim run/logs/slurm-%j.out'
#SBATCH --partition=gpu-linuxlab
#SBATCH --signal=B:USR1@180
#SBATCH --time=4:00:00

# setup
export DADDY_JOB_ID="$SLURM_JOB_ID"
export DADDY_JOB_END_TIME="${SLURM_JOB_END_TIME:-$(SLURM_TIME_FORMAT=%s timeout 10 squeue \
--noheader --jobs="$SLURM_JOB_ID" --format=%e 2>/dev/null)}"
export PYTHONPATH='/runs/slim run/releases/r1'
export DADDY_RELEASE=r1

# command
export SUBMITIT_EXECUTOR=slurm
exec /opt/venv/bin/python -m Daddy.train_slim --attempt 0123456789ab
"""


def test_the_whole_script() -> None:
    assert render_job_script(spec()) == EXPECTED


def test_on_several_nodes_srun_starts_a_rank_on_each() -> None:
    text = render_job_script(spec(nodes=2))
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks=2\n#SBATCH --ntasks-per-node=1\n" in text
    assert (
        "\nexec srun --label --export=ALL --kill-on-bad-exit=0 --wait=75 --cpus-per-task=8 "
        "/opt/venv/bin/python -m Daddy.train_slim --attempt 0123456789ab\n"
    ) in text


def test_the_sites_own_lines_come_first_and_ours_win() -> None:
    text = render_job_script(spec(setup=("module load cuda", "export PYTHONPATH=/modules")))
    assert text.index("module load cuda") < text.index("export PYTHONPATH='/runs")


def test_a_chained_job_waits_for_its_predecessor_however_that_ends() -> None:
    assert "#SBATCH --dependency=afterany:4711\n" in render_job_script(spec(after=4711))


def test_an_option_without_a_value_is_written_as_one() -> None:
    text = render_job_script(spec(request={"exclusive": True, "constraint": "a|b"}))
    assert "#SBATCH --constraint='a|b'\n" in text
    assert "#SBATCH --exclusive\n" in text


def test_a_percent_sign_of_the_path_stays_one_and_only_the_job_s_id_is_filled_in() -> None:
    text = render_job_script(spec(logs=Path("/runs/100%j/logs")))
    assert "#SBATCH --output=/runs/100%%j/logs/slurm-%j.out\n" in text
    assert "#SBATCH --error=/runs/100%%j/logs/slurm-%j.err\n" in text


def test_what_is_inherited_can_be_added_to_and_is_never_everything() -> None:
    text = render_job_script(spec(export=("LD_LIBRARY_PATH", "PATH")))
    (line,) = [line for line in text.splitlines() if "--export" in line]
    names = line.partition("=")[2].split(",")
    assert names.count("PATH") == 1
    assert names[-1] == "LD_LIBRARY_PATH"
    assert not {"ALL", "NONE"} & set(names)
    assert not [name for name in names if name.startswith(("DADDY_", "SLURM_JOB"))]


def test_a_module_line_finds_its_function_although_no_function_is_inherited() -> None:
    text = render_job_script(spec(setup=("module load cuda",)))
    assert text.index(". /etc/profile") < text.index("module load cuda")
    assert "/etc/profile" not in render_job_script(spec(setup=("export A=1",)))


def test_the_program_is_the_batch_process_itself(tmp_path: Path) -> None:
    """The learner must have the shell's pid: a waiting shell would not pass on signals."""
    script = tmp_path / "job.sh"
    script.write_text(render_job_script(spec(argv=("sh", "-c", "echo $$ $DADDY_JOB_ID"))))
    child = subprocess.Popen(
        ["bash", str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "17"},
    )
    told, _ = child.communicate(timeout=PATIENCE_S)
    assert told.split() == [str(child.pid), "17"]
