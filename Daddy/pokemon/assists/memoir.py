"""Pure: what the assists did in one game, what is still to be seen of it, how often they failed.

Owns when an assist is given up: after three failures in a row. Travels with the game's state, so
that a restart goes on exactly and children of a state know what helped their parents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from Daddy.core.assists import NAMES
from Daddy.core.errors import RomError
from Daddy.pokemon.assists.moment import Trace, Verdict

MOST_FAILURES: Final = 3
MOST_LOOKS: Final = 4
"""Calm moments after which an effect that was not seen counts as a failure."""


@dataclass(frozen=True, slots=True)
class Memoir:
    """`used`: assists that acted in this game or those it descends from. `failures`: in a row."""

    used: frozenset[str] = frozenset()
    failures: Mapping[str, int] = field(default_factory=dict)
    open: Mapping[str, Trace] = field(default_factory=dict)

    def is_off(self, name: str) -> bool:
        """Whether an assist has failed too often to be tried again."""
        return self.failures.get(name, 0) >= MOST_FAILURES

    @property
    def off(self) -> tuple[str, ...]:
        """All that are given up."""
        return tuple(name for name in NAMES if self.is_off(name))

    def begun(self) -> Memoir:
        """At the start of a game: what failed is not forgotten."""
        return Memoir(failures=self.failures)

    def adopted(self, theirs: Memoir) -> Memoir:
        """In somebody else's game, with our own experience."""
        return Memoir(theirs.used, self.failures)

    def acted(self, name: str, trace: Trace | None) -> Memoir:
        """After an act; `trace` where its effect is still to be seen."""
        waiting = self.open if trace is None else {**self.open, name: trace}
        return replace(self, used=self.used | {name}, open=waiting)

    def watched(self, name: str, trace: Trace) -> Memoir:
        """Going on to wait for an effect."""
        return replace(self, open={**self.open, name: trace})

    def judged(self, name: str, verdict: Verdict) -> Memoir:
        """Once it is known what came of an act."""
        waiting = {one: trace for one, trace in self.open.items() if one != name}
        failures = dict(self.failures)
        if verdict is Verdict.FAILED:
            failures[name] = failures.get(name, 0) + 1
        elif verdict is Verdict.WORKED:
            failures.pop(name, None)
        return replace(self, failures=failures, open=waiting)

    def to_facts(self, names: Iterable[str]) -> dict[str, Any]:
        """JSON that `from_facts` reads; `names` are the assists in use."""
        return {
            "names": list(names),
            "used": sorted(self.used),
            "failures": dict(self.failures),
            "open": {name: [one.place, one.writes, one.looks] for name, one in self.open.items()},
        }


def waited(trace: Trace, verdict: Verdict, *, calm: bool) -> tuple[Trace, Verdict]:
    """The trace one look later, and the verdict: an effect that keeps nobody waiting for ever."""
    looks = trace.looks + (verdict is Verdict.OPEN and calm)
    late = verdict is Verdict.OPEN and looks >= MOST_LOOKS
    return replace(trace, looks=looks), Verdict.FAILED if late else verdict


def from_facts(facts: Mapping[str, Any]) -> Memoir:
    """The memoir in a state; a blank one for states of before. RomError when it is damaged."""
    try:
        _names(facts.get("names", []))
        return Memoir(
            used=frozenset(str(name) for name in facts.get("used", ())),
            failures={str(name): int(n) for name, n in facts.get("failures", {}).items()},
            open={str(name): _trace(*one) for name, one in facts.get("open", {}).items()},
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise RomError(
            f"what this state says of its assists is damaged: {error}",
            "go back to an older checkpoint",
        ) from error


def _names(said: Any) -> None:
    """Whose names are asked for before a state is used; TypeError when they are none."""
    if not isinstance(said, list) or not all(isinstance(name, str) for name in said):
        raise TypeError(f"{said!r} is no list of names")


def _trace(place: Any, writes: Any, looks: Any) -> Trace:
    y, x, z = (int(number) for number in place)
    triples = [tuple(int(number) for number in one) for one in writes]
    return Trace((y, x, z), tuple((a, b, c) for a, b, c in triples), int(looks))
