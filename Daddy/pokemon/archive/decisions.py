"""Pure: what to load now, what to keep, what to give up: each answer with its reason.

Randomness is passed in as `dice`, a function that gives a number from 0 to less than 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from Daddy.pokemon.archive import keys
from Daddy.pokemon.archive.names import UNTOLD, Catalogue, Entry
from Daddy.pokemon.archive.rules import Rules

Dice = Callable[[], float]
T = TypeVar("T")
_WEARY = 3.0
"""Dry tries of some places, on average, that halve how much they draw."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A state to load, or None to go on, and why."""

    entry: Entry | None
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to keep a moment, and why."""

    keep: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an environment is: milestones held, the most it has followed the fleet to, its try."""

    rank: int
    followed: int
    tried: str = ""
    """Hash of the state it is on its way from, "" when it is on its own."""
    since: int = 0
    """Steps since it was there, those in a fight at an eighth."""


def is_demoted(entry: Entry, seen: Catalogue, rules: Rules) -> bool:
    """Whether a state has led nowhere too often; each time it led on pays for as many tries.

    Such a state calls nobody any more, and makes room for a new one of its key.
    """
    debt = seen.dry.get(entry.sha256, 0) - rules.tries * seen.gains.get(entry.sha256, 0)
    return debt >= rules.tries


def healthy(seen: Catalogue, rules: Rules) -> tuple[Entry, ...]:
    """States that are worth calling others to, fewest milestones first."""
    return tuple(entry for entry in seen.entries if not is_demoted(entry, seen, rules))


def is_over(standing: Standing, rules: Rules) -> bool:
    """Whether a try, or somebody's own way, has lasted its time without anything new."""
    return standing.since >= rules.patience


def what_to_load(standing: Standing, seen: Catalogue, rules: Rules, dice: Dice) -> Choice:
    """The state to go on from at the next step."""
    if not rules.follow:
        return Choice(None, "states are loaded at the start of episodes only")
    if is_over(standing, rules):
        return _move_away(standing, seen, rules, dice)
    states = healthy(seen, rules)
    if not states:
        return Choice(None, "no state is worth following")
    most = states[-1].rank
    if most <= standing.followed:
        return Choice(None, f"already followed the fleet to {most} milestones")
    if most <= standing.rank:
        return Choice(None, f"holds {standing.rank} milestones itself, the fleet {most}")
    best = _strongest([entry for entry in states if entry.rank == most], rules)
    said = f"the fleet first holds {most} milestones, here {standing.rank}"
    return Choice(_any(best, dice), said)


def _strongest(entries: Sequence[Entry], rules: Rules) -> list[Entry]:
    """Those with the most HP, and those that are hardly weaker."""
    most = max((entry.hp for entry in entries), default=0)
    return [entry for entry in entries if rules.stronger * max(0, entry.hp) >= most]


def _move_away(standing: Standing, seen: Catalogue, rules: Rules, dice: Dice) -> Choice:
    """Another state, or the same once more."""
    said = f"{standing.since} steps from {standing.tried[:8] or 'its last'} brought nothing new"
    if not seen.entries:
        return Choice(None, f"{said}, and there is no state")
    entry = _onward(seen, rules, dice)
    return Choice(entry, f"{said}: on from {entry.rank} milestones")


def _onward(seen: Catalogue, rules: Rules, dice: Dice) -> Entry:
    """How many milestones is drawn first, then a place with as many, then one of its states.

    Nothing is ruled out: a frontier that is merely hard goes on being tried, and one that is dead
    draws almost nobody once it has been tried often. What the last milestone opened is tried more
    than what was known before it, and where hardly anybody comes more than what all pass.
    """
    ranks = [_places(group) for group in _grouped(seen.entries, lambda entry: -entry.rank)]
    lures = [rules.stray**depth * _lure(places, seen) for depth, places in enumerate(ranks)]
    places = _drawn(ranks, lures, dice)
    lures = [_lure([states], seen) * _novelty(states, seen) for states in places]
    group = _drawn(places, lures, dice)
    weights = [1 / (1 + _tired(entry, seen) + _outdone(entry, group)) for entry in group]
    return _drawn(group, weights, dice)


