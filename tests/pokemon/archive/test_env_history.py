"""One environment's way, as numbers: what counts against a try, and what survives a restart."""

from __future__ import annotations

from dataclasses import replace

from Daddy.pokemon.archive.decisions import Rules, is_over
from Daddy.pokemon.archive.env_history import EnvHistory, from_facts

RULES = Rules(patience=10)


def after(journey: EnvHistory, steps: int, fights: bool = False) -> EnvHistory:
    for _ in range(steps):
        journey = journey.stepped(fights)
    return journey


def test_a_fight_has_eight_times_as_long_and_yet_ends_a_try_at_last() -> None:
    walked = after(EnvHistory(tried="a state"), 9)
    fighting = after(walked, 7, fights=True)
    assert not is_over(fighting.standing, RULES)
    assert is_over(after(fighting, 1, fights=True).standing, RULES), "the eighth counts"
    assert is_over(after(walked, 1).standing, RULES)
    assert after(fighting, 3).lived == 19


def test_whatever_is_new_begins_a_try_afresh() -> None:
    tired = after(after(EnvHistory(), 5), 20, fights=True)
    held = frozenset({"met_elder"})
    for anew in (tired.arrived(held, "it"), tired.loaded(held, "it"), tired.waited()):
        assert (anew.since, anew.fought, anew.standing.since) == (0, 0, 0)
    assert tired.begun(held, None).standing.since == 0


def test_a_journey_survives_a_restart_and_one_of_before_begins_without_fights() -> None:
    tired = after(after(EnvHistory(parent="a state", hp=7), 5), 20, fights=True)
    facts = tired.to_facts()
    assert from_facts(facts) == replace(tired, hp=0)
    del facts["fought"]
    assert from_facts(facts) == replace(tired, hp=0, fought=0)
