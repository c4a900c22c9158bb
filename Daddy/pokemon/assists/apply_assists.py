"""Applies assists between two steps: writes the bytes they decide on to the emulator's memory.

At most one assist intervenes per step. If the effect fails to appear, the bytes that are unchanged
since are restored; after three failures in a row the environment disables the assist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from Daddy.core.assist_compatibility import missing_assists, parse_assists
from Daddy.core.errors import RomError
from Daddy.pokemon.assists import assist_state as states
from Daddy.pokemon.assists.assist_registry import ASSISTS
from Daddy.pokemon.assists.assist_state import SPANS, AssistState, EffectOutcome, Intervention
from Daddy.pokemon.game_progress import Progress

if TYPE_CHECKING:
    from Daddy.pokemon.emulator import Emulator


@dataclass(frozen=True, slots=True)
class AssistResult:
    """Holds the key to press, True if the memory was changed, and messages with the reasons."""

    button: str
    wrote: bool = False
    messages: tuple[str, ...] = ()


class AssistRunner:
    """Runs the assists of one environment; `state` is their history in the present game."""

    def __init__(self, console: Emulator, names: Iterable[str]) -> None:
        """Use the assists `names` (see `parse_assists`); ValueError for an unknown name."""
        self.names = tuple(parse_assists(names))
        self.state = AssistState()
        self._console = console

    def act_before_key(self, progress: Progress, button: str) -> AssistResult:
        """Check awaited effects, let at most one assist intervene, and return the key to press."""
        if not self.names:
            return AssistResult(button)
        now = states.state_before_key(progress, self._console.ram(SPANS), button)
        messages: list[str] = []
        for name in self.names:
            if name in self.state.open:
                messages += self._check_effect(name, now)
        action, act_messages = self._intervene(now)
        wrote = bool(messages or action.writes)
        return AssistResult(action.button or button, wrote, (*messages, *act_messages))

    def _intervene(self, now: states.StepState) -> tuple[Intervention, tuple[str, ...]]:
        """Carry out and return the first intervention that writes bytes or replaces the key."""
        for name in self.names:
            if name in self.state.open or self.state.is_off(name):
                continue
            action = ASSISTS[name].decide(now)
            if action is None:
                continue
            pending = self._write(action, now)
            if not action.writes and not action.button:
                self.state = self.state.with_pending(name, pending)
                continue
            self.state = self.state.after_act(name, pending if ASSISTS[name].worked else None)
            return action, (f"{name}: {action.reason}",)
        return Intervention(""), ()

    def _write(self, action: Intervention, now: states.StepState) -> states.PendingEffect:
        writes = tuple((address, now.read_byte(address), value) for address, value in action.writes)
        for address, _, value in writes:
            self._console.write(address, value)
        return states.PendingEffect(now.position, writes)

    def _check_effect(self, name: str, now: states.StepState) -> tuple[str, ...]:
        """Test an earlier intervention's effect; restore its bytes on failure; return messages."""
        pending, worked = self.state.open[name], ASSISTS[name].worked
        outcome = EffectOutcome.MOOT if worked is None else worked(pending, now)
        pending, outcome = states.count_check(pending, outcome, calm=now.calm)
        if outcome is EffectOutcome.OPEN:
            self.state = self.state.with_pending(name, pending)
            return ()
        self.state = self.state.after_outcome(name, outcome)
        if outcome is not EffectOutcome.FAILED:
            return ()
        for address, before, after in pending.writes:
            if now.read_byte(address) == after:
                self._console.write(address, before)
        given_up = "; it is disabled" if self.state.is_off(name) else ""
        return (f"{name}: failed{given_up}",)

    def assist_facts(self) -> dict[str, Any]:
        """Return the JSON object of the assists for an environment's state; {} without assists."""
        return self.state.to_facts(self.names) if self.names else {}

    def restore_assists(self, facts: Mapping[str, Any]) -> AssistState:
        """Return the AssistState in `facts`; RomError if its assists are not all in use here."""
        state = states.assist_state_from(facts)
        if unused := missing_assists(facts.get("names", ()), self.names):
            raise RomError(
                f"this state was made with the assists {unused}, which are not in use here",
                "set training.assists to those, or use a state without assists",
            )
        return state
