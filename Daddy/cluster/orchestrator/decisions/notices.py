"""Pure: what a person should hear of even if they do not look; each kind of trouble once."""

from __future__ import annotations

from Daddy.cluster.orchestrator.actions import Action, Notify
from Daddy.cluster.orchestrator.decisions.breaker import FOREVER_S
from Daddy.cluster.orchestrator.decisions.view import View
from Daddy.cluster.orchestrator.records import Ledger

_AGAIN_S = 6 * 3600.0


def notices(view: View) -> list[Action]:
    """Open breakers, releases that were given up, and a queue that takes nothing more."""
    lasting = (one for one in view.holds if one.open or one.until - view.now > FOREVER_S / 2)
    found: list[Action] = [Notify(f"hold-{one.slot}", one.reason) for one in lasting]
    if view.rollout.given_up:
        found.append(Notify(f"release-{view.desired.release}", view.rollout.reason))
    if view.stop is not None:
        found.append(Notify("stopped", view.stop.reason))
    return found


def is_news(action: Action, ledger: Ledger, now: float) -> bool:
    """False for a word that was said within the last hours."""
    if not isinstance(action, Notify):
        return True
    return now - ledger.noticed.get(action.kind, -_AGAIN_S) >= _AGAIN_S
