"""Tests the replay of claims by the real child process, on the cartridge."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from Daddy.core.errors import FileError, UsageError
from Daddy.core.run_subprocess import Completed
from Daddy.pokemon import env_state_format as saving
from Daddy.pokemon.archive import archive_store
from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.archive_decisions import ArchiveRules
from Daddy.pokemon.archive.archive_env import ArchivedEnv
from Daddy.pokemon.archive.archive_store import Archive
from Daddy.pokemon.archive.claim_format import Claim, claim_hash, decode_claim, encode_claim
from Daddy.pokemon.archive.claim_format import claim_lineage as line_of
from Daddy.pokemon.archive.claim_replay import (
    ReplayGame,
    _answer,
    claims_reaching,
    record_milestone,
    replay_claim,
)
from Daddy.pokemon.archive.file_names import StateEntry
from Daddy.pokemon.archive.state_claims import ClaimStore
from Daddy.pokemon.emulator import PYBOY_VERSION
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.pokemon.inputs import recording_format
from Daddy.pokemon.recordings.verifying_player import ReadAhead
from tests.patience import PATIENCE_S
from tests.pokemon.archive.players import advance, archived

RULES = ArchiveRules(follow=False)
GAME = ReplayGame(cartridge_path(), seconds=60.0)
HURRIED = ReplayGame(cartridge_path(), seconds=2.0)
_NEXT_LINE = 9142
"""Offset, in a state of pyboy 2.7.0, of the highest byte of the time of the next screen line."""


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ArchivedEnv]:
    """Make the environment of a laptop, with an archive of its own."""
    monkeypatch.delenv("DADDY_ROM", raising=False)
    env = archived(tmp_path / "laptop", RULES)
    env.reset(seed=11)
    yield env
    env.close()
    archive_store.open_archive.cache_clear()


@pytest.fixture
def archive(tmp_path: Path, player: ArchivedEnv) -> Archive:
    """Open the run's archive, which has none of the laptop's states."""
    return Archive(tmp_path / "run", player._compatibility, RULES)


def claim_of(env: ArchivedEnv) -> Claim:
    found = env._log.make_claim(env._history.held)
    assert found is not None
    return decode_claim(encode_claim(found))


def from_the_start(env: ArchivedEnv, milestones: int) -> Claim:
    """Make a claim over all inputs of a new game, without parent claims."""
    env._rules = replace(env._rules, per_key=0)
    advance(env, milestones)
    return claim_of(env)


def test_a_milestone_from_the_start_of_the_game_is_reached_again(
    player: ArchivedEnv, archive: Archive
) -> None:
    claim = from_the_start(player, 2)
    judgement = replay_claim(claim, archive, GAME, "anna")
    assert judgement.reason == "reached"
    assert judgement.entry is not None
    provenance, state = archive.read_state(judgement.entry)
    assert set(provenance.held) == claim.held
    assert provenance.origin.endswith(" of anna")
    assert (provenance.parent, provenance.slot) == ("", None)
    fresh = archived(archive.folder, RULES)
    fresh.adopt_game(state)
    assert fresh.progress == player.progress
    assert provenance.hp == player.progress.hp
    fresh.close()


def test_a_later_episode_of_the_same_dice_is_played_again_too(
    player: ArchivedEnv, archive: Archive
) -> None:
    player.reset()
    player.reset()
    assert replay_claim(from_the_start(player, 1), archive, GAME, "anna").reason == "reached"


def shared_state(player: ArchivedEnv, archive: Archive, milestones: int) -> StateEntry:
    """Load a state of the run in the laptop's environment."""
    advance(player, milestones)
    entry = max(player._archive.list_states().entries)
    provenance, state = player._archive.read_state(entry)
    assert archive.keep_state(provenance, state) == entry
    way = player._claims.find_claim(provenance.claim)
    assert way is not None
    ClaimStore(archive.folder).keep_claim(way, entry.sha256)
    return entry


def test_a_milestone_from_a_state_of_the_run_carries_its_parent(
    player: ArchivedEnv, archive: Archive
) -> None:
    parent = shared_state(player, archive, 2)
    player._rules = replace(player._rules, per_key=0)
    advance(player, 3)
    claim = claim_of(player)
    assert claim.parent == archive.read_state(parent)[0].claim
    judgement = replay_claim(claim, archive, GAME, "anna")
    assert judgement.entry is not None
    assert judgement.entry.rank == 3
    provenance = archive.read_state(judgement.entry)[0]
    assert (provenance.parent, provenance.seed) == (parent.sha256, 11)


