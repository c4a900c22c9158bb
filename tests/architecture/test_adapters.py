"""Each third-party library has one adapter, and a pure module reaches no input, output or clock."""

import ast
import re
from fnmatch import fnmatch
from typing import Any

from tests.architecture.tree import Source, imports_of

ADAPTERS = {
    "pyboy": ["Daddy/pokemon/emulator.py"],
    "pufferlib": [
        "Daddy/learning/vector_pufferlib.py",
        "Daddy/pokemon/puffer_env.py",
        "scripts/benches/_vector_peers.py",
    ],
    "submitit": ["Daddy/cluster/orchestrator/slurm_templates.py"],
    "dask": ["Daddy/fanout/dask_engine.py"],
    "distributed": ["Daddy/fanout/dask_engine.py"],
    "dask_jobqueue": ["Daddy/fanout/dask_engine.py"],
    "paramiko": ["Daddy/weights/laptop/rsync_sftp.py"],
    "psutil": ["Daddy/core/host_and_processes.py", "scripts/*.py"],
    "pygame": ["Daddy/streaming/viewer/pygame_window.py"],
    "PIL": ["Daddy/streaming/viewer/clip_writer.py", "scripts/*.py"],
    "torch": [
        "Daddy/grpo/*.py",
        "Daddy/learning/*.py",
        "Daddy/weights/encoding/state_arithmetic.py",
        "Daddy/weights/encoding/state_codec.py",
        "Daddy/weights/weight_exchange.py",
        "Daddy/weights/encoding/quantise.py",
        "scripts/benches/_sharing_*.py",
        "scripts/benches/_wire.py",
        "scripts/benches/train.py",
        "scripts/soaks/weights_fleet.py",
        "scripts/soaks/hostile.py",
        "scripts/examples/cartpole_task.py",
    ],
    "stable_baselines3": [
        "scripts/benches/_vector_peers.py",
        "scripts/examples/cartpole_task.py",
    ],
    "matplotlib": [
        "Daddy/grpo/reward_plot.py",
        "Daddy/search/sweep_report_plot.py",
        "Daddy/weights/lineage_plot.py",
        "scripts/*.py",
    ],
    "trl": ["Daddy/grpo/grpo_trainer.py"],
    "datasets": ["Daddy/grpo/grpo_trainer.py"],
    "peft": ["Daddy/grpo/grpo_trainer.py"],
    "transformers": ["Daddy/grpo/*.py"],
    "tokenizers": ["Daddy/grpo/tiny_model.py"],
    "optuna": ["Daddy/search/study.py"],
    "wandb": ["Daddy/search/wandb_runs.py"],
    "daytona": ["Daddy/sandbox/daytona_backend.py"],
    "harbor": ["Daddy/terminal/harbor_adapter.py"],
    "tinker": ["Daddy/terminal/tinker_adapter.py"],
    "tinker_cookbook": ["Daddy/terminal/tinker_adapter.py"],
    "chz": ["Daddy/terminal/tinker_adapter.py"],
    "subprocess": ["Daddy/core/run_subprocess.py", "scripts/*.py"],
}


IMPURE = {
    "os", "io", "subprocess", "socket", "shutil", "time",
    "signal", "threading", "random", "logging", "tempfile", "pathlib",
}  # fmt: skip
"""Modules of the standard library that read a clock, draw a number or do input and output."""


def opened_elsewhere(library: str, sources: list[Source]) -> list[str]:
    return [
        f"{source.path}:{line} imports {name}"
        for source in sources
        for name, line in imports_of(source.tree)
        if name.split(".")[0] == library
        and not any(fnmatch(source.path, adapter) for adapter in ADAPTERS[library])
    ]


def test_a_library_is_imported_only_in_its_adapters(sources: list[Source]) -> None:
    assert [line for library in ADAPTERS for line in opened_elsewhere(library, sources)] == []


def is_pure(source: Source) -> bool:
    return source.docstring.startswith(("Pure:", "Pure."))


def impure_path(start: str, imports: dict[str, set[str]]) -> list[str]:
    """The shortest chain of imports from ``start`` to a module in IMPURE; empty: there is none."""
    chains, seen = [[start]], {start}
    for chain in chains:
        for name in sorted(imports[chain[-1]] - seen):
            if name.split(".")[0] in IMPURE:
                return [*chain, name]
            if name in imports:
                seen.add(name)
                chains.append([*chain, name])
    return []


def test_a_pure_module_reaches_no_clock_and_no_file(package: list[Source]) -> None:
    """Purity is told by the docstring alone; it holds through everything the module imports."""
    imports = {source.name: {name for name, _ in imports_of(source.tree)} for source in package}
    pure = [source.name for source in package if is_pure(source)]
    assert pure
    assert [path for name in pure if (path := impure_path(name, imports))] == []


def test_an_import_two_steps_away_is_found() -> None:
    imports = {"a": {"b"}, "b": {"c", "json"}, "c": {"pathlib.Path"}}
    assert impure_path("a", imports) == ["a", "b", "c", "pathlib.Path"]
    assert impure_path("a", {"a": {"json"}}) == []


def test_every_dependency_is_used_by_its_adapter(
    sources: list[Source], pyproject: dict[str, Any]
) -> None:
    """A dependency that no module imports is not declared."""
    declared = {name_of(requirement) for requirement in pyproject["project"]["dependencies"]}
    used = {name.split(".")[0] for source in sources for name, _ in imports_of(source.tree)}
    assert sorted(declared - used) == []


def test_the_importers_of_a_library_call_themselves_its_adapter(package: list[Source]) -> None:
    """Libraries with one or two adapters; torch and subprocess are tools of whole packages."""
    told = ("pyboy", "paramiko", "psutil", "pygame", "matplotlib", "daytona")
    silent = [
        source.path
        for source in package
        if {name.split(".")[0] for name, _ in imports_of(source.tree)} & set(told)
        and not source.docstring.startswith(("Adapter for",))
    ]
    assert silent == []


def name_of(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


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
