"""The adapter fits two releases of tinker-cookbook; without the packages, it names the extra."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.core.errors import ExtraMissingError
from tests.components import absent
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "runs" / "cookbook"


@pytest.mark.parametrize("release", ["0.5.8", "0.6.1"])
def test_whole_episodes_are_played_by_a_releases_own_loop(release: str) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("tinker-cookbook needs Python 3.11")
    if not (PACKAGES / release / "tinker_cookbook").is_dir():
        absent(f"tinker-cookbook {release}", "./scripts/sandbox_components installs it")
    pytest_options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *pytest_options, "tests/terminal/cookbook_cases.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{PACKAGES / release}:{PACKAGES / 'common'}"},
        stdout=-1,
        stderr=-2,
        text=True,
        timeout=3 * PATIENCE_S,  # a whole file of tests
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


@pytest.mark.skipif(bool(importlib.util.find_spec("tinker")), reason="tinker is installed")
def test_without_the_packages_the_line_that_installs_them_is_named() -> None:
    with pytest.raises(ExtraMissingError, match="is not installed") as caught:
        import Daddy.terminal.tinker_adapter  # noqa: F401
    assert "runs/tinker/bin/python -m pip install" in caught.value.fix
