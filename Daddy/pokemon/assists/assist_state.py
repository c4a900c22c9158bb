"""Pure. Holds the terms of a scripted help: a moment, an act, its trace, and a game's history.

The history (`AssistState`) tells which assists acted, which effects are awaited and how often each
failed in a row; after three failures an assist is given up. It travels with the game's state, so
that a restart goes on exactly and a state's children know what helped their parents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter

from Daddy.core.assist_rules import ASSIST_NAMES
from Daddy.core.errors import RomError
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.game_progress import Progress, is_free
from Daddy.pokemon.read_memory import Image, byte

MAX_FAILURES: Final = 3
MAX_CHECKS: Final = 4
"""Calm moments after which an effect that was not seen counts as a failure."""
SPANS: Final = (
    (ram.TILES, ram.TILES + 360),
    *(
        (address, address + 1)
        for address in (
            *(ram.BAG_CURSOR, ram.LIST_SCROLL, ram.WALKED_BY_GAME, ram.WALK_COUNTER),
            *(ram.MAP_SCRIPT_FLAGS, ram.NO_BATTLE_STEPS),
        )
    ),
)
"""Memory that assists read beyond the blocks of every step."""
Writes = tuple[tuple[int, int], ...]
"""Pairs of address and byte."""


@dataclass(frozen=True, slots=True)
class StepState:
    """The facts between two steps, their memory image, and the key that is next.

    `calm`: no fight, text, menu, script, or step is under way.
    """

    progress: Progress
    image: Image
    button: str
    calm: bool

    @property
    def position(self) -> tuple[int, int, int]:
        """Map, row, column."""
        return self.progress.map_id, self.progress.y, self.progress.x

    def read_byte(self, address: int) -> int:
        """One byte."""
        return byte(self.image, address)

    def has_badge(self, number: int) -> bool:
        """Return True if badge `number` (0: Boulder, 7: Earth) was won."""
        return bool(self.progress.badges >> number & 1)

    def has_event(self, number: int) -> bool:
        """Return True if event flag `number` is set."""
        return bool(self.progress.events >> number & 1)

    def has_item(self, item: int) -> bool:
        """Return True if `item` is in the bag."""
        return any(held == item for held, _ in self.progress.bag)

    def event_write(self, number: int) -> tuple[int, int]:
        """The write that sets event flag `number` and leaves its neighbours as they are."""
        address = ram.EVENTS + number // 8
        return address, self.read_byte(address) | 1 << number % 8


def state_before_key(progress: Progress, image: Image, button: str) -> StepState:
    """The moment before `button` is pressed; `SPANS` are fresh in `image`."""
    return StepState(progress, image, button, calm=is_free(progress, image))


class Intervention(NamedTuple):
    """An intervention with its reason: bytes to write, or a key in place of the agent's.

    With neither, only the effect of an earlier act is watched.
    """

    reason: str
    writes: Writes = ()
    button: str = ""


class PendingEffect(NamedTuple):
    """An act with its effect still to be seen: its place, and the bytes it overwrote.

    `writes` are triples of address, byte before, byte after; `looks` counts calm moments since.
    """

    place: tuple[int, int, int]
    writes: tuple[tuple[int, int, int], ...] = ()
    looks: int = 0


class EffectOutcome(Enum):
    """Outcome of an act, judged at a later moment; MOOT when it can no longer be told."""

    WORKED = "worked"
    FAILED = "failed"
    OPEN = "open"
    MOOT = "moot"


@dataclass(frozen=True, slots=True)
class AssistState:
    """`used`: assists that acted in this game or its ancestors. `failures`: in a row, by name."""

    used: frozenset[str] = frozenset()
    failures: Mapping[str, int] = field(default_factory=dict)
    open: Mapping[str, PendingEffect] = field(default_factory=dict)

    def is_off(self, name: str) -> bool:
        """Return True if an assist has failed too often to be tried again."""
        return self.failures.get(name, 0) >= MAX_FAILURES

    @property
    def names_off(self) -> tuple[str, ...]:
        """All assists that are given up."""
        return tuple(name for name in ASSIST_NAMES if self.is_off(name))

    def in_new_game(self) -> AssistState:
        """At the start of a game: failures are not forgotten."""
        return AssistState(failures=self.failures)

    def in_adopted_game(self, other: AssistState) -> AssistState:
        """In another environment's game, with the failures seen here."""
        return AssistState(other.used, self.failures)

    def after_act(self, name: str, trace: PendingEffect | None) -> AssistState:
        """After an act; `trace` where its effect is still to be seen."""
        waiting = self.open if trace is None else {**self.open, name: trace}
        return replace(self, used=self.used | {name}, open=waiting)

    def with_pending(self, name: str, trace: PendingEffect) -> AssistState:
        """While the effect is awaited."""
        return replace(self, open={**self.open, name: trace})

    def after_outcome(self, name: str, verdict: EffectOutcome) -> AssistState:
        """After the outcome of an act is known."""
        waiting = {other: trace for other, trace in self.open.items() if other != name}
        failures = dict(self.failures)
        if verdict is EffectOutcome.FAILED:
            failures[name] = failures.get(name, 0) + 1
        elif verdict is EffectOutcome.WORKED:
            failures.pop(name, None)
        return replace(self, failures=failures, open=waiting)

    def to_facts(self, names: Iterable[str]) -> dict[str, Any]:
        """JSON that `from_facts` reads; `names` are the assists in use."""
        return {
            "names": list(names),
            "used": sorted(self.used),
            "failures": dict(self.failures),
            "open": dict(self.open),
        }


def count_check(
    trace: PendingEffect, verdict: EffectOutcome, *, calm: bool
) -> tuple[PendingEffect, EffectOutcome]:
    """The trace one look later, and the verdict: FAILED once an effect is overdue."""
    looks = trace.looks + (verdict is EffectOutcome.OPEN and calm)
    late = verdict is EffectOutcome.OPEN and looks >= MAX_CHECKS
    return trace._replace(looks=looks), EffectOutcome.FAILED if late else verdict


_STATE = TypeAdapter(AssistState)
_NAMES = TypeAdapter(list[str])


def assist_state_from(facts: Mapping[str, Any]) -> AssistState:
    """Restore a state's assists; blank for states without any. RomError when damaged."""
    try:
        _NAMES.validate_python(facts.get("names", []))
        return _STATE.validate_python(facts)
    except (AttributeError, ValueError) as error:
        raise RomError(
            f"what this state says of its assists is damaged: {error}",
            "go back to an older checkpoint",
        ) from error
