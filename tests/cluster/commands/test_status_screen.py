"""The status screen."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from Daddy.cluster.orchestrator import controller_lease
from Daddy.cluster.orchestrator.commands.plan import make_summary
from Daddy.cluster.orchestrator.commands.status import Summarise, read_status
from Daddy.cluster.orchestrator.commands.status_screen import WIDE, render_screen
from Daddy.cluster.orchestrator.control_files import (
    DesiredRun,
    Probe,
    write_intent,
    write_probe,
)
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    JobState,
    Mode,
    QueueJob,
    QueueReading,
    Snapshot,
    UnknownQueue,
    WaitReason,
)
from Daddy.cluster.orchestrator.ledger_file import LedgerFile
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry
from Daddy.core.atomic_files import write_json
from Daddy.core.clock import SystemClock
from Daddy.core.lease import Lease
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config

CLOCK = SystemClock()
TOKENS = [f"{number:012x}" for number in range(1, 6)]


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """Provide a run with slots 0 and 1 training, two successors waiting, one crashed attempt."""
    run, now = RunPaths(tmp_path), CLOCK.now()
    write_intent(run, DesiredRun(Mode.RUN, 2, "slurm", "r1", "the free cartridge"), now)
    ledger = LedgerFile(run.ledger, 1)
    ledger.append(LedgerEntry("start", now - 7200))
    ledger.append(LedgerEntry("learnt", now, data={"site": {"max_running": 2, "enforced": True}}))
    for number, token in enumerate(TOKENS, 1):
        ledger.append(LedgerEntry("intent", now - 7200, token, {"number": number, "release": "r1"}))
        ledger.append(LedgerEntry("submitted", now - 7200, token, {"job_id": 100 + number}))
    for slot in (0, 1):
        ledger.append(LedgerEntry("started", now - 3600, TOKENS[slot], {"started_ts": now - 3600}))
        ledger.append(LedgerEntry("claimed", now - 3600, TOKENS[slot], {"slot": slot, "term": 1}))
        Lease.acquire(run.slot(slot).lease, {"token": TOKENS[slot], "job_id": str(101 + slot)})
        beat = {"term": 1, "counter": 3, "steps_per_second": 1234.5, "boot_s": 7.25}
        write_json(run.slot(slot).lease / "beat.json", {**beat, "leaves_in_s": 900 + slot})
        write_json(run.slot(slot).checkpoints / "t000001-s000000512000.json", {})
    ended = {"outcome": "crashed", "reason": "exit code 1: out of memory", "exit_code": 1}
    ledger.append(LedgerEntry("ended", now - 60, TOKENS[4], ended))
    controller_lease.become_controller(run, CLOCK)
    return run


def jobs() -> Snapshot:
    now = CLOCK.now()
    running = [
        QueueJob(101 + n, TOKENS[n], JobState.RUNNING, "RUNNING", node=f"n{n}", ends_ts=now + 3600)
        for n in (0, 1)
    ]
    ready = QueueJob(
        103, TOKENS[2], JobState.PENDING, "PENDING", "AssocMaxJobsLimit", wait_reason=WaitReason.CAP
    )
    later = QueueJob(
        104, TOKENS[3], JobState.PENDING, "PENDING", "Priority", expected_ts=now + 7200
    )
    return Snapshot(now, (*running, ready, later))


def looking_at(run: RunPaths, seen: QueueReading) -> Summarise:
    return partial(make_summary, run, seen, ControllerPolicy(max_running=2), CLOCK)


def screen(run: RunPaths, seen: QueueReading, width: int = 160, **changes: Any) -> str:
    config = Config.model_validate({"run_dir": str(run.root)})
    told = read_status(run, config, looking_at(run, seen), CLOCK)
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as text:
        console.print(render_screen("slim_run", {**told, **changes}, CLOCK.now(), width))
    return "\n".join(line.rstrip() for line in text.get().splitlines())


def line_of(text: str, word: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith(word))


def test_the_first_line_says_that_all_is_well(run: RunPaths) -> None:
    text = screen(run, jobs())
    assert text.startswith("● slim_run: all is well: 2 of 2 slots train")
    assert "\x1b" not in text


def test_each_slot_tells_job_node_rate_time_checkpoint_beat_and_successor(run: RunPaths) -> None:
    line = re.sub(r"\s+", " ", line_of(screen(run, jobs()), "0 "))
    assert re.fullmatch(
        r" ?0 trains 101 n0 60 min 60 min 1,23[45] 15 min \d s ago at 512,000 \d s "
        r"103 is ready, waited 2 h",
        line,
    ), line
    line = line_of(screen(run, jobs()), "1 ")
    assert re.search(r"104 waits its turn \(Priority\), expected \d\d:\d\d, waited 2 h", line)


def test_the_fleet_tells_hours_boot_chaining_controller_and_game(run: RunPaths) -> None:
    text = screen(run, jobs(), calls_today=1032)
    assert "of 4.000 GPU-hours; jobs boot in 7.2 s" in line_of(text, "GPU time")
    assert "used in the last 2 h" in line_of(text, "GPU time")
    assert "successors: pool (the site keeps jobs" in line_of(text, "queue")
    assert "1,032 scheduler calls today" in line_of(text, "control")
    assert "the free cartridge, release r1" in line_of(text, "plays")
    assert "slot 0 hands over in 15 min" in line_of(text, "next")
    assert "crashed: exit code 1: out of memory" in line_of(text, "last")


def test_the_line_to_watch_by_has_the_host_where_the_relay_said_it_is(run: RunPaths) -> None:
    assert "watch" not in screen(run, jobs())
    run.stream.mkdir()
    write_json(run.relay, {"v": 1, "host": "login2.cluster.edu", "port": 9998})
    line = line_of(screen(run, jobs()), "watch")
    assert re.search(r"watch +ssh -N -R 9998:localhost:9998 [^@ ]+@login2\.cluster\.edu$", line)
    whole = "".join(screen(run, jobs()).split())  # the line is folded
    assert "SYNC_CLUSTER_HOST=login2.cluster.eduSYNC_REMOTE_DIR=/" in whole
    assert "/shared_weights./Daddy/cluster/sync_weights.shsetup" in whole
    run.relay.write_text('{"v": 1, "host": "login2", "port": "a\\nline"}')
    assert "watch " not in screen(run, jobs())


@pytest.mark.parametrize("width", [40, 50, 60, 72, 80])
def test_columns_go_where_room_lacks_and_no_number_is_cut(run: RunPaths, width: int) -> None:
    text = screen(run, jobs(), width)
    assert max(len(line) for line in text.splitlines()) <= width
    rows = text[text.index("  slot ") :].splitlines()
    titles, first, second = (line.split() for line in rows[:3])
    assert titles[:3] == ["slot", "state", "job"]
    assert (first[:3], second[:3]) == (["0", "trains", "101"], ["1", "trains", "102"])
    assert re.search(r"job 105 +crashed: exit", text), text
    assert "checkpoint" not in text or "at 512,000" in text
    assert "steps/s" not in titles or re.search(r"1,23\d", text)


def test_jobs_that_wait_for_the_same_reason_are_told_together(run: RunPaths) -> None:
    known = jobs()
    change = {"slurm_reason": "Priority", "wait_reason": WaitReason.TURN, "expected_ts": None}
    same = tuple(replace(job, **change) for job in known.jobs)
    text = screen(run, replace(known, jobs=same), 80)
    assert re.search(
        r"waiting +103, 104: each waits its turn \(Priority\), waited\s+up to 2 h", text
    ), text


def test_a_summary_of_the_release_before_lacks_the_time_waited(run: RunPaths) -> None:
    """Its controller wrote no time of submission."""
    config = Config.model_validate({"run_dir": str(run.root)})
    told = read_status(run, config, looking_at(run, jobs()), CLOCK)
    parts = [*told["slots"], *told["waiting"]]
    for part in parts:
        del part["intended_ts"]
    text = screen(run, jobs(), slots=told["slots"], waiting=told["waiting"])
    assert "waited" not in text
    assert "elapsed" in text


def test_a_column_without_any_entry_is_left_out(run: RunPaths) -> None:
    nowhere = replace(jobs(), jobs=tuple(replace(job, node="") for job in jobs().jobs))
    assert "node" in screen(run, jobs())
    assert "node" not in screen(run, nowhere)


@pytest.mark.parametrize("width", [60, 72, 80, WIDE])
def test_a_narrow_terminal_gets_every_line_within_its_width(run: RunPaths, width: int) -> None:
    text = screen(run, jobs(), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "103 is ready" in re.sub(r"\s+", " ", text)


def test_a_long_word_of_the_scheduler_s_takes_no_room_from_the_slots(run: RunPaths) -> None:
    known = jobs()
    wordy = tuple(replace(job, slurm_reason="ReqNodeNotAvail, " * 8) for job in known.jobs)
    for seen in (wordy, (*wordy[:1], *wordy[2:])):  # with all slots full, and with one empty
        text = screen(run, replace(known, jobs=seen), WIDE)
        assert re.search(r"0 +trains +101 +n0 +60 min +1,23\d +1[45] min", text), text
        assert max(len(line) for line in text.splitlines()) <= WIDE


def test_slurm_down_shows_what_was_known_and_that_the_slots_still_beat(run: RunPaths) -> None:
    config = Config.model_validate({"run_dir": str(run.root)})
    known = read_status(run, config, looking_at(run, jobs()), CLOCK)
    write_json(run.status, {**known, "ts": CLOCK.now() - 300, "wake_ts": 0})
    text = screen(run, UnknownQueue(CLOCK.now(), "Socket timed out"))
    assert text.startswith("? slim_run: the queue cannot be read (Socket timed out)")
    assert "2 of 2 slots have a heartbeat" in text
    assert "the state of 5 min ago" in text
    assert "trains" in line_of(text, "0 ")


def test_what_is_wrong_stands_under_the_verdict_once(run: RunPaths) -> None:
    hold = {"slot": 1, "reason": "3 failures in a row in slot 1", "until_ts": None, "open": False}
    text = screen(run, jobs(), excluded=["n13"], breaker=[hold], rollout="release b is tried")
    assert text.splitlines()[1:4] == [
        "  3 failures in a row in slot 1",
        "  release b is tried",
        "  excluded for a day: n13",
    ]


def test_every_note_of_the_mirror_tells_its_age(run: RunPaths) -> None:
    note: dict[str, Any] = {
        "ts": CLOCK.now() - 7 * 3600,
        "folder": "/mirrors",
        "version": None,
    }
    note |= {"copied_ts": None, "trouble": "", "holes": "", "worse": "", "seen": False}
    assert "7 h ago: nothing to copy yet" in screen(run, jobs(), mirror=note)
    told = {"trouble": "the disk is full", "holes": "3 states are missing", "worse": "v9 is worse"}
    copied = {"version": 7, "copied_ts": CLOCK.now() - 9 * 3600}
    text = screen(run, jobs(), mirror={**note, **copied, **told})
    assert line_of(text, "mirror").split(maxsplit=1)[1] == (
        "v7, copied 9 h ago to /mirrors; 7 h ago: the disk is full; 7 h ago: 3 states are missing"
    )
    assert "; 7 h ago: v9 is worse" in line_of(text, "sharing")


def test_the_reason_for_no_failover_tells_its_age(run: RunPaths) -> None:
    write_probe(run, Probe(False, "sbatch is missing", "a job on n0", CLOCK.now() - 7200))
    assert line_of(screen(run, jobs()), "control").endswith(
        "failover off (sbatch is missing), tried 2 h ago"
    )


def test_a_slot_on_another_release_says_which(run: RunPaths) -> None:
    assert "runs r1; 103 is ready" in screen(run, jobs(), release="r2")
    assert "slot 0 runs r1, slot 1 runs r1" in screen(run, jobs(), 80, release="r2")


def test_a_run_that_was_never_started_has_a_screen_too(tmp_path: Path) -> None:
    text = screen(RunPaths(tmp_path), Snapshot(CLOCK.now(), ()))
    assert text.startswith("○ slim_run: no run was ever started here")