def _grouped(entries: Iterable[Entry], by: Callable[[Entry], Any]) -> list[list[Entry]]:
    return [list(group) for _, group in groupby(sorted(entries, key=by), by)]


def _places(entries: Iterable[Entry]) -> list[list[Entry]]:
    return _grouped(entries, lambda entry: entry.key)


def _lure(places: Sequence[Sequence[Entry]], seen: Catalogue) -> float:
    """How much some places draw who moves on: the less, the more often tries from them were dry.

    From a state's dry tries those that led on are taken off. Counted as the average place, so that
    eight easy ones are not eight times worth a visit, and over all states of a place, so that one
    that was just kept does not clear the name of the others there.
    """
    tired = sum(_tired(entry, seen) for states in places for entry in states) / len(places)
    return 1 / (1 + tired / _WEARY)


def _novelty(states: Sequence[Entry], seen: Catalogue) -> float:
    """How little known the place of these states is: the less, the more often somebody came there,
    and the more milestones ago it was first seen.
    """
    last = states[-1]  # states of before, which tell no place, come first
    known_for = max(0, last.rank - seen.first.get(last.place, last.rank))
    return 1 / ((1 + known_for) * (1 + seen.visits.get(last.key, 0)))


def _tired(entry: Entry, seen: Catalogue) -> int:
    """How much more often it led nowhere than on."""
    return max(0, seen.dry.get(entry.sha256, 0) - seen.gains.get(entry.sha256, 0))


def _outdone(entry: Entry, others: Sequence[Entry]) -> int:
    """How many others have a stronger party."""
    return sum(one.hp > entry.hp for one in others)


def instead(entry: Entry, seen: Catalogue, dice: Dice) -> Entry | None:
    """Another state with as many milestones, for one that cannot be loaded; None without any."""
    peers = [one for one in seen.entries if one.rank == entry.rank and one != entry]
    return _any(peers, dice) if peers else None


def where_to_begin(seen: Catalogue, rules: Rules, dice: Dice) -> Choice:
    """The state an episode begins from; None for the start of the game, by lot.

    In a swarm it is drawn as after a dry try: whoever went back to the start of the game would not
    come to where the others are for as long as the quest is. Else by 1 / sqrt(1 + tries from it):
    what is new is seen often, nothing is ruled out.
    """
    if not (rules.starts or rules.follow):
        return Choice(None, "episodes begin where the game does")
    if dice() < rules.fresh:
        return Choice(None, "this episode begins where the game does, by lot")
    if not seen.entries:
        return Choice(None, "there is no state yet")
    if rules.starts:
        weights = [1 / math.sqrt(1 + _tries(entry, seen)) for entry in seen.entries]
        entry = _drawn(seen.entries, weights, dice)
    else:
        entry = _onward(seen, rules, dice)
    return Choice(entry, f"drawn among {len(seen.entries)} states: {entry.rank} milestones")


def _tries(entry: Entry, seen: Catalogue) -> int:
    return seen.dry.get(entry.sha256, 0) + seen.gains.get(entry.sha256, 0)


def is_new(held: frozenset[str], before: frozenset[str], seen: Catalogue, rules: Rules) -> bool:
    """Whether a moment is what tries are for: a milestone more than `before`, or a place where no
    state with these milestones is kept, while there is room for another.
    """
    if keys.rank(held) > keys.rank(before):
        return True
    return keys.ident(held) not in seen.by_key and _has_room(keys.rank(held), seen, rules)


def _has_room(rank: int, seen: Catalogue, rules: Rules) -> bool:
    """Whether one more place with as many milestones would stay."""
    places = seen.by_rank.get(rank, ())
    good = sum(any(_leads_on(entry, seen, rules) for entry in states) for states in places)
    return good < _room(rank, seen, rules)


