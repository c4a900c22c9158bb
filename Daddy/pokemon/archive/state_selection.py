"""Pure. Decides which archived state to load, to keep and to remove; each answer has a reason.

`Dice` are random numbers from 0 to less than 1, passed in by the caller.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.env_history import EnvHistory
from Daddy.pokemon.archive.file_names import Catalogue, StateEntry

RandomNumbers = Callable[[], float]
T = TypeVar("T")
_WEARY = 3.0
"""Mean dry tries of a group of places that halve its weight in a draw."""


@dataclass(frozen=True, slots=True)
class ArchiveRules:
    """Parameters of all decisions; `core.settings.ArchiveSettings` has the settings among them."""

    follow: bool = True
    """Load a state when the fleet first holds more milestones, and begin most episodes near it."""
    starts: bool = False
    """Begin episodes from the states that were tried least."""
    per_key: int = 8
    """States kept of one key."""
    patience: int = 20_000
    """Steps from a state without a new key after which the try was dry; see `EnvHistory.idle`."""
    tries: int = 3
    """Dry tries, on balance, after which a state is demoted."""
    fresh: float = 0.25
    """Share of episodes that begin at the start of the game all the same."""
    stray: float = 0.25
    """Weight of each milestone fewer, in the draw of a state to go on from."""
    square: int = 16
    """Side in cells of the squares of a map that tell moments apart; 0: whole maps."""
    places: int = 128
    """Places kept per number of milestones; a new one then replaces a demoted one only."""
    most_keys: int = 2_048
    stronger: float = 1.1
    """Factor over the best HP before from which a moment without a new key is kept."""
    look_every: int = 64
    """Steps of an environment between two looks at the folder."""


class StateChoice(NamedTuple):
    """A state to load, or None to go on, with the reason."""

    entry: StateEntry | None
    reason: str


class KeepDecision(NamedTuple):
    """The decision to keep a moment or not, with the reason."""

    keep: bool
    reason: str


def _demotion(entry: StateEntry, seen: Catalogue, rules: ArchiveRules) -> int:
    """Dry tries on balance, where too many: each gain pays for `rules.tries` of them. Else 0."""
    debt = seen.dry.get(entry.sha256, 0) - rules.tries * seen.gains.get(entry.sha256, 0)
    return debt if debt >= rules.tries else 0


def is_demoted(entry: StateEntry, seen: Catalogue, rules: ArchiveRules) -> bool:
    """Return True if a state was dry too often: it attracts no environment and makes room."""
    return _demotion(entry, seen, rules) > 0


def is_try_over(history: EnvHistory, rules: ArchiveRules) -> bool:
    """Return True if the present try has lasted its time without anything new."""
    return history.idle_steps >= rules.patience


# -- loading


def choose_state_to_load(
    history: EnvHistory, seen: Catalogue, rules: ArchiveRules, dice: RandomNumbers
) -> StateChoice:
    """Choose the state to go on from at the next step."""
    if not rules.follow:
        return StateChoice(None, "states are loaded at the start of episodes only")
    if is_try_over(history, rules):
        return _move_away(history, seen, rules, dice)
    states = [entry for entry in seen.entries if not is_demoted(entry, seen, rules)]
    if not states:
        return StateChoice(None, "no state is worth following")
    most = states[-1].rank
    if most <= max(history.followed, history.rank):
        here = f"here {history.rank}, followed to {history.followed}"
        return StateChoice(None, f"the fleet holds {most} milestones, {here}")
    furthest = [entry for entry in states if entry.rank == most]
    hp = max(entry.hp for entry in furthest)
    strongest = [entry for entry in furthest if rules.stronger * entry.hp >= hp]
    reason = f"the fleet first holds {most} milestones, here {history.rank}"
    return StateChoice(_drawn(strongest, [1.0] * len(strongest), dice), reason)


def _move_away(
    history: EnvHistory, seen: Catalogue, rules: ArchiveRules, dice: RandomNumbers
) -> StateChoice:
    """Choose any state, perhaps the same once more."""
    reason = (
        f"{history.idle_steps} steps from {history.tried[:8] or 'its last'} brought nothing new"
    )
    if not seen.entries:
        return StateChoice(None, f"{reason}, and there is no state")
    entry = _onward(seen, rules, dice)
    return StateChoice(entry, f"{reason}: on from {entry.rank} milestones")


def _onward(seen: Catalogue, rules: ArchiveRules, dice: RandomNumbers) -> StateEntry:
    """Draw a number of milestones, then a place with as many, then one of its states.

    No state is excluded: a frontier that is merely hard goes on being tried, and a dead one is
    drawn seldom after many dry tries. Recently reached places and rarely visited ones weigh more.
    """
    ranks = [places for _, places in sorted(seen.by_rank.items(), reverse=True)]
    weights = [rules.stray**depth * _freshness(places, seen) for depth, places in enumerate(ranks)]
    places = _drawn(ranks, weights, dice)
    weights = [_freshness([states], seen) * _novelty(states, seen) for states in places]
    group = _drawn(places, weights, dice)
    weights = [1 / (1 + _tired(entry, seen) + _outdone(entry, group)) for entry in group]
    return _drawn(group, weights, dice)


def _freshness(places: Sequence[Sequence[StateEntry]], seen: Catalogue) -> float:
    """Weight of a group of places: the smaller, the more often tries from them were dry.

    The mean over places, so that eight easy places do not weigh eight times as much; the sum over
    the states of a place, so that a new state does not hide the dry tries of the others there.
    """
    tired = sum(_tired(entry, seen) for states in places for entry in states) / len(places)
    return 1 / (1 + tired / _WEARY)


def _novelty(states: Sequence[StateEntry], seen: Catalogue) -> float:
    """Weight of a place: the smaller, the more visits, and the more milestones since it was new."""
    state = states[0]
    known_for = max(0, state.rank - seen.first.get(state.place, state.rank))
    return 1 / ((1 + known_for) * (1 + seen.visits.get(state.key, 0)))


def _tired(entry: StateEntry, seen: Catalogue) -> int:
    return max(0, seen.dry.get(entry.sha256, 0) - seen.gains.get(entry.sha256, 0))


def _outdone(entry: StateEntry, others: Sequence[StateEntry]) -> int:
    """Number of states with a stronger party."""
    return sum(other.hp > entry.hp for other in others)


def choose_substitute(entry: StateEntry, seen: Catalogue, dice: RandomNumbers) -> StateEntry | None:
    """Choose another state with as many milestones, for one that cannot be loaded."""
    peers = [other for other in seen.entries if other.rank == entry.rank and other != entry]
    return _drawn(peers, [1.0] * len(peers), dice) if peers else None


def choose_episode_start(seen: Catalogue, rules: ArchiveRules, dice: RandomNumbers) -> StateChoice:
    """Choose the state that an episode begins from; None for the start of the game.

    With `follow` the draw is that after a dry try: from the start of the game an environment would
    not reach the others' frontier within an episode. With `starts` the weight is
    1 / sqrt(1 + tries).
    """
    if not (rules.starts or rules.follow):
        return StateChoice(None, "episodes begin where the game does")
    if dice() < rules.fresh:
        return StateChoice(None, "this episode begins where the game does, by lot")
    if not seen.entries:
        return StateChoice(None, "there is no state yet")
    if rules.starts:
        tries = Counter(seen.dry) + Counter(seen.gains)
        weights = [1 / math.sqrt(1 + tries[entry.sha256]) for entry in seen.entries]
        entry = _drawn(seen.entries, weights, dice)
    else:
        entry = _onward(seen, rules, dice)
    return StateChoice(entry, f"drawn among {len(seen.entries)} states: {entry.rank} milestones")


# -- keeping


def is_new_key(
    held: frozenset[str], before: frozenset[str], seen: Catalogue, rules: ArchiveRules
) -> bool:
    """Return True for a milestone more than `before`, or a new place that there is room for."""
    if keys.rank(held) > keys.rank(before):
        return True
    return keys.key_hash(held) not in seen.by_key and _has_room(keys.rank(held), seen, rules)


def _has_room(rank: int, seen: Catalogue, rules: ArchiveRules) -> bool:
    """Return True if one more place with as many milestones would stay."""
    places = seen.by_rank.get(rank, ())
    good = sum(not all(is_demoted(entry, seen, rules) for entry in states) for states in places)
    return good < _room(rank, seen, rules)


def _room(rank: int, seen: Catalogue, rules: ArchiveRules) -> int:
    """Number of places with as many milestones that are kept; higher ranks come first."""
    ahead = sum(min(len(places), rules.places) for at, places in seen.by_rank.items() if at > rank)
    return max(0, min(rules.places, rules.most_keys - ahead))


def decide_to_keep(held: frozenset[str], seen: Catalogue, rules: ArchiveRules) -> KeepDecision:
    """Decide on a moment with these milestones, at this place."""
    rank, states = keys.rank(held), seen.by_key.get(keys.key_hash(held), ())
    if not states and not _has_room(rank, seen, rules):
        room = _room(rank, seen, rules)
        return KeepDecision(False, f"there is room for {room} places with {rank} milestones")
    good = sum(not is_demoted(entry, seen, rules) for entry in states)
    if good >= rules.per_key:
        return KeepDecision(False, f"{good} states hold the same {rank} milestones here")
    return KeepDecision(True, f"{good} of {rules.per_key} states hold these {rank} milestones here")


def decide_to_keep_stronger(
    held: frozenset[str], hp: int, seen: Catalogue, rules: ArchiveRules
) -> KeepDecision:
    """Decide on a moment without anything new: a stronger party may win a fight lost until now."""
    rank, states = keys.rank(held), seen.by_key.get(keys.key_hash(held), ())
    if not states:
        return KeepDecision(False, f"no state holds these {rank} milestones here")
    best = max((entry.hp for entry in states if not is_demoted(entry, seen, rules)), default=0)
    if hp < rules.stronger * best:
        return KeepDecision(
            False, f"a state of these {rank} milestones here has {best} HP, this {hp}"
        )
    return KeepDecision(True, f"{hp} HP, {best} before with these {rank} milestones here")


def surplus_states(seen: Catalogue, rules: ArchiveRules) -> tuple[StateEntry, ...]:
    """States to remove: beyond `per_key` of a key, `places` of a rank, `most_keys` in all.

    Demoted states go first, most dry tries first; then the weakest of a key, the oldest of the
    places, and the keys with the fewest milestones.
    """
    lost: list[StateEntry] = []
    for rank, states_of_places in seen.by_rank.items():
        places = sorted(states_of_places, key=lambda states: _merit(states, seen, rules))
        beyond = max(0, len(places) - _room(rank, seen, rules))
        lost += [entry for states in places[:beyond] for entry in states]
        for states in places[beyond:]:
            worst = sorted(states, key=lambda entry: (-_demotion(entry, seen, rules), entry))
            lost += worst[: max(0, len(worst) - rules.per_key)]
    return tuple(lost)


def _merit(
    states: Sequence[StateEntry], seen: Catalogue, rules: ArchiveRules
) -> tuple[int, int, str]:
    """Sort key of places: by demotion, then by age."""
    demotion = min(_demotion(entry, seen, rules) for entry in states)
    return -demotion, min(entry.age for entry in states), states[0].key


def _drawn(options: Sequence[T], weights: Sequence[float], dice: RandomNumbers) -> T:
    left = dice() * sum(weights)
    for option, weight in zip(options, weights, strict=True):
        left -= weight
        if left < 0:
            return option
    return options[-1]
