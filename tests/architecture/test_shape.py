"""Files fit in a head, functions on a screen, and every module says what it owns."""

import ast

from tests.architecture.tree import Source, nodes_of

FILE_LINES = 500
FUNCTION_LINES = 45


def test_no_file_is_longer_than_five_hundred_lines(sources: list[Source]) -> None:
    lengths = {source.path: len(source.text.splitlines()) for source in sources}
    assert {path: n for path, n in lengths.items() if n > FILE_LINES} == {}


def test_no_function_is_longer_than_forty_five_lines(sources: list[Source]) -> None:
    long = [
        f"{source.path}:{node.lineno} {node.name} has {_lines(node)} lines"
        for source in sources
        for node in nodes_of(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and _lines(node) > FUNCTION_LINES
    ]
    assert long == []


def _lines(node: ast.AST) -> int:
    return node.end_lineno - node.lineno + 1  # type: ignore[attr-defined]


def test_every_package_init_is_its_docstring_and_nothing_else(package: list[Source]) -> None:
    inits = [source for source in package if source.path.endswith("/__init__.py")]
    fuller = [s.path for s in inits if len(s.tree.body) != 1 or not s.docstring]
    assert fuller == ["Daddy/__init__.py"], "only it has a reason: Ctrl-C while a command loads"


def test_every_folder_with_modules_is_a_package_with_a_map(package: list[Source]) -> None:
    folders = {source.path.rpartition("/")[0] for source in package}
    mapped = {source.path.rpartition("/")[0] for source in package if "__init__" in source.path}
    assert folders - mapped == set()


def test_every_module_says_what_it_owns(sources: list[Source]) -> None:
    assert [source.path for source in sources if len(source.docstring) < 30] == []
