"""Tests that the controller reads the leases and checkpoints that learners write."""

from pathlib import Path

import torch

from Daddy.cluster.orchestrator.control_parameters import SILENCE_S
from Daddy.cluster.orchestrator.read_slots import HeartbeatSilence, newest_checkpoint, read_slots
from Daddy.core.clock import SystemClock
from Daddy.core.host_and_processes import current_process, host_name
from Daddy.core.lease import Lease, end_term
from Daddy.core.run_paths import RunPaths
from Daddy.learning.checkpoint import Checkpoint, save_checkpoint


class ManualClock(SystemClock):
    """A clock whose monotonic time the test sets."""

    at = 1000.0

    def monotonic(self) -> float:
        return self.at


def test_a_learners_own_checkpoint_is_found_with_its_term_and_step(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path) == (0, 0)
    for term, step in ((1, 900), (2, 300)):
        save_checkpoint(
            tmp_path, Checkpoint(term, step, {"policy.w": torch.zeros(2)}, {}), max_keep=3
        )
    assert newest_checkpoint(tmp_path) == (2, 300)  # the newer term wins, whatever its step


def test_a_torn_or_broken_checkpoint_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "t000003-s000000000100.safetensors").write_bytes(b"")
    (tmp_path / "t000003-s000000000100.json.broken").write_text("{")
    assert newest_checkpoint(tmp_path) == (0, 0)


def test_a_slot_tells_its_holder_its_end_and_whether_the_holder_lives(tmp_path: Path) -> None:
    run, who = RunPaths(tmp_path), current_process()
    here = {"token": "aa", "host": host_name(), "pid": who.pid, "created": who.created}
    Lease.acquire(run.slot(0).lease, here)
    Lease.acquire(run.slot(1).lease, {**here, "token": "bb", "created": 1.0})
    Lease.acquire(run.slot(2).lease, {**here, "token": "cc", "host": "elsewhere"})
    end_term(run.slot(2).lease, 1, "wall time")
    views = read_slots(run, 4)
    assert [(view.slot, view.token, view.holder_alive, view.end_reason) for view in views] == [
        (0, "aa", True, None),
        (1, "bb", False, None),
        (2, "cc", None, "wall time"),
    ]


def test_a_time_in_which_nobody_could_look_is_no_silence_of_the_learners() -> None:
    clock = ManualClock()
    silence = HeartbeatSilence(clock)
    assert silence.measure_silence(0, 1, 7) == 0.0
    clock.at += 600.0  # the shared disk hung: no measurement and no beat
    assert silence.measure_silence(0, 1, 7) < SILENCE_S
    for _ in range(3):
        clock.at += 100.0
        still = silence.measure_silence(0, 1, 7)
    assert still >= SILENCE_S
