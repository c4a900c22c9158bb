"""Pure. Decides which archived states to load, to keep and to remove, each with a reason.

The caller passes in a `Draw`, which returns random numbers from 0 to less than 1.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.env_archive_progress import EnvHistory
from Daddy.pokemon.archive.file_names import Catalogue, StateEntry

Draw = Callable[[], float]
T = TypeVar("T")
_HALVING_TRIES = 3.0
"""Mean number of dry tries that halves the weight of a group of places in a draw."""


@dataclass(frozen=True, slots=True)
class ArchiveRules:
    """Holds the parameters of all decisions; `core.settings.ArchiveSettings` sets most of them."""

    follow: bool = True
    """Load a state when the fleet first holds more milestones, and begin most episodes near it."""
    starts: bool = False
    """Begin episodes from the states that were tried least often."""
    per_key: int = 8
    """States kept of one key."""
    patience: int = 20_000
    """Idle steps (`EnvHistory.idle_steps`) after which a try counts as dry."""
    tries: int = 3
    """Dry tries, each gain deducted, after which a state is demoted."""
    fresh: float = 0.25
    """Share of episodes that begin at the start of the game in any case."""
    stray: float = 0.25
    """Factor on a state's weight in a draw for each milestone that it has fewer than the best."""
    square: int = 16
    """Side, in cells, of the squares into which maps are divided as places; 0: whole maps."""
    places: int = 128
    """Places kept per number of milestones; beyond that a new place replaces a demoted one only."""
    most_keys: int = 2_048
    """Keys kept in all."""
    stronger: float = 1.1
    """Factor on the best kept HP from which a state without a new key is kept."""
    look_every: int = 64
    """Steps of an environment between two readings of the catalogue."""


class StateChoice(NamedTuple):
    """Names the state to load, or None to load no state, with the reason."""

    entry: StateEntry | None
    reason: str


class KeepDecision(NamedTuple):
    """Holds True if a state is to be archived, with the reason."""

    keep: bool
    reason: str


def _demotion(entry: StateEntry, stored: Catalogue, rules: ArchiveRules) -> int:
    """Return a state's dry tries less `rules.tries` per gain, or 0 if below `rules.tries`."""
    debt = stored.dry.get(entry.sha256, 0) - rules.tries * stored.gains.get(entry.sha256, 0)
    return debt if debt >= rules.tries else 0


def is_demoted(entry: StateEntry, stored: Catalogue, rules: ArchiveRules) -> bool:
    """Return True if too many tries from a state were dry (reached no new key)."""
    return _demotion(entry, stored, rules) > 0


def is_try_over(history: EnvHistory, rules: ArchiveRules) -> bool:
    """Return True if the present try had `rules.patience` idle steps."""
    return history.idle_steps >= rules.patience


# -- loading


def choose_state_to_load(
    history: EnvHistory, stored: Catalogue, rules: ArchiveRules, draw: Draw
) -> StateChoice:
    """Choose the state to load before the next step, or none, with the reason."""
    if not rules.follow:
        return StateChoice(None, "states are loaded at the start of episodes only")
    if is_try_over(history, rules):
        return _leave(history, stored, rules, draw)
    states = [entry for entry in stored.entries if not is_demoted(entry, stored, rules)]
    if not states:
        return StateChoice(None, "no state is worth following")
    most = states[-1].rank
    if most <= max(history.followed, history.rank):
        present = f"here {history.rank}, followed to {history.followed}"
        return StateChoice(None, f"the fleet holds {most} milestones, {present}")
    furthest = [entry for entry in states if entry.rank == most]
    hp = max(entry.hp for entry in furthest)
    strongest = [entry for entry in furthest if rules.stronger * entry.hp >= hp]
    reason = f"the fleet first holds {most} milestones, here {history.rank}"
    return StateChoice(_pick(strongest, [1.0] * len(strongest), draw), reason)


