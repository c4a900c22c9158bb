"""Tests which steps count in a try, and that the history survives a restart."""

from dataclasses import replace

from Daddy.pokemon.archive.archive_decisions import ArchiveRules, is_try_over
from Daddy.pokemon.archive.env_archive_progress import EnvHistory, history_from

RULES = ArchiveRules(patience=10)


def after(history: EnvHistory, steps: int, fights: bool = False) -> EnvHistory:
    history = replace(history)
    for _ in range(steps):
        history.step(fights)
    return history


def test_a_fight_has_eight_times_as_long_and_yet_ends_a_try_at_last() -> None:
    walked = after(EnvHistory(tried="a state"), 9)
    fighting = after(walked, 7, fights=True)
    assert not is_try_over(fighting, RULES)
    assert is_try_over(after(fighting, 1, fights=True), RULES), "the eighth counts"
    assert is_try_over(after(walked, 1), RULES)
    assert after(fighting, 3).lived == 19


def test_whatever_is_new_begins_a_try_afresh() -> None:
    tired = after(after(EnvHistory(parent="before", hp=7), 5), 20, fights=True)
    kept, unkept = replace(tired), replace(tired)
    kept.start_try(frozenset({"met_elder"}), "it")
    unkept.start_try(frozenset({"met_elder"}), "")
    assert (kept.since, kept.fought, kept.idle_steps, kept.hp, kept.rank) == (0, 0, 0, 0, 1)
    assert (kept.tried, kept.parent) == ("it", "it")
    assert (unkept.tried, unkept.parent) == ("", "before")


def test_a_history_survives_a_restart() -> None:
    tired = after(after(EnvHistory(parent="a state", hp=7), 5), 20, fights=True)
    assert history_from(tired.history_facts()) == replace(tired, hp=0)
    assert history_from({}) == EnvHistory()
