"""Tests the Slurm scheduler with programs that print scripted answers."""

import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from Daddy.cluster.orchestrator.action_types import Amend
from Daddy.cluster.orchestrator.controller_types import Snapshot
from Daddy.cluster.orchestrator.scheduler_factory import make_scheduler
from Daddy.cluster.orchestrator.scheduler_interface import (
    JobRef,
    JobSpec,
    Refused,
    Submitted,
    Unanswered,
)
from Daddy.cluster.orchestrator.slurm_scheduler import (
    SlurmScheduler,
    amend_commands,
    is_same_job,
    parse_sbatch_answer,
)
from Daddy.cluster.orchestrator.slurm_squeue import FIELDS
from Daddy.core.clock import SystemClock
from Daddy.core.errors import SchedulerError
from Daddy.core.run_paths import RunPaths
from Daddy.core.run_subprocess import Completed
from Daddy.core.settings import Config, ControllerSettings
from tests.cluster.test_slurm_squeue import USUAL, line

RUN, TOKEN = "slim_run-0fed50", "0123456789ab"
NAME = f"daddy-{RUN}-{TOKEN}"

PROGRAM = """#!{python} -IS
import json, pathlib, sys
folder, name = pathlib.Path({folder!r}), pathlib.Path(sys.argv[0]).name
with open(folder / "log", "a") as log:
    log.write(" ".join([name, *sys.argv[1:]]) + "\\n")
verb = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
answers = json.loads((folder / "answers").read_text())
code, out, err = answers.get(f"{{name}} {{verb}}", answers.get(name, [0, "", ""]))
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""


class ScriptedSlurm:
    """A folder of Slurm commands with scripted answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("sbatch", "squeue", "scancel", "scontrol", "sacct", "sacctmgr", "sinfo"):
            path = folder / name
            path.write_text(PROGRAM.format(python=sys.executable, folder=str(folder)))
            path.chmod(0o755)
        self.answers: dict[str, list[object]] = {}
        self.says()

    def says(self, **answers: tuple[int, str, str]) -> None:
        self.answers |= {name.replace("_", " "): list(answer) for name, answer in answers.items()}
        (self.folder / "answers").write_text(json.dumps(self.answers))

    @property
    def heard(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedSlurm:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return ScriptedSlurm(folder)


@pytest.fixture
def scheduler(paper: ScriptedSlurm, tmp_path: Path) -> SlurmScheduler:
    request = {"partition": "gpu-linuxlab", "gres": "gpu:1"}
    calls = tmp_path / "calls"
    return SlurmScheduler(RUN, SystemClock(), calls=calls, request=request, user_id=1000)


def spec(folder: Path) -> JobSpec:
    return JobSpec(
        token=TOKEN,
        number=12,
        run_id=RUN,
        argv=("true",),
        environment={},
        work_dir=folder,
        logs=folder,
        script=folder / "job.sbatch",
        time_limit_s=14_400,
        warn_s=180,
        request={"partition": "gpu-linuxlab", "gres": "gpu:1"},
    )


def row(**changes: str) -> str:
    facts: Mapping[str, str] = {**USUAL, **changes}
    return line(*(facts[name] for name in FIELDS)) + "\n"


def look(scheduler: SlurmScheduler) -> Snapshot:
    seen = scheduler.snapshot()
    assert isinstance(seen, Snapshot), seen
    return seen


def test_one_look_is_one_command(scheduler: SlurmScheduler, paper: ScriptedSlurm) -> None:
    paper.says(squeue=(0, row(), ""))
    assert [job.token for job in look(scheduler).jobs] == [TOKEN]
    assert len(paper.heard) == 1


def test_closed_partitions_are_asked_for_seldom_and_only_while_a_job_waits(
    scheduler: SlurmScheduler, paper: ScriptedSlurm
) -> None:
    paper.says(squeue=(0, row(), ""), sinfo=(0, "gpu-linuxlab*|down|idle\n", ""))
    assert look(scheduler).closed == ""
    paper.says(squeue=(0, row(State="PENDING", Reason="Dependency"), ""))
    closed = [look(scheduler).closed for _ in range(3)]
    assert closed == ["partition gpu-linuxlab is down"] * 3
    asked = "sinfo --noheader --all --format=%P|%a|%T"
    assert [line for line in paper.heard if line.startswith("sinfo")] == [asked]
    scheduler.closed_reused_s = 0.0
    paper.says(sinfo=(1, "", "sinfo: error: Unable to contact slurm controller"))
    assert look(scheduler).closed == ""
    assert len([line for line in paper.heard if line.startswith("sinfo")]) == 2


@pytest.mark.parametrize(("poll_s", "reused_s"), [(1.0, 2.0), (30.0, 60.0), (3600.0, 60.0)])
def test_closed_partitions_are_read_again_after_two_polls_or_a_minute(
    tmp_path: Path, poll_s: float, reused_s: float
) -> None:
    config = Config(run_dir=str(tmp_path), controller=ControllerSettings(poll_seconds=poll_s))
    scheduler = make_scheduler("slurm", config, RunPaths(tmp_path), SystemClock())
    assert isinstance(scheduler, SlurmScheduler)
    assert scheduler.closed_reused_s == reused_s


def test_reservations_are_asked_for_only_when_a_job_waits_for_one_and_then_seldom(
    scheduler: SlurmScheduler, paper: ScriptedSlurm
) -> None:
    waiting = {"State": "PENDING", "Reason": "ReqNodeNotAvail, Reserved for maintenance"}
    reservation = "ReservationName=m StartTime=4000000000 EndTime=4000003600 Flags=MAINT\n"
    paper.says(squeue=(0, row(), ""), scontrol=(0, reservation, ""))
    assert look(scheduler).maintenance_ts is None
    paper.says(squeue=(0, row(**waiting), ""))
    assert [look(scheduler).maintenance_ts for _ in range(3)] == [4000000000.0] * 3
    assert [line for line in paper.heard if line.startswith("scontrol")] == [
        "scontrol --oneliner show reservation"
    ]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((0, "17;cluster\n", ""), Submitted),
        ((0, "", "sbatch: warning\n"), Unanswered),
        ((1, "", "sbatch: error: Batch job submission failed: Socket timed out\n"), Unanswered),
        ((1, "", "sbatch: error: QOSMaxSubmitJobPerUserLimit\n"), Refused),
        ((1, "", ""), Unanswered),
    ],
)
def test_the_three_answers(
    scheduler: SlurmScheduler, paper: ScriptedSlurm, tmp_path: Path, answer: Any, kind: type
) -> None:
    paper.says(sbatch=answer)
    assert isinstance(scheduler.submit(spec(tmp_path)), kind)


