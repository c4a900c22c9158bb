"""Pure. Finds the source code in a completion.

A prompt ends inside a function: behind its header or its docstring, or in the docstring. A base
model continues it; a chat model may answer with a fenced block that has the whole function.
"""

import ast
import re

MOST_CODE = 16 * 1024
"""Longest source in characters: parsing takes stack and time by its length."""
_FENCE = re.compile(r"^```[^\n]*\n(.*?)(?:^```|\Z)", re.MULTILINE | re.DOTALL)


def extract_code(prompt: str, completion: str, func_name: str) -> str:
    """Return the source that defines the function; empty: the completion gives it no body.

    It is the prompt with the completion up to its first unindented line, or the first fenced block
    that defines the function. The source of neither may not parse.
    """
    continued, body = _continue(prompt, completion)
    defined = _has_body(continued, func_name)
    if defined:
        return continued
    for block in _FENCE.findall(completion):
        if _has_body(block, func_name):
            return str(block)
    return continued if defined is None and body.strip() else ""


def parse_code(source: str) -> ast.Module:
    """Return the syntax tree. Raises ValueError with the reason if the source has none."""
    if len(source) > MOST_CODE:
        raise ValueError(f"more than {MOST_CODE} characters")
    try:
        return ast.parse(source, "<completion>")
    except SyntaxError as error:
        raise ValueError(f"{error.msg} (line {error.lineno})") from None
    except (RecursionError, MemoryError):
        raise ValueError("nested too deep") from None


def complete_prompt(prompt: str, func_name: str, statement: str) -> str:
    """Return a completion that makes this statement the body of the prompt's function."""
    last = prompt.rstrip().rpartition("\n")[2]
    margin = last[: len(last) - len(last.lstrip())] or "    "
    for closing in ("", '"""', "'''"):
        for start in ("", "\n"):
            completion = f"{start}{margin}{closing}\n{margin}{statement}\n"
            if _has_body(_continue(prompt, completion)[0], func_name):
                return completion
    return f"```python\ndef {func_name}(xs):\n    {statement}\n```\n"


def _continue(prompt: str, completion: str) -> tuple[str, str]:
    """Return the prompt with the lines that continue its function, and these lines."""
    first, *more = completion.split("\n")
    lines = [first] if not prompt.endswith("\n") or _is_inside(first) else []
    for line in more if lines else []:
        if not _is_inside(line):
            break
        lines.append(line)
    body = "\n".join(lines)
    return f"{prompt}{body}\n", body


def _is_inside(line: str) -> bool:
    return not line.strip() or line[0] in " \t"


def _has_body(source: str, func_name: str) -> bool | None:
    """Tell that the function has more than a docstring; None if there is no such function."""
    try:
        tree = parse_code(source)
    except ValueError:
        return None
    for node in reversed(tree.body):
        if isinstance(node, ast.FunctionDef) and node.name == func_name:
            return len(node.body) > (ast.get_docstring(node, clean=False) is not None)
    return None
