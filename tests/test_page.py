import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.event_log import EventWriter
from scripts import page


@pytest.fixture
def run(tmp_path):
    for slot in range(2):
        writer = EventWriter(
            tmp_path / "events", "r", "pokemon_red", "learner", f"slot-{slot}", SystemClock()
        )
        writer.write("state", 0, {"state": "started", "token": f"t{slot}", "job_id": "1"})
        for step in range(64, 6400, 64):
            row = {"entropy": 1.9, "steps_per_second": 100.0, "episode_return": step / 100}
            if slot == 0:  # the other is of an older release
                row |= {"emulation_share": 0.7, "inference_share": 0.1, "learning_share": 0.15}
                row |= {"loop_share": 0.2, "coverage": step / 10}
            writer.write("metric", step, row)
        writer.write("progress", 640, {"milestone": "beat_brock"})
    return tmp_path


def test_a_runs_page_is_drawn_from_its_events_alone(run):
    assert page.main([str(run)]) == 0
    drawn = (run / "page.png").read_bytes()
    assert drawn[:8] == b"\x89PNG\r\n\x1a\n"
    assert page.Rows(run / "events").mean("emulation_share") == pytest.approx(0.7)


def test_a_folder_without_a_learners_metrics_is_refused_by_name(tmp_path, capsys):
    from Daddy.core.entry_point import run_entry

    (tmp_path / "events").mkdir()
    assert run_entry(page.main, [str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_of_a_milestone_the_first_to_reach_it_counts_in_whatever_order_files_are_read(tmp_path):
    for peer, ts, step in (("slot-1", 50.0, 900), ("slot-0", 20.0, 4000), ("slot-2", 30.0, 10)):
        clock = SystemClock()
        clock.now = lambda ts=ts: ts
        writer = EventWriter(tmp_path, "r", "pokemon_red", "learner", peer, clock)
        writer.write("progress", step, {"milestone": "beat_brock"})
    found = page.first_reached(tmp_path)
    assert list(found) == ["beat_brock"]
    first = found["beat_brock"]
    assert (first["ts"], first["source"]["id"], first["step"]) == (20.0, "slot-0", 4000)
