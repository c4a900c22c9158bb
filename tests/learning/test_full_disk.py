"""A learner on a disk that is really full: it makes room, says so, waits and loses no step."""

import errno
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from Daddy.cluster.orchestrator.read_slots import HeartbeatSilence, read_slots
from Daddy.core.clock import SystemClock
from Daddy.core.lease import Lease, read_lease
from Daddy.core.run_paths import RunPaths
from Daddy.core.slot_lease import HeldSlot
from Daddy.core.stop_conditions import WALL_TIME
from Daddy.learning.checkpoint import Checkpoint, list_manifests, load_newest, save_checkpoint
from Daddy.learning.loop import train
from tests.components import SmallDisk, small_disk
from tests.learning.helpers import SCHEDULE, Notebook, StopAfter, cartpole_parts

ROOM = 100_000
"""Bytes of one checkpoint here."""


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", monkeypatch) as small:
        yield small


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(1, step, {"policy.w": torch.full((ROOM // 4,), float(step))}, {})


def steps(disk: SmallDisk) -> list[int]:
    return sorted(int(path.stem.rpartition("s")[2]) for path in list_manifests(disk.folder))


def test_a_checkpoint_makes_room_by_deleting_the_oldest(disk: SmallDisk) -> None:
    for step in range(1, 5):
        save_checkpoint(disk.folder, checkpoint(step), 9)
    disk.fill()
    save_checkpoint(disk.folder, checkpoint(5), 9)
    found = load_newest(disk.folder)
    assert found is not None
    assert found.checkpoint.step == 5
    assert {3, 4, 5} <= set(steps(disk)), "no more than needed is deleted"


def test_the_newest_two_that_verify_are_kept_and_the_rest_of_a_failed_write_is_not(
    disk: SmallDisk,
) -> None:
    for step in range(1, 5):
        save_checkpoint(disk.folder, checkpoint(step), 9)
    newest = list_manifests(disk.folder)[0]
    blob = newest.with_suffix(".safetensors")
    blob.write_bytes(bytes(blob.stat().st_size))
    killed = disk.folder / "t000001-s000000000009.safetensors"
    killed.write_bytes(bytes(10))
    disk.fill()
    with pytest.raises(OSError, match="No space left") as raised:
        save_checkpoint(disk.folder, replace(checkpoint(5), tensors={"w": torch.zeros(ROOM)}), 9)
    assert raised.value.errno == errno.ENOSPC
    assert steps(disk) == [2, 3, 4]
    left = {path.suffix for path in disk.folder.iterdir() if path.name[:1] in "t."}
    assert left == {".json", ".safetensors"}
    assert not killed.exists()
    assert len(list(disk.folder.glob("*.safetensors"))) == 3


class FreesTheDisk(SystemClock):
    """Frees the disk when the learner waits for the third time."""

    def __init__(self, disk: SmallDisk) -> None:
        self.disk, self.waits = disk, 0

    def wait(self, _event: object, _seconds: float) -> bool:
        self.waits += 1
        if self.waits == 3:
            self.disk.free()
        return False


def test_a_learner_whose_time_is_up_waits_for_room_and_loses_no_step(disk: SmallDisk) -> None:
    clock = FreesTheDisk(disk)
    disk.fill()
    outcome = train(cartpole_parts(disk.folder / "slot", stopper=StopAfter(80), clock=clock))
    assert (outcome.kind, clock.waits) == ("drained", 3)
    found = load_newest(disk.folder / "slot")
    assert found is not None
    assert found.checkpoint.step == outcome.step > 0


class FreesLate(SystemClock):
    """Lets ten seconds pass at each wait, measures the silence then, frees the disk after 400 s."""

    def __init__(self, disk: SmallDisk) -> None:
        self.disk, self.passed, self.longest_s = disk, 0.0, 0.0
        self.silence = HeartbeatSilence(self)

    def monotonic(self) -> float:
        return super().monotonic() + self.passed

    def wait(self, _event: object, _seconds: float) -> bool:
        self.passed += 10.0
        (slot,) = read_slots(RunPaths(self.disk.folder), 1, self.silence)
        self.longest_s = max(self.longest_s, slot.silent_s)
        if self.passed >= 400.0:
            self.disk.free()
        return False


class WallTimeAfter(StopAfter):
    def stop_reason(self) -> str | None:
        return WALL_TIME if super().stop_reason() else None


def test_a_learner_that_waits_for_room_is_never_silent(disk: SmallDisk) -> None:
    clock, folder = FreesLate(disk), RunPaths(disk.folder).slot(0).lease
    lease = Lease.acquire(folder, {"token": "t"})
    assert lease is not None
    slot = HeldSlot(0, lease, clock)
    slot.beat({"stage": "training", "trouble": "x" * 400})
    disk.fill()
    parts = cartpole_parts(disk.folder / "own", lease=slot, stopper=WallTimeAfter(3), clock=clock)
    assert train(parts).kind == "drained"
    assert clock.passed >= 400.0
    assert clock.longest_s < 60.0
    view = read_lease(folder)
    assert view is not None
    assert view.beat["stage"] == "leaving"


def test_a_disk_that_stays_full_is_an_error_at_last(disk: SmallDisk, monkeypatch) -> None:
    monkeypatch.setattr("Daddy.learning.loop._ROOM_AT_STOP_S", 0.0)
    disk.fill()
    with pytest.raises(OSError, match="No space left"):
        train(cartpole_parts(disk.folder / "slot", stopper=StopAfter(3)))


def test_heartbeats_tell_of_checkpoints_that_were_not_written_until_one_is(
    disk: SmallDisk,
) -> None:
    class Frees(Notebook):
        def write(self, event: str, step: int, data: Mapping[str, object]) -> None:
            super().write(event, step, data)
            if event == "metric" and step >= 256 * 3:
                disk.free()

    schedule = replace(SCHEDULE, total_steps=256 * 8, checkpoint_interval=256)
    parts = cartpole_parts(disk.folder / "slot", schedule=schedule, events=Frees())
    disk.fill()
    train(parts)
    said = [str(beat["trouble"]) for beat in parts.lease.beats if "trouble" in beat]
    assert "No space left on device" in said[0]
    assert said[-1] == ""
