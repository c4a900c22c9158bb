"""Driving a sweep: with real learners, and with attempts whose ends the test decides."""

import itertools
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack

import psutil
import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.errors import (
    ConfigError,
    ControllerAliveError,
    ExitCode,
    FileError,
    NetworkError,
)
from Daddy.core.event_log import EventWriter
from Daddy.core.load_config import load_config
from Daddy.core.rank_address import RankAddress
from Daddy.search.local_executor import Follower, LocalExecutor
from Daddy.search.search_space import Range
from Daddy.search.study import Study, read_study
from Daddy.search.study_plan import StudyPlan
from Daddy.search.sweep_files import hold_sweep, read_request, sweep_paths
from Daddy.search.sweep_loop import SILENT_S, Sweep, sweep_config
from Daddy.search.sweep_request import SweepRequest
from tests.components import small_disk
from tests.patience import PATIENCE_S, until

SPACE = {"training.learning_rate": Range(1e-4, 1e-2, log=True)}
WORDS = ("run=test", "trainer.curriculum=/env/mettagrid/curriculum/arena/random")
REQUIRED = ("training completed", "evaluation results", "rollout completed")
FORBIDDEN = ("address already in use", "connection refused", "timed out", "Traceback", "error:")


@pytest.fixture
def node(tmp_path):
    """Provide a function that starts a rank of a sweep, `size` ranks in all."""
    with ExitStack() as stack:

        def start(*words, rank=0, size=1):
            port = str(20_000 + os.getpid() % 10_000)
            ranks = {"WORLD_SIZE": str(size), "RANK": str(rank), "MASTER_PORT": port}
            ranks["DADDY_TRAINING__TOTAL_STEPS"] = "10000000"  # not for the trials' learners
            argv = [sys.executable, "-m", "Daddy.sweep_node", *WORDS, "+hardware=cpu", *words]
            process = subprocess.Popen(
                argv, cwd=tmp_path, stdout=-1, stderr=-2, text=True, env={**os.environ, **ranks}
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield start


def end_of(process):
    said, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said


def learner_of(process):
    """Return the learner that a rank has started."""

    def find():
        return [
            each
            for each in psutil.Process(process.pid).children()
            if "train_slim" in str(each.cmdline())
        ]

    assert until(find, 60)
    return find()[0]


def trials_of(folder):
    return read_study(folder / "runs/sweeps/test/study.jsonl")[1]


def test_the_documents_line_runs_its_rollouts(node, tmp_path):
    code, said = end_of(node("trainer.total_timesteps=50", "--max-rollouts", "2"))
    assert code == ExitCode.DONE, said
    assert [said.count(line) for line in REQUIRED] == [2, 2, 2]
    assert not [word for word in FORBIDDEN if word in said]
    assert max(map(int, re.findall(r"completed: ([\d,]+) steps", said.replace(",", "")))) < 5000
    assert [(each.run_id, each.state) for each in trials_of(tmp_path)] == [
        ("test.r.1", "complete"),
        ("test.r.2", "complete"),
    ]
    assert all(score > 5 and cost > 0.1 for score, cost in (t.values for t in trials_of(tmp_path)))


def test_a_killed_learner_fails_its_trial_on_both_ranks_and_the_next_one_runs(node, tmp_path):
    words = ("trainer.total_timesteps=10000000", "--max-rollouts", "2")
    first, second = (node(*words, rank=rank, size=2) for rank in (0, 1))
    learners = [learner_of(first), learner_of(second)]
    assert until(
        lambda: "slot-1" in str([*tmp_path.glob("runs/sweeps/test/trials/*/events/*")]), 60
    )
    assert end_of(node(*words, rank=1, size=2))[0] == ExitCode.CONTROLLER_ALIVE
    learners[1].kill()
    said = "".join(itertools.takewhile(lambda line: "test.r.2" not in line, first.stdout))
    assert "test.r.1: FAILED: rank 1: exit code 137" in said
    assert not learners[0].is_running()
    learner_of(second)
    first.send_signal(signal.SIGINT)
    assert end_of(first)[0] == ExitCode.INTERRUPTED
    assert end_of(second)[0] == ExitCode.DONE
    assert [each.state for each in trials_of(tmp_path)] == ["failed", "running"]


def test_a_killed_driver_loses_nothing_and_the_next_goes_on_from_the_checkpoint(node, tmp_path):
    often = tmp_path / "often.json"  # checkpoints are apart by a share of the time limit
    often.write_text('{"slurm": {"time_limit": "0:00:10"}}')
    words = ("trainer.total_timesteps=10000000", "--config", often, "--max-rollouts", "1")
    driver, folder = node(*words), tmp_path / "runs/sweeps/test/trials/000001"
    learner = learner_of(driver)
    assert until(lambda: [*folder.glob("slots/0/checkpoints/*.json")], 60)
    driver.kill()
    assert until(lambda: not learner.is_running() or learner.status() == psutil.STATUS_ZOMBIE)
    second = node("--max-rollouts", "1")
    said = [second.stdout.readline() for _ in range(3)]
    assert said[2] == "test.r.1: goes on from its checkpoint\n"
    assert until(lambda: '"state":"resumed"' in _events(folder), 60)
    second.send_signal(signal.SIGTERM)
    assert end_of(second)[0] == ExitCode.INTERRUPTED
    (trial,) = trials_of(tmp_path)
    assert (trial.state, trial.attempts) == ("running", 2)


def _events(folder):
    return "".join(path.read_text() for path in folder.glob("events/*"))


@pytest.mark.parametrize("lost", ["request.json", "config.json", "study.jsonl"])
def test_a_file_that_is_lost_is_not_replaced_by_defaults(sweep, tmp_path, lost):
    sweep([7], most=1)
    paths = sweep_paths(tmp_path, "test")
    for path in (paths.request, paths.config):
        path.write_text("{}")
    (paths.root / lost).unlink()
    with pytest.raises(FileError, match=f"{lost} is lost"):
        read_request(paths)


def test_a_second_driver_is_refused(tmp_path):
    paths = sweep_paths(tmp_path, "test")
    with hold_sweep(paths), pytest.raises(ControllerAliveError), hold_sweep(paths):
        pass
    with hold_sweep(paths):
        pass


class Ends:
    """Runs attempts that end with the exit codes of `codes` once no other is started."""

    def __init__(self, codes, disk=None):
        self._codes, self._disk = iter(codes), disk
        self._running, self._seen, self.most, self.started = {}, 0, 0, []

    def start(self, attempt):
        self.started.append(attempt.name)
        self._running[attempt.name] = {0: next(self._codes)}
        self.most = max(self.most, len(self._running))
        if self._disk:
            self._disk.fill()

    def stop(self, name):
        pass

    def poll(self):
        if len(self.started) > self._seen:
            self._seen = len(self.started)
            return {}
        ended, self._running = self._running, {}
        return ended


@pytest.fixture
def sweep(tmp_path):
    """Provide a function that drives a sweep over attempts with given exit codes."""

    def drive(
        codes,
        most=10,
        jobs=1,
        disk=None,
        root=tmp_path,
        stop=lambda: None,
        prune=False,
        record=None,
        ends=None,
        clock=None,
    ):
        paths = sweep_paths(root, "test")
        paths.root.mkdir(parents=True, exist_ok=True)
        objectives = ("score",) if prune else ("score", "cost")
        plan = StudyPlan("random", objectives, prune=prune, space=SPACE, seed=0)
        study, ends, said = Study(paths.journal, plan), ends or Ends(codes, disk), []
        common = sweep_config(load_config(), SweepRequest("test", device="cpu"))
        driver = Sweep(
            paths, common, plan, study, ends, clock or SystemClock(), said.append, record
        )
        return driver.run(jobs, most, stop), study.trials(), "\n".join(said), ends

    return drive


def test_three_failures_with_one_cause_end_a_sweep(sweep):
    code, trials, said, _ = sweep(itertools.repeat(7))
    assert (code, len(trials)) == (ExitCode.PARTLY_FAILED, 3)
    assert "ended: the last 3 trials failed for one cause: exit code 7" in said


def test_the_next_driver_may_fail_as_often(sweep):
    sweep(itertools.repeat(7))
    _, trials, _, _ = sweep(itertools.repeat(7))
    assert len(trials) == 6


def test_a_policy_that_diverged_is_repeated_once(sweep):
    _, trials, said, _ = sweep([93, 93, 7, 8], most=4)
    assert [each.repeats for each in trials] == [None, 0, None, None]
    assert trials[0].settings == trials[1].settings != trials[2].settings
    assert said.count("to be repeated once") == 1


def test_a_trial_that_is_cut_off_goes_on_before_others(sweep):
    _, trials, _, ends = sweep([10, 10, 7, 8], most=2)
    assert ends.started == ["test.r.1.1", "test.r.1.2", "test.r.1.3", "test.r.2.1"]
    assert [each.attempts for each in trials] == [3, 1]


def test_as_many_trials_run_at_once_as_jobs_allow(sweep):
    _, trials, _, ends = sweep([7, 8, 9, 6, 4], most=5, jobs=3)
    assert (len(trials), ends.most) == (5, 3)


def test_a_full_disk_ends_a_sweep_and_the_trial_is_kept(sweep, tmp_path, monkeypatch):
    with small_disk(tmp_path / "disk", monkeypatch) as disk:
        code, _, said, ends = sweep(itertools.repeat(9), disk=disk, root=disk.folder)
        assert (code, ends.started) == (ExitCode.FILES, ["test.r.1.1"])
        assert "ended: the disk is full: No space left on device" in said
        disk.free()
        code, trials, said, _ = sweep([7, 8], most=2, root=disk.folder)
    assert "test.r.1: goes on from its checkpoint" in said
    assert (code, len(trials)) == (ExitCode.PARTLY_FAILED, 2)


@pytest.mark.parametrize(("prune", "outcome"), [(False, "failed"), (True, "pruned")])
def test_each_trial_is_recorded_once_at_its_end(sweep, monkeypatch, prune, outcome):
    monkeypatch.setattr(Sweep, "_is_hopeless", lambda *_: True)
    ended = []
    codes = [10, 10] if prune else [10, 7, 8]
    _, trials, _, _ = sweep(
        codes, most=2, prune=prune, record=lambda *each: ended.append((each[0].run_id, each[2]))
    )
    assert [(name, verdict.outcome) for name, verdict in ended] == [
        ("test.r.1", outcome),
        ("test.r.2", outcome),
    ]
    assert [each.state for each in trials] == [outcome, outcome]


def test_settings_that_do_not_go_together_fail_their_trial(sweep, monkeypatch):
    def refuse(*_):
        raise ConfigError("training.clip is 0", "choose more")

    monkeypatch.setattr("Daddy.search.sweep_loop.trial_config", refuse)
    code, trials, _, ends = sweep([], most=2)
    assert (code, len(trials), ends.started) == (ExitCode.PARTLY_FAILED, 2, [])


class FastClock(SystemClock):
    """Counts waits of the driver as a minute each."""

    passed = 0.0

    def monotonic(self):
        return self.passed

    def wait(self, stop, seconds):
        self.passed += 60.0
        return stop.is_set()


class Silent(Ends):
    """Runs attempts of which the first writes an event, then hangs until it is stopped."""

    stopped_at = None

    def start(self, attempt):
        super().start(attempt)
        self.folder = attempt.folder / "events"

    def stop(self, name):
        self.stopped_at = self.clock.passed

    def poll(self):
        if len(self.started) == 1 and self.stopped_at is None:
            if self.clock.passed == 60.0:
                writer = EventWriter(self.folder, "a", "cartpole", "learner", "slot-0", self.clock)
                writer.write("metric", 1, {})
            return {}
        return super().poll()


def test_an_attempt_that_wrote_events_and_then_none_is_stopped_and_goes_on(sweep):
    ends = Silent([137, 7])
    clock = ends.clock = FastClock()
    too_late = lambda: "too late" if clock.passed > 2 * SILENT_S else None  # noqa: E731
    _, trials, said, _ = sweep([], most=1, ends=ends, clock=clock, stop=too_late)
    assert SILENT_S < ends.stopped_at < SILENT_S + 300
    assert "test.r.1: stopped: no event for 600 s" in said
    assert ends.started == ["test.r.1.1", "test.r.1.2"]
    assert (len(trials), trials[0].attempts) == (1, 2)


def test_a_sweep_without_an_end_stops_when_asked(sweep):
    asked = iter([None] * 20)
    codes = itertools.cycle([7, 8])
    code, trials, _, _ = sweep(codes, most=0, stop=lambda: next(asked, "signal SIGTERM"))
    assert code == ExitCode.INTERRUPTED
    assert trials


class DamagingClock(FastClock):
    """Writes `text` into `path` at each wait of the driver or of a follower."""

    def __init__(self, path, text):
        self._path, self._text = path, text

    def wait(self, stop, seconds):
        self._path.write_text(self._text)
        return super().wait(stop, seconds)


ATTEMPT = '{"size": 2, "attempts": {"test.r.1.1": {"run_id": %s, "port": 1, "followers": %s}}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"beat": 2, "ended": true}',
        '{"beat": [], "size": 3, "attempts": {}, "token": "new"}',
        '{"size": "two", "attempts": {}, "token": 2}',
        '{"size": 2, "attempts": ["test.r.1.1"], "token": "new"}',
        '{"size": 2, "attempts": {"test.r.1.1": "0"}, "token": null}',
        ATTEMPT % ('"test.r.1"', '["mine"]'),
        ATTEMPT % ('"../.."', '{"1": "mine"}'),
        ATTEMPT % ('"test.r.1"', '{"1": "mine"}') + " " * (1 << 16),
    ],
)
def test_a_damaged_file_of_another_rank_counts_as_unchanged(tmp_path, text):
    paths, ranks = sweep_paths(tmp_path, "test"), RankAddress(0, 2)
    paths.driver.parent.mkdir(parents=True)
    paths.driver.write_text('{"beat": 1, "size": 3, "attempts": {}, "ended": true}')
    follower = Follower(paths, RankAddress(1, 2), "mine", {}, DamagingClock(paths.driver, text))
    with pytest.raises(NetworkError, match="rank 0 has not been heard of"):
        follower.follow(lambda: None)
    driver = LocalExecutor(paths, ranks, {}, DamagingClock(paths.rank_file(1), text))
    with pytest.raises(NetworkError, match="rank 1 of 2 did not come"):
        driver.join(lambda _: None, lambda: None)
