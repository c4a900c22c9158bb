"""Checks of file systems, and the estimate of the disk space that a run needs."""

import pytest

from Daddy.cluster.orchestrator.commands.storage_checks import (
    FreeSpace,
    Mount,
    describe_forecast,
    describe_private_disk,
    describe_purging,
    find_mount,
    find_place_errors,
    find_shortage,
    forecast_disk_use,
    format_bytes,
    parse_quota,
)
from Daddy.core.settings import KEPT_CHECKPOINTS, KEPT_HOURS, Config

MOUNTS = [
    Mount("/dev/sda1", "/", "ext4", "rw,relatime"),
    Mount("tmpfs", "/dev/shm", "tmpfs", "rw"),
    Mount("filer:/shared", "/shared", "nfs4", "rw,vers=4.2,sec=sys"),
    Mount("filer:/safe", "/shared/safe", "nfs4", "rw,vers=4.2,sec=krb5p"),
    Mount("AFS", "/afs", "afs", "rw"),
]


def findings(path: str, *, one_host: bool = False) -> list[str]:
    errors = find_place_errors("the run directory", path, MOUNTS, one_host=one_host)
    return [f"{error.message} | {error.fix}" for error in errors]


def test_a_path_lies_on_the_longest_mount_point_above_it() -> None:
    for path, point in (
        ("/shared/ada/run", "/shared"),
        ("/shared/safe/run", "/shared/safe"),
        ("/sharedness/run", "/"),
    ):
        mount = find_mount(path, MOUNTS)
        assert mount is not None
        assert mount.point == point


def test_shared_storage_without_tickets_is_fine() -> None:
    assert findings("/shared/ada/run") == []


@pytest.mark.parametrize(
    ("path", "why"), [("/shared/safe/run", "sec=krb5p"), ("/afs/cell/ada/run", "afs")]
)
def test_a_run_directory_that_needs_an_expiring_ticket_is_refused_with_the_reason(
    path: str, why: str
) -> None:
    (found,) = findings(path, one_host=True)
    assert "ticket that expires" in found
    assert why in found
    assert path in found


@pytest.mark.parametrize("path", ["/dev/shm/run", "/tmp/run", "/var/tmp/run"])
def test_a_place_that_only_this_host_sees_is_refused_on_a_cluster(path: str) -> None:
    (found,) = findings(path)
    assert "cannot be seen from the nodes" in found
    assert findings(path, one_host=True) == []


@pytest.mark.parametrize("path", ["/scratch/ada/.venv", "/lustre/gscratch1/ada/red.gb", "/tmp/v"])
def test_storage_that_sites_purge_is_warned_of(path: str) -> None:
    warning = describe_purging("the Python environment", path)
    assert warning.startswith(f"warning: the Python environment {path} is below ")
    assert describe_purging("the ROM", "/shared/ada/scratch.gb") == ""


def test_a_newline_in_a_path_would_be_a_line_of_the_job_script() -> None:
    (found,) = findings("/shared/a\n#SBATCH --requeue")
    assert r"'/shared/a\n#SBATCH --requeue' contains a control character" in found
    assert "\n" not in found


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert find_place_errors("the run directory", "/x", (), one_host=False) == []


def test_a_disk_of_this_host_is_a_doubt_and_no_refusal() -> None:
    assert findings("/opt/run") == []
    assert "ext4 at /" in describe_private_disk("/opt/run", MOUNTS)
    assert describe_private_disk("/shared/ada/run", MOUNTS) == ""


CONFIG = Config.model_validate({"run_dir": "/r"})


def test_checkpoints_of_all_slots_are_counted_with_the_one_being_written() -> None:
    items = forecast_disk_use(CONFIG, 5_000_000, None)
    slots = CONFIG.slurm.max_running
    keep = KEPT_CHECKPOINTS + KEPT_HOURS
    assert items["checkpoints"] == slots * (keep + 1) * 5_000_000


def test_without_a_checkpoint_the_size_is_estimated() -> None:
    assert 3_000_000 < forecast_disk_use(CONFIG, None, None)["checkpoints"] / (4 * 13) < 6_000_000


def test_a_wider_network_needs_more_room() -> None:
    wide = {"encoder_size": 512, "lstm_size": 512}
    config = CONFIG.model_copy(update={"training": CONFIG.training.model_copy(update=wide)})
    usual, wider = (forecast_disk_use(each, None, None) for each in (CONFIG, config))
    assert wider["shared weights"] / usual["shared weights"] == pytest.approx(7.75, rel=0.02)
    assert wider["checkpoints"] > 6 * usual["checkpoints"]


def test_a_run_that_does_not_share_needs_no_room_for_versions() -> None:
    alone = CONFIG.model_copy(
        update={"collaboration": CONFIG.collaboration.model_copy(update={"enabled": False})}
    )
    assert "shared weights" not in forecast_disk_use(alone, None, None)


def test_a_place_with_too_little_room_is_a_finding_that_names_what_needs_most() -> None:
    items = forecast_disk_use(CONFIG, 2_000_000_000, None)
    short = find_shortage(
        items, FreeSpace(1_000_000_000, "your quota on filer:/shared"), "/shared/ada/run"
    )
    assert short is not None
    assert "your quota on filer:/shared" in short.message
    assert "checkpoints most" in short.message
    assert "free some space" in short.fix
    assert find_shortage(items, FreeSpace(2 * sum(items.values()), "the disk at /"), "/r") is None


def test_the_forecast_is_told_in_two_lines_with_its_parts() -> None:
    room = FreeSpace(74_000_000_000, "the disk at /")
    total, parts = describe_forecast(forecast_disk_use(CONFIG, None, None), room)
    assert "74.0 GB free by the disk at /" in total
    assert "checkpoints 237.5 MB" in parts


def test_a_quota_leaves_what_is_under_its_soft_limit() -> None:
    text = """Disk quotas for user ada (uid 1000):
     Filesystem blocks   quota   limit   grace   files   quota   limit   grace
filer:/shared 1000* 3000 4000 0 12 0 0 0
filer:/free 1000 0 0 0 12 0 0 0
"""
    room = parse_quota(text, "filer:/shared")
    assert room == FreeSpace(2000 * 1024, "your quota on filer:/shared")
    assert parse_quota(text, "filer:/free") is None
    assert parse_quota(text, "elsewhere") is None
    assert parse_quota("", "filer:/shared") is None


def test_sizes_are_said_as_a_person_says_them() -> None:
    assert [format_bytes(n) for n in (12, 3_900_000, 2.5e9, 7e12)] == [
        "12 B",
        "3.9 MB",
        "2.5 GB",
        "7.0 TB",
    ]
