"""Plays a claim again in a child process that can be killed, and keeps the state it reaches.

`judge` and `record` start ``python -m Daddy.pokemon.archive.claim_replay`` with an order (JSON) and
a folder, and wait a bounded time. Only the state that the child itself reached enters the
archive. A child that hangs or crashes, an endless log and a log that leads elsewhere are refusals
with a reason.
"""

from __future__ import annotations

import contextlib
import json
import math
import resource
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from Daddy.core.atomic_files import read_bounded, sha256_hex, write_atomic
from Daddy.core.child_process import Completed, ProcessTimeoutError, run_command
from Daddy.core.errors import DaddyError, FileError, UsageError
from Daddy.core.rom_identity import load_rom
from Daddy.pokemon import story_milestones
from Daddy.pokemon.archive import claim_format, state_selection
from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.archive_store import Archive
from Daddy.pokemon.archive.claim_format import Claim, FindClaim
from Daddy.pokemon.archive.claim_store import ClaimStore
from Daddy.pokemon.archive.file_names import StateEntry
from Daddy.pokemon.archive.state_format import STATE_LIMIT, Provenance
from Daddy.pokemon.inputs import recording_format

_BOOT_S = 30.0
"""Seconds to load the emulator and begin the game."""
_START_S = 120.0
"""Seconds to play from power-on to the start state as well."""
_STEPS_PER_S = 100.0
"""Slowest pace at which a log is played again: a fifth of an idle core's."""
_ANSWER_LIMIT = 64 * 1024
_RECORDING: Final = "recording"
_CHILD: Final = "Daddy.pokemon.archive.claim_replay"
_ATTEMPTS = 3
"""Claims that `record` plays before giving up, the shortest first."""


@dataclass(frozen=True)
class ReplayGame:
    """The game to play again in.

    `options` are those of `PokemonRedEnv` that say which game and where it begins (JSON). A child
    gets the time that its log's length asks for, and `seconds` at most (0: no such bound).
    """

    rom: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class ReplayStart:
    """The log to play (`claim_format.joined`), and the archived state it begins from.

    Without a state (hash, provenance and bytes are empty) it begins at the start of the game.
    """

    claim: Claim
    sha256: str = ""
    provenance: Provenance | None = None
    state: bytes = b""

    @property
    def held(self) -> frozenset[str]:
        """Milestones and place of the state."""
        return frozenset(self.provenance.held if self.provenance else ())


class ReplayResult(NamedTuple):
    """The state that a claim earned, or None, with the reason."""

    entry: StateEntry | None
    reason: str


ReachedState = tuple[Mapping[str, Any], bytes]
"""Facts (`held`: milestones and place) and state that a child reached."""


def replay_claim(
    claim: Claim, archive: Archive, game: ReplayGame, author: str, find: FindClaim | None = None
) -> ReplayResult:
    """Play `claim` again in a child and keep the state it reaches; never raises for a bad claim.

    `author` names its maker; `find` gives its ancestors, by default those in the archive's book.
    OSError when the archive's disk refuses.
    """
    book = ClaimStore(archive.folder)
    try:
        begin = _from_here(claim, archive, book, find or book.find_claim)
    except FileError as error:
        return ReplayResult(None, error.message)
    with tempfile.TemporaryDirectory(prefix="daddy-replay-") as folder:
        found = _play_again(begin, game, archive.rules.square, Path(folder))
    if isinstance(found, str):
        return ReplayResult(None, found)
    facts, state = found
    held = keys.next_key(begin.held, facts["held"])
    if missing := sorted(keys.milestones(claim.held) - held):
        return ReplayResult(None, f"it does not reach {', '.join(missing[:5])}")
    if keys.milestones(held) <= begin.held:
        return ReplayResult(None, "it reaches nothing that its parent does not hold")
    verdict = state_selection.decide_to_keep(held, archive.list_states(), archive.rules)
    if not verdict.keep:
        return ReplayResult(None, verdict.reason)
    entry = archive.keep_state(_provenance(claim, begin, held, facts, author), state)
    book.keep_claim(claim, entry.sha256)
    return ReplayResult(entry, "reached")


