import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from Daddy.core.load_config import load_config
from Daddy.weights.encoding import state_arithmetic
from Daddy.weights.exchange_settings import from_config
from tests.weights.helpers import close, make_state, perturbed

seeds = st.integers(0, 10_000)
shares = st.floats(0.0, 1.0)


@given(seeds, st.lists(st.tuples(seeds, shares), min_size=1, max_size=6), st.randoms())
@settings(max_examples=40)
def test_the_order_of_contributions_does_not_matter(seed, offers, random):
    base = make_state(seed)
    deltas = [(state_arithmetic.difference(perturbed(base, s), base), share) for s, share in offers]
    shuffled = random.sample(deltas, len(deltas))
    entry = state_arithmetic.add_scaled(base, [d for d, _ in deltas], [s for _, s in deltas])
    other = state_arithmetic.add_scaled(base, [d for d, _ in shuffled], [s for _, s in shuffled])
    assert close(entry, other, 1e-6)


@given(seeds, seeds, shares)
@settings(max_examples=40)
def test_a_fresh_writer_makes_exactly_polyaks_step(seed, other, share):
    shared, own = make_state(seed), perturbed(make_state(seed), other)
    moved = state_arithmetic.add_scaled(shared, [state_arithmetic.difference(own, shared)], [share])
    for name in ("core.weight", "core.bias"):
        expected = (1 - share) * shared[name].double() + share * own[name].double()
        assert torch.allclose(moved[name].double(), expected, atol=1e-6)


@given(seeds, st.lists(seeds, min_size=2, max_size=8))
@settings(max_examples=40)
def test_single_merges_one_after_the_other_equal_the_mean(seed, writers):
    base = make_state(seed)
    owns = [perturbed(base, writer) for writer in writers]
    deltas = [state_arithmetic.difference(own, base) for own in owns]
    one_by_one = base
    for delta in deltas:
        one_by_one = state_arithmetic.add_scaled(one_by_one, [delta], [1 / len(deltas)])
    for name in ("core.weight", "core.bias"):
        mean = torch.stack([own[name] for own in owns]).mean(0)
        assert torch.allclose(one_by_one[name], mean, atol=1e-5)


def test_equal_inputs_give_equal_bits():
    base = make_state(1)
    deltas = [state_arithmetic.difference(perturbed(base, seed), base) for seed in range(4)]
    entry = state_arithmetic.add_scaled(base, deltas, [0.1, 0.2, 0.3, 0.4])
    other = state_arithmetic.add_scaled(base, deltas, [0.1, 0.2, 0.3, 0.4])
    assert all(torch.equal(entry[name], other[name]) for name in base)


def test_counters_take_the_largest_and_stay_whole():
    base = {"n": torch.tensor([5])}
    ahead, behind = {"n": torch.tensor([9])}, {"n": torch.tensor([2])}
    deltas = [state_arithmetic.difference(entry, base) for entry in (ahead, behind)]
    moved = state_arithmetic.add_scaled(base, deltas, [0.25, 0.25])
    assert moved["n"].tolist() == [9]
    assert moved["n"].dtype == torch.int64


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_value_that_is_not_finite_is_found(value):
    state = make_state()
    assert state_arithmetic.is_finite(state)
    state["core.weight"][1, 2] = value
    assert not state_arithmetic.is_finite(state)
    assert math.isnan(state_arithmetic.norm(state))


def test_a_copy_shares_no_memory_with_a_parameter():
    layer = torch.nn.Linear(2, 2)
    kept = state_arithmetic.copy_state(layer.state_dict())
    with torch.no_grad():
        layer.weight.zero_()
    assert kept["weight"].abs().sum() > 0


def test_many_small_contributions_are_not_rounded_away_one_by_one():
    base = {"w": torch.full((4,), 10_000.0)}
    small = {"w": torch.full((4,), 1e-4)}
    moved = state_arithmetic.add_scaled(base, [small] * 1000, [1.0] * 1000)
    assert torch.allclose(moved["w"], torch.full((4,), 10_000.1), rtol=0, atol=1e-3)
    assert not torch.equal(moved["w"], base["w"])


def test_under_polyak_a_contribution_has_half_of_the_average():
    config = load_config(None, {"collaboration.rule": "polyak"})
    settings = from_config(config, "pokemon_red")
    assert (settings.rule, settings.alpha) == ("polyak", 0.5)
