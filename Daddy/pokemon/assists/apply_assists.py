"""Applies assists between two steps: writes their decisions into the emulator's memory.

At most one acts in a step. An act without its effect is taken back where its bytes still stand;
after three failures in a row an assist is given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from Daddy.core.assist_rules import missing_assists, parse_assists
from Daddy.core.errors import RomError
from Daddy.pokemon.assists import assist_state as states
from Daddy.pokemon.assists.assist_registry import ASSISTS
from Daddy.pokemon.assists.assist_state import (
    SPANS,
    AssistState,
    EffectOutcome,
    Intervention,
    PendingEffect,
    StepState,
)
from Daddy.pokemon.game_progress import Progress

if TYPE_CHECKING:
    from Daddy.pokemon.emulator import Emulator


@dataclass(frozen=True, slots=True)
class AssistResult:
    """The key to press, True if the memory was changed, and the reasons."""

    button: str
    wrote: bool = False
    messages: tuple[str, ...] = ()


class AssistRunner:
    """The assists of one environment; `state` is its game's."""

    def __init__(self, console: Emulator, names: Iterable[str]) -> None:
        """Use these by name, as `parse_assists` reads them; ValueError for an unknown one."""
        self.names = tuple(parse_assists(names))
        self.state = AssistState()
        self._console = console

    def act_before_key(self, progress: Progress, button: str) -> AssistResult:
        """Act before `button` is pressed, if one of the assists decides to."""
        if not self.names:
            return AssistResult(button)
        now = states.state_before_key(progress, self._console.ram(SPANS), button)
        said: list[str] = []
        for name in self.names:
            if name in self.state.open:
                said += self._judge(name, now)
        act, told = self._act(now)
        return AssistResult(act.button or button, bool(said or act.writes), (*said, *told))

    def _act(self, now: StepState) -> tuple[Intervention, tuple[str, ...]]:
        """Do the first act of the assists; others at most begin to watch."""
        for name in self.names:
            if name in self.state.open or self.state.is_off(name):
                continue
            act = ASSISTS[name].decide(now)
            if act is None:
                continue
            trace = self._do(act, now)
            if not act.writes and not act.button:
                self.state = self.state.with_pending(name, trace)
                continue
            self.state = self.state.after_act(name, trace if ASSISTS[name].worked else None)
            return act, (f"{name}: {act.reason}",)
        return Intervention(""), ()

    def _do(self, act: Intervention, now: StepState) -> PendingEffect:
        writes = tuple((address, now.read_byte(address), value) for address, value in act.writes)
        for address, _, value in writes:
            self._console.write(address, value)
        return PendingEffect(now.position, writes)

    def _judge(self, name: str, now: StepState) -> tuple[str, ...]:
        """Judge an earlier act, and take it back if it failed; the words of a failure, else ()."""
        trace, worked = self.state.open[name], ASSISTS[name].worked
        verdict = EffectOutcome.MOOT if worked is None else worked(trace, now)
        trace, verdict = states.count_check(trace, verdict, calm=now.calm)
        if verdict is EffectOutcome.OPEN:
            self.state = self.state.with_pending(name, trace)
            return ()
        self.state = self.state.after_outcome(name, verdict)
        if verdict is not EffectOutcome.FAILED:
            return ()
        for address, before, after in trace.writes:
            if now.read_byte(address) == after:
                self._console.write(address, before)
        given_up = "; it is given up" if self.state.is_off(name) else ""
        return (f"{name}: failed{given_up}",)

    def assist_facts(self) -> dict[str, Any]:
        """JSON for the state of an environment."""
        return self.state.to_facts(self.names) if self.names else {}

    def restore_assists(self, facts: Mapping[str, Any]) -> AssistState:
        """Restore a state's assists; RomError when it was made with some that are not in use."""
        state = states.assist_state_from(facts)
        if foreign := missing_assists(facts.get("names", ()), self.names):
            raise RomError(
                f"this state was made with the assists {foreign}, which are not in use here",
                "set training.assists to them, or go on from a state without them",
            )
        return state