def test_what_is_played_again_says_the_helps_of_the_one_who_plays(tmp_path: Path) -> None:
    helped = archived(tmp_path / "laptop", RULES, assists=("money",))
    helped.reset(seed=11)
    claim = from_the_start(helped, 2)
    honest = replace(helped._compatibility, assists=())
    found = []
    for kin, options in ((helped._compatibility, {"assists": ["money"]}), (honest, {})):
        run = Archive(tmp_path / f"run-{len(kin.assists)}", kin, RULES)
        judgement = replay_claim(claim, run, replace(GAME, options=options), "anna")
        assert judgement.entry is not None
        found.append(run.read_state(judgement.entry)[0].assists)
    helped.close()
    assert found == [("money",), ()]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"held": frozenset({"beat_champion"})}, "it does not reach beat_champion"),
        ({"inputs": b""}, "it does not reach greeted_dad"),
        ({"start": {"bit_generator": "MT19937"}}, "unknown random generator MT19937"),
        ({"parent": "b" * 64}, "is not known here"),
    ],
)
def test_what_does_not_lead_where_it_says_earns_nothing(
    player: ArchivedEnv, archive: Archive, change: dict[str, object], reason: str
) -> None:
    claim = replace(from_the_start(player, 1), **change)  # type: ignore[arg-type]
    judgement = replay_claim(claim, archive, GAME, "anna")
    assert judgement.entry is None
    assert reason in judgement.reason
    assert archive.list_states().entries == ()


def test_a_log_that_reaches_nothing_new_earns_nothing(
    player: ArchivedEnv, archive: Archive
) -> None:
    parent = shared_state(player, archive, 2)
    idle = Claim(archive.read_state(parent)[0].claim, {}, b"\3" * 5, frozenset())
    assert replay_claim(idle, archive, GAME, "anna").reason == (
        "it reaches nothing that its parent does not hold"
    )


def test_an_endless_log_ends_with_its_time(player: ArchivedEnv, archive: Archive) -> None:
    endless = Claim("", {"seed": 1}, b"\3" * 200_000, frozenset())
    judgement = replay_claim(endless, archive, HURRIED, "anna")
    assert judgement.entry is None
    assert "did not end within 2 s" in judgement.reason


def test_a_state_that_hangs_the_emulator_is_survived(player: ArchivedEnv, archive: Archive) -> None:
    """A state with one wrong byte and a matching hash hangs the child, which is killed."""
    advance(player, 1)
    entry = max(player._archive.list_states().entries)
    provenance, state = player._archive.read_state(entry)
    way = player._claims.find_claim(provenance.claim)
    assert way is not None
    whole = saving.decode_env_state(state, player.rom.sha1, PYBOY_VERSION)
    bad = bytearray(whole.emulator)
    bad[_NEXT_LINE] = 0x7F
    forged = archive.keep_state(
        provenance, saving.encode_env_state(replace(whole, emulator=bytes(bad)))
    )
    ClaimStore(archive.folder).keep_claim(way, forged.sha256)
    claim = Claim(provenance.claim, {}, b"\3" * 10, frozenset())
    judgement = replay_claim(claim, archive, HURRIED, "mallory")
    assert judgement.entry is None
    assert "did not end within" in judgement.reason
    assert archive.list_states().entries == (forged,)


def test_a_child_that_crashes_is_a_refusal_with_its_signal(tmp_path: Path) -> None:
    assert _answer(Completed(-11, "", ""), tmp_path) == ("its replay was ended by signal 11")


@pytest.mark.parametrize("said", ["", "[]", '{"sha256": "x"}', "{" * 70_000])
def test_a_child_that_says_nothing_useful_is_a_refusal(tmp_path: Path, said: str) -> None:
    (tmp_path / "reached").write_bytes(b"a state")
    answer = _answer(Completed(0, said, ""), tmp_path)
    assert isinstance(answer, str)
    assert "gave no result" in answer


def test_the_key_of_a_result_is_what_was_reached_not_what_was_claimed(
    player: ArchivedEnv, archive: Archive
) -> None:
    claim = from_the_start(player, 2)
    modest = replace(claim, held=frozenset({"greeted_dad"}))
    judgement = replay_claim(modest, archive, GAME, "anna")
    assert judgement.entry is not None
    assert judgement.entry.key == keys.key_hash(claim.held)


