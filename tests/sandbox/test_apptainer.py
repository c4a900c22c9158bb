"""Apptainer's adapter: its command line, its account and its root; the real program at the end."""

import asyncio
import os
import pwd
import shutil
import sys
from pathlib import Path

import psutil
import pytest

from Daddy.core.errors import ConfigError, ExitCode, FileError, SandboxError
from Daddy.sandbox import apptainer
from Daddy.sandbox.apptainer import (
    ApptainerBackend,
    apptainer_argv,
    check_binds,
    choose_account,
    kept_environment,
    make_root,
)
from Daddy.sandbox.image import Image
from Daddy.sandbox.sandbox_interfaces import Command, Limits, SandboxSpec
from tests.patience import PATIENCE_S
from tests.sandbox import far_backends

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Apptainer needs Linux")


def test_the_command_line_shuts_all_that_apptainer_would_show() -> None:
    binds = [(Path("/usr"), "/usr"), (Path("/data/a b"), "/data/a b")]
    argv = apptainer_argv("apptainer", Path("/root-folder"), binds, ["python3", "-c", "x"])
    assert {"--userns", "--containall", "--cleanenv", "--no-home", "--net"} <= set(argv)
    assert argv[argv.index("--network") + 1] == "none"
    closed = argv[argv.index("--no-mount") + 1].split(",")
    assert {"sys", "hostfs", "tmp", "cwd", "bind-paths"} == set(closed)
    mounts = [argv[at + 1] for at, word in enumerate(argv) if word == "--mount"]
    assert mounts == [
        "type=bind,source=/usr,destination=/usr,ro",
        "type=bind,source=/data/a b,destination=/data/a b,ro",
    ]
    assert argv[-4:] == ["/root-folder", "python3", "-c", "x"]
    assert not {"--writable", "--bind", "--fakeroot", "--keep-privs", "--allow-setuid"} & set(argv)


@pytest.mark.parametrize("name", ["a,b", 'a"b', "a\nb", "a:b"])
def test_a_path_that_would_be_read_as_more_mounts_is_refused(name: str) -> None:
    with pytest.raises(SandboxError, match="has the character"):
        check_binds([(Path("/data", name), "/data")])
    check_binds([(Path("/data/a b=c"), "/data")])


def test_root_starts_it_as_nobody_and_another_account_as_itself() -> None:
    options, missing = choose_account(0)
    nobody = pwd.getpwnam("nobody")
    assert options == {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    assert missing
    assert choose_account(1000) == ({}, ())


def test_variables_that_would_change_its_mounts_do_not_reach_it() -> None:
    environ = {"PATH": "/bin", "APPTAINER_BIND": "/secret", "SINGULARITY_BINDPATH": "/secret"}
    kept = kept_environment({**environ, "HOME": "/home/you", "TOKEN": "x"})
    assert kept == {
        "PATH": "/bin",
        "HOME": "/nonexistent",
        "APPTAINER_CONFIGDIR": "/nonexistent",
    }


def test_a_root_has_links_and_empty_places_only_and_is_found_again(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    (tmp_path / "ld.so.cache").write_text("content")
    binds = ((tmp_path / "usr", "/usr"), (tmp_path / "ld.so.cache", "/etc/ld.so.cache"))
    image = Image(binds, (("/bin", "usr/bin"),), "/usr/bin/python3")
    root = make_root(image, tmp_path / "cache")
    assert make_root(image, tmp_path / "cache") == root
    assert str((root / "bin").readlink()) == "usr/bin"
    assert all((root / name).is_dir() for name in ("files", "proc", "usr", "tmp", "dev"))
    assert sum(path.lstat().st_size for path in root.rglob("*") if path.is_file()) == 0
    other = Image(binds, (("/bin", "elsewhere"),), "/usr/bin/python3")
    assert make_root(other, tmp_path / "cache") != root


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(FileError, match="cannot write"):
        make_root(Image((), (), "/usr/bin/python3"), tmp_path / "file")


def test_without_apptainer_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(ConfigError, match="neither apptainer nor singularity") as caught:
        asyncio.run(ApptainerBackend().create(SandboxSpec()))
    assert caught.value.exit_code == ExitCode.CONFIGURATION == 3
    assert "--backend bubblewrap" in caught.value.fix


def test_another_system_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apptainer.sys, "platform", "darwin")
    with pytest.raises(SandboxError, match="needs Linux"):
        ApptainerBackend().isolation()


def test_no_process_of_it_is_root_on_the_host() -> None:
    """It runs as this account, or as nobody: real root could write to /proc/sys."""
    backend = far_backends.apptainer()
    before = {child.pid for child in psutil.Process().children(recursive=True)}

    async def whole() -> set[int]:
        sandbox = await backend.create(SandboxSpec())
        try:
            outcome = await sandbox.run(
                Command(python="open('/proc/sys/kernel/core_pattern', 'w')"),
                Limits(time_s=PATIENCE_S),
            )
            assert outcome.exit_code == 1
            below = psutil.Process().children(recursive=True)
            return {child.uids().real for child in below if child.pid not in before}
        finally:
            await sandbox.close()

    expected = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid()
    assert asyncio.run(whole()) == {expected}
