"""Environments that lack files: a real one of which half is gone, and programs that start in it."""

import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from Daddy.core.environment_files import describe_purge, find_missing
from Daddy.core.errors import ExitCode
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a virtual environment with pip; skip without the module that brings pip."""
    folder = tmp_path_factory.mktemp("purged") / ".venv"
    made = subprocess.run([sys.executable, "-m", "venv", folder], check=False)
    if made.returncode:
        pytest.skip("this Python makes no environment with pip (Debian without python3-venv)")
    return folder


def test_each_missing_file_is_found_by_pips_own_records(environment: Path) -> None:
    assert find_missing(environment) == {}, "nothing is missing at first"
    (site,) = environment.glob("lib/python3*/site-packages")
    files = sorted(path for path in site.glob("pip/**/*.py"))
    for path in files[::2]:
        path.unlink()
    (lost,) = find_missing(environment).values()
    assert sorted(lost) == sorted(str(path.relative_to(site)) for path in files[::2])
    said = describe_purge(ImportError("no name x"), environment)
    assert said.startswith(f"the environment was purged: {len(lost):,} files are missing, such as")


def test_a_whole_environment_explains_no_error(tmp_path: Path) -> None:
    assert describe_purge(KeyError("x"), tmp_path) == ""
    assert describe_purge(ModuleNotFoundError("x", name="Daddy.core.x"), tmp_path) == ""
    said = describe_purge(ModuleNotFoundError("x", name="numpy.core"), tmp_path)
    assert said == "the environment was purged: there is no module numpy.core"


@pytest.fixture
def without_psutil(tmp_path: Path) -> Path:
    """Return the Python of an environment with all packages of this one but psutil."""
    folder = tmp_path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.name != "psutil":
            (site / path.name).symlink_to(path)
    ours = Path(sys.prefix)
    for path in (*(ours / "bin").iterdir(), *ours.glob("share")):
        if not (folder / path.relative_to(ours)).exists():
            (folder / path.relative_to(ours)).symlink_to(path)
    return folder / "bin" / "python"


@pytest.mark.parametrize("program", ["launch", "orchestrator.run_controller"])
def test_a_program_that_cannot_import_says_that_the_environment_was_purged(
    without_psutil: Path, program: str
) -> None:
    typed = [str(without_psutil), "-m", f"Daddy.cluster.{program}", "status"]
    ended = subprocess.run(
        typed, cwd=ROOT, check=False, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.returncode == ExitCode.PACKAGES_MISSING, ended.stderr
    error, fix = ended.stderr.splitlines()
    assert error.startswith("error: the environment was purged: ")
    assert "files are missing, such as psutil/" in error
    assert fix.startswith("  what to do: type ./scripts/install")


def test_ctrl_c_ends_an_installed_command_that_still_loads(tmp_path: Path) -> None:
    """pip's script imports the command before anything of ours runs but the package itself."""
    command = tmp_path / "bin" / "run_controller"
    command.parent.mkdir()
    lines = (
        "import signal",
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest's parent may ignore it",
        "import Daddy",
        "print('loads', flush=True)",
        "signal.pause()",
    )
    command.write_text("\n".join(lines))
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, command], env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == b"loads\n"
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=PATIENCE_S)[0] == b""
    assert child.returncode == -signal.SIGINT
