import pytest

from Daddy.learning.schedules import Cost, SequencePlan, affordable, learning_rate, plan_sequences


def test_a_linear_rate_falls_to_a_tenth_and_stays_there():
    assert learning_rate(1.0, "linear", 0, 100) == 1.0
    assert learning_rate(1.0, "linear", 50, 100) == pytest.approx(0.55)
    assert learning_rate(1.0, "linear", 1000, 100) == pytest.approx(0.1)


def test_an_unlimited_run_has_a_constant_rate():
    assert learning_rate(0.5, "linear", 10**9, 0) == 0.5
    assert learning_rate(0.5, "constant", 90, 100) == 0.5


def test_the_demo_has_four_minibatches_of_four_sequences():
    assert plan_sequences(horizon=64, num_envs=4, batch_size=64, bptt=16) == SequencePlan(16, 4)


@pytest.mark.parametrize("horizon", [1, 7, 20, 64, 96, 512])
@pytest.mark.parametrize("num_envs", [1, 3, 8])
@pytest.mark.parametrize("batch_size", [1, 5, 64, 2048])
def test_every_step_is_in_exactly_one_sequence_and_no_batch_is_too_large(
    horizon, num_envs, batch_size
):
    found = plan_sequences(horizon, num_envs, batch_size, bptt=16)
    assert horizon % found.length == 0
    assert found.length <= 16
    assert found.length * found.per_minibatch <= batch_size
    assert found.per_minibatch >= 1
    sequences = num_envs * (horizon // found.length)
    assert (found.minibatches(sequences) - 1) * found.per_minibatch < sequences
    assert found.minibatches(sequences) * found.per_minibatch >= sequences


@pytest.mark.parametrize(("total", "last", "age", "since", "so"), [
    (0.0, 0.0, 0.0, float("inf"), True),  # nobody knows yet what it costs
    (1.0, 1.0, 199.0, 199.0, False), (1.0, 1.0, 200.0, 199.0, True),  # the first is paid for too
    (5.0, 1.0, 600.0, 10.0, True), (5.0, 1.1, 600.0, 11.0, False),
    (10.0, 0.5, 36e3, 4.0, False), (10.0, 0.5, 36e3, 5.0, True),  # savings are not spent at once
])  # fmt: skip
def test_what_is_dear_stays_within_its_share(total, last, age, since, so):
    assert affordable(Cost(total / 2, last / 2), age, since) is so
