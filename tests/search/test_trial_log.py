"""Reading the events of a trial's learners."""

from Daddy.core.clock import SystemClock
from Daddy.core.event_log import EventWriter
from Daddy.search.trial_log import TrialLog


def write(folder, rank, event, step, data):
    clock = SystemClock()
    EventWriter(folder / "events", "a.r.1", "cartpole", "learner", f"slot-{rank}", clock).write(
        event, step, data
    )


def test_episodes_and_cpu_seconds_of_all_ranks_and_attempts_are_summed(tmp_path):
    log = TrialLog(tmp_path)
    assert log.read().steps == 0
    for rank in (0, 1):
        episodes = {"result": "episodes", "returns": [10.0 + rank], "lengths": [10]}
        write(tmp_path, rank, "result", 50, episodes)
        write(tmp_path, rank, "result", 60, {"result": "training", "cpu_seconds": 1.5})
    training = log.read()
    assert sorted(training.episodes) == [(50, 10.0), (50, 11.0)]
    assert (training.steps, training.cpu_seconds) == (60, 3.0)


def test_a_rank_that_was_killed_has_no_reason_of_an_earlier_attempt(tmp_path):
    goodbye = {"state": "goodbye", "reason": "signal SIGTERM", "exit_code": 10}
    write(tmp_path, 0, "state", 50, goodbye)
    log = TrialLog(tmp_path)
    log.read()
    assert log.reasons({0: 10}) == {0: "signal SIGTERM"}
    assert log.reasons({0: 137}) == {}
