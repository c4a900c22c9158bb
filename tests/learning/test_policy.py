import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict

from Daddy.learning.policy import make_policy, unpack_bits

SPACE = Dict(
    {
        "screen": Box(0, 255, (72, 80), np.uint8),
        "visited": Box(0, 255, (72, 80), np.uint8),
        "events": Box(0, 255, (320,), np.uint8),
        "flags": Box(0, 255, (1,), np.uint8),
        "map": Box(0, 255, (2,), np.int16),
        "bag": Box(0, 255, (20,), np.int16),
        "scalars": Box(0.0, 1.0, (16,), np.float32),
    }
)


def sequence(steps, width, seed=0):
    torch.manual_seed(seed)
    return {
        key: torch.randint(0, 256, (steps, width, *box.shape)).to(
            torch.uint8 if box.dtype == np.uint8 else torch.int16
        )
        if np.issubdtype(box.dtype, np.integer)
        else torch.rand(steps, width, *box.shape)
        for key, box in SPACE.spaces.items()
    }


@pytest.fixture(scope="module")
def policy():
    torch.manual_seed(0)
    return make_policy(SPACE, actions=7, features=64, memory=32)


def test_all_parameters_exist_before_the_first_forward_pass(policy):
    before = {name: value.shape for name, value in policy.state_dict().items()}
    policy(sequence(3, 2), policy.initial_state(2), torch.zeros(3, 2, dtype=torch.bool))
    assert {name: value.shape for name, value in policy.state_dict().items()} == before
    assert len(list(policy.parameters())) == len(before)


def test_every_part_of_the_observation_reaches_the_policy(policy):
    starts = torch.zeros(1, 1, dtype=torch.bool)
    base = sequence(1, 1)
    logits, _, _ = policy(base, policy.initial_state(1), starts)
    for key, value in base.items():
        changed = {**base, key: 255 - value if not value.is_floating_point() else value + 1.0}
        other, _, _ = policy(changed, policy.initial_state(1), starts)
        assert not torch.equal(other, logits), key


def test_every_parameter_receives_a_gradient(policy):
    starts = torch.zeros(4, 2, dtype=torch.bool)
    logits, values, _ = policy(sequence(4, 2), policy.initial_state(2), starts)
    (logits.square().sum() + values.sum()).backward()
    assert [n for n, p in policy.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_a_sequence_gives_what_its_steps_give_one_by_one(policy):
    seen, starts = sequence(6, 2), torch.zeros(6, 2, dtype=torch.bool)
    starts[0, :] = starts[3, 1] = starts[4, 0] = True
    logits, values, state = policy(seen, torch.ones(2, 2, 32), starts)
    at = torch.ones(2, 2, 32)
    for t in range(6):
        step = {key: value[t] for key, value in seen.items()}
        one_logits, one_values, at = policy.step(step, at, starts[t])
        assert torch.allclose(one_logits, logits[t], atol=1e-5)
        assert torch.allclose(one_values, values[t], atol=1e-5)
    assert torch.allclose(at, state, atol=1e-5)


def test_the_memory_is_forgotten_where_an_episode_starts_and_only_there(policy):
    seen, starts = sequence(2, 2), torch.zeros(2, 2, dtype=torch.bool)
    starts[1, 0] = True
    _, values, _ = policy(seen, torch.zeros(2, 2, 32), starts)
    _, other, _ = policy(seen, torch.ones(2, 2, 32), starts)
    assert torch.allclose(values[1, 0], other[1, 0], atol=1e-6)
    assert not torch.allclose(values[1, 1], other[1, 1], atol=1e-6)


def test_the_first_policy_is_nearly_uniform(policy):
    starts = torch.ones(1, 8, dtype=torch.bool)
    logits, _, _ = policy(sequence(1, 8), policy.initial_state(8), starts)
    assert (torch.softmax(logits, -1) - 1 / 7).abs().max() < 0.03


def test_a_plain_vector_needs_no_memory_and_no_convolutions():
    space = Dict({"state": Box(-1.0, 1.0, (4,), np.float32)})
    policy = make_policy(space, actions=2, features=16, memory=0)
    logits, values, state = policy(
        {"state": torch.rand(5, 3, 4)}, policy.initial_state(3), torch.zeros(5, 3, dtype=torch.bool)
    )
    assert logits.shape == (5, 3, 2)
    assert values.shape == (5, 3)
    assert state.shape == (2, 3, 0)


def test_flags_are_unpacked_least_significant_first():
    flags = unpack_bits(torch.tensor([[0b00000001, 0b10000000]], dtype=torch.uint8))
    assert flags.nonzero()[:, 1].tolist() == [0, 15]


def test_numbers_of_two_keys_have_entries_of_their_own(policy):
    encoder = policy.encoder
    assert encoder.offsets.tolist() == [0] * 20 + [256] * 2
    assert encoder.table.weight.shape == (512, 4)
    assert "encoder.offsets" not in policy.state_dict()


def test_a_space_without_numbers_has_no_table():
    space = Dict({"screen": SPACE["screen"], "scalars": SPACE["scalars"]})
    names = make_policy(space, actions=7, features=8, memory=0).state_dict()
    assert not any("table" in name for name in names)
