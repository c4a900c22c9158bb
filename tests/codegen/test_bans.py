"""Bans go by the syntax tree: words in comments, texts and longer names are free."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.codegen.bans import find_ban, read_bans
from tests.codegen.test_extract import TEXTS

FREE = [
    "# import sorted\nx = 1",
    "'''import sorted('''\nx = 'xs.sort()'",
    "sorted_part = [1]\nx = sorted_part",
    "def my_sorted(xs): return xs",
    "x = '{:.2f} {}'.format(1.5, f'{2:>{3}}')",
    "if __name__ == '__main__':\n    x = 1",
    "class Row:\n    def __init__(self): self.x = 1",
    "f(sorted=1)",
    "gc = modules = 1\nx = [gc, modules]",
    "pattern.compile(x)",
]
LOOKUPS = [
    "getattr(x, n)",
    "vars(x)[n]",
    "eval(n)",
    "exec(n)",
    "x.__class__",
    "__builtins__[n]",
    "'{0.sort}'.format(x)",
    "'{:{0.sort}}'.format(x)",
    "text.format(x)",
    "str.format(text, x)",
    "(x for x in y).gi_frame",
    "error.tb_frame.f_globals",
    "from operator import methodcaller as m",
    "import operator\noperator.attrgetter(n)",
    "import importlib",
    "from builtins import eval as e",
    "from operator import *",
    "import sys\nsys.modules[n]",
    "class A(list):\n    __match_args__ = (n,)",
    "match x:\n    case A(order): pass",
    "match x:\n    case list(__class__=c): pass",
]


@pytest.mark.parametrize("source", FREE)
def test_comments_texts_and_longer_names_are_free(source: str) -> None:
    assert find_ban(source, read_bans(["sorted(", ".sort(", "import ", "while True"])) == ""


@pytest.mark.parametrize("pattern", ["sorted", "sorted(", "sorted()"])
@pytest.mark.parametrize(
    "source",
    [
        "sorted(x)",
        "order = sorted",
        "builtins.sorted",
        "ｓｏｒｔｅｄ(x)",
        "from tools import sorted as s",
        "f'{sorted(x)}'",
        "match x:\n    case A(sorted=s): pass",
    ],
)
def test_a_name_is_banned_wherever_it_stands(pattern: str, source: str) -> None:
    assert find_ban(source, read_bans([pattern])).startswith("banned: sorted (line ")


@pytest.mark.parametrize("pattern", [".sort", ".sort(", "list.sort", "list.sort("])
def test_an_attribute_is_banned_and_a_variable_of_its_name_is_not(pattern: str) -> None:
    bans = read_bans([pattern])
    for source in ("x.sort()", "order = list . sort", "match x:\n    case list(sort=s): pass"):
        assert find_ban(source, bans).startswith("banned: sort ")
    assert find_ban("sort = 1", bans) == ""


@pytest.mark.parametrize("pattern", ["import", "import "])
def test_import_bans_statements_and_the_function(pattern: str) -> None:
    bans = read_bans([pattern])
    for source in ("import os", "from os import path", "def f():\n    import os", "__import__(n)"):
        assert find_ban(source, bans).startswith("banned: ")
    assert find_ban("important = 1", bans) == ""


def test_a_module_is_banned_in_each_form_of_import() -> None:
    bans = read_bans(["heapq"])
    for source in (
        "import heapq as h",
        "import os, heapq",
        "from heapq import merge",
        "import a.heapq",
    ):
        assert find_ban(source, bans).startswith("banned: heapq ")
    assert find_ban("import bisect", bans) == ""


def test_other_texts_are_searched_in_code_alone_and_blanks_do_not_count() -> None:
    bans = read_bans(["[::-1]", "while True", "for "])
    assert find_ban("y = x[ : : -1 ]", bans) == "banned: [::-1]"
    assert find_ban("while  True: pass", bans) == "banned: while True"
    assert find_ban("y = [x for x in z]", bans) == "banned: for"
    assert find_ban("y = '[::-1]'  # while True, for\nforty = x[::1]\nf'{y}[::-1]'", bans) == ""


@pytest.mark.parametrize("source", LOOKUPS)
def test_lookups_at_run_time_are_rejected_where_anything_is_banned(source: str) -> None:
    assert find_ban(source, read_bans(["[::-1]"])).startswith("banned: ")
    assert find_ban(source, read_bans([])) == ""


def test_code_that_does_not_parse_is_told_from_code_that_is_banned() -> None:
    assert find_ban("x = (", read_bans([])).startswith("unparsable: ")
    assert find_ban("x = " + "a+" * 900 + "a", read_bans(["[::-1]"])).startswith("unparsable: ")


@given(TEXTS, st.lists(st.text(min_size=1, max_size=9) | st.sampled_from(["sorted(", "import "])))
def test_no_text_and_no_pattern_is_an_error(source: str, patterns: list[str]) -> None:
    assert isinstance(find_ban(source, read_bans(patterns)), str)
