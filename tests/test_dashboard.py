import re
from dataclasses import replace

import pytest
from rich.console import Console

from Daddy.cluster.orchestrator import ledger_file
from Daddy.cluster.orchestrator.commands.status import read_status
from Daddy.cluster.orchestrator.control_files import write_intent
from Daddy.cluster.orchestrator.controller_types import DesiredRun, Mode
from Daddy.core.atomic_files import append_line, write_json
from Daddy.core.clock import SystemClock
from Daddy.core.event_log import EventWriter
from Daddy.core.humanize import format_time
from Daddy.core.load_config import config_to_json
from Daddy.core.run_paths import RunPaths
from Daddy.dashboard import Episode, RunView, add_events, learning_curve
from tests.cluster.commands.test_status_screen import CLOCK, jobs, looking_at
from tests.cluster.commands.test_status_screen import run as slots  # noqa: F401 - a fixture
from tests.cluster.conftest import config_of


def event(ts, kind, ident, name, data, step=0):
    source = {"kind": kind, "id": ident, "index": 0}
    return {"v": 1, "ts": ts, "source": source, "event": name, "step": step, "data": data}


def job(token, slot, term, started, goodbye):
    says = [
        (started, {"state": "started", "token": token, "job_id": f"j-{token}"}),
        (started + 1, {"state": "claimed", "token": token, "slot": slot, "term": term}),
        (started + 4, {"state": "first_update", "token": token}),
    ]
    if goodbye is not None:
        ending = {"state": "goodbye", "token": token, "reason": "wall time", "exit_code": 10}
        says.append((goodbye, ending))
    return [event(ts, "learner", f"slot-{slot}", "state", data) for ts, data in says]


def test_a_hand_over_is_measured_from_goodbye_to_the_successors_first_line():
    fleet = add_events([*job("b", 0, 2, 53.0, None), *job("a", 0, 1, 1.0, 50.0)])
    (passed,) = fleet.handovers()
    assert (passed.slot, passed.gap_s) == (0, 3.0)
    assert fleet.attempts["b"].time_of("goodbye") is None
    assert fleet.attempts["a"].facts_of("goodbye")["exit_code"] == 10


def test_a_killed_predecessor_makes_no_hand_over():
    fleet = add_events([*job("a", 0, 1, 1.0, None), *job("b", 0, 2, 53.0, None)])
    assert fleet.handovers() == []


def test_a_job_that_found_no_slot_fills_none():
    says = {"state": "started", "token": "c", "job_id": "9"}
    fleet = add_events([event(1.0, "learner", "job-9", "state", says)])
    assert fleet.attempts["c"].slot is None
    assert fleet.in_slot(0) == []


def test_episodes_frames_and_versions_are_gathered():
    episodes = {"result": "episodes", "returns": [1.0, 3.0], "lengths": [256, 256]}
    fleet = add_events(
        [
            event(5.0, "learner", "slot-1", "result", episodes),
            event(6.0, "actor", "anna", "state", {"state": "playing", "version": 3}),
            event(6.0, "viewer", "x", "metric", {"frames": {"a": 4}, "transport": "ssh-R"}),
            event(7.0, "viewer", "x", "metric", {"frames": {"a": 2, "b": 1}}),
            event(7.5, "viewer", "x", "metric", {"frames": {"a": 0, "b": 2}}),
            event(8.0, "laptop", "anna", "state", {"state": "pulled", "transport": "rsync+ssh"}),
        ]
    )
    assert [episode.value for episode in fleet.episodes] == [1.0, 3.0]
    assert fleet.viewer.frames.total() == 9
    assert fleet.viewer.live == {"b"}
    assert (fleet.viewer.transport, fleet.laptop.transport) == ("ssh-R", "rsync+ssh")
    assert fleet.laptop.versions == [3]


def picture(view):
    console = Console(width=200, color_system=None)
    with console.capture() as text:
        console.print(view.refresh().renderable(200))
    return text.get()


def test_the_picture_has_the_status_of_the_run_and_asks_no_scheduler(slots, tmp_path):  # noqa: F811
    slots.config.write_bytes(config_to_json(config_of(tmp_path, run_dir=str(slots.root))))
    shown = picture(RunView(slots, SystemClock()))
    assert "does not ask the scheduler" in shown
    assert "2 of 2 slots have a heartbeat" in shown
    assert "no episode has ended yet" in shown


