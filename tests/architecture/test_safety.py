"""Nothing shared is unpickled, no shell is asked, no listener faces the network."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.tree import Source, imports_of, nodes_of

UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
CONTROLS = {
    ("scripts/benches/_wire.py", "torch.save"),
    ("Daddy/sandbox/runner/become_command.py", "exec"),
    ("Daddy/codegen/harness.py", "exec"),
    ("Daddy/codegen/tasks.py", "eval"),
}
"""A bench writes the file that others ship, to count its bytes; nothing reads it. Inside a sandbox
a process that has no rights any more becomes a Python command, and there the harness loads a
completion. Expressions of a tasks file are the person's own code, as the file is."""
CALLS = {"torch.load", "torch.save", "os.system", "os.popen", "eval", "exec"}
EVERY_INTERFACE = "0.0.0.0"
HANDLERS = {
    "Daddy/__init__.py",
    "Daddy/core/entry_point.py",
    "Daddy/core/process_pool.py",
    "Daddy/cluster/orchestrator/local_job.py",
    "Daddy/core/stop_conditions.py",
    "Daddy/sandbox/runner/serve.py",  # does nothing: a pipe tells of the signal
    "Daddy/learning/env_process_entry.py",  # a timer, only while the process imports
    "Daddy/learning/vector_pufferlib.py",  # raises in pufferlib's polling loop, which has no lock
    "Daddy/weights/sync.py",
    "cluster/testbed/supervisor.py",
    "scripts/benches/__main__.py",
    "scripts/demonstration/__main__.py",
}
"""Modules with reviewed signal handlers. A handler that sets an event or raises may hang the code
that it interrupts; those of ``core/stop_conditions`` cannot."""
WRITES = {"write_text", "write_bytes"}


def dangers(source: Source) -> Iterator[str]:
    for name, line in imports_of(source.tree):
        if name.split(".")[0] in UNPICKLERS:
            yield f"{source.path}:{line} imports {name}"
    for node in nodes_of(source.tree):
        if isinstance(node, ast.Call):
            if (source.path, ast.unparse(node.func)) not in CONTROLS:
                yield from (f"{source.path}:{node.lineno} {what}" for what in dangerous_call(node))
        elif isinstance(node, ast.Constant) and node.value == EVERY_INTERFACE:
            yield f"{source.path}:{node.lineno} names {EVERY_INTERFACE}"


def dangerous_call(node: ast.Call) -> Iterator[str]:
    called = ast.unparse(node.func)
    if called in CALLS:
        yield f"calls {called}"
    for keyword in node.keywords:
        is_true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        if keyword.arg in {"shell", "allow_pickle"} and is_true:
            yield f"passes {keyword.arg}=True"


def test_no_module_unpickles_asks_a_shell_or_listens_to_the_network(sources: list[Source]) -> None:
    assert [danger for source in sources for danger in dangers(source)] == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from shelve import open",
        "torch.load(path)",
        "run(command, shell=True)",
        "np.load(path, allow_pickle=True)",
        "listen('0.0.0.0')",
        "os.system('ls')",
    ],
)
def test_each_danger_is_noticed(line: str) -> None:
    assert list(dangers(Source("Daddy/x.py", "Daddy.x", line, ast.parse(line))))


def test_handlers_of_signals_are_few(sources: list[Source]) -> None:
    handling = {
        source.path
        for source in sources
        for node in nodes_of(source.tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"signal.signal", "signal"}
        and ast.unparse(node.args[1]) != "signal.SIG_IGN"
    }
    assert sorted(handling - HANDLERS) == []


def test_files_are_written_through_core_files(package: list[Source]) -> None:
    """A linter sees a banned function, not a banned method; a torn file is what this prevents."""
    elsewhere = [
        f"{source.path}:{node.lineno} {ast.unparse(node.func)}"
        for source in package
        if source.path != "Daddy/core/atomic_files.py"
        for node in nodes_of(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in WRITES
    ]
    assert elsewhere == []
