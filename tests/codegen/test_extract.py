"""The code of a completion: the prompt goes on to the first unindented line, or a block has it."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.codegen.extract import MOST_CODE, complete_prompt, extract_code, parse_code

HEADER = "def f(xs):\n"
INSIDE = 'def f(xs):\n    """Return nothing'
BEHIND = 'def f(xs):\n    """Return nothing."""\n'
PROMPTS = [HEADER, "def f(xs):", INSIDE, INSIDE + "\n", BEHIND, BEHIND.rstrip(), BEHIND + "    "]


def test_a_completion_ends_at_its_first_unindented_line() -> None:
    assert extract_code(BEHIND, "    return 1\n\n    # end\nprint(f(1))\n    return 2\n", "f") == (
        BEHIND + "    return 1\n\n    # end\n"
    )


def test_a_completion_may_end_the_docstring_first() -> None:
    assert extract_code(INSIDE, ' special.\n    """\n    return 1\n', "f") == (
        INSIDE + ' special.\n    """\n    return 1\n\n'
    )


@pytest.mark.parametrize("prompt", PROMPTS)
def test_every_kind_of_prompt_can_be_completed(prompt: str) -> None:
    code = extract_code(prompt, complete_prompt(prompt, "f", "return 7"), "f")
    names: dict[str, object] = {}
    exec(code, names)
    assert names["f"](0) == 7
    assert code.startswith(prompt)


def test_a_chat_model_answers_with_the_block_that_defines_the_function() -> None:
    answer = "First:\n```bash\nls\n```\nThen:\n```python\ndef f(xs):\n    return 3\n"
    for prompt in (BEHIND, INSIDE, "Write a function f.\n"):
        assert extract_code(prompt, answer + "```\nDone.", "f") == "def f(xs):\n    return 3\n"
        assert extract_code(prompt, answer, "f"), "the block was cut off by the longest completion"
    assert complete_prompt("Write a function f.\n", "f", "return 7").startswith("```")


@pytest.mark.parametrize(
    "completion", ["", "\n", "  \n\n", "# nothing\n", "return 1\n", "Sorry.\n    return 1\n"]
)
def test_a_completion_without_a_body_is_empty(completion: str) -> None:
    assert extract_code(BEHIND, completion, "f") == ""


def test_a_docstring_alone_is_no_body_and_what_does_not_parse_is_kept() -> None:
    assert extract_code(INSIDE, '."""\n', "f") == ""
    assert extract_code(BEHIND, "    return (\n", "f") == BEHIND + "    return (\n\n"


@pytest.mark.parametrize(
    "source", ["(" * 9000, "x = " + "-" * 9000 + "1", "a" * (MOST_CODE + 1), "\ud800"]
)
def test_a_source_that_cannot_be_parsed_names_the_reason(source: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_code(source)


PIECES = st.sampled_from(
    [*BEHIND.split(" "), "```", "\n", '"""', "    return 1\n", "f'{", "\\", "\x00"]
)
TEXTS = st.text() | st.lists(PIECES | st.text(max_size=3)).map("".join)


@given(st.sampled_from(PROMPTS) | TEXTS, TEXTS)
def test_no_text_is_an_error(prompt: str, completion: str) -> None:
    code = extract_code(prompt, completion, "f")
    assert not code or code.startswith(prompt) or ast.parse(code)