def _from_here(claim: Claim, archive: Archive, book: ClaimStore, find: FindClaim) -> ReplayStart:
    """Begin at the last ancestor with a state here, or at the start of the game.

    FileError where the log cannot be followed, or its state is here already.
    """
    here = {entry.sha256: entry for entry in archive.list_states().entries}
    living = {ident: here[state] for ident, state in book.claim_state_pairs() if state in here}
    if claim_format.claim_hash(claim) in living:
        raise FileError("it is here already", "nothing is lost")
    whole = claim_format.join_ancestors(claim, find, living)
    if not whole.parent:
        return ReplayStart(whole)
    return ReplayStart(
        whole, living[whole.parent].sha256, *archive.read_state(living[whole.parent])
    )


def _provenance(
    claim: Claim, begin: ReplayStart, held: frozenset[str], facts: Mapping[str, Any], author: str
) -> Provenance:
    """The parent's, where there is one; its assists are inherited beside those in use."""
    blank = Provenance((), "", "", None, 0, None, "", facts["rom_sha1"], facts["pyboy"])
    before, ident = begin.provenance or blank, claim_format.claim_hash(claim)
    return replace(
        before,
        held=tuple(sorted(held)),
        parent=begin.sha256,
        origin=f"claim {ident[:12]} of {author}",
        slot=None,
        step=before.step + len(begin.claim.inputs),
        hp=int(facts["hp"]),
        assists=tuple(sorted({*before.assists, *facts["assists"]})),
        claim=ident,
    )


# -- a milestone as a recording


def record_milestone(archive: Archive, game: ReplayGame, milestone: str, real: bool) -> bytes:
    """Make a recording, from power-on, of the shortest way to `milestone` in the archive's claims.

    A claim holds keys of our environment; a recording holds inputs of the emulator, and so is valid
    for the game alone. `real`: Red or Blue. UsageError where the game has no such milestone,
    FileError where nobody reached it or no claim can be followed.
    """
    if milestone not in story_milestones.milestone_names(real):
        known = ", ".join(story_milestones.milestone_names(real))
        raise UsageError(f"there is no milestone {milestone!r} in this game", f"one of: {known}")
    reason = "claims that it goes on from are gone, or it is too long"
    for claim in claims_reaching(ClaimStore(archive.folder), milestone)[:_ATTEMPTS]:
        with tempfile.TemporaryDirectory(prefix="daddy-champion-") as folder:
            found = _play_again(
                ReplayStart(claim), game, archive.rules.square, Path(folder), milestone
            )
            if isinstance(found, str):
                reason = found
            elif milestone not in found[0]["held"]:
                reason = "its keys do not lead there with this release"
            else:
                return read_bounded(Path(folder) / _RECORDING, recording_format.FILE_LIMIT)
    raise FileError(f"the way to {milestone} cannot be followed: {reason}", "try another milestone")


def claims_reaching(book: ClaimStore, milestone: str) -> list[Claim]:
    """Claims that hold it, each with all keys since the start of the game; the shortest first.

    FileError where nobody reached it.
    """
    known = [claim for ident, _ in book.claim_state_pairs() if (claim := book.find_claim(ident))]
    holding = [claim for claim in known if milestone in claim.held]
    if not holding:
        reached = sorted({name for claim in known for name in keys.milestones(claim.held)})
        raise FileError(
            f"nobody in {book.folder.parent} has reached {milestone}",
            f"reached were: {', '.join(reached) or 'none'}",
        )
    found = []
    for claim in holding:
        with contextlib.suppress(FileError):
            found.append(claim_format.join_ancestors(claim, book.find_claim, ()))
    return sorted(found, key=lambda claim: (len(claim.inputs), claim_format.claim_hash(claim)))


