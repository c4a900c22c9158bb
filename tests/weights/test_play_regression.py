"""The newest version against the best one: a worse one is reported, a clean one is not."""

import numpy as np
import pytest

from Daddy.weights.play_regression import (
    FEWEST,
    find_worse_in_pairs,
    find_worse_in_play,
    pool_versions,
)

VERSIONS = 1_000
KEPT = range(10_000)


def plain(dice, scale, count):
    return scale * dice.normal(10.0, 4.0, count)


def skewed(dice, scale, count):
    return scale * dice.lognormal(0.0, 1.2, count)


def rare(dice, scale, count):
    """Return a reward that one episode in thirty gets."""
    return scale * 100.0 * (dice.random(count) < 1 / 30)


WORLDS = {"plain": plain, "skewed": skewed, "rare": rare}


def history(world, seed, versions, scale=lambda version: 1.0):
    """Return returns by version, with a random number of episodes each."""
    dice = np.random.default_rng(seed)
    return {
        version: WORLDS[world](dice, scale(version), int(dice.integers(5, 120))).tolist()
        for version in range(versions)
    }


@pytest.mark.parametrize("world", WORLDS)
def test_a_thousand_clean_versions_are_told_from_bad_ones(world):
    """Each new version is compared with the 40 before it."""
    every = history(world, 7, VERSIONS)
    alarms = 0
    for version in range(2, VERSIONS):
        seen = {n: every[n] for n in range(max(0, version - 40), version + 1)}
        alarms += find_worse_in_play(seen, (), KEPT) is not None
    assert alarms <= 1


def test_a_run_that_improves_gives_no_alarm():
    every = history("plain", 3, 300, lambda version: 1.0 + version / 300)
    found = [
        find_worse_in_play({n: every[n] for n in range(max(0, v - 40), v + 1)}, (), KEPT)
        for v in range(2, 300)
    ]
    assert not any(found)


@pytest.mark.parametrize(("world", "bad"), [("plain", 37), ("skewed", 32)])
def test_a_planted_bad_version_is_named_with_the_way_back(world, bad):
    returns = history(world, 5, 40, lambda version: 0.1 if version >= bad else 1.0)
    found = find_worse_in_play(returns, (), KEPT)
    assert found is not None
    assert found.version == 39
    assert found.best < bad
    assert found.high < 0.0
    assert f"python -m Daddy.weights.rollback v{found.best}" in str(found)


def test_only_a_version_that_is_kept_is_named():
    returns = history("plain", 5, 40, lambda version: 0.1 if version >= 37 else 1.0)
    found = find_worse_in_play(returns, (), {3, 39})
    assert found is not None
    assert found.best == 3
    assert find_worse_in_play(returns, (), {39}) is None


def test_what_was_taken_back_is_not_judged_again():
    returns = history("plain", 5, 43, lambda version: 0.1 if 37 <= version < 40 else 1.0)
    assert find_worse_in_play(returns, ((37, 39),), KEPT) is None


def test_few_episodes_say_nothing_and_neighbours_are_pooled():
    assert find_worse_in_play({1: [5.0] * 49, 2: [0.0] * 49}, (), KEPT) is None
    assert find_worse_in_play({1: [5.0] * FEWEST}, (), KEPT) is None
    stretches = pool_versions({n: [1.0] * 20 for n in range(6)}, ())
    assert [stretch.versions for stretch in stretches] == [(5, 4, 3), (2, 1, 0)]


def test_pairs_from_the_same_starts_tell_a_small_loss():
    dice = np.random.default_rng(1)
    lost = (-1.0 + dice.normal(0.0, 1.5, 100)).tolist()
    found = find_worse_in_pairs({(9, 4): lost, (8, 4): lost}, 9, KEPT)
    assert found is not None
    assert (found.version, found.best, found.episodes) == (9, 4, (100, 100))
    assert find_worse_in_pairs({(9, 4): lost[:49]}, 9, KEPT) is None
    assert find_worse_in_pairs({(9, 4): lost}, 9, {9}) is None


def test_pairs_of_equal_versions_give_no_alarm():
    dice = np.random.default_rng(2)
    alarms = sum(
        find_worse_in_pairs({(9, 4): dice.normal(0.0, 3.0, 60).tolist()}, 9, KEPT) is not None
        for _ in range(VERSIONS)
    )
    assert alarms <= 1
