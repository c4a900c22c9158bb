"""Pure. Evaluates arithmetic in assembly source.

Numbers are decimal, ``$hex`` or ``%binary``; names are symbols; ``high(x)`` and ``low(x)`` take one
byte of a word. Anything else is an ``AsmError``.
"""

import ast
import operator
import re
from collections.abc import Callable

NUMBER = re.compile(r"\$([0-9a-fA-F]+)|%([01]+)")
NAME = re.compile(r"(?<![\w.])\.?[A-Za-z_][\w.]*")
BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
FUNCTIONS: dict[str, Callable[[int], int]] = {
    "high": lambda v: v >> 8 & 255,
    "low": lambda v: v & 255,
}


class AsmError(Exception):
    """Reports that the source cannot be assembled; the message names file, line and reason."""


def evaluate(text: str, look_up: Callable[[str], int]) -> int:
    """Evaluate the expression ``text``; ``look_up`` returns the value of a symbol."""

    def number(match: re.Match[str]) -> str:
        return str(int(match[1], 16) if match[1] else int(match[2], 2))

    def symbol(match: re.Match[str]) -> str:
        return match[0] if match[0] in FUNCTIONS else str(look_up(match[0]))

    plain = NAME.sub(symbol, NUMBER.sub(number, text))
    try:
        return _value(ast.parse(plain.strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError) as error:
        raise AsmError(f"cannot evaluate {text!r}") from error


def _value(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return ~_value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            return BINARY[type(op)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return FUNCTIONS[name](_value(argument))
    raise AsmError(f"cannot evaluate {ast.unparse(node)!r}")