def test_a_waiting_job_is_changed_only_when_id_and_token_fit(
    scheduler: SlurmScheduler, paper: ScriptedSlurm
) -> None:
    paper.says(scontrol_show=(0, f"JobId=17 JobName={NAME} UserId=me(1000) QOS=students\n", ""))
    change = Amend(TOKEN, 17, "a node is bad", exclude=("n1", "n2"))
    scheduler.amend(JobRef(17, TOKEN), change)
    assert paper.heard[1:] == ["scontrol update JobId=17 ExcNodeList=n1,n2"]
    with pytest.raises(SchedulerError, match="not ours"):
        scheduler.amend(JobRef(17, "f" * 12), change)
    assert len([line for line in paper.heard if "update" in line]) == 1


def test_a_change_that_slurm_refuses_is_an_error_in_its_words(
    scheduler: SlurmScheduler, paper: ScriptedSlurm
) -> None:
    paper.says(
        scontrol_show=(0, f"JobId=17 JobName={NAME} UserId=me(1000)\n", ""),
        scontrol_update=(1, "", "Access/permission denied for job 17\n"),
    )
    with pytest.raises(SchedulerError, match="permission denied"):
        scheduler.amend(JobRef(17, TOKEN), Amend(TOKEN, 17, "why", limit_s=600))


