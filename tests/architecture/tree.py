"""Reading our own code: a module as text and as a syntax tree, and what it imports."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """One Python file of ours."""

    path: str
    name: str
    text: str
    tree: ast.Module

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.tree) or ""


def read_source(path: Path, root: Path) -> Source:
    relative = path.relative_to(root)
    parts = list(relative.with_suffix("").parts)
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text()
    return Source(relative.as_posix(), name, text, ast.parse(text, filename=str(path)))


@cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Every node; a tree is walked once, however many rules ask."""
    return tuple(ast.walk(tree))


@cache
def imports_of(tree: ast.Module) -> tuple[tuple[str, int], ...]:
    """Every import of `_find_imports`."""
    return tuple(_find_imports(tree))


def _find_imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every imported module with its line: at the top, inside functions, and by name at run time.

    Imports under `if TYPE_CHECKING:` are read by mypy only and do not count.
    """
    hidden = {
        id(node) for block in nodes_of(tree) if _is_typing_only(block) for node in _body(block)
    }
    for node in nodes_of(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node) in {"import_module", "__import__"}:
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value, node.lineno


def _is_typing_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _body(block: ast.AST) -> Iterator[ast.AST]:
    for statement in getattr(block, "body", []):
        yield from ast.walk(statement)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
