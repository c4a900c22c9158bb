"""Applies assists between two steps: the edge at which their decisions become bytes.

Promises: at most one acts in a step; what did not have its effect is taken back where it still
stands; after three failures in a row an assist is given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from Daddy.core.assists import chosen, strange
from Daddy.core.errors import RomError
from Daddy.pokemon.assists import memoir as memoirs
from Daddy.pokemon.assists.memoir import Memoir
from Daddy.pokemon.assists.moment import SPANS, Act, Moment, Trace, Verdict, look
from Daddy.pokemon.assists.table import TABLE, Assist
from Daddy.pokemon.memory import Image
from Daddy.pokemon.progress import Progress


class Console(Protocol):
    """What assists need of an emulator."""

    def ram(self, blocks: Iterable[tuple[int, int]]) -> Image: ...
    def write(self, address: int, value: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Help:
    """What was done before a step: the key to press, whether the memory changed, and why."""

    button: str
    wrote: bool = False
    said: tuple[str, ...] = ()


class Helper:
    """The assists of one environment; `memoir` is its game's."""

    def __init__(self, console: Console, names: Iterable[str]) -> None:
        """Use these by name, as `core.assists.chosen` reads them; ValueError for an unknown one."""
        self.names = tuple(chosen(names))
        self.memoir = Memoir()
        self._console = console

    def help(self, progress: Progress, button: str) -> Help:
        """Act, if one of the assists sees reason to, before `button` is pressed."""
        if not self.names:
            return Help(button)
        now = look(progress, self._console.ram(SPANS), button)
        said: list[str] = []
        wrote = False
        for name in self.names:
            if name in self.memoir.open:
                failure = self._judge(name, now)
                said += failure
                wrote |= bool(failure)
        act, told = self._act(now)
        return Help(act.button or button, wrote or bool(act.writes), (*said, *told))

    def _act(self, now: Moment) -> tuple[Act, tuple[str, ...]]:
        """The first assist that has something to do does it; others at most begin to watch."""
        for name in self.names:
            if name in self.memoir.open or self.memoir.is_off(name):
                continue
            act = TABLE[name].decide(now)
            if act is None:
                continue
            trace = self._do(act, now)
            if not act.writes and not act.button:
                self.memoir = self.memoir.watched(name, trace)
                continue
            watched = None if TABLE[name].is_proven else trace
            self.memoir = self.memoir.acted(name, watched)
            return act, (f"{name}: {act.reason}",)
        return Act(""), ()

    def _do(self, act: Act, now: Moment) -> Trace:
        writes = tuple((address, now.at(address), value) for address, value in act.writes)
        for address, _, value in writes:
            self._console.write(address, value)
        return Trace(now.place, writes)

    def _judge(self, name: str, now: Moment) -> tuple[str, ...]:
        """What became of an earlier act; a failure's own words, else nothing."""
        trace, verdict = _look(TABLE[name], self.memoir.open[name], now)
        if verdict is Verdict.OPEN:
            self.memoir = self.memoir.watched(name, trace)
            return ()
        self.memoir = self.memoir.judged(name, verdict)
        if verdict is not Verdict.FAILED:
            return ()
        for address, before, after in trace.writes:
            if now.at(address) == after:
                self._console.write(address, before)
        given_up = "; it is given up" if self.memoir.is_off(name) else ""
        return (f"{name}: failed{given_up}",)

    # -- what travels with a game

    def to_facts(self) -> dict[str, Any]:
        """JSON for the state of an environment."""
        return self.memoir.to_facts(self.names) if self.names else {}

    def take(self, facts: Mapping[str, Any]) -> Memoir:
        """The memoir of a state; RomError when it was made with assists that are not in use."""
        memoir = memoirs.from_facts(facts)
        if foreign := strange(facts.get("names", ()), self.names):
            raise RomError(
                f"this state was made with the assists {foreign}, which are not in use here",
                "set training.assists to them, or go on from a state without them",
            )
        return memoir


def _look(assist: Assist, trace: Trace, now: Moment) -> tuple[Trace, Verdict]:
    verdict = Verdict.MOOT if assist.worked is None else assist.worked(trace, now)
    return memoirs.waited(trace, verdict, calm=now.calm)
