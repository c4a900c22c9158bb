"""Our modules, the tracked files and the project file, which the architecture tests read."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.tree import Source, read_source
from tests.patience import PATIENCE_S

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10; pytest itself brings tomli there
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    """Every module of Daddy and every Python file of scripts."""
    found = [*sorted((ROOT / "Daddy").rglob("*.py")), *sorted((ROOT / "scripts").rglob("*.py"))]
    return [read_source(path, ROOT) for path in found if "runs" not in path.relative_to(ROOT).parts]


@pytest.fixture(scope="session")
def package(sources: list[Source]) -> list[Source]:
    return [source for source in sources if source.path.startswith("Daddy/")]


@pytest.fixture(scope="session")
def beside() -> list[Source]:
    """Every Python file of the tests and of the test cluster."""
    found = [*sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "cluster").rglob("*.py"))]
    return [read_source(path, ROOT) for path in found if not path.is_symlink()]


@pytest.fixture(scope="session")
def tracked() -> list[Path]:
    """Every file git knows (in an unpacked archive: every file there is)."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False
    )
    if listing.returncode:
        return [path for path in sorted(ROOT.rglob("*")) if path.is_file()]
    names = [name for name in listing.stdout.decode().split("\0") if name]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


@pytest.fixture(scope="session")
def pyproject() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as stream:
        return tomllib.load(stream)