def _leave(history: EnvHistory, stored: Catalogue, rules: ArchiveRules, draw: Draw) -> StateChoice:
    """Choose a state to load after a dry try, perhaps the try's own first state."""
    origin = history.tried[:8] or "its last"
    reason = f"{history.idle_steps} steps from {origin} brought nothing new"
    if not stored.entries:
        return StateChoice(None, f"{reason}, and there is no state")
    entry = _draw_state(stored, rules, draw)
    return StateChoice(entry, f"{reason}: on from {entry.rank} milestones")


def _draw_state(stored: Catalogue, rules: ArchiveRules, draw: Draw) -> StateEntry:
    """Draw a number of milestones, then a place with as many, then one of its states.

    No state is excluded, so that a difficult place goes on being tried; a place that leads nowhere
    is drawn seldom after many dry tries. New places and places with few visits weigh more.
    """
    ranks = [places for _, places in sorted(stored.by_rank.items(), reverse=True)]
    weights = [rules.stray**n * _freshness(places, stored) for n, places in enumerate(ranks)]
    places = _pick(ranks, weights, draw)
    weights = [_freshness([states], stored) * _novelty(states, stored) for states in places]
    group = _pick(places, weights, draw)
    weights = [1 / (1 + _dryness(entry, stored) + _stronger(entry, group)) for entry in group]
    return _pick(group, weights, draw)


def _freshness(places: Sequence[Sequence[StateEntry]], stored: Catalogue) -> float:
    """Return the weight of a group of places, which falls with the dry tries per place.

    Dry tries are summed over a place's states, so that a new state does not reset them.
    """
    dryness = sum(_dryness(entry, stored) for states in places for entry in states) / len(places)
    return 1 / (1 + dryness / _HALVING_TRIES)


def _novelty(states: Sequence[StateEntry], stored: Catalogue) -> float:
    """Return a place's weight, which falls with visits and with milestones won since it was new."""
    state = states[0]
    known_for = max(0, state.rank - stored.first.get(state.place, state.rank))
    return 1 / ((1 + known_for) * (1 + stored.visits.get(state.key, 0)))


def _dryness(entry: StateEntry, stored: Catalogue) -> int:
    return max(0, stored.dry.get(entry.sha256, 0) - stored.gains.get(entry.sha256, 0))


def _stronger(entry: StateEntry, others: Sequence[StateEntry]) -> int:
    """Count the states in `others` with more HP than `entry`."""
    return sum(other.hp > entry.hp for other in others)


def choose_substitute(entry: StateEntry, stored: Catalogue, draw: Draw) -> StateEntry | None:
    """Choose another state with as many milestones in place of one that cannot be loaded."""
    peers = [other for other in stored.entries if other.rank == entry.rank and other != entry]
    return _pick(peers, [1.0] * len(peers), draw) if peers else None


def choose_episode_start(stored: Catalogue, rules: ArchiveRules, draw: Draw) -> StateChoice:
    """Choose the state that an episode begins from; None for the start of the game.

    With `starts` a state's weight is 1 / sqrt(1 + tries). With `follow` alone the draw is the one
    after a dry try: an episode from the game's start cannot reach the fleet's latest states.
    """
    if not (rules.starts or rules.follow):
        return StateChoice(None, "episodes begin where the game does")
    if draw() < rules.fresh:
        return StateChoice(None, "this episode begins where the game does, by lot")
    if not stored.entries:
        return StateChoice(None, "there is no state yet")
    if rules.starts:
        tries = Counter(stored.dry) + Counter(stored.gains)
        weights = [1 / math.sqrt(1 + tries[entry.sha256]) for entry in stored.entries]
        entry = _pick(stored.entries, weights, draw)
    else:
        entry = _draw_state(stored, rules, draw)
    return StateChoice(entry, f"drawn among {len(stored.entries)} states: {entry.rank} milestones")


# -- keeping


