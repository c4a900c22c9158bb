"""Pure: which claims travel: what a run shows to its laptops, and what a laptop hands in.

Of every set of milestones one moment is shown, those with the most first, each with all claims that
lead to it from the start of the game.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from Daddy.pokemon.archive import keys
from Daddy.pokemon.archive.claims import Claim, joined
from Daddy.pokemon.archive.names import Entry

MOST_SHOWN = 256
"""Claims that a laptop gets, those on the way included."""
MOST_MOMENTS = 16
"""Moments that a laptop plays again."""
_LOOKED_AT = 256
"""States with the most milestones, among which the moments are chosen."""

Find = Callable[[str], Claim | None]


def best_first(entries: Iterable[Entry], ways: Mapping[str, str]) -> list[str]:
    """Claims of the states with the most milestones; `ways` gives a claim's hash by its state's."""
    most = sorted(entries, key=lambda one: (-one.rank, one.age, one.sha256))[:_LOOKED_AT]
    return [ways[one.sha256] for one in most if one.sha256 in ways]


def moments(idents: Iterable[str], find: Find) -> list[str]:
    """The first claim of each set of milestones, in the order given; at most MOST_MOMENTS."""
    first: dict[str, str] = {}
    for ident in idents:
        if (claim := find(ident)) is not None:
            first.setdefault(_milestones(claim), ident)
    return list(first.values())[:MOST_MOMENTS]


def to_show(wanted: Iterable[str], ancestors: Callable[[str], Sequence[str]], find: Find,
            fits: Callable[[Claim], bool]) -> list[str]:  # fmt: skip
    """The moments that can be reached from the start by claims that fit, and those claims."""
    shown: dict[str, None] = {}
    for ident in wanted:
        line = ancestors(ident)
        steps = [step for one in line if (step := find(one)) is not None]
        rooted = len(steps) == len(line) > 0 and not steps[0].parent
        anew = [one for one in line if one not in shown]
        if rooted and all(map(fits, steps)) and len(shown) + len(anew) <= MOST_SHOWN:
            shown.update(dict.fromkeys(anew))
    return list(shown)


def to_play(shown: Mapping[str, Claim], done: Container[str]) -> list[str]:
    """Moments that are not here yet, those with the fewest milestones first."""
    ranked = sorted(shown, key=lambda one: (-keys.rank(shown[one].held), one))
    wanted = moments(ranked, shown.get)
    return [one for one in reversed(wanted) if one not in done]


def to_hand_in(own: Iterable[str], find: Find, known: Iterable[Claim]) -> list[str]:
    """Of one's own claims those with a milestone more than any that the run is known to have."""
    held = {keys.milestones(claim.held) for claim in known}
    found = []
    for ident in moments(own, find):
        claim = find(ident)
        if claim is not None and not any(keys.milestones(claim.held) <= one for one in held):
            found.append(ident)
    return found


def as_the_run_knows_it(claim: Claim, find: Find, same: Mapping[str, str]) -> Claim:
    """The claim from an ancestor that the run has, by its name there (`same`). FileError."""
    whole = joined(claim, find, same)
    return Claim(same.get(whole.parent, ""), whole.start, whole.inputs, whole.held)


def _milestones(claim: Claim) -> str:
    return keys.ident(keys.milestones(claim.held))