def test_a_folder_in_which_nothing_was_started_has_a_picture_too(tmp_path):
    assert "no job was started yet" in picture(RunView(RunPaths(tmp_path), SystemClock()))


def by_hand(events):
    """The events of a learner that was started without a controller."""
    write = EventWriter(events, "run", "cartpole", "learner", "slot-1", SystemClock()).write
    write("state", 0, {"state": "claimed", "token": "a", "slot": 1})
    write("state", 9, {"state": "adopted", "token": "a", "version": 3})
    write("metric", 9, {"steps_per_second": 1234.0, "version": 4.0})


def test_a_learner_started_by_hand_is_shown_by_its_events(tmp_path):
    run = RunPaths(tmp_path)
    by_hand(run.events)
    view = RunView(run, SystemClock())
    assert "slot 1 adopted: version 4, 1,234 steps/s, 0 s ago" in picture(view)
    write = EventWriter(run.events, "run", "cartpole", "learner", "slot-1", SystemClock()).write
    write("state", 0, {"state": "claimed", "token": "b", "slot": 1})
    assert "slot 1 claimed: version 0, 0 steps/s" in picture(view), "a successor has told nothing"


@pytest.mark.parametrize("text", ["{", '{"training": {"num_envs": "many"}}'])
def test_a_damaged_configuration_is_told_above_what_events_tell(tmp_path, text):
    run = RunPaths(tmp_path)
    by_hand(run.events)
    run.config.write_text(text)
    shown = picture(RunView(run, SystemClock()))
    assert "config.json" in shown
    assert "slot 1 adopted" in shown


def test_mode_and_reason_are_the_intents_where_the_summary_is_old(slots):  # noqa: F811
    config = config_of(slots.root, run_dir=str(slots.root))
    summary = read_status(slots, config, looking_at(slots, jobs()), CLOCK)
    write_json(slots.status, {**summary, "ts": CLOCK.now() - 7200, "wake_ts": 0.0})
    write_intent(
        slots, DesiredRun(Mode.DONE, 2, "slurm", "r1", reason="all was learnt"), CLOCK.now()
    )
    view = RunView(slots, SystemClock())
    assert re.search(r"the run finished at .+: all was learnt", picture(view))
    assert view.status["mode"] == "done"
    assert [slot["job_id"] for slot in view.status["slots"]] == [101, 102]


def test_a_stopped_run_says_since_when_and_announces_no_hand_over(slots):  # noqa: F811
    slots.config.write_bytes(config_to_json(config_of(slots.root, run_dir=str(slots.root))))
    stopped = DesiredRun(Mode.DRAIN, 2, "slurm", "r1", reason="stop was typed")
    write_intent(slots, stopped, CLOCK.now())
    assert "hands over" not in picture(RunView(slots, SystemClock()))
    stopped_ts = CLOCK.now() - 3 * 3600
    write_intent(slots, replace(stopped, mode=Mode.STOPPED), stopped_ts)
    since = format_time(stopped_ts, CLOCK.now())
    shown = picture(RunView(slots, SystemClock()))
    assert f"the run was stopped at {since}, as asked" in shown
    assert "hands over" not in shown


def test_a_ledger_is_read_again_only_once_it_grew(slots, monkeypatch):  # noqa: F811
    slots.config.write_bytes(config_to_json(config_of(slots.root, run_dir=str(slots.root))))
    reads = []
    monkeypatch.setattr(ledger_file, "read_entries", lambda path: reads.append(path) or iter(()))
    view = RunView(slots, SystemClock()).refresh().refresh()
    assert len(reads) == 1
    append_line(slots.ledger, "{}")
    view.refresh()
    assert len(reads) == 2


def test_the_curve_is_of_means_in_the_order_in_which_episodes_ended():
    episodes = [Episode(float(ts), "slot-0", float(ts)) for ts in reversed(range(96))]
    assert learning_curve(episodes)[:2] == [0.5, 2.5]
    assert len(learning_curve(episodes)) == 48
