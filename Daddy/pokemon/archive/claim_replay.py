"""Replays a claim in a child process, and keeps the state that the child reaches.

`replay_claim` and `record_milestone` start ``python -m Daddy.pokemon.archive.claim_replay`` with a
task (JSON) and a folder, and wait a bounded time. Only a state that the child itself reached is
kept. If the child hangs or crashes, or the inputs lead elsewhere, the claim is refused.
"""

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

from Daddy.core.arguments import ArgumentParser
from Daddy.core.atomic_files import read_bounded, sha256_hex, write_atomic
from Daddy.core.errors import DaddyError, FileError, UsageError
from Daddy.core.rom_identity import load_rom
from Daddy.core.run_subprocess import Completed, ProcessTimeoutError, run_command
from Daddy.pokemon import story_milestones
from Daddy.pokemon.archive import archive_decisions, claim_format
from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.archive_store import Archive
from Daddy.pokemon.archive.claim_format import Claim, FindClaim
from Daddy.pokemon.archive.file_names import StateEntry
from Daddy.pokemon.archive.state_claims import ClaimStore
from Daddy.pokemon.archive.state_format import STATE_LIMIT, Provenance
from Daddy.pokemon.inputs import recording_format

_BOOT_S = 30.0
"""Seconds allowed to load the emulator and begin the game."""
_START_S = 120.0
"""Seconds allowed in addition to play from power-on to the start state."""
_STEPS_PER_S = 100.0
"""Slowest replay allowed, in steps per second: a fifth of an idle core's speed."""
_ANSWER_LIMIT = 64 * 1024
_RECORDING: Final = "recording"
_CHILD: Final = "Daddy.pokemon.archive.claim_replay"
_ATTEMPTS = 3
"""Claims that `record_milestone` replays before it gives up, the shortest first."""


@dataclass(frozen=True)
class ReplayGame:
    """Names the game of a replay, its start, and the time limit.

    `options` (JSON) are arguments of `PokemonRedEnv` that select the game and its start state. A
    child's time limit grows with its inputs, up to `seconds` (0: no upper limit).
    """

    rom: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class ReplayStart:
    """Holds the claim to replay, and the state to begin from; empty for the start of the game."""

    claim: Claim
    sha256: str = ""
    provenance: Provenance | None = None
    state: bytes = b""

    @property
    def held(self) -> frozenset[str]:
        """The state's milestones and place."""
        return frozenset(self.provenance.held if self.provenance else ())


class ReplayResult(NamedTuple):
    """Holds the archived state that a claim led to, or None if refused, with the reason."""

    entry: StateEntry | None
    reason: str


Reached = tuple[Mapping[str, Any], bytes]
"""The child's facts (`held`: milestones and place), and the state that it reached."""


def replay_claim(
    claim: Claim, archive: Archive, game: ReplayGame, author: str, find: FindClaim | None = None
) -> ReplayResult:
    """Replay `claim` in a child and archive the state that it reaches; refuse an invalid claim.

    `author` names the claim's maker; `find` returns ancestors (default: the archive's). OSError.
    """
    claims = ClaimStore(archive.folder)
    try:
        origin = _origin(claim, archive, claims, find or claims.find_claim)
    except FileError as error:
        return ReplayResult(None, error.message)
    with tempfile.TemporaryDirectory(prefix="daddy-replay-") as folder:
        result = _run_child(origin, game, archive.rules.square, Path(folder))
    if isinstance(result, str):
        return ReplayResult(None, result)
    facts, state = result
    held = keys.next_key(origin.held, facts["held"])
    if missing := sorted(keys.milestones(claim.held) - held):
        return ReplayResult(None, f"it does not reach {', '.join(missing[:5])}")
    if keys.milestones(held) <= origin.held:
        return ReplayResult(None, "it reaches nothing that its parent does not hold")
    decision = archive_decisions.decide_to_keep(held, archive.list_states(), archive.rules)
    if not decision.keep:
        return ReplayResult(None, decision.reason)
    entry = archive.keep_state(_provenance(claim, origin, held, facts, author), state)
    claims.keep_claim(claim, entry.sha256)
    return ReplayResult(entry, "reached")


