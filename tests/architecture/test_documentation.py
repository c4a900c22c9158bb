"""Every command, setting and exit code is documented, and documented commands work."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

from Daddy.core.errors import ExitCode
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"```(?:bash|sh|console|shell)?\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"(?:\$ )?python3? -m (Daddy[\w.]*)(.*)")
FLAG = re.compile(r"--[a-z][a-z0-9-]*")


def guide() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """(module, arguments) of each `python -m Daddy…` in the fenced blocks, continuations joined."""
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if found := COMMAND.match(line.strip()):
                yield found.group(1), shlex.split(found.group(2), comments=True)


@cache
def help_of(module: str, subcommand: str) -> str:
    argv = [sys.executable, "-m", module, *([subcommand] if subcommand else []), "--help"]
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def faults(module: str, arguments: list[str]) -> Iterator[str]:
    first = arguments[0] if arguments else ""
    subcommand = first if re.fullmatch(r"[a-z]+", first) else ""
    told = help_of(module, subcommand) or help_of(module, "")
    if not told:
        yield f"python -m {module} --help fails"
    known = set(FLAG.findall(told))
    flags = [argument.split("=")[0] for argument in arguments if argument.startswith("--")]
    yield from (f"python -m {module} {first}: no {flag}" for flag in flags if flag not in known)


def test_every_command_in_the_guide_is_understood() -> None:
    typed = [command for page in guide() for command in commands(page.read_text())]
    assert typed
    assert sorted({fault for module, rest in typed for fault in faults(module, rest)}) == []


def test_a_command_with_an_unknown_flag_is_noticed() -> None:
    text = "```bash\npython -m Daddy.streaming.tunnel_server \\\n  --prot 9999  # a typo\n```"
    ((module, arguments),) = commands(text)
    assert list(faults(module, arguments)) == [
        "python -m Daddy.streaming.tunnel_server --prot: no --prot"
    ]


def test_every_exit_code_has_a_row_in_the_documentation() -> None:
    text = (ROOT / "docs" / "exit-codes.md").read_text()
    rows = {int(code) for code in re.findall(r"^\|\s*`?(\d+)`?\s*\|", text, re.MULTILINE)}
    assert rows == {int(code) for code in ExitCode}


def keys_of(model: Any) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield field.alias or name
        for kind in (field.annotation, *get_args(field.annotation)):
            if hasattr(kind, "model_fields"):
                yield from keys_of(kind)


def test_every_config_key_is_documented() -> None:
    from Daddy.core.load_config import Config

    text = (ROOT / "docs" / "configuration.md").read_text()
    missing = [key for key in keys_of(Config) if f"`{key}`" not in text]
    assert missing == []


def test_every_module_that_a_package_lists_exists() -> None:
    line = re.compile(r"^([a-z_]+(?:, [a-z_]+)*)  +\S", re.MULTILINE)
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in sorted((ROOT / "Daddy").rglob("__init__.py"))
        for names in line.findall(page.read_text())
        for name in names.split(", ")
        if not (page.parent / f"{name}.py").exists() and not (page.parent / name).is_dir()
    ]
    assert missing == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [*guide(), ROOT / "CONTRIBUTING.md"]
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_test_that_the_table_of_faults_names_exists() -> None:
    there = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs" / "faults.md").read_text())
    assert len(named) > 100
    assert [name for name in named if f"def {name}(" not in there] == []
