"""Values are compared outside of the sandbox, with exact types; everything else is a claim."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.codegen.grade_outcome import grade_outcome, is_same
from Daddy.codegen.harness import MOST_TEXT, literal_text
from Daddy.sandbox.sandbox_interfaces import Ending, Outcome

KEYS = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=5)


def plain(leaves: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.lists(inner, max_size=3).map(tuple)
            | st.sets(KEYS, max_size=4)
            | st.dictionaries(KEYS, inner, max_size=4)
        ),
        max_leaves=12,
    )


def judge(told: str, *expected: str, ending: Ending = "exited", code: int = 0) -> tuple[float, str]:
    grade = grade_outcome(Outcome(ending, code, fd3_output=told.encode()), "n0", expected)
    assert grade.reward is not None
    return grade.reward, "; ".join((grade.reason, *grade.tests))


@given(plain(KEYS | st.floats(allow_nan=False, allow_infinity=False)))
def test_a_plain_value_comes_back_as_it_was(value: object) -> None:
    text = literal_text(value)
    assert text.isascii()
    assert text.isprintable()
    assert is_same(ast.literal_eval(text), value)
    assert judge(f"n0 0 ok {text}\n", text)[0] == 1


@given(plain(KEYS), plain(KEYS))
def test_values_without_floats_are_the_same_only_if_python_calls_them_equal(
    found: object, expected: object
) -> None:
    assert found == expected or not is_same(found, expected)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (True, 1),
        (1.0, 1),
        ([1, True], [1, 1]),
        ((1,), [1]),
        ({1: "a"}, {True: "a"}),
        ({(1,)}, {(1.0,)}),
        ({"a": 1.0}, {"a": 1}),
        ([1], [1, 1]),
        ("1", b"1"),
        (None, 0),
        (0.1, 0.1001),
    ],
)
def test_types_are_exact_in_all_parts(found: object, expected: object) -> None:
    assert not is_same(found, expected)
    assert is_same(expected, expected)
    assert judge(f"n0 0 ok {found!r}\n", repr(expected))[0] == 0


def test_floats_are_the_same_within_a_billionth_and_a_dict_in_any_order() -> None:
    assert is_same([0.1 + 0.2, 1e9 + 0.5, 1e-13, -0.0], [0.3, 1e9, 0.0, 0.0])
    assert not any(map(is_same, [1e9 + 2, 1e-11], [1e9, 0.0]))
    assert is_same({"a": 1, "b": {2, 3}}, {"b": {3, 2}, "a": 1})
    assert judge("n0 0 ok [0.30000000000000004]\n", "[0.3]")[0] == 1


@pytest.mark.parametrize(
    ("ending", "code", "reason"),
    [
        ("timed out", -9, "timed out"),
        ("out of memory", -9, "out of memory"),
        ("too much output", -9, "too much output"),
        ("exited", -11, "killed by signal 11"),
    ],
)
def test_a_command_that_was_killed_earns_nothing_for_what_it_wrote(
    ending: Ending, code: int, reason: str
) -> None:
    assert judge("n0 0 ok 1\n", "1", ending=ending, code=code) == (-1, reason)


@pytest.mark.parametrize(
    "told",
    [
        "",
        "n0 0 ok 1\n",
        "n0 0 ok 1\nn0 1 ok 2",
        "n0 0 ok 1\nn0 1 ok 2\nn0 2 ok 3\n",
        "n0 0 ok 1\nn0 0 ok 2\n",
        "n0 1 ok 2\nn0 0 ok 1\n",
        "n1 0 ok 1\nn1 1 ok 2\n",
        "x\nn0 0 ok 1\nn0 1 ok 2\n",
    ],
)
def test_another_count_order_or_nonce_is_refused(told: str) -> None:
    assert judge(told, "1", "2")[0] == -1
    assert judge("n0 0 ok 1\nn0 1 ok 2\n", "1", "2")[0] == 1


def test_a_failed_test_fails_alone() -> None:
    told = "n0 0 ok 1\nn0 1 raised KeyError\nn0 2 ok 4\nn0 3 no plain value: Row\n"
    assert judge(told, "1", "2", "3", "4") == (
        0.25,
        "1 of 4 tests passed; passed; raised KeyError; returned 4; no plain value: Row",
    )


@pytest.mark.parametrize(
    "told",
    ["passed", "ok passed", "ok __import__('os')", "ok " + "(" * 900, "ok \x1b[2J", "okay 1", ""],
)
def test_a_claim_is_neither_believed_nor_evaluated(told: str) -> None:
    reward, reason = judge(f"n0 0 {told}\n", "(1,)" * 300)
    assert reward == 0
    assert reason.startswith("0 of 1 tests passed; ")
    assert reason.isprintable()


class _Meta(type):
    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return hash(int)


class _Odd(metaclass=_Meta):
    def __repr__(self) -> str:
        return "6"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (_Odd(), "no plain value: _Odd"),
        ([_Odd()], "no plain value: _Odd"),
        (frozenset(), "no plain value: frozenset"),
        (float("nan"), "no plain value: an infinite number or none"),
        ("x" * MOST_TEXT, "too large"),
        ("\n" * (MOST_TEXT // 2), "too large"),
        ([1 << 4 * MOST_TEXT], "too large"),
        ([[]] * MOST_TEXT, "too large"),
    ],
)
def test_only_bounded_values_of_plain_types_are_written(value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        literal_text(value)


def test_a_value_that_holds_itself_is_too_deep() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="too deep"):
        literal_text(endless)