def _origin(claim: Claim, archive: Archive, claims: ClaimStore, find: FindClaim) -> ReplayStart:
    """Return the inputs since the last ancestor with an archived state, and that state."""
    entries = {entry.sha256: entry for entry in archive.list_states().entries}
    states = {
        ident: entries[state] for ident, state in claims.claim_state_pairs() if state in entries
    }
    if claim_format.claim_hash(claim) in states:
        raise FileError("its state is in the archive already", "nothing to do")
    whole = claim_format.join_ancestors(claim, find, states)
    if not whole.parent:
        return ReplayStart(whole)
    entry = states[whole.parent]
    return ReplayStart(whole, entry.sha256, *archive.read_state(entry))


def _provenance(
    claim: Claim, origin: ReplayStart, held: frozenset[str], facts: Mapping[str, Any], author: str
) -> Provenance:
    """Derive a state's provenance from its parent's; list the assists of both states."""
    blank = Provenance((), "", "", None, 0, None, "", facts["rom_sha1"], facts["pyboy"])
    parent, ident = origin.provenance or blank, claim_format.claim_hash(claim)
    return replace(
        parent,
        held=tuple(sorted(held)),
        parent=origin.sha256,
        origin=f"claim {ident[:12]} of {author}",
        slot=None,
        step=parent.step + len(origin.claim.inputs),
        hp=int(facts["hp"]),
        assists=tuple(sorted({*parent.assists, *facts["assists"]})),
        claim=ident,
    )


# -- recordings of milestones


def record_milestone(archive: Archive, game: ReplayGame, milestone: str, real: bool) -> bytes:
    """Record, from power-on, the claim that reaches `milestone` with the fewest inputs.

    A claim holds actions of our environment. A recording holds the emulator's inputs, so it needs
    the game and the emulator only. `real`: Red or Blue. UsageError when the game has no such
    milestone, FileError when no claim reaches it or none can be replayed.
    """
    if milestone not in story_milestones.milestone_names(real):
        names = ", ".join(story_milestones.milestone_names(real))
        raise UsageError(f"there is no milestone {milestone!r} in this game", f"one of: {names}")
    reason = "claims that it continues are gone, or its inputs are too many"
    for claim in claims_reaching(ClaimStore(archive.folder), milestone)[:_ATTEMPTS]:
        with tempfile.TemporaryDirectory(prefix="daddy-champion-") as folder:
            start, square = ReplayStart(claim), archive.rules.square
            result = _run_child(start, game, square, Path(folder), milestone)
            if isinstance(result, str):
                reason = result
            elif milestone not in result[0]["held"]:
                reason = "its keys do not lead there with this release"
            else:
                return read_bounded(Path(folder) / _RECORDING, recording_format.FILE_LIMIT)
    raise FileError(f"no claim of {milestone} can be replayed: {reason}", "try another milestone")


def claims_reaching(claims: ClaimStore, milestone: str) -> list[Claim]:
    """List the claims of `milestone`, joined from the game's start, shortest first. FileError."""
    candidates = [claims.find_claim(ident) for ident, _ in claims.claim_state_pairs()]
    readable = [claim for claim in candidates if claim is not None]
    holding = [claim for claim in readable if milestone in claim.held]
    if not holding:
        reached = sorted({name for claim in readable for name in keys.milestones(claim.held)})
        raise FileError(
            f"no claim in {claims.folder.parent} reaches {milestone}",
            f"reached were: {', '.join(reached) or 'none'}",
        )
    complete = []
    for claim in holding:
        with contextlib.suppress(FileError):
            complete.append(claim_format.join_ancestors(claim, claims.find_claim, ()))
    return sorted(complete, key=lambda claim: (len(claim.inputs), claim_format.claim_hash(claim)))


# -- the parent process


