"""Faults 24 to 26 at the checkpoint: a signal in the middle, SIGKILL half-way, TERM alone."""

import os
import signal
import stat
from pathlib import Path

import pytest
import torch

from Daddy.core import atomic_files
from Daddy.core.stop_conditions import StopSignal
from Daddy.learning.checkpoint import Checkpoint, load_newest, save_checkpoint


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(1, step, {"policy.w": torch.full((64, 64), float(step))}, {"env_steps": step})


@pytest.fixture
def stopper():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
    yield StopSignal().install()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_fault_24_a_signal_arrives_during_a_checkpoint_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopper: StopSignal, number: int
) -> None:
    save_checkpoint(tmp_path, checkpoint(1), 9)
    sync = os.fsync

    def interrupted(descriptor: int) -> None:
        os.kill(os.getpid(), number)
        sync(descriptor)
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):  # the folder is synced after the naming
            assert load_newest(tmp_path).checkpoint.step == 1, "the old one is intact meanwhile"

    with monkeypatch.context() as patch:
        patch.setattr(atomic_files.os, "fsync", interrupted)
        save_checkpoint(tmp_path, checkpoint(2), 9)
    assert stopper.stop_reason() == f"signal {signal.Signals(number).name}", "honoured afterwards"
    assert load_newest(tmp_path).checkpoint.step == 2
    assert load_newest(tmp_path).refused == ()


@pytest.mark.parametrize("instant", range(4))
def test_fault_25_sigkill_half_way_through_a_checkpoint(tmp_path: Path, instant: int) -> None:
    """The signal comes while blob or manifest is written, before or after its rename."""
    save_checkpoint(tmp_path, checkpoint(1), 9)
    child = os.fork()
    if child == 0:
        _die_at(instant)
        save_checkpoint(tmp_path, checkpoint(2), 9)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    found = load_newest(tmp_path)
    assert found.checkpoint.step == 1, "the one before is loaded"
    assert found.refused == (), "what was left over is not even looked at"
    save_checkpoint(tmp_path, checkpoint(3), 9)
    assert load_newest(tmp_path).checkpoint.step == 3


def _die_at(instant: int) -> None:
    """Each file is written, then renamed; the rename of the manifest is the last step."""
    steps = [0]
    sync, replace = os.fsync, Path.replace

    def step() -> None:
        if steps[0] == instant:
            os.kill(os.getpid(), signal.SIGKILL)
        steps[0] += 1

    def fsync(descriptor: int) -> None:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            step()
        sync(descriptor)

    def rename(path: Path, target: Path) -> Path:
        step()
        return replace(path, target)

    os.fsync, Path.replace = fsync, rename  # type: ignore[assignment,method-assign]


def test_fault_26_term_alone_without_usr1_drains_too(stopper: StopSignal) -> None:
    assert stopper.stop_reason() is None
    os.kill(os.getpid(), signal.SIGTERM)
    assert stopper.stop_reason() == "signal SIGTERM"
