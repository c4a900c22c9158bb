import copy
import math

import torch
from torch import nn

from Daddy.learning.adam import FlatAdam


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def loss(model, scale=1.0):
    torch.manual_seed(1)
    return scale * model(torch.randn(11, 5)).square().sum()


def test_twenty_clipped_steps_equal_those_of_torch():
    ours, theirs = net(), net()
    flat = FlatAdam(ours.named_parameters())
    reference = torch.optim.Adam(theirs.parameters(), lr=0.01, eps=1e-5)
    for step in range(20):
        flat.zero_grad()
        loss(ours, scale=10.0).backward()
        norm = flat.step(0.01, 0.5)
        reference.zero_grad()
        loss(theirs, scale=10.0).backward()
        expected = nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        reference.step()
        assert torch.isclose(torch.tensor(norm), expected), step
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_epsilon_bounds_the_step_of_a_vanishing_gradient():
    ours, theirs = net(), net()
    flat = FlatAdam(ours.named_parameters())
    reference = torch.optim.Adam(theirs.parameters(), lr=0.01, eps=1e-5)
    loss(ours, scale=1e-5).backward()
    loss(theirs, scale=1e-5).backward()
    flat.step(0.01, 0.5)
    reference.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-7)


def test_a_gradient_that_is_not_finite_changes_nothing():
    model = net()
    before = copy.deepcopy(model.state_dict())
    optimizer = FlatAdam(model.named_parameters())
    loss(model, scale=float("nan")).backward()
    norm = optimizer.step(0.01, 0.5)
    assert math.isnan(norm)
    assert optimizer.steps == 0
    assert not optimizer.mean.any()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_parameter_without_gradient_is_left_alone_and_has_its_place():
    model = net()
    optimizer = FlatAdam(model.named_parameters())
    before = model[2].weight.clone()
    model[0](torch.randn(2, 5)).sum().backward()
    optimizer.step(0.1, 1.0)
    assert torch.equal(model[2].weight, before)
    assert optimizer.mean.numel() == sum(p.numel() for p in model.parameters())


def test_a_restored_optimizer_goes_on_bit_for_bit():
    first, second = net(), net()
    optimizer_a, optimizer_b = (
        FlatAdam(first.named_parameters()),
        FlatAdam(second.named_parameters()),
    )
    loss(first).backward()
    optimizer_a.step(0.01, 0.5)
    second.load_state_dict(first.state_dict())
    optimizer_b.load_state_dict(
        {name: value.clone() for name, value in optimizer_a.state_dict().items()}, optimizer_a.steps
    )
    for model, optimizer in ((first, optimizer_a), (second, optimizer_b)):
        optimizer.zero_grad()
        loss(model).backward()
        optimizer.step(0.01, 0.5)
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)
    )
