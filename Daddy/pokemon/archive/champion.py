"""How a milestone was first won, out of a run's claims: as a recording from power-on.

A claim is what the environment's own code makes of keys; a recording is what reached the emulator,
and so is true of the game alone. The child that plays claims again plays this one too.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from Daddy.core.errors import FileError, UsageError
from Daddy.core.files import read_bounded
from Daddy.pokemon import story
from Daddy.pokemon.archive import claims, keys
from Daddy.pokemon.archive.book import Book
from Daddy.pokemon.archive.claims import Claim
from Daddy.pokemon.archive.replay import RECORDING, Begin, Game, play_again
from Daddy.pokemon.archive.store import Archive
from Daddy.pokemon.inputs.tape import FILE_LIMIT

_TRIES = 3
"""Ways that are played before giving up, the shortest first."""


def record(archive: Archive, game: Game, milestone: str, real: bool) -> bytes:
    """The recording of the shortest way to `milestone` that the archive knows.

    `real`: Red or Blue. UsageError where there is no such milestone, FileError where nobody reached
    it or no way to it can be followed.
    """
    if milestone not in story.names(real):
        known = ", ".join(story.names(real))
        raise UsageError(f"there is no milestone {milestone!r} in this game", f"one of: {known}")
    found = ways(Book(archive.folder), milestone)
    reason = "claims that it goes on from are gone, or it is too long"
    for claim in found[:_TRIES]:
        with tempfile.TemporaryDirectory(prefix="daddy-champion-") as folder:
            played = play_again(Begin(claim), game, archive.rules.square, Path(folder), milestone)
            if isinstance(played, str):
                reason = played
            elif milestone not in played[0]:
                reason = "its keys do not lead there with this release"
            else:
                return read_bounded(Path(folder) / RECORDING, FILE_LIMIT)
    raise FileError(f"the way to {milestone} cannot be followed: {reason}", "try another milestone")


def ways(book: Book, milestone: str) -> list[Claim]:
    """Claims that hold it, each with all keys since the start of the game; the shortest first.

    FileError where nobody reached it.
    """
    known = [one for ident, _ in book.pairs() if (one := book.find(ident))]
    holding = [one for one in known if milestone in one.held]
    if not holding:
        reached = sorted({name for one in known for name in keys.milestones(one.held)})
        raise FileError(
            f"nobody in {book.folder.parent} has reached {milestone}",
            f"reached were: {', '.join(reached) or 'none'}",
        )
    found = []
    for claim in holding:
        try:
            found.append(claims.joined(claim, book.find, ()))
        except FileError:
            continue
    return sorted(found, key=lambda one: (len(one.inputs), claims.ident(one)))