def _room(rank: int, seen: Catalogue, rules: Rules) -> int:
    """For how many places with as many milestones there is room, after those with more."""
    ahead = sum(min(len(places), rules.places) for at, places in seen.by_rank.items() if at > rank)
    return max(0, min(rules.places, rules.most_keys - ahead))


def _leads_on(entry: Entry, seen: Catalogue, rules: Rules) -> bool:
    """Whether a state holds its place: it was not given up, and says what later ones say."""
    return entry.hp != UNTOLD and not is_demoted(entry, seen, rules)


def worth_keeping(held: frozenset[str], seen: Catalogue, rules: Rules) -> Verdict:
    """Whether a moment with these milestones, at this place, is kept."""
    rank, states = keys.rank(held), seen.by_key.get(keys.ident(held), ())
    if not states and not _has_room(rank, seen, rules):
        many = _room(rank, seen, rules)
        return Verdict(False, f"there is room for {many} places with {rank} milestones")
    good = sum(not is_demoted(entry, seen, rules) for entry in states)
    if good >= rules.per_key:
        return Verdict(False, f"{good} states hold the same {rank} milestones here")
    return Verdict(True, f"{good} of {rules.per_key} states hold these {rank} milestones here")


def worth_keeping_again(held: frozenset[str], hp: int, seen: Catalogue, rules: Rules) -> Verdict:
    """Whether a moment without anything new is kept for its party: a fight that is lost from every
    state of its milestones may be won from this one. HP tells levels and health in one number.
    """
    rank, states = keys.rank(held), seen.by_key.get(keys.ident(held), ())
    if not states:
        return Verdict(False, f"no state holds these {rank} milestones here")
    best = max((entry.hp for entry in states if not is_demoted(entry, seen, rules)), default=0)
    if hp < rules.stronger * best:
        return Verdict(False, f"a state of these {rank} milestones here has {best} HP, this {hp}")
    return Verdict(True, f"{hp} HP, {best} before with these {rank} milestones here")


def surplus(seen: Catalogue, rules: Rules) -> tuple[Entry, ...]:
    """States to give up: beyond `per_key` of a key, `places` of as many milestones, `most_keys`.

    First those that least came of (most dry tries on balance), among equals the weakest of a key
    and the oldest of the places; of the keys those with the fewest milestones.
    """
    lost: list[Entry] = []
    for rank, states_of_places in seen.by_rank.items():
        places = sorted(states_of_places, key=lambda states: _merit(states, seen, rules))
        beyond = max(0, len(places) - _room(rank, seen, rules))
        lost += [entry for states in places[:beyond] for entry in states]
        for states in places[beyond:]:
            worst = sorted(states, key=lambda entry: (-_debt(entry, seen, rules), entry))
            lost += worst[: max(0, len(worst) - rules.per_key)]
    return tuple(lost)


def _merit(states: Sequence[Entry], seen: Catalogue, rules: Rules) -> tuple[bool, int, int, str]:
    """Sorts places: first those of an older release, then by what came of them and by age."""
    debt = min(_debt(entry, seen, rules) for entry in states)
    told = any(entry.hp != UNTOLD for entry in states)
    return told, -debt, min(entry.age for entry in states), states[0].key


def _debt(entry: Entry, seen: Catalogue, rules: Rules) -> int:
    """Dry tries on balance, as far as they demote: below that, states are alike."""
    debt = seen.dry.get(entry.sha256, 0) - rules.tries * seen.gains.get(entry.sha256, 0)
    return debt if debt >= rules.tries else 0


def _drawn(options: Sequence[T], weights: Sequence[float], dice: Dice) -> T:
    left = dice() * sum(weights)
    for option, weight in zip(options, weights, strict=True):
        left -= weight
        if left < 0:
            return option
    return options[-1]


def _any(options: Sequence[T], dice: Dice) -> T:
    return options[min(int(dice() * len(options)), len(options) - 1)]
