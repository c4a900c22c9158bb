"""Names and sentences are plain: a stranger reads them without a dictionary."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import Source, nodes_of

ASK = re.compile(r"(?:What|Who|Whoever|Whose|Whom|Whether|How|Where)\b")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LABEL = re.compile(r"(?:Pure|Entry|Adapter for [^.:]*)[.:]\s+")
HELP = {"help", "description", "epilog"}
MODULES_A_NAME = 3
OF_LIBRARIES = {
    "close", "reset", "step", "run", "write", "read", "wait", "send", "load", "update", "add",
    "report",
}  # fmt: skip
"""Methods of files, environments, sockets, threads, torch modules and trials of Optuna, which ours
stand in for."""
OF_ENTRIES = {"main", "cli", "make_parser"}


def sentences(text: str) -> Iterator[str]:
    """The sentences of a docstring, of its list items too, each with a capital first letter."""
    for paragraph in re.split(r"\n\s*\n|\n\s*(?=[-*] |\d+\. )", text):
        line = re.sub(r"^(?:[-*]|\d+\.)\s+", "", " ".join(paragraph.split()))
        line = LABEL.sub("", line, count=1) if LABEL.match(line) else line
        for sentence in re.split(r"(?<=[.!?])[\"'”)`]*\s+", line):
            yield sentence[:1].upper() + sentence[1:]


def texts_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Docstrings, of constants too, and help texts, each with its line."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Call):
            for keyword in (k for k in node.keywords if k.arg in HELP):
                words = [c.value for c in ast.walk(keyword.value) if isinstance(c, ast.Constant)]
                yield keyword.value.lineno, " ".join(w for w in words if isinstance(w, str))
        body = getattr(node, "body", None)
        for number, statement in enumerate(body if isinstance(body, list) else []):
            before = body[number - 1] if number else None
            if _is_text(statement) and _may_have_one(node, before):
                yield statement.lineno, statement.value.value


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def _may_have_one(node: ast.AST, before: ast.AST | None) -> bool:
    documented = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    return isinstance(before, ast.Assign | ast.AnnAssign) or (
        before is None and isinstance(node, documented)
    )


def questions(text: str) -> list[str]:
    return [sentence for sentence in sentences(text) if ASK.match(sentence)]


def test_no_docstring_or_help_text_begins_a_sentence_with_a_question_word(
    sources: list[Source], beside: list[Source]
) -> None:
    asked = [
        f"{source.path}:{line} {sentence[:60]}"
        for source in [*sources, *beside]
        for line, text in texts_of(source.tree)
        for sentence in questions(text)
    ]
    assert asked == []


def test_no_heading_is_a_question_word_clause(root: Path) -> None:
    """Questions of the FAQ end with a question mark."""
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "cluster").rglob("*.md")]
    headings = [
        f"{page.name}: {heading}"
        for page in pages
        for heading in re.findall(r"^#+ +(.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    ]
    assert len(headings) > 100
    assert [h for h in headings if ASK.match(h.split(": ")[1]) and not h.endswith("?")] == []


def test_a_question_word_is_found_in_every_place() -> None:
    text = (
        'def f():\n    """Do. Whose it is.\n\n    - where: here\n    """\nK = 1\n"""How it is."""\n'
    )
    found = sorted(q for _, t in texts_of(ast.parse(text)) for q in questions(t))
    assert found == ["How it is.", "Where: here", "Whose it is."]
    assert questions("Pure. Whether it is so.") == ["Whether it is so."]
    assert questions("Return what is there, and how it came.") == []
    (help_text,) = texts_of(ast.parse('add("--x", help="who " + "may")'))
    assert questions(help_text[1]) == ["Who may"]


def test_no_local_is_called_one(sources: list[Source], beside: list[Source]) -> None:
    nameless = [
        f"{source.path}:{node.lineno}"
        for source in [*sources, *beside]
        for node in nodes_of(source.tree)
        if (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == "one")
        or (isinstance(node, ast.arg) and node.arg == "one")
    ]
    assert nameless == []


def test_a_public_class_has_its_name_alone(package: list[Source]) -> None:
    where = defaultdict(set)
    for source in package:
        for node in nodes_of(source.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].add(source.name)
    assert {name: modules for name, modules in where.items() if len(modules) > 1} == {}


def test_a_public_function_can_be_searched_for(package: list[Source]) -> None:
    """Its name occurs in three modules at most, unless an interface of ours or a library has it."""
    where, shared = defaultdict(set), OF_LIBRARIES | OF_ENTRIES
    for source in package:
        for node in nodes_of(source.tree):
            if isinstance(node, ast.ClassDef) and {"ABC", "Protocol"} & {
                *map(ast.unparse, node.bases)
            }:
                shared |= {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                where[node.name].add(source.name)
    crowded = {name: modules for name, modules in where.items() if len(modules) > MODULES_A_NAME}
    assert {name: modules for name, modules in crowded.items() if name not in shared} == {}


def test_a_module_has_its_name_alone(package: list[Source]) -> None:
    """Two commands are called ``status``: the run's and the weights'."""
    where = defaultdict(set)
    for source in package:
        where[source.name.rsplit(".", 1)[-1]].add(source.path)
    double = {n for n, paths in where.items() if sum("__" not in p for p in paths) > 1}
    assert double <= {"status"}
