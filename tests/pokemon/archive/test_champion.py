"""How a milestone was won, out of an archive's claims, played by the real child."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from Daddy.core.errors import FileError, UsageError
from Daddy.pokemon.archive import store
from Daddy.pokemon.archive.claim_replay import Game, claims_reaching, record
from Daddy.pokemon.archive.claims import Claim, ident
from Daddy.pokemon.archive.decisions import Rules
from Daddy.pokemon.archive.env import ArchivedEnv
from Daddy.pokemon.inputs.tape import from_bytes
from Daddy.pokemon.recordings.verifying_player import ReadAhead
from Daddy.pokemon.rom import cartridge_path
from tests.pokemon.archive.players import advance, archived

GAME = Game(cartridge_path(), seconds=60.0)


@pytest.fixture
def player(tmp_path: Path) -> Iterator[ArchivedEnv]:
    env = archived(tmp_path / "run", Rules(follow=False))
    env.reset(seed=3)
    yield env
    env.close()
    store.shared.cache_clear()


def test_the_way_is_recorded_over_all_claims_from_power_on_to_the_milestone(
    player: ArchivedEnv,
) -> None:
    advance(player, 3)
    assert len(player._book.pairs()) > 2
    data = record(player._archive, GAME, "got_starter", real=False)
    found = from_bytes(data, "mine")
    assert found.from_power_on
    assert found.title == "the way to got_starter"
    scout = ReadAhead(player.rom, found)
    while not scout.over:
        scout.advance()
    scout.close()
    assert list(scout.report.reached) == ["greeted_dad", "met_elder", "got_starter"]
    assert scout.report.reached["got_starter"] == scout.report.frames
    assert (scout.report.writes, scout.report.cuts) == (0, [])


def test_of_several_ways_the_shortest_is_taken_with_all_that_leads_to_it(
    player: ArchivedEnv,
) -> None:
    start, book = {"seed": 1}, player._book
    first = Claim("", start, b"\1" * 5, frozenset({"greeted_dad"}))
    second = Claim(ident(first), {}, b"\2" * 3, frozenset({"greeted_dad", "met_elder"}))
    long = Claim("", start, b"\3" * 20, second.held)
    orphan = Claim("b" * 64, {}, b"\1", second.held)
    for number, claim in enumerate((long, second, first, orphan), 1):
        book.write(claim, f"{number}" * 64)
    whole = replace(first, inputs=first.inputs + second.inputs, held=second.held)
    assert claims_reaching(book, "met_elder") == [whole, long]


def test_what_nobody_reached_is_told_with_what_was(player: ArchivedEnv) -> None:
    advance(player, 1)
    with pytest.raises(FileError, match="has reached beat_leader1") as failed:
        record(player._archive, GAME, "beat_leader1", real=False)
    assert failed.value.fix == "reached were: greeted_dad"
    with pytest.raises(UsageError, match="no milestone 'beat_mew'"):
        record(player._archive, GAME, "beat_mew", real=False)


def test_a_claim_that_does_not_lead_there_gives_no_recording(player: ArchivedEnv) -> None:
    false = Claim("", {"seed": 1}, b"\1" * 5, frozenset({"beat_leader1"}))
    player._book.write(false, "a" * 64)
    with pytest.raises(FileError, match="its keys do not lead there"):
        record(player._archive, GAME, "beat_leader1", real=False)
