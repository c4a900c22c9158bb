"""Each third-party library is imported in exactly the modules that are its doors."""

from __future__ import annotations

import ast
from fnmatch import fnmatch

from tests.architecture.tree import Source, imports_of

DOORS = {
    "pyboy": ["Daddy/pokemon/emulator.py"],
    "pufferlib": ["Daddy/learning/vector*.py", "scripts/benches/vector.py"],
    "submitit": [
        "Daddy/cluster/orchestrator/slurm_scheduler.py",
        "Daddy/cluster/orchestrator/local_scheduler.py",
        "Daddy/cluster/orchestrator/slurm_templates.py",
    ],
    "paramiko": ["Daddy/core/ssh.py"],
    "psutil": ["Daddy/core/machine.py"],
    "pygame": ["Daddy/streaming/viewer.py"],
    "torch": [
        "Daddy/learning/*.py",
        "Daddy/weights/polyak.py",
        "Daddy/weights/codec.py",
        "Daddy/weights/exchange.py",
    ],
    "matplotlib": ["scripts/*.py"],
    "subprocess": ["Daddy/core/process.py", "scripts/*.py"],
}


def opened_elsewhere(library: str, sources: list[Source]) -> list[str]:
    return [
        f"{source.path}:{line} imports {name}"
        for source in sources
        for name, line in imports_of(source.tree)
        if name.split(".")[0] == library
        and not any(fnmatch(source.path, door) for door in DOORS[library])
    ]


def test_a_library_is_imported_only_in_its_doors(sources: list[Source]) -> None:
    assert [line for library in DOORS for line in opened_elsewhere(library, sources)] == []


def test_every_door_exists_and_uses_its_library(sources: list[Source]) -> None:
    unused = [
        library
        for library in DOORS
        if not any(
            name.split(".")[0] == library
            for source in sources
            for name, _ in imports_of(source.tree)
        )
    ]
    assert unused == []


def test_an_import_inside_a_function_or_by_name_is_seen_and_one_for_types_is_not() -> None:
    tree = ast.parse(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import pyboy\n"
        "def late():\n    import torch.nn\n"
        "importlib.import_module('pygame')\n"
    )
    names = {name for name, _ in imports_of(tree)}
    assert names >= {"torch.nn", "pygame"}
    assert "pyboy" not in names


def test_packages_of_one_floor_do_not_import_each_other(package: list[Source]) -> None:
    """The dynamic twin of the layers contract: also imports that a linter cannot resolve."""
    siblings = {"pokemon", "learning", "weights", "streaming", "hardware", "cluster"}
    crossed = []
    for source in package:
        own = source.name.split(".")[1:2]
        if own and own[0] in siblings | {"core"}:
            others = siblings - set(own)
            crossed += [
                f"{source.path}:{line} imports {name}"
                for name, line in imports_of(source.tree)
                if name.startswith("Daddy.") and name.split(".")[1] in others
            ]
    assert sorted(set(crossed)) == []
