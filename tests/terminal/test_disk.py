"""A task with more storage than memory writes to disk, up to its storage."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.core.errors import FileError, SandboxError
from Daddy.sandbox.bubblewrap import can_use_disk
from Daddy.terminal.task_folder import read_task
from Daddy.terminal.task_sandboxes import TaskSandboxes
from tests.components import absent
from tests.patience import PATIENCE_S, until
from tests.terminal.episodes import COUNT, backend, copy_task, type_and_finish

OPENED = """
import asyncio, sys, time
from pathlib import Path
from tests.terminal.episodes import backend
from Daddy.terminal.task_folder import read_task
from Daddy.terminal.task_sandboxes import TaskSandboxes
async def story():
    sandboxes = TaskSandboxes(read_task(Path(sys.argv[1])), backend(), Path(sys.argv[2]), "host")
    sandbox = await sandboxes.open()
    print("open", flush=True)
    await asyncio.sleep(1000)
asyncio.run(story())
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """Return a task with 128 MB of memory and 256 MB of disk."""
    backend()
    if not can_use_disk():
        absent("loop devices", "root has them outside of containers")
    limits = "[environment]\nmemory_mb = 128\nstorage_mb = 256\n"
    return copy_task(COUNT, tmp_path / "task", **{"task.toml": limits})


def test_more_than_the_memory_is_written_and_carried_and_no_more_than_the_storage(
    task: Path, tmp_path: Path
) -> None:
    script = "wc -c </app/large; wc -c </app/small; echo 1 >/logs/verifier/reward.txt"
    (task / "tests/test.sh").write_text(script)
    lines = ["head -c 200M /dev/zero >large", "head -c 100M /dev/zero >rest || rm rest; ls"]
    result = type_and_finish(task, tmp_path / "runs", [*lines, "echo on >small"])
    assert (result.reward, result.info["reason"]) == (1.0, "reward of the verifier")
    (printed,) = (tmp_path / "runs").glob("*/verifier.txt")
    assert printed.read_text().split() == [str(200 << 20), "3"]
    (cast,) = (tmp_path / "runs").glob("*/trajectory.jsonl")
    assert "No space left on device" in cast.read_text()
    assert list((tmp_path / "runs/layers/disk").iterdir()) == []


def loops_below(folder: Path) -> bool:
    listed = subprocess.run(["losetup", "-a"], stdout=-1, text=True, check=True).stdout
    return str(folder) in listed


def test_nothing_is_left_of_the_disk_of_a_killed_host(task: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", OPENED, str(task), str(tmp_path / "layers")]
    with subprocess.Popen(argv, stdout=-1, cwd=Path(__file__).parents[2]) as host:
        assert host.stdout
        assert host.stdout.readline() == b"open\n"
        assert loops_below(tmp_path)
        assert str(tmp_path) not in Path("/proc/mounts").read_text()
        os.kill(host.pid, signal.SIGKILL)
    assert until(lambda: not loops_below(tmp_path))
    assert list((tmp_path / "layers/disk").iterdir()) == []


def test_a_disk_without_room_is_refused_by_its_size(task: Path, tmp_path: Path) -> None:
    (task / "task.toml").write_text("[environment]\nmemory_mb = 128\nstorage_mb = 1000000000\n")
    sandboxes = TaskSandboxes(read_task(task), backend(), tmp_path / "layers", "host")
    with pytest.raises(FileError, match="no room for 1000000000 MB"):
        asyncio.run(asyncio.wait_for(sandboxes.build(), PATIENCE_S))


def test_an_image_over_which_no_overlay_can_be_mounted_is_named(tmp_path: Path) -> None:
    """An overlay cannot lie on two others: the kernel refuses it as an old one refuses any."""
    backend()
    if os.geteuid():
        absent("root")
    for folder in (tmp_path, *list(tmp_path.parents)[:-1]):  # its user may look at it
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | 0o055)
    image = tmp_path / "image"
    for name in ("upper", "work", "upper2", "work2", "below", "image/usr"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (image / name).symlink_to(f"usr/{name}")
    script = """
    cd "$0" && mount -t overlay overlay -o lowerdir=/usr,upperdir=upper,workdir=work below &&
    mount -t overlay overlay -o lowerdir=below,upperdir=upper2,workdir=work2 image/usr && exec "$@"
    """
    argv = ["unshare", "--mount", "--propagation=private", "sh", "-c", script, str(tmp_path)]
    flags = ["--image", f"dir:{image}", "--runs-dir", str(tmp_path / "runs")]
    run = [sys.executable, "-m", "Daddy.terminal", "run", str(COUNT), *flags]
    done = subprocess.run(
        [*argv, *run],
        cwd=Path(__file__).parents[2],
        stdout=-1,
        stderr=-2,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == SandboxError.exit_code
    assert "no overlay over the image's /usr" in done.stdout
    assert "Linux 5.11" in done.stdout
