"""Temporary folders are gone when their owner is: at its wish, or killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.sandbox.guarded_folder import GuardedFolder
from tests.patience import until

ROOT = Path(__file__).resolve().parents[2]
WAIT = "print('ready', flush=True)\nsys.stdin.read()\n"
GET = """
import sys
from pathlib import Path
from Daddy.sandbox.transfer import TarUnpacker, pack_tar
unpacker = TarUnpacker(Path(sys.argv[1], "got"), 1 << 20)
unpacker.feed_tar(b"".join(pack_tar(Path(sys.argv[2])))[:-1024])
"""
PUT = """
import asyncio, sys
from pathlib import Path
from Daddy.sandbox.renewed_sandbox import RenewedSandbox
from Daddy.sandbox.sandbox_interfaces import SandboxSpec
class Inner:
    async def put(self, source, target): pass
async def main():
    global sandbox
    sandbox = RenewedSandbox(Inner(), SandboxSpec(), None)
    await sandbox.put(Path(sys.argv[2]), "/files/x")
asyncio.run(main())
"""


@pytest.mark.parametrize("source", [GET, PUT], ids=["get", "put"])
def test_a_killed_host_leaves_no_folder_of_a_copy(source: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "file").write_text("x" * 5000)
    argv = [sys.executable, "-c", source + WAIT, str(tmp_path / "in"), str(tmp_path / "file")]
    env = {**os.environ, "TMPDIR": str(tmp_path / "in")}
    with subprocess.Popen(
        argv, env=env, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as host:
        try:
            assert host.stdout
            assert host.stdout.readline() == b"ready\n"
            assert len(list((tmp_path / "in").iterdir())) == 1, "there is something to leave"
        finally:
            host.kill()
    assert until(lambda: not list((tmp_path / "in").iterdir()))


def test_a_folder_is_gone_when_it_is_removed(tmp_path: Path) -> None:
    folder = GuardedFolder(tmp_path / "a 'name")
    (folder.path / "file").write_text("x")
    folder.remove()
    folder.remove()
    assert not folder.path.exists()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        GuardedFolder(tmp_path / "none" / "folder")
