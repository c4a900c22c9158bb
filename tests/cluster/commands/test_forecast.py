"""The disk that a run will need, and who says how much there is."""

from __future__ import annotations

from Daddy.cluster.orchestrator.commands.forecast import (
    Room,
    forecast,
    human,
    needed,
    parse_quota,
    shortage,
    told,
)
from Daddy.core.settings import KEPT_HOURS, Config

CONFIG = Config.model_validate({"run_dir": "/r"})


def test_checkpoints_of_all_slots_are_counted_with_the_one_being_written() -> None:
    items = {item.name: item for item in forecast(CONFIG, 5_000_000, None)}
    slots = CONFIG.slurm.max_running
    keep = CONFIG.checkpointing.max_keep + KEPT_HOURS
    assert items["checkpoints"].size == slots * (keep + 1) * 5_000_000
    assert "measured here" in items["checkpoints"].how


def test_without_a_checkpoint_the_size_is_estimated_and_says_so() -> None:
    items = {item.name: item for item in forecast(CONFIG, None, None)}
    assert "estimated for 8 envs" in items["checkpoints"].how
    assert 3_000_000 < items["checkpoints"].size / (4 * 13) < 6_000_000


def test_a_run_that_does_not_share_needs_no_room_for_versions() -> None:
    alone = CONFIG.model_copy(
        update={"collaboration": CONFIG.collaboration.model_copy(update={"enabled": False})}
    )
    assert "shared weights" not in {item.name for item in forecast(alone, None, None)}


def test_a_place_with_too_little_room_is_a_finding_that_names_what_needs_most() -> None:
    items = forecast(CONFIG, 2_000_000_000, None)
    short = shortage(items, Room(1_000_000_000, "your quota on filer:/shared"), "/shared/ada/run")
    assert short is not None
    assert "your quota on filer:/shared" in short.message
    assert "checkpoints most" in short.message
    assert "max_keep" in short.fix
    assert shortage(items, Room(2 * needed(items), "the disk at /"), "/r") is None


def test_the_forecast_is_told_in_two_lines_with_its_sources() -> None:
    room = Room(74_000_000_000, "the disk at /")
    total, parts = told(forecast(CONFIG, None, None), room).splitlines()
    assert "74.0 GB free by the disk at /" in total
    assert "4 slots × 12 kept" in parts


def test_a_quota_leaves_what_is_under_its_soft_limit() -> None:
    text = """Disk quotas for user ada (uid 1000):
     Filesystem blocks   quota   limit   grace   files   quota   limit   grace
filer:/shared 1000* 3000 4000 0 12 0 0 0
filer:/free 1000 0 0 0 12 0 0 0
"""
    room = parse_quota(text, "filer:/shared")
    assert room == Room(2000 * 1024, "your quota on filer:/shared")
    assert parse_quota(text, "filer:/free") is None
    assert parse_quota(text, "elsewhere") is None
    assert parse_quota("", "filer:/shared") is None


def test_sizes_are_said_as_a_person_says_them() -> None:
    assert [human(n) for n in (12, 3_900_000, 2.5e9, 7e12)] == [
        "12 B",
        "3.9 MB",
        "2.5 GB",
        "7.0 TB",
    ]
