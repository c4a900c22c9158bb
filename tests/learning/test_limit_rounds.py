"""Tests of shares of a limit: rounds whose limit was measured too low do not count."""

from pathlib import Path

import pytest

from Daddy.core.errors import UsageError
from Daddy.pokemon.env import PokemonRedEnv
from scripts.benches import train, vector
from scripts.benches._limit_rounds import median_shares, rounds_left_out
from scripts.benches._vector_before import Before
from scripts.benches._vector_peers import PEERS


def _round(ours: float, limit: float) -> vector.Round:
    names = [*(f"ours, {count}" for count in vector.COUNTS), f"ours, {vector.UNEVEN}"]
    return {**dict.fromkeys(names, (50.0, 200.0)), "ours, 16": (ours, limit)}


def test_a_share_is_the_sum_of_rates_over_the_sum_of_limits() -> None:
    absent = dict.fromkeys(PEERS, "not installed")
    measured = [_round(180.0, 200.0), _round(120.0, 100.0)]
    figures = vector._figures(measured, 2, absent)
    assert (figures["of_limit"]["ours, 16"], figures["of_limit"]["ours, 8"]) == (1.0, 0.25)
    assert [half["ours, 16"] for half in figures["halves"]] == [0.9, 1.2]
    assert (figures["ours"]["16"], figures["rounds"]) == (150.0, 2)


def test_shares_of_no_counted_round_are_none() -> None:
    rounds = [{"a": 1.3, "b": 0.9}, {"a": 1.01, "b": 1.4}]
    assert median_shares(rounds) == {"a": None, "b": None}
    assert rounds_left_out(rounds)["round 2"].startswith("b at 1.40")


def test_a_share_of_exactly_the_limit_counts() -> None:
    assert (median_shares([{"a": 1.0}]), rounds_left_out([{"a": 1.0}])) == ({"a": 1.0}, {})


def test_training_is_compared_with_both_of_its_limits() -> None:
    row = {"training": 130.0, "ceiling": 100.0, "env_only": 200.0}
    assert train._shares(row) == {"of_ceiling": 1.3, "of_env_only": 0.65}
    assert list(rounds_left_out([train._shares(row)])) == ["round 1"]


def test_the_vector_of_another_checkout_plays_in_a_process_of_its_own(tmp_path: Path) -> None:
    other = Before(Path(__file__).parents[2], PokemonRedEnv, 2)
    try:
        assert other.backend == "ProcessVector"
        assert other.rate(0.1) > 0
        assert other.rate(0.1) > 0
    finally:
        other.close()
    with pytest.raises(UsageError, match="holds no Daddy"):
        Before(tmp_path, PokemonRedEnv, 2)
