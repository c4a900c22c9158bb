"""Each extra that a command may miss is in pyproject.toml, and the line that installs it works."""

import ast
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from Daddy.core.errors import OWN_ENVIRONMENT, ExitCode, ExtraMissingError, needs_extra
from tests.architecture.tree import Source, nodes_of
from tests.patience import PATIENCE_S

EXTRA_AT = {"needs_extra": 0, "ExtraMissingError": 1}
"""Call → place of the extra's name among its arguments."""
DRY = ["--dry-run", "--no-index", "--no-build-isolation"]


def extras_named(source: Source) -> Iterator[str]:
    """Yield the extras in calls; an argument that is no text is given as code."""
    for node in nodes_of(source.tree):
        place = EXTRA_AT.get(ast.unparse(node.func)) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and place is not None:
            extra = (node.args + [keyword.value for keyword in node.keywords])[place]
            yield extra.value if isinstance(extra, ast.Constant) else ast.unparse(extra)


def test_every_extra_that_the_code_names_is_declared(
    sources: list[Source], pyproject: dict[str, Any]
) -> None:
    declared = {*pyproject["project"]["optional-dependencies"]}
    named = {
        f"{source.path}: {extra}"
        for source in sources
        if source.name != "Daddy.core.errors"
        for extra in extras_named(source)
        if extra not in declared
    }
    assert sorted(named) == []
    assert declared >= OWN_ENVIRONMENT.keys()


def test_the_extra_in_a_call_is_found() -> None:
    code = "with needs_extra('a'):\n    import b\nraise ExtraMissingError('b', extra='c')\n"
    assert sorted(extras_named(Source("", "", code, ast.parse(code)))) == ["a", "c"]


def test_a_missing_package_names_its_extra_and_another_error_stays() -> None:
    with pytest.raises(ExtraMissingError, match="no_such_package") as caught, needs_extra("scale"):
        import no_such_package.part  # noqa: F401
    assert caught.value.exit_code == ExitCode.PACKAGES_MISSING == 14
    assert "[scale]" in caught.value.fix
    with pytest.raises(ImportError, match="no_such_name") as other, needs_extra("scale"):
        from json import no_such_name  # noqa: F401
    assert not isinstance(other.value, ExtraMissingError)


def told(extra: str) -> list[str]:
    return shlex.split(ExtraMissingError("x", extra).fix.partition(": ")[2])


def asked_of_pip(folder: Path, words: list[str]) -> str:
    """Return pip's output for a line, with no index to take a package from."""
    assert words[:3] == [".venv/bin/python", "-m", "pip"]
    typed = [sys.executable, *words[1:4], *DRY, *words[4:]]
    return subprocess.run(
        typed, cwd=folder, stdout=-1, stderr=-2, text=True, timeout=PATIENCE_S, check=False
    ).stdout


def test_pip_takes_the_line_of_the_message(tmp_path: Path, root: Path) -> None:
    for name in ("pyproject.toml", "constraints.txt", "README.md"):
        shutil.copy(root / name, tmp_path)
    (tmp_path / "Daddy").mkdir()
    assert "dask" in asked_of_pip(tmp_path, told("scale"))
    other = asked_of_pip(tmp_path, told("no-such-extra"))
    assert "does not provide the extra" in other
    assert "dask" not in other


@pytest.mark.parametrize("extra", sorted(OWN_ENVIRONMENT))
def test_an_extra_that_fits_beside_no_other_gets_an_environment(
    extra: str, pyproject: dict[str, Any]
) -> None:
    python, *words = told(extra)
    folder = f"runs/{extra}"
    assert words[:4] == ["-m", "venv", folder, "&&"]
    assert words[4:] == [f"{folder}/bin/python", "-m", "pip", "install", "-e", f".[{extra}]"]
    needed = " ".join(pyproject["project"]["optional-dependencies"][extra])
    (oldest,) = set(re.findall(r"python_version >= '([\d.]+)'", needed))
    assert python == f"python{oldest}"
