"""What to show next, and when a viewer who falls behind is cut to the newest."""

from __future__ import annotations

from Daddy.core.piece import Piece
from Daddy.pokemon.inputs import operations, stretch
from Daddy.pokemon.inputs.stretch import Beginning
from Daddy.pokemon.live.chain import Chain
from Daddy.pokemon.live.course import BOUND_S, PATIENCE_S, Do, next_move, what_to_verify

AT = Beginning("a" * 40, "2.7.0", "b" * 64, "beginning", "c" * 16)
NOW = 10_000.0
STEPS = stretch.pack(operations.press(4) * 256, bytes(8))


def chain(number: int, *ages: float, verified: int | None = None, broken: str = "") -> Chain:
    """A chain whose stretches were played so many seconds ago."""
    made = Chain(number, AT)
    made.judge("", b"place")
    for index, age in enumerate(ages, 1):
        made.add(Piece(number, index, STEPS), NOW - age)
    for _ in range(len(ages) if verified is None else verified):
        made.confirm(b"place")
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
    old.confirm(b"")
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