def test_to_cancel_what_is_gone_is_no_error(
    scheduler: SlurmScheduler, paper: ScriptedSlurm
) -> None:
    gone = "scancel: error: Kill job error on job id 17: Invalid job id specified\n"
    paper.says(scancel=(1, "", gone))
    scheduler.cancel(JobRef(17, TOKEN))
    scheduler.signal(JobRef(17, TOKEN))
    assert paper.heard == [
        f"scancel --name={NAME} 17",
        f"scancel --signal=USR1 --batch --name={NAME} 17",
    ]
    paper.says(scancel=(1, "", "scancel: error: Unable to contact slurm controller\n"))
    with pytest.raises(SchedulerError, match="Unable to contact"):
        scheduler.cancel(JobRef(17, TOKEN))


def test_sacct_is_asked_once_where_there_is_no_accounting(
    scheduler: SlurmScheduler, paper: ScriptedSlurm
) -> None:
    paper.says(sacct=(1, "", "Slurm accounting storage is disabled\n"))
    for _ in range(3):
        assert scheduler.read_ended_jobs([JobRef(17, TOKEN)]) == ()
    assert len(paper.heard) == 1
    assert scheduler.read_ended_jobs([]) == ()


class ManualClock(SystemClock):
    """A clock that the test advances, with waits that take no time."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self.ahead += seconds
        return stop.is_set()


def test_sacct_that_fails_is_left_alone_for_minutes_and_asked_again(paper: ScriptedSlurm) -> None:
    clock = ManualClock()
    scheduler = SlurmScheduler(RUN, clock, user_id=1000)
    paper.says(sacct=(1, "", "sacct: error: Problem talking to the database\n"))
    assert [scheduler.read_ended_jobs([JobRef(17, TOKEN)]) for _ in range(3)] == [()] * 3
    assert len(paper.heard) == 1
    clock.ahead += 301
    paper.says(sacct=(0, f"17|{NAME}|CANCELLED by 0|0:15|1795287306|1795287328|n1|2G|\n", ""))
    (job,) = scheduler.read_ended_jobs([JobRef(17, TOKEN)])
    assert job.canceller == 0


def test_an_end_that_the_database_has_not_heard_of_is_asked_for_twice(paper: ScriptedSlurm) -> None:
    paper.says(sacct=(0, f"17|{NAME}|RUNNING|0:0|1795287306|Unknown|n1|2G|\n", ""))
    assert (
        SlurmScheduler(RUN, ManualClock(), user_id=1000).read_ended_jobs([JobRef(17, TOKEN)]) == ()
    )
    assert len(paper.heard) == 2


def test_a_node_that_is_drained_just_after_the_job_ended_is_asked_for_twice(
    paper: ScriptedSlurm,
) -> None:
    clock = ManualClock()
    scheduler = SlurmScheduler(RUN, clock, user_id=1000)
    waited = clock.wait

    def wait(stop: threading.Event, seconds: float) -> bool:
        paper.says(sinfo=(0, "n1|Prolog error\nn1|Prolog error\n", ""))
        return waited(stop, seconds)

    clock.wait = wait  # type: ignore[method-assign]
    assert scheduler.read_drained_nodes(["n2", "n1"]) == {"n1": "Prolog error"}
    asked = "sinfo --Node --noheader --all --states=drain --format=%N|%E --nodes=n1,n2"
    assert paper.heard == [asked] * 2
    paper.says(sinfo=(0, "n1|a \x1b[2J screen | and a bar\n", ""))
    assert scheduler.read_drained_nodes(["n1"]) == {"n1": "a ?[2J screen | and a bar"}
    paper.says(sinfo=(1, "", "slurm_load_node: Unable to contact slurm controller\n"))
    assert scheduler.read_drained_nodes(["n1"]) == {}
    assert len(paper.heard) == 4


def test_a_database_that_hangs_does_not_hold_up_the_start(paper: ScriptedSlurm) -> None:
    """The time limit of each query is the time that earlier ones left."""
    clock = ManualClock()
    config = "AccountingStorageEnforce = limits\n"
    paper.says(scontrol_show=(0, config, ""), sacctmgr=(1, "", "slurmdbd: timeout\n"))
    scheduler = SlurmScheduler(RUN, clock, request={"partition": "gpu-linuxlab"}, user_id=1000)
    run = scheduler.commands.run

    def slow(argv: Sequence[str], timeout_s: float) -> Completed:
        clock.ahead += 8.0
        assert timeout_s <= 15.0
        return run(argv, timeout_s)

    scheduler.commands.run = slow  # type: ignore[method-assign]
    site, _ = scheduler.read_limits()
    assert (site.max_running, len(paper.heard)) == (None, 2)


def test_the_jobs_own_question_counts_too(
    scheduler: SlurmScheduler, paper: ScriptedSlurm, tmp_path: Path
) -> None:
    paper.says(sbatch=(0, "17\n", ""))
    scheduler.submit(spec(tmp_path))
    (path,) = (tmp_path / "calls").iterdir()
    assert [line.split()[1] for line in path.read_text().splitlines()] == ["sbatch", "squeue"]


@pytest.mark.parametrize(
    ("printed", "answer"),
    [
        ("17\n", Submitted(17)),
        ("17;cluster\n", Submitted(17)),
        ("Welcome to the cluster\n17\n", Submitted(17)),
        ("17\nYour quota is 90 % used\n", Submitted(17)),
        ("", Unanswered("exit code 0 without a message")),
        ("Submitted batch job 17\n", Unanswered("exit code 0 without a message")),
    ],
)
def test_the_id_in_what_sbatch_prints(printed: str, answer: object) -> None:
    assert parse_sbatch_answer(Completed(0, printed, "")) == answer


def refusal(words: str) -> object:
    return parse_sbatch_answer(Completed(1, "", words))


def test_a_time_out_is_no_answer_and_a_refusal_is() -> None:
    failed = "sbatch: error: Batch job submission failed: "
    timeout = f"{failed}Socket timed out on send/recv operation"
    policy = f"{failed}Job violates accounting/QOS policy"
    nowhere = "sbatch: error: invalid partition specified: nope"
    limit = "sbatch: error: QOSMaxSubmitJobPerUserLimit"
    assert refusal(timeout) == Unanswered(timeout)
    assert refusal("") == Unanswered("exit code 1 without a message")
    assert refusal(policy) == Refused(policy)
    assert refusal(limit) == Refused(limit, too_many_waiting=True)
    assert refusal(nowhere) == Refused(f"{nowhere} (see slurm.partition)", permanent=True)
    ended = f"{failed}Requested reservation is invalid"
    assert refusal(ended) == Refused(f"{ended} (see slurm.reservation)", permanent=True)
    unknown = "/usr/bin/sbatch: unrecognized option '--foo=3'\nTry \"sbatch --help\""
    assert refusal(unknown) == Refused(
        "/usr/bin/sbatch: unrecognized option '--foo=3' (see slurm.options)", permanent=True
    )


JOB = f"JobId=17 JobName={NAME} UserId=root(0) GroupId=root(0) QOS=students"


def test_a_job_is_ours_by_id_and_name_together() -> None:
    assert is_same_job(JOB, 17, NAME)
    assert not is_same_job(JOB, 18, NAME)
    assert not is_same_job(JOB, 17, f"daddy-{RUN}-ffffffffffff")
    assert not is_same_job("", 17, NAME)


@pytest.mark.parametrize(
    ("change", "commands"),
    [
        ({"exclude": ("n1", "n2")}, ["update JobId=17 ExcNodeList=n1,n2"]),
        ({"exclude": ()}, ["update JobId=17 ExcNodeList="]),
        ({"limit_s": 3700}, ["update JobId=17 TimeLimit=61"]),
        ({"hold": True}, ["uhold 17"]),
        ({"hold": False, "limit_s": 10}, ["update JobId=17 TimeLimit=1", "release 17"]),
        ({}, []),
    ],
)
def test_how_a_waiting_job_is_changed(change: dict[str, object], commands: list[str]) -> None:
    made = amend_commands(17, Amend("0123456789ab", 17, "because", **change))
    assert [" ".join(argv) for argv in made] == [f"scontrol {words}" for words in commands]