def _run_child(
    origin: ReplayStart, game: ReplayGame, square: int, folder: Path, until: str = ""
) -> Reached | str:
    """Run the child, and return its result or the reason of its failure.

    With `until` the child plays from power-on to that milestone and writes a recording to `folder`.
    """
    if origin.state:
        write_atomic(folder / "parent", origin.state)
    write_atomic(folder / "claim", claim_format.encode_claim(origin.claim))
    wanted = _BOOT_S + len(origin.claim.inputs) / _STEPS_PER_S + (_START_S if until else 0.0)
    seconds = min(game.seconds or math.inf, wanted)
    task = {
        "rom": str(game.rom),
        "options": dict(game.options),
        "folder": str(folder),
        "square": square,
        "seconds": seconds,
        "until": until,
    }
    argv = [sys.executable, "-m", _CHILD, json.dumps(task)]
    try:
        completed = run_command(argv, seconds, die_with_us=True)
    except ProcessTimeoutError:
        return f"its replay did not end within {seconds:g} s"
    return _answer(completed, folder)


def _answer(completed: Completed, folder: Path) -> Reached | str:
    if completed.returncode < 0:
        return f"its replay was ended by signal {-completed.returncode}"
    if completed.returncode:
        return f"its replay failed: {completed.fault}"
    try:
        facts = json.loads(completed.stdout[:_ANSWER_LIMIT])
        state = read_bounded(folder / "reached", STATE_LIMIT)
        if sha256_hex(state) != facts["sha256"]:
            raise ValueError("the state has another hash than the child reported")
        return {**facts, "held": frozenset(facts["held"])}, state
    except (OSError, FileError, ValueError, KeyError, TypeError) as error:
        return f"its replay gave no result: {error!r}"


# -- the child process


def main() -> int:
    """Replay the task in argv[1] (JSON); write the reached state and print its facts as JSON."""
    parser = ArgumentParser(prog="claim_replay", description="Replays one claim in this process.")
    parser.add_argument(
        "task", type=json.loads, help="JSON object: folder, game, seconds and others"
    )
    task = parser.parse_args().task
    try:
        _limit_resources(float(task["seconds"]))
        claim = claim_format.decode_claim(
            read_bounded(Path(task["folder"]) / "claim", claim_format.CLAIM_LIMIT)
        )
        with contextlib.redirect_stdout(sys.stderr):  # making a start state prints a line
            result = _play(claim, task)
        print(json.dumps(result))
    except (DaddyError, ValueError, KeyError, TypeError) as error:
        print(error if isinstance(error, DaddyError) else repr(error), file=sys.stderr)
        return 1
    return 0


def _limit_resources(seconds: float) -> None:
    """Limit this process's CPU time, in case its parent dies, and the size of its files."""
    most = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (STATE_LIMIT, STATE_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _play(claim: Claim, task: Mapping[str, Any]) -> dict[str, Any]:
    from Daddy.pokemon.emulator import PYBOY_VERSION
    from Daddy.pokemon.env import PokemonRedEnv
    from Daddy.pokemon.env_state_format import generator_from
    from Daddy.pokemon.starts.find_start_state import recorder_at_start

    folder, until = Path(task["folder"]), task["until"]
    options, recorder = task["options"], None
    if until:
        rom = load_rom(Path(task["rom"]), options.get("allow_unknown_rom", False))
        recorder = recorder_at_start(rom, options.get("init_state") or "")
    env = PokemonRedEnv(
        task["rom"], **options, episode_steps=claim_format.MAX_INPUTS + 1, recorder=recorder
    )
    if not claim.parent and "seed" not in claim.start:
        env.np_random = generator_from(claim.start)
    env.reset(seed=claim.start.get("seed"))
    if claim.parent:
        env.adopt_game(read_bounded(folder / "parent", STATE_LIMIT))
    real, square = env.rom.real, task["square"]
    held = story_milestones.archive_key(env.progress, real, square)
    for action in claim.inputs:
        env.step(action)
        held = keys.next_key(held, story_milestones.archive_key(env.progress, real, square))
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
