"""Pure. Arithmetic on state dicts; one of the few files of this package that import torch.

Deterministic: float64 sums in the order given, on the CPU, so that two mergers with equal inputs
write equal bytes. Floating tensors are summed; of others (counters) the largest is taken.
"""

import math
from collections.abc import Sequence

import torch

StateDict = dict[str, torch.Tensor]
"""Tensors on the CPU, contiguous, float32 unless an integer counter."""


def add_scaled(base: StateDict, deltas: Sequence[StateDict], factors: Sequence[float]) -> StateDict:
    """Return base + sum of factor x delta, summed in float64 in order, in the dtypes of base."""
    return {name: _add_scaled(name, tensor, deltas, factors) for name, tensor in base.items()}


def _add_scaled(
    name: str, base: torch.Tensor, deltas: Sequence[StateDict], factors: Sequence[float]
) -> torch.Tensor:
    if not base.is_floating_point():
        return _largest(name, base, deltas)
    total = base.to(torch.float64, copy=True)
    for delta, factor in zip(deltas, factors, strict=True):
        total.add_(delta[name].to(torch.float64), alpha=factor)
    return total.to(base.dtype)


def _largest(name: str, base: torch.Tensor, deltas: Sequence[StateDict]) -> torch.Tensor:
    moved = base.clone()
    for delta in deltas:
        torch.maximum(moved, base + delta[name], out=moved)
    return moved


def difference(after: StateDict, before: StateDict) -> StateDict:
    """Return after - before, tensor by tensor (counters too)."""
    return {name: tensor - before[name] for name, tensor in after.items()}


def add_deltas(base: StateDict, *deltas: StateDict) -> StateDict:
    """Return base + every delta in full, with which own progress is moved to a new version."""
    return add_scaled(base, deltas, [1.0] * len(deltas))


def copy_state(state: StateDict) -> StateDict:
    """Return a copy of all tensors, on the CPU and contiguous; no memory is shared."""
    return {key: value.detach().to("cpu", copy=True).contiguous() for key, value in state.items()}


def norm(state: StateDict) -> float:
    """Return the Euclidean norm of all floating tensors; NaN when any value is not finite."""
    squares = sum(
        float(tensor.to(torch.float64).square().sum())
        for tensor in state.values()
        if tensor.is_floating_point()
    )
    return math.sqrt(squares) if math.isfinite(squares) else math.nan


def is_finite(state: StateDict) -> bool:
    """Return True if every value of every floating tensor is finite."""
    return math.isfinite(norm(state))
