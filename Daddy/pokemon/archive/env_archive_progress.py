"""Pure. Counts one environment's steps since its last new key (milestones, place) or load."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from Daddy.pokemon.archive import state_keys as keys

_FIGHT_STEPS = 8
"""Steps in a fight that count as one idle step, so that a long fight can end within a try."""


@dataclass(slots=True)
class EnvHistory:
    """Holds one environment's key and counters; a try begins at each new key and each load.

    `held`: all milestones reached so far, and the present place. `followed`: the most milestones of
    a state that it loaded. `parent`: hash of the state that the game descends from; `tried`: hash
    of the state that the try began from, or "". `since` counts the try's steps, `fought` those in a
    fight, `lived` all steps ever. `hp`: the party's highest HP since the last key or load.
    """

    held: frozenset[str] = frozenset()
    followed: int = 0
    parent: str = ""
    tried: str = ""
    since: int = 0
    fought: int = 0
    lived: int = 0
    seed: int | None = None
    hp: int = 0

    @property
    def rank(self) -> int:
        """Number of milestones held."""
        return keys.rank(self.held)

    @property
    def idle_steps(self) -> int:
        """Number of steps of the try, in which eight steps in a fight count as one."""
        return self.since - self.fought + self.fought // _FIGHT_STEPS

    def step(self, fights: bool) -> None:
        """Count one step of the try; `fights`: the step was in a fight."""
        self.since += 1
        self.fought += fights
        self.lived += 1

    def start_try(self, held: frozenset[str], state: str) -> None:
        """Begin a try at the key `held`; `state`: hash of the state saved or loaded, or ""."""
        self.held, self.tried, self.hp = held, state, 0
        self.parent = state or self.parent
        self.restart_try()

    def restart_try(self) -> None:
        self.since = self.fought = 0

    def history_facts(self) -> dict[str, Any]:
        """Return the JSON object that `history_from` reads; HP are left out."""
        facts = {**asdict(self), "held": sorted(self.held)}
        del facts["hp"]
        return facts


def history_from(facts: Mapping[str, Any]) -> EnvHistory:
    """Restore an environment's history from `facts`; a new history if `facts` hold none."""
    try:
        return EnvHistory(**{**facts, "held": frozenset(facts["held"])})
    except (KeyError, TypeError):
        return EnvHistory()