def is_new_key(
    held: frozenset[str], before: frozenset[str], stored: Catalogue, rules: ArchiveRules
) -> bool:
    """Return True if `held` has more milestones than `before`, or a new place that can be kept."""
    if keys.rank(held) > keys.rank(before):
        return True
    return keys.key_hash(held) not in stored.by_key and _has_room(keys.rank(held), stored, rules)


def _has_room(rank: int, stored: Catalogue, rules: ArchiveRules) -> bool:
    """Return True if one more place with `rank` milestones would be kept."""
    places = stored.by_rank.get(rank, ())
    usable = sum(not all(is_demoted(entry, stored, rules) for entry in states) for states in places)
    return usable < _room(rank, stored, rules)


def _room(rank: int, stored: Catalogue, rules: ArchiveRules) -> int:
    """Return the number of places with `rank` milestones to keep; higher ranks take room first."""
    ahead = sum(min(len(places), rules.places) for n, places in stored.by_rank.items() if n > rank)
    return max(0, min(rules.places, rules.most_keys - ahead))


def decide_to_keep(held: frozenset[str], stored: Catalogue, rules: ArchiveRules) -> KeepDecision:
    """Decide if a state with the new key `held` is archived."""
    rank, states = keys.rank(held), stored.by_key.get(keys.key_hash(held), ())
    if not states and not _has_room(rank, stored, rules):
        room = _room(rank, stored, rules)
        return KeepDecision(False, f"there is room for {room} places with {rank} milestones")
    usable = sum(not is_demoted(entry, stored, rules) for entry in states)
    if usable >= rules.per_key:
        return KeepDecision(False, f"{usable} states hold the same {rank} milestones here")
    return KeepDecision(True, f"{usable} of {rules.per_key} states have these {rank} milestones")


def decide_to_keep_stronger(
    held: frozenset[str], hp: int, stored: Catalogue, rules: ArchiveRules
) -> KeepDecision:
    """Decide if a state of the known key `held` is archived for its party's `hp`."""
    rank, states = keys.rank(held), stored.by_key.get(keys.key_hash(held), ())
    if not states:
        return KeepDecision(False, f"no state holds these {rank} milestones here")
    best = max((entry.hp for entry in states if not is_demoted(entry, stored, rules)), default=0)
    if hp < rules.stronger * best:
        return KeepDecision(False, f"a state of these {rank} milestones has {best} HP, this {hp}")
    return KeepDecision(True, f"{hp} HP, {best} before with these {rank} milestones here")


def surplus_states(stored: Catalogue, rules: ArchiveRules) -> tuple[StateEntry, ...]:
    """List the states to remove: beyond `per_key` of a key, `places` of a rank, `most_keys` in all.

    Removed first are demoted states, those with most dry tries before others; then the weakest of a
    key, the oldest places, and the keys with the fewest milestones.
    """
    surplus: list[StateEntry] = []
    for rank, states_of_places in stored.by_rank.items():
        places = sorted(states_of_places, key=lambda states: _merit(states, stored, rules))
        beyond = max(0, len(places) - _room(rank, stored, rules))
        surplus += [entry for states in places[:beyond] for entry in states]
        for states in places[beyond:]:
            worst = sorted(states, key=lambda entry: (-_demotion(entry, stored, rules), entry))
            surplus += worst[: max(0, len(worst) - rules.per_key)]
    return tuple(surplus)


def _merit(
    states: Sequence[StateEntry], stored: Catalogue, rules: ArchiveRules
) -> tuple[int, int, str]:
    """Return the sort key of a place: the most demoted first, then the oldest."""
    demotion = min(_demotion(entry, stored, rules) for entry in states)
    return -demotion, min(entry.age for entry in states), states[0].key


def _pick(options: Sequence[T], weights: Sequence[float], draw: Draw) -> T:
    left = draw() * sum(weights)
    for option, weight in zip(options, weights, strict=True):
        left -= weight
        if left < 0:
            return option
    return options[-1]
