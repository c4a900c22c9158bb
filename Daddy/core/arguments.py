"""Pure. Parses command lines as argparse does: names the nearest word, and bounds numbers."""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)$", re.DOTALL)
_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


LARGEST_NUMBER = 10**12 - 1
"""Largest number of any option or setting: names of checkpoints have twelve digits for steps."""
YEAR_S = 31_536_000.0
"""A year: threads and sockets refuse to wait for much longer."""
SHORTEST_WAIT_S = 0.001


class ArgumentParser(argparse.ArgumentParser):
    """Adds "did you mean" to argparse's errors on commands, values of flags, and flags."""

    verbs: Sequence[str] = ()
    """Commands that the caller handles before this parser, which itself has flags alone."""
    late: str = ""
    """Positional argument of any number of words, which may stand between flags and after them."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse ``args``; refuse unknown ones here, where the command's own flags are known."""
        if self.verbs and args and not args[0].startswith("-"):
            self.error(f"invalid choice: {args[0]!r} (choose from {', '.join(self.verbs)})")
        parsed, unknown = super().parse_known_args(args, namespace)
        if self.late:
            words = [word for word in unknown if not word.startswith("-")]
            setattr(parsed, self.late, [*getattr(parsed, self.late), *words])
            unknown = [word for word in unknown if word.startswith("-")]
        if unknown:
            known = _FLAG.findall(self.format_usage())
            near = [did_you_mean(word.partition("=")[0], known) for word in unknown]
            self.error(f"unrecognized arguments: {' '.join(unknown)}{''.join(near)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Print usage and ``message``, with the nearest word if it refuses a choice; exit by 2."""
        if choice := _CHOICE.search(message):
            message += did_you_mean(choice[1], re.findall(r"[^\s,']+", choice[2]))
        super().error(message)


def option_argv(args: argparse.Namespace, add_flags: Callable[[ArgumentParser], None]) -> list[str]:
    """Return those options of ``add_flags`` that ``args`` has and are not as usual, as typed."""
    parser, argv = ArgumentParser(), list[str]()
    add_flags(parser)
    for name, usual in vars(parser.parse_args([])).items():
        if name != parser.late and (value := getattr(args, name)) != usual:
            flag = f"--{name.replace('_', '-')}"
            values = value if isinstance(value, list) else [value]
            argv += [flag if each is True else f"{flag}={each}" for each in values]
    return argv


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean status?`` with the known word most like ``word``, or nothing."""
    import difflib  # only a mistake needs it

    near = difflib.get_close_matches(word, [*known], n=1)
    return f"; did you mean {near[0]}?" if near else ""


def whole_number(least: int, most: int = LARGEST_NUMBER) -> Callable[[str], int]:
    """Return a parser of whole numbers from `least` to `most` for argparse's ``type``."""

    def parse(text: str) -> int:
        with suppress(ValueError):
            if least <= (number := int(text)) <= most:
                return number
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a whole number from {least:,} to {most:,}"
        )

    return parse


def decimal_number(least: float, most: float) -> Callable[[str], float]:
    """Return a parser of finite numbers from `least` to `most` for argparse's ``type``."""

    def parse(text: str) -> float:
        with suppress(ValueError):
            if least <= (number := float(text)) <= most:  # False for nan
                return number
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:,g} to {most:,g}")

    return parse


nonnegative_seconds = decimal_number(0.0, YEAR_S)
positive_seconds = decimal_number(SHORTEST_WAIT_S, YEAR_S)
port_number = whole_number(1, 65_535)
