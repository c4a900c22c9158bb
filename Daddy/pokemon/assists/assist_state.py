"""Pure. Defines the input and output of assists, and their history in a game.

The history (`AssistState`) holds the assists that intervened, the effects that are awaited, and the
number of failures in a row of each; after three an assist is disabled. It is saved with the game's
state, so that a restart continues exactly and a state names the assists of its ancestors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter

from Daddy.core.assist_compatibility import ASSIST_NAMES
from Daddy.core.errors import RomError
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.game_progress import Progress, is_free
from Daddy.pokemon.memory_decoding import Image, byte

MAX_FAILURES: Final = 3
MAX_CHECKS: Final = 4
"""Calm steps after which an effect that did not appear counts as a failure."""
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
"""Spans of memory that assists read in addition to `ram_map.BLOCKS`."""
Writes = tuple[tuple[int, int], ...]
"""Pairs of address and byte."""


@dataclass(frozen=True, slots=True)
class StepState:
    """Holds the facts and the memory image before a step, and the key to be pressed next.

    `calm`: no fight, text, menu, script or walking step is under way.
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
        return byte(self.image, address)

    def has_badge(self, number: int) -> bool:
        """Return True if badge `number` (0: Boulder, 7: Earth) was won."""
        return bool(self.progress.badges >> number & 1)

    def has_event(self, number: int) -> bool:
        return bool(self.progress.events >> number & 1)

    def has_item(self, item: int) -> bool:
        return any(held == item for held, _ in self.progress.bag)

    def event_write(self, number: int) -> tuple[int, int]:
        """Return the address and byte that set event flag `number` and no other flag."""
        address = ram.EVENTS + number // 8
        return address, self.read_byte(address) | 1 << number % 8


def state_before_key(progress: Progress, image: Image, button: str) -> StepState:
    """Make the state before `button` is pressed; `image` must have the present bytes of `SPANS`."""
    return StepState(progress, image, button, calm=is_free(progress, image))


class Intervention(NamedTuple):
    """Holds an intervention and its reason: bytes to write, or a key in place of the agent's.

    With neither, the assist only observes the next steps.
    """

    reason: str
    writes: Writes = ()
    button: str = ""


class PendingEffect(NamedTuple):
    """Holds an intervention whose effect is awaited: its position, and the bytes it overwrote.

    `writes` are triples of address, byte before, byte after; `looks` counts calm steps since.
    """

    place: tuple[int, int, int]
    writes: tuple[tuple[int, int, int], ...] = ()
    looks: int = 0


class EffectOutcome(Enum):
    """Lists the outcomes of an intervention; OPEN: not known yet, MOOT: not observable any more."""

    WORKED = "worked"
    FAILED = "failed"
    OPEN = "open"
    MOOT = "moot"


@dataclass(frozen=True, slots=True)
class AssistState:
    """Holds, by assist: use in the game or its ancestors, failures in a row, awaited effect."""

    used: frozenset[str] = frozenset()
    failures: Mapping[str, int] = field(default_factory=dict)
    open: Mapping[str, PendingEffect] = field(default_factory=dict)

    def is_off(self, name: str) -> bool:
        """Return True if an assist is disabled after too many failures."""
        return self.failures.get(name, 0) >= MAX_FAILURES

    @property
    def names_off(self) -> tuple[str, ...]:
        if not self.failures:
            return ()
        return tuple(name for name in ASSIST_NAMES if self.is_off(name))

    def in_new_game(self) -> AssistState:
        """Return the history for a new game, which keeps the failures only."""
        return AssistState(failures=self.failures)

    def in_adopted_game(self, other: AssistState) -> AssistState:
        """Return the history after loading the game of `other`: its `used`, our `failures`."""
        return AssistState(other.used, self.failures)

    def after_act(self, name: str, pending: PendingEffect | None) -> AssistState:
        """Return the history with assist `name` as used; `pending`: its awaited effect, or None."""
        pending_by_name = self.open if pending is None else {**self.open, name: pending}
        return replace(self, used=self.used | {name}, open=pending_by_name)

    def with_pending(self, name: str, pending: PendingEffect) -> AssistState:
        """Return the history with `pending` as the awaited effect of assist `name`."""
        return replace(self, open={**self.open, name: pending})

    def after_outcome(self, name: str, outcome: EffectOutcome) -> AssistState:
        """Return the history with a failure more or, after success, none; the effect is removed."""
        pending_by_name = {other: pending for other, pending in self.open.items() if other != name}
        failures = dict(self.failures)
        if outcome is EffectOutcome.FAILED:
            failures[name] = failures.get(name, 0) + 1
        elif outcome is EffectOutcome.WORKED:
            failures.pop(name, None)
        return replace(self, failures=failures, open=pending_by_name)

    def to_facts(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the JSON object that `assist_state_from` reads; `names` are the assists in use."""
        return {
            "names": list(names),
            "used": sorted(self.used),
            "failures": dict(self.failures),
            "open": dict(self.open),
        }


def count_check(
    pending: PendingEffect, outcome: EffectOutcome, *, calm: bool
) -> tuple[PendingEffect, EffectOutcome]:
    """Count a calm step if `outcome` is OPEN; the outcome is FAILED after MAX_CHECKS such steps."""
    looks = pending.looks + (outcome is EffectOutcome.OPEN and calm)
    overdue = outcome is EffectOutcome.OPEN and looks >= MAX_CHECKS
    return pending._replace(looks=looks), EffectOutcome.FAILED if overdue else outcome


_STATE = TypeAdapter(AssistState)
_NAMES = TypeAdapter(list[str])


def assist_state_from(facts: Mapping[str, Any]) -> AssistState:
    """Restore the history in `facts` (empty if `facts` is empty). RomError if it is damaged."""
    try:
        _NAMES.validate_python(facts.get("names", []))
        return _STATE.validate_python(facts)
    except (AttributeError, ValueError) as error:
        raise RomError(
            f"the assists' history in this state is damaged: {error}",
            "use an older checkpoint or another state",
        ) from error
