"""A claim played again: the killable child, and the door to it.

`judge` starts `python -m Daddy.pokemon.archive.replay` with the claim on its standard input and
waits a bounded time; only the state that the child itself reached enters the archive. A hanging or
crashing emulator, an endless log and a log that does not lead where it says are refusals with a
reason.
"""

from __future__ import annotations

import base64
import json
import resource
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from Daddy.core.errors import DaddyError, FileError
from Daddy.core.files import read_bounded, sha256_hex, write_atomic
from Daddy.core.process import Completed, ProcessTimeoutError, run
from Daddy.pokemon.archive import claims, decisions, keys
from Daddy.pokemon.archive.claims import Claim
from Daddy.pokemon.archive.names import Entry
from Daddy.pokemon.archive.record import STATE_LIMIT, Provenance
from Daddy.pokemon.archive.store import Archive

_BOOT_S = 30.0
"""Seconds to load the emulator and begin the game."""
_STEPS_PER_S = 100.0
"""Slowest pace at which a log is played again: a fifth of an idle core's."""
_ANSWER_LIMIT = 64 * 1024
_CHILD: Final = "Daddy.pokemon.archive.replay"


@dataclass(frozen=True)
class Game:
    """The game to play again in, and the bound.

    `options` are those of `PokemonRedEnv` that say which game and where it begins (JSON). `seconds`
    is the longest time of one try; 0 goes by the log's length.
    """

    rom: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Judgement:
    """What became of a claim: the state it earned, or None, and why."""

    entry: Entry | None
    reason: str


def judge(claim: Claim, archive: Archive, game: Game, author: str) -> Judgement:
    """Play `claim` again in a child and keep the state it reaches; never raises for a bad claim.

    `author` names who made it. OSError when the archive's disk refuses.
    """
    try:
        parent = _parent(claim, archive)
    except FileError as error:
        return Judgement(None, f"its parent state cannot be used: {error.message}")
    with tempfile.TemporaryDirectory(prefix="daddy-replay-") as folder:
        begin, square = parent[1] if parent else b"", archive.rules.square
        found = _play_again(claim, begin, game, square, Path(folder))
    if isinstance(found, str):
        return Judgement(None, found)
    held, facts, state = found
    before = frozenset(parent[0].held if parent else ())
    held = keys.moment(before, held)
    if missing := sorted(keys.milestones(claim.held) - held):
        return Judgement(None, f"it does not reach {', '.join(missing[:5])}")
    if keys.milestones(held) <= before:
        return Judgement(None, "it reaches nothing that its parent does not hold")
    verdict = decisions.worth_keeping(held, archive.look(), archive.rules)
    if not verdict.keep:
        return Judgement(None, verdict.reason)
    whence = _provenance(claim, parent, held, facts, author)
    return Judgement(archive.put(whence, state), "reached")


def _parent(claim: Claim, archive: Archive) -> tuple[Provenance, bytes] | None:
    """The state to begin from; None for the start of the game. FileError when there is none."""
    if not claim.parent:
        return None
    for entry in archive.look().entries:
        if entry.sha256 == claim.parent:
            return archive.get(entry)
    raise FileError(f"{claim.parent[:12]} is not in this archive", "claim from a newer state")


def _play_again(
    claim: Claim, parent: bytes, game: Game, square: int, folder: Path
) -> tuple[frozenset[str], Mapping[str, Any], bytes] | str:
    """(milestones and place, facts, state) that the child found, or why it found none."""
    if parent:
        write_atomic(folder / "parent", parent)
    seconds = game.seconds or _BOOT_S + len(claim.inputs) / _STEPS_PER_S
    order = {
        "rom": str(game.rom),
        "options": dict(game.options),
        "claim": base64.b64encode(claims.to_bytes(claim)).decode(),
        "folder": str(folder),
        "square": square,
        "seconds": seconds,
    }
    argv = [sys.executable, "-m", _CHILD]
    try:
        done = run(argv, seconds, stdin=json.dumps(order), die_with_us=True)
    except ProcessTimeoutError:
        return f"playing it again did not end within {seconds:g} s"
    return _answer(done, folder)


def _answer(done: Completed, folder: Path) -> tuple[frozenset[str], Mapping[str, Any], bytes] | str:
    if done.returncode < 0:
        return f"the emulator was ended by signal {-done.returncode} while playing it again"
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return f"playing it again failed: {last[0][:200]}"
    try:
        facts = json.loads(done.stdout[:_ANSWER_LIMIT])
        state = read_bounded(folder / "reached", STATE_LIMIT)
        if sha256_hex(state) != facts["sha256"]:
            raise ValueError("another state than it said")
        return frozenset(facts["held"]), facts, state
    except (OSError, FileError, ValueError, KeyError, TypeError) as error:
        return f"playing it again gave no result: {error!r}"


def _provenance(
    claim: Claim,
    parent: tuple[Provenance, bytes] | None,
    held: frozenset[str],
    facts: Mapping[str, Any],
    author: str,
) -> Provenance:
    """The parent's, where there is one; assists are inherited, and those in use come to them."""
    step = (parent[0].step if parent else 0) + len(claim.inputs)
    blank = Provenance((), "", "", None, 0, None, "", facts["rom_sha1"], facts["pyboy"])
    return replace(
        parent[0] if parent else blank,
        held=tuple(sorted(held)),
        parent=claim.parent,
        origin=f"claim {sha256_hex(claims.to_bytes(claim))[:12]} of {author}",
        slot=None,
        step=step,
        hp=int(facts["hp"]),
        assists=tuple(sorted({*(parent[0].assists if parent else ()), *facts["assists"]})),
    )


# -- the child


def main() -> int:
    """Read an order, play, write the state, and say what was reached."""
    order = json.loads(sys.stdin.read(4 * claims.CLAIM_LIMIT))
    _bound(float(order["seconds"]))
    try:
        claim = claims.from_bytes(base64.b64decode(order["claim"]))
        print(json.dumps(_play(claim, order)))
    except (DaddyError, ValueError, KeyError, TypeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _bound(seconds: float) -> None:
    """The kernel ends a child that nobody is left to end, and it may write one state only."""
    most = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (STATE_LIMIT, STATE_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _play(claim: Claim, order: Mapping[str, Any]) -> dict[str, Any]:
    from Daddy.pokemon import story
    from Daddy.pokemon.emulator import PYBOY_VERSION
    from Daddy.pokemon.env import PokemonRedEnv
    from Daddy.pokemon.save_state import generator_from

    folder = Path(order["folder"])
    env = PokemonRedEnv(order["rom"], **order["options"], episode_steps=claims.MOST_INPUTS + 1)
    if not claim.parent and "seed" not in claim.start:
        env.np_random = generator_from(claim.start)
    env.reset(seed=claim.start.get("seed"))
    if claim.parent:
        env.adopt(read_bounded(folder / "parent", STATE_LIMIT))
    held = story.keys(env.progress, env.rom.real, order["square"])
    for action in claim.inputs:
        env.step(action)
        held = keys.moment(held, story.keys(env.progress, env.rom.real, order["square"]))
    state = env.save_state()
    write_atomic(folder / "reached", state)
    return {
        "held": sorted(held),
        "rank": keys.rank(held),
        "sha256": sha256_hex(state),
        "hp": env.progress.hp,
        "rom_sha1": env.rom.sha1,
        "pyboy": PYBOY_VERSION,
        "assists": env.assists,
    }


if __name__ == "__main__":
    sys.exit(main())
