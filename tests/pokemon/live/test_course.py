"""What to show next, and when a viewer who falls behind is cut to the newest."""

from __future__ import annotations

from Daddy.core.piece import Piece
from Daddy.pokemon.inputs import operations, stretch
from Daddy.pokemon.inputs.stretch import Beginning
from Daddy.pokemon.live.chain import Chain
from Daddy.pokemon.live.course import BOUND_S, PATIENCE_S, Do, next_move, what_to_verify
from Daddy.pokemon.ram_map import RANDOM

AT = Beginning("a" * 40, "2.7.0", "b" * 64, "beginning", "c" * 16)
NOW = 10_000.0
STEP = operations.press(4)
STEPS = stretch.pack(operations.press(4) * 256, bytes(8))


def chain(number: int, *ages: float, verified: int | None = None, broken: str = "") -> Chain:
    """A chain whose stretches were played so many seconds ago."""
    made = Chain(number, AT)
    made.judge("", b"place")
    for index, age in enumerate(ages, 1):
        made.add(Piece(number, index, STEPS), NOW - age)
        if verified is None or index <= verified:
            made.confirm(index - 1, b"place")
    made.broken = broken
    return made


def test_what_is_verified_is_played_on_up_to_the_bound() -> None:
    chains = [chain(1, BOUND_S, 300, 2)]
    move = next_move(chains, (1, 0), NOW)
    assert (move.do, move.chain, move.stretch, move.reason) == (Do.PLAY, 1, 0, "")


def test_beyond_ten_minutes_it_is_cut_to_the_newest_that_is_verified_and_says_so() -> None:
    chains = [chain(1, BOUND_S + 60, 500), chain(3, 60, 30, 5, verified=2)]
    move = next_move(chains, (1, 0), NOW)
    assert (move.do, move.chain, move.stretch) == (Do.CUT, 3, 1)
    assert move.reason == "it was 11 minutes behind: cut to the newest"
    within = next_move([chain(1, BOUND_S + 60, 500, 5)], (1, 0), NOW)
    assert (within.do, within.chain, within.stretch) == (Do.CUT, 1, 2)


def test_a_load_is_a_labelled_cut_once_the_chain_before_is_played() -> None:
    chains = [chain(1, 60, 50), chain(2, 40)]
    assert next_move(chains, (1, 1), NOW).do is Do.PLAY
    move = next_move(chains, (1, 2), NOW)
    assert (move.do, move.chain, move.stretch) == (Do.CUT, 2, 0)
    assert move.reason == "another game begins"
    assert next_move(chains, (0, 0), NOW).reason == ""  # nothing was cut


def test_only_what_is_verified_is_shown_and_after_a_while_pictures_are_wanted() -> None:
    chains = [chain(1, 3, verified=0)]
    assert next_move(chains, (1, 0), NOW).do is Do.WAIT
    assert next_move(chains, (1, 0), NOW, PATIENCE_S + 1).do is Do.PICTURES


def test_a_chain_that_cannot_be_played_falls_back_when_the_one_before_is_over() -> None:
    chains = [chain(1, 9, 8), chain(2, broken="it goes on from a state")]
    assert next_move(chains, (1, 1), NOW).do is Do.PLAY
    move = next_move(chains, (1, 2), NOW)
    assert (move.do, move.reason) == (Do.PICTURES, "it goes on from a state")


def test_when_everything_is_too_old_there_are_pictures() -> None:
    move = next_move([chain(1, BOUND_S + 90, BOUND_S + 5)], (1, 0), NOW)
    assert move.do is Do.PICTURES
    assert "nothing newer" in move.reason


def test_a_gap_and_damage_break_a_chain_and_what_came_before_stands() -> None:
    for piece, why in ((Piece(1, 3, STEPS), "lost"), (Piece(1, 2, b"x"), "damaged")):
        one = chain(1, 5)
        one.add(piece, NOW)
        one.add(Piece(1, 4, STEPS), NOW)
        assert why in one.broken
        assert one.verified == one.arrived == 1


def test_what_is_about_to_be_shown_is_verified_first_then_the_newest() -> None:
    old, skipped, new = (
        chain(1, 9, 8, 7, verified=1),
        chain(2, 6, verified=0),
        chain(3, 5, verified=0),
    )
    assert what_to_verify([old, skipped, new], (1, 0)) is old
    old.confirm(1, b"")
    assert what_to_verify([old, skipped, new], (1, 0)) is new
    new.refuse("another way")
    assert what_to_verify([old, skipped, new], (1, 0)) is skipped
    assert what_to_verify([old, new], (1, 0)) is None


def test_places_stay_few_and_the_last_one_is_kept() -> None:
    one = chain(1, *[5.0] * 300)
    assert len(one.places) <= 65
    assert {0, 300} <= one.places.keys()
    assert one.stretch_at(6144 * 7 + 5) == 7
    assert one.place_before(7) <= 7
    large = chain(1, 5.0)
    for index in range(2, 60):
        large.add(Piece(1, index, STEPS), NOW)
        large.confirm(index - 1, bytes(170_000))
    assert {0, 59} <= large.places.keys()
    assert sum(map(len, large.places.values())) < 3 << 20


def test_what_is_shown_is_a_value_and_stands_when_the_chain_is_given_up() -> None:
    """The emulator that shows plays on while the one that verifies changes the chain."""
    one = chain(1, 9, 8, 7, verified=2)
    shown = one.passage(1, 6144 + 5)
    assert (shown.frames, shown.first, shown.before, shown.captured_s) == (6144, 6149, (), NOW - 8)
    one.give_up("another way")
    assert shown.stretch.operations == operations.press(4) * 256
    one.confirm(2, b"too late")
    assert (one.verified, one.arrived, one.places) == (0, 0, {})
    assert next_move([one], (1, 1), NOW).reason == "another way"
    assert what_to_verify([one], (1, 1)) is None


def test_no_more_is_acknowledged_than_can_be_verified_and_a_flood_breaks_the_chain() -> None:
    one = chain(1, *[5.0] * 256, verified=10)
    assert (one.acknowledged, one.broken) == (138, "")
    for index in range(257, 270):
        one.add(Piece(1, index, STEPS), NOW)
    assert (one.arrived, one.broken) == (266, "over 256 of its stretches wait to be verified")
    packed = stretch.pack(b"".join([operations.write(RANDOM[0], 7)] * 511 + [STEP]), bytes(8))
    full = chain(2)
    for index in range(1, 400):
        full.add(Piece(2, index, packed), NOW)
        full.confirm(index - 1, b"")
    assert full.arrived == 512 * 1024 // (511 * 4 + 1)
    assert "bytes of inputs" in full.broken
