"""When the demo may end: all was seen, and two agents are live, or were waited for long enough."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from scripts.demonstration.__main__ import Enough


def view(steps: int, handovers: int, *live: str) -> Any:
    fleet = SimpleNamespace(
        handovers=lambda: [object()] * handovers, viewer=SimpleNamespace(live=frozenset(live))
    )
    return SimpleNamespace(steps=steps, fleet=fleet)


def test_it_ends_once_time_steps_handovers_and_two_live_agents_were_seen() -> None:
    enough = Enough(seconds=180.0, steps=1000, handovers=8)
    assert enough.reason(view(1000, 8, "a", "b"), 179.0) is None
    assert enough.reason(view(999, 8, "a", "b"), 200.0) is None
    assert enough.reason(view(1000, 7, "a", "b"), 200.0) is None
    assert enough.reason(view(1000, 8, "a"), 200.0) is None
    assert enough.reason(view(1000, 8, "a", "b"), 201.0) is not None


def test_a_second_live_agent_is_waited_for_thirty_seconds_from_when_all_else_was_seen() -> None:
    enough = Enough(seconds=180.0, steps=1000, handovers=8)
    assert enough.reason(view(999, 8, "a"), 400.0) is None
    assert enough.reason(view(1000, 8, "a"), 401.0) is None
    assert enough.reason(view(1000, 8, "a"), 430.0) is None
    assert enough.reason(view(1000, 8, "a"), 431.0) is not None
