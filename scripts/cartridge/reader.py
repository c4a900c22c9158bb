r"""Pure. Reads assembly files into a flat list of lines, with includes, macros and `rept` expanded.

``include "name"`` · ``macro NAME`` … ``endm`` (arguments are ``\1`` to ``\9``, a missing one is
empty) · ``rept N`` … ``endr`` · ``;`` starts a comment.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from scripts.cartridge.expressions import AsmError

ARGUMENT = re.compile(r'(?:"[^"]*"|[^,"])+')
DEPTH_LIMIT = 8


@dataclass(frozen=True)
class Line:
    """Holds one statement with its file and line number."""

    file: str
    number: int
    text: str


def split_arguments(text: str) -> list[str]:
    """Split at the commas outside double quotes."""
    return [part.strip() for part in ARGUMENT.findall(text)]


def read(sources: Mapping[str, str], start: str) -> list[Line]:
    """Return all statements of ``start`` and of the files that it includes."""
    macros: dict[str, list[Line]] = {}
    return list(_expand(iter(list(_include(sources, start, 0))), macros, 0))


def _include(sources: Mapping[str, str], name: str, depth: int) -> Iterator[Line]:
    if name not in sources or depth > DEPTH_LIMIT:
        raise AsmError(f'include "{name}": no such source, or files include one another')
    for number, raw in enumerate(sources[name].splitlines(), 1):
        text = _without_comment(raw).strip()
        if text.startswith("include "):
            yield from _include(sources, text[8:].strip().strip('"'), depth + 1)
        elif text:
            yield Line(name, number, text)


def _without_comment(raw: str) -> str:
    quoted = False
    for index, character in enumerate(raw):
        quoted ^= character == '"'
        if character == ";" and not quoted:
            return raw[:index]
    return raw


def _expand(lines: Iterator[Line], macros: dict[str, list[Line]], depth: int) -> Iterator[Line]:
    if depth > DEPTH_LIMIT:
        raise AsmError("macros call one another too deeply")
    for line in lines:
        word, _, rest = line.text.partition(" ")
        if word == "macro":
            macros[rest.strip()] = _until("endm", lines, line)
        elif word == "rept":
            body = _until("endr", lines, line)
            yield from _expand(iter(body * int(rest)), macros, depth + 1)
        elif word in macros:
            filled = _fill(macros[word], split_arguments(rest), line)
            yield from _expand(iter(list(filled)), macros, depth + 1)
        else:
            yield line


def _until(end: str, lines: Iterable[Line], opening: Line) -> list[Line]:
    body: list[Line] = []
    for line in lines:
        if line.text == end:
            return body
        body.append(line)
    raise AsmError(f"{opening.file}:{opening.number}: {opening.text!r} without {end}")


def _fill(body: list[Line], arguments: list[str], call: Line) -> Iterator[Line]:
    for line in body:
        text = line.text
        for index in range(1, 10):
            given = arguments[index - 1] if index <= len(arguments) else ""
            text = text.replace(f"\\{index}", given)
        yield Line(call.file, call.number, text)
