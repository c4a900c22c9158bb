"""Pure. Assembles source texts for the Game Boy's processor into a ROM image, in two passes.

Statements: instructions, ``name:`` and ``.local:`` labels, ``NAME equ EXPRESSION``, ``org``,
``ds``, ``db`` (numbers and strings), ``dw``, ``charmap "x", N`` (letters of strings),
``cellmap "x", N`` (letters of ``row``, a line of a map), and pictures: lines in ``|bars|``, after
``sprite`` in the column order of 8x16 sprites.
"""

import re
from collections.abc import Mapping

from scripts.cartridge.expressions import AsmError, evaluate
from scripts.cartridge.opcodes import encode
from scripts.cartridge.reader import Line, read, split_arguments
from scripts.cartridge.tiles import tiles

ROM_SIZE = 0x8000
LABEL = re.compile(r"(\.?[A-Za-z_]\w*):(.*)")
EQUATE = re.compile(r"(\w+)\s+equ\s+(.+)")


class Assembler:
    """Assembles one program; afterwards ``symbols`` holds every label and constant."""

    def __init__(
        self, sources: Mapping[str, str], start: str, constants: Mapping[str, int] | None = None
    ) -> None:
        """Read the program in ``start``; values in `constants` override those of ``equ``."""
        self.lines = read(sources, start)
        self.given = dict(constants or {})
        self.symbols: dict[str, int] = {}
        self.rom = bytearray(ROM_SIZE)
        self.charmap: dict[str, int] = {}
        self.cellmap: dict[str, int] = {}

    def assemble(self) -> bytes:
        """Return the image, without cartridge header. ``AsmError`` names file and line."""
        for final in (False, True):
            self._pass(final)
        if unknown := self.given.keys() - self.symbols.keys():
            raise AsmError(f"no constant {', '.join(sorted(unknown))} to give a value")
        return bytes(self.rom)

    def _pass(self, final: bool) -> None:
        self.pc, self.scope, self.final = 0, "", final
        self.picture: list[str] = []
        self.column_major = False
        line = Line("nowhere", 0, "")
        try:
            for line in [*self.lines, Line("end", 0, "ds 0")]:
                self._statement(line.text)
        except AsmError as error:
            raise AsmError(f"{line.file}:{line.number}: {error}") from error

    def _statement(self, text: str) -> None:
        if text.startswith("|"):
            self.picture.append(text.strip("|"))
            return
        if self.picture:
            self._emit(tiles(self.picture, self.column_major))
            self.picture, self.column_major = [], False
        if match := LABEL.match(text):
            self._label(match[1])
            text = match[2].strip()
        if not text:
            return
        if match := EQUATE.match(text):
            self._define(match[1], self.given.get(match[1], self.value(match[2])))
            return
        word, _, rest = text.partition(" ")
        self._directive(word.lower(), rest.strip())

    def _directive(self, word: str, rest: str) -> None:
        if word == "org":
            self.pc = self.value(rest)
        elif word == "ds":
            self.pc += self.value(rest)
        elif word in ("charmap", "cellmap"):
            letter, number = split_arguments(rest)
            getattr(self, word)[letter.strip('"')] = self.value(number)
        elif word == "sprite":
            self.column_major = True
        elif word == "row":
            self._emit(self._letters(rest, self.cellmap))
        elif word in ("db", "dw"):
            self._emit(b"".join(self._data(word, item) for item in split_arguments(rest) if item))
        else:
            self._emit(encode(word, split_arguments(rest), self.value, self.pc, self.final))

    def _data(self, word: str, item: str) -> bytes:
        if item.startswith('"'):
            return self._letters(item[1:-1], self.charmap)
        return (self.value(item) & 0xFFFF).to_bytes(2, "little")[: 1 if word == "db" else 2]

    def _letters(self, text: str, letters: Mapping[str, int]) -> bytes:
        try:
            return bytes(letters[letter] for letter in text)
        except KeyError as error:
            raise AsmError(f"no code for the letter {error} of {text!r}") from error

    def _emit(self, code: bytes) -> None:
        if self.final:
            end = self.pc + len(code)
            if end > ROM_SIZE or any(self.rom[self.pc : end]):
                raise AsmError(f"bytes at ${self.pc:04x} fall outside the ROM or on other bytes")
            self.rom[self.pc : end] = code
        self.pc += len(code)

    def _label(self, name: str) -> None:
        if name.startswith("."):
            name = self.scope + name
        else:
            self.scope = name
        self._define(name, self.pc)

    def _define(self, name: str, value: int) -> None:
        if not self.final and name in self.symbols:
            raise AsmError(f"{name} is defined twice")
        if self.final and self.symbols[name] != value:
            raise AsmError(f"{name} moved between the passes")
        self.symbols[name] = value

    def value(self, text: str) -> int:
        """Evaluate an expression; in the first pass an unknown symbol counts as 0."""

        def look_up(name: str) -> int:
            name = self.scope + name if name.startswith(".") else name
            if name not in self.symbols and self.final:
                raise AsmError(f"unknown symbol {name}")
            return self.symbols.get(name, 0)

        return evaluate(text, look_up)