# -- the parent's end of the child


def _play_again(
    begin: ReplayStart, game: ReplayGame, square: int, folder: Path, until: str = ""
) -> ReachedState | str:
    """Result of the child, or the reason why there is none.

    With `until` it plays from power-on to that milestone, and leaves a recording in `folder`.
    """
    if begin.state:
        write_atomic(folder / "parent", begin.state)
    write_atomic(folder / "claim", claim_format.encode_claim(begin.claim))
    wanted = _BOOT_S + len(begin.claim.inputs) / _STEPS_PER_S + (_START_S if until else 0.0)
    seconds = min(game.seconds or math.inf, wanted)
    order = {
        "rom": str(game.rom),
        "options": dict(game.options),
        "folder": str(folder),
        "square": square,
        "seconds": seconds,
        "until": until,
    }
    argv = [sys.executable, "-m", _CHILD, json.dumps(order)]
    try:
        done = run_command(argv, seconds, die_with_us=True)
    except ProcessTimeoutError:
        return f"playing it again did not end within {seconds:g} s"
    return _answer(done, folder)


def _answer(done: Completed, folder: Path) -> ReachedState | str:
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
        return {**facts, "held": frozenset(facts["held"])}, state
    except (OSError, FileError, ValueError, KeyError, TypeError) as error:
        return f"playing it again gave no result: {error!r}"


# -- the child


def main() -> int:
    """Play as ordered, write the state, and print what was reached."""
    order = json.loads(sys.argv[1])
    _limit_resources(float(order["seconds"]))
    try:
        claim = claim_format.decode_claim(
            read_bounded(Path(order["folder"]) / "claim", claim_format.CLAIM_LIMIT)
        )
        with contextlib.redirect_stdout(sys.stderr):  # making a start state prints a line
            found = _play(claim, order)
        print(json.dumps(found))
    except (DaddyError, ValueError, KeyError, TypeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _limit_resources(seconds: float) -> None:
    """Have the kernel end a child whose parent is gone, and allow it one state only."""
    most = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (STATE_LIMIT, STATE_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _play(claim: Claim, order: Mapping[str, Any]) -> dict[str, Any]:
    from Daddy.pokemon.emulator import PYBOY_VERSION
    from Daddy.pokemon.env import PokemonRedEnv
    from Daddy.pokemon.env_state_format import generator_from
    from Daddy.pokemon.recordings.start_prefix import recorder_at_start

    folder, until = Path(order["folder"]), order["until"]
    options, recorder = order["options"], None
    if until:
        rom = load_rom(Path(order["rom"]), options.get("allow_unknown_rom", False))
        recorder = recorder_at_start(rom, options.get("init_state") or "")
    env = PokemonRedEnv(
        order["rom"], **options, episode_steps=claim_format.MAX_INPUTS + 1, recorder=recorder
    )
    if not claim.parent and "seed" not in claim.start:
        env.np_random = generator_from(claim.start)
    env.reset(seed=claim.start.get("seed"))
    if claim.parent:
        env.adopt_game(read_bounded(folder / "parent", STATE_LIMIT))
    held = story_milestones.archive_key(env.progress, env.rom.real, order["square"])
    for action in claim.inputs:
        env.step(action)
        held = keys.next_key(
            held, story_milestones.archive_key(env.progress, env.rom.real, order["square"])
        )
        if until in held:
            break
    if recorder:
        name = Path(options.get("init_state") or "").stem
        recording = recorder.make_recording(f"the way to {until}", name, env.assists)
        write_atomic(folder / _RECORDING, recording_format.encode_recording(recording))
    state = env.save_state()
    write_atomic(folder / "reached", state)
    return {
        "held": sorted(held),
        "sha256": sha256_hex(state),
        "hp": env.progress.hp,
        "rom_sha1": env.rom.sha1,
        "pyboy": PYBOY_VERSION,
        "assists": env.assists,
    }


if __name__ == "__main__":
    sys.exit(main())
