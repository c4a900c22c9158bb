"""Pure. Finds a banned pattern in source code, by its syntax tree.

- A pattern that reads as a name or a call (``sorted``, ``sorted(``) bans the name everywhere: as a
  variable, an attribute or a part of an import. One that reads as an attribute (``.sort``,
  ``list.sort(``) bans the attribute.
- ``import`` bans import statements and ``__import__``.
- Any other text (``[::-1]``, ``while``) is searched in the code without comments and string
  literals; blanks do not count.
- With any ban, lookups by a name that is made at run time are banned as well.

A method of a built-in type is banned by syntax alone. Modules offer everything in other words, so
a task that bans a name should ban ``import``, too.
"""

import ast
import keyword
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from Daddy.codegen.extract import parse_code

_NAME = re.compile(r"([\w.]*\.)?(\w+)(?:\(\)?)?")
_IMPORT = "__import__"
_DUNDER = re.compile(r"__\w+__")
_FIELD = re.compile(r"\{[^{}:!]*[.\[]")
"""A field of a format that takes an attribute or an item."""
_OWN_DUNDERS = {"__name__", "__init__"}
_LOOKUPS = {
    "getattr", "setattr", "delattr", "hasattr", "vars", "globals", "locals", "eval", "exec",
    "compile", "breakpoint",
}  # fmt: skip
"""Built-in functions that look up a name by text."""
_LOOKUP_PARTS = {
    "*", "builtins", "modules", "attrgetter", "methodcaller", "import_module", "importlib", "runpy",
    "inspect", "ctypes", "gc", "pickle", "marshal", "Formatter", "CodeType", "codeobj", "f_code",
    "gi_code", "cr_code", "ag_code", "gi_frame", "cr_frame", "ag_frame", "tb_frame", "f_back",
    "f_builtins", "f_globals", "f_locals", "_getframe",
}  # fmt: skip
"""The same among attributes and imports, and the ways to frames and code, which hold names."""


@dataclass(frozen=True)
class Bans:
    """Names and texts that a task bans."""

    names: frozenset[str]
    """Names of variables, attributes and modules; with ``import``, ``__import__``."""
    attributes: frozenset[str]
    texts: tuple[str, ...]


def read_bans(patterns: Iterable[str]) -> Bans:
    """Return what the patterns ban."""
    names, attributes, texts = set(), set(), []
    for pattern in map(str.strip, patterns):
        found = _NAME.fullmatch(_IMPORT if pattern == "import" else pattern)
        if not found or keyword.iskeyword(found[2]) or not found[2].isidentifier():
            texts.append(pattern)
        elif found[1]:
            attributes.add(found[2])
        else:
            names.add(found[2])
    return Bans(frozenset(names), frozenset(attributes), tuple(texts))


def find_ban(source: str, bans: Bans) -> str:
    """Return the reason for which the source is not run: banned or unparsable; empty: none."""
    try:
        tree = parse_code(source)
        if not (bans.names or bans.attributes or bans.texts):
            return ""
        for node in ast.walk(tree):
            if why := _node_ban(node, bans):
                return f"banned: {why} (line {getattr(node, 'lineno', '?')})"
        return _text_ban(tree, bans.texts)
    except (ValueError, RecursionError) as error:
        return f"unparsable: {error}"


def _node_ban(node: ast.AST, bans: Bans) -> str:
    if _IMPORT in bans.names and isinstance(node, ast.Import | ast.ImportFrom):
        return "import"
    if isinstance(node, ast.MatchClass) and node.patterns:
        return "a class pattern with positions, a lookup by text"
    if isinstance(node, ast.Attribute) and node.attr in ("format", "format_map"):
        text = node.value.value if isinstance(node.value, ast.Constant) else None
        if not isinstance(text, str) or _FIELD.search(text):
            return f".{node.attr} that may look up an attribute"
    for name, is_part in _names_in(node):
        if name in bans.names or (is_part and name in bans.attributes):
            return name
        lookups = _LOOKUP_PARTS if is_part else _LOOKUPS
        if name in lookups or (_DUNDER.fullmatch(name) and name not in _OWN_DUNDERS):
            return f"{name}, a lookup by text"
    return ""


def _names_in(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """Give the names that a node uses, and whether it takes them from an object or a module."""
    if isinstance(node, ast.Name):
        yield node.id, False
    elif isinstance(node, ast.Attribute):
        yield node.attr, True
    elif isinstance(node, ast.alias):
        yield from ((part, True) for part in node.name.split("."))
    elif isinstance(node, ast.ImportFrom):
        yield from ((part, True) for part in (node.module or "").split("."))
    elif isinstance(node, ast.MatchClass):
        yield from ((name, True) for name in node.kwd_attrs)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name, False


def _text_ban(tree: ast.Module, texts: Iterable[str]) -> str:
    """Search texts in the code; empties the tree's string literals."""
    for node in ast.walk(tree) if texts else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            node.value = type(node.value)()
    code = ast.unparse(tree) if texts else ""
    for text in texts:
        parts = r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", text)))
        if re.search(rf"\b{parts}\b" if keyword.iskeyword(text) else parts, code):
            return f"banned: {text}"
    return ""
