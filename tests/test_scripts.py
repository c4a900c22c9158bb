"""Programs that a person types: ``--help`` prints and ends, an unknown option is refused."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

CHECKOUT = Path(__file__).resolve().parents[1]
TOOLS = ("bash", "sed", "dirname", "cat", "cksum", "uname", "awk", "rm", "readlink", "mktemp", "ls")
"""Programs that the scripts may call; without Python none of them can install or run anything."""
SHELL = (
    ".ci/run",
    "Daddy/cluster/sync_weights.sh",
    "launchd/install.sh",
    "launchd/uninstall.sh",
    "scripts/bench",
    "scripts/check",
    "scripts/demo",
    "scripts/harbor_environment",
    "scripts/install",
    "scripts/sandbox_components",
    "scripts/soak",
    "scripts/test",
)
REFUSING = (".ci/run", "launchd/install.sh", "launchd/uninstall.sh", "scripts/check",
            "scripts/install")  # fmt: skip
MODULES = ("benches", "cartridge", "demonstration", "fanout_picture", "page", "readme_picture",
           "reference", "soaks", "terminal_film")  # fmt: skip
TESTBED = ("down", "install", "status", "up")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy the programs to a folder without ``.venv``, with an installed agent in its home."""
    folder = tmp_path / "checkout"
    for name in (".ci", "scripts", "launchd", "cluster"):
        shutil.copytree(CHECKOUT / name, folder / name, symlinks=True)
    pull = folder / "Daddy" / "cluster" / "sync_weights.sh"
    pull.parent.mkdir(parents=True)
    shutil.copy(CHECKOUT / "Daddy" / "cluster" / "sync_weights.sh", pull)
    (folder / "docs").mkdir()
    unit = folder / "systemd" / "user" / "pokemon-sync.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("installed")
    return folder


def call(checkout: Path, *argv: str | Path, path: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": path,
        "HOME": str(checkout.parent),  # matplotlib keeps a cache there
        "XDG_CONFIG_HOME": str(checkout),
        "DADDY_INIT": "systemd",
        "PYTHONPATH": str(CHECKOUT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        argv,
        cwd=checkout,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def files(checkout: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(checkout.rglob("*")) if path.is_file()}


@pytest.fixture
def few_tools(tmp_path: Path) -> str:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        (folder / name).symlink_to(shutil.which(name) or name)
    return str(folder)


def test_every_shell_script_is_on_the_list() -> None:
    folders = (".ci", "Daddy/cluster", "launchd", "scripts")
    found = [path for folder in folders for path in (CHECKOUT / folder).iterdir() if path.is_file()]
    runnable = [path for path in found if os.access(path, os.X_OK)]
    assert sorted(str(path.relative_to(CHECKOUT)) for path in runnable) == sorted(SHELL)


@pytest.mark.parametrize("script", SHELL)
def test_help_of_a_script_prints_and_does_nothing(
    script: str, checkout: Path, few_tools: str
) -> None:
    before = files(checkout)
    for word in ("--help", "-h"):
        done = call(checkout, checkout / script, word, path=few_tools)
        assert (done.returncode, done.stderr) == (0, "")
        assert Path(script).name in done.stdout
        assert files(checkout) == before


@pytest.mark.parametrize("script", REFUSING)
def test_an_unknown_option_of_a_script_is_refused(
    script: str, checkout: Path, few_tools: str
) -> None:
    before = files(checkout)
    done = call(checkout, checkout / script, "--bogus", path=few_tools)
    assert done.returncode == 2, done.stderr
    assert "--bogus" in done.stderr
    assert "what to do:" in done.stderr
    assert files(checkout) == before


WORDS = [
    *[(name, "--help", 0) for name in (*MODULES, *TESTBED)],
    *[(name, "--bogus", 2) for name in ("benches", *TESTBED)],  # the modules have one parser
]


@pytest.mark.parametrize(("name", "word", "code"), WORDS)
def test_help_of_a_module_prints_and_does_nothing(
    name: str, word: str, code: int, checkout: Path
) -> None:
    before = files(checkout)
    argv = [checkout / "cluster" / "testbed" / name]
    if name in MODULES:
        argv = [sys.executable, "-m", f"scripts.{name}"]
    done = call(checkout, *argv, word, path=os.environ["PATH"])
    assert done.returncode == code, done.stderr
    assert "usage:" in (done.stderr if code else done.stdout)
    assert files(checkout) == before