def test_whose_parent_is_gone_is_played_from_the_last_ancestor_that_is_here(
    player: ArchivedEnv, archive: Archive
) -> None:
    first = shared_state(player, archive, 1)
    advance(player, 2)
    newest = player._archive.read_state(max(player._archive.list_states().entries))[0].claim
    line = line_of(newest, player._claims.find_claim)
    for name in line:
        step = player._claims.find_claim(name)
        assert step is not None
        ClaimStore(archive.folder).keep_claim(step, "0" * 64)
    last = player._claims.find_claim(line[-1])
    assert last is not None
    again = replay_claim(last, archive, GAME, "anna")
    assert again.reason == "reached"
    assert again.entry is not None
    provenance = archive.read_state(again.entry)[0]
    assert (provenance.parent, provenance.claim) == (first.sha256, line[-1])
    assert replay_claim(last, archive, GAME, "anna").reason == "its state is in the archive already"


def test_a_log_survives_the_environments_restart(player: ArchivedEnv, archive: Archive) -> None:
    advance(player, 1)
    for _ in range(7):
        player.step(3)
    before = claim_of(player)
    heir = archived(archive.folder, RULES)
    heir.load_state(player.save_state())
    assert claim_of(heir) == before
    heir.close()


CHILD = ReplayGame(cartridge_path(), seconds=60.0)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[ArchivedEnv]:
    env = archived(tmp_path / "run", ArchiveRules(follow=False))
    env.reset(seed=3)
    yield env
    env.close()
    archive_store.open_archive.cache_clear()


def test_the_way_is_recorded_over_all_claims_from_power_on_to_the_milestone(
    alone: ArchivedEnv,
) -> None:
    advance(alone, 3)
    assert len(alone._claims.claim_state_pairs()) > 2
    data = record_milestone(alone._archive, CHILD, "got_starter", real=False)
    found = recording_format.decode_recording(data, "mine")
    assert found.from_power_on
    assert found.title == "the way to got_starter"
    scout = ReadAhead(alone.rom, found)
    while not scout.finished:
        scout.verify_next_part()
    scout.close()
    assert list(scout.report.reached) == ["greeted_dad", "met_elder", "got_starter"]
    assert scout.report.reached["got_starter"] == scout.report.frames
    assert (scout.report.writes, scout.report.cuts) == (0, [])


def test_of_several_ways_the_shortest_is_taken_with_all_that_leads_to_it(
    alone: ArchivedEnv,
) -> None:
    start, book = {"seed": 1}, alone._claims
    first = Claim("", start, b"\1" * 5, frozenset({"greeted_dad"}))
    second = Claim(claim_hash(first), {}, b"\2" * 3, frozenset({"greeted_dad", "met_elder"}))
    long = Claim("", start, b"\3" * 20, second.held)
    orphan = Claim("b" * 64, {}, b"\1", second.held)
    for number, claim in enumerate((long, second, first, orphan), 1):
        book.keep_claim(claim, f"{number}" * 64)
    whole = replace(first, inputs=first.inputs + second.inputs, held=second.held)
    assert claims_reaching(book, "met_elder") == [whole, long]


def test_what_nobody_reached_is_told_with_what_was(alone: ArchivedEnv) -> None:
    advance(alone, 1)
    with pytest.raises(FileError, match="reaches beat_leader1") as failed:
        record_milestone(alone._archive, CHILD, "beat_leader1", real=False)
    assert failed.value.fix == "reached were: greeted_dad"
    with pytest.raises(UsageError, match="no milestone 'beat_mew'"):
        record_milestone(alone._archive, CHILD, "beat_mew", real=False)


def test_a_claim_that_does_not_lead_there_gives_no_recording(alone: ArchivedEnv) -> None:
    false = Claim("", {"seed": 1}, b"\1" * 5, frozenset({"beat_leader1"}))
    alone._claims.keep_claim(false, "a" * 64)
    with pytest.raises(FileError, match="its keys do not lead there"):
        record_milestone(alone._archive, CHILD, "beat_leader1", real=False)


@pytest.mark.parametrize("task", ["{}", "[]", '{"seconds": "x"}'])
def test_a_task_without_its_facts_is_an_error_in_one_line(task: str) -> None:
    argv = [sys.executable, "-m", "Daddy.pokemon.archive.claim_replay", task]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
